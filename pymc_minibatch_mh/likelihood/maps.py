"""Maps from a few coordinates of the position to a model's own variables."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace, vectorize_graph

from pymc_minibatch_mh.likelihood.derived import IN_PYTHON

#: Where values lie in the position, and their graph.
Placed = tuple[np.ndarray, Variable]


@dataclass(frozen=True, eq=False)
class Map(ABC):
    """A one-to-one map of a few coordinates; it depends on none that another map moves.

    It moves the variable `name`, at `places` of the position, to coordinates that `words` name.
    """

    name: str
    places: np.ndarray
    words: str

    @property
    def moved(self) -> set[int]:
        """Coordinates that stand for other than the model's own variables."""
        return {int(k) for k in self.places.flat}

    @property
    def ends(self) -> set[int]:
        """Coordinates that lie between 0 and infinity."""
        return set()

    @property
    def logs(self) -> set[int]:
        """Coordinates whose logarithm, times a number, rows were written in."""
        return set()

    def depends_on(self, place: int) -> bool:
        """Whether the map depends on a coordinate, or moves it."""
        return place in self.moved

    @abstractmethod
    def set_values(self, positions: np.ndarray, values: np.ndarray) -> None:
        """Write the model's own variables at positions into values, both of shape (n, d)."""

    @abstractmethod
    def set_positions(self, values: np.ndarray, positions: np.ndarray) -> None:
        """Write the positions of the model's own variables, both of shape (n, d)."""

    @abstractmethod
    def graphs(self, position: Variable) -> list[Placed]:
        """Return the graphs of the model's own variables at a position."""

    @abstractmethod
    def log_jacobians(self, positions: np.ndarray) -> np.ndarray:
        """Return log |∂ values / ∂ position| at positions of shape (n, d), shape (n,)."""

    @abstractmethod
    def log_jacobian(self, position: Variable) -> Variable:
        """Return the graph of log |∂ values / ∂ position|."""


@dataclass(frozen=True, eq=False)
class NonCentred(Map):
    """Coordinates α_g = a + B z_g in the place of z_g, for all groups g.

    Each z_g lies in a row of `places`, shape (G, q), and a_1..a_q at `locations`, -1 for zero. Rows
    of the lower triangle of B are graphs of the position, one number each, of what has the same
    values in positions and in the model's own variables. The diagonal is positive.
    """

    position: Variable
    scale: tuple[tuple[Variable, ...], ...]
    locations: tuple[int, ...]

    def depends_on(self, place: int) -> bool:
        """Whether the map depends on a coordinate, or moves it."""
        if place in self.moved or place in self.locations:
            return True
        # Numbers tell more than graphs, in which every entry is an entry of the whole.
        (size,) = self.position.type.shape
        here = np.zeros((2, int(size)))
        here[1, place] = 0.5
        found = [np.broadcast_to(np.ravel(x), 2) for x in self._evaluate(here)]
        return any(one != other for one, other in found)

    def set_values(self, positions: np.ndarray, values: np.ndarray) -> None:
        """Write z."""
        shifted = [
            positions[:, places] - _shift(positions.T, location)
            for places, location in zip(self.places.T, self.locations, strict=True)
        ]
        for places, z in zip(self.places.T, _solved(self._scales(positions), shifted), strict=True):
            values[:, places] = z

    def set_positions(self, values: np.ndarray, positions: np.ndarray) -> None:
        """Write α."""
        rows, columns = self._scales(values), [values[:, places] for places in self.places.T]
        for j, location in enumerate(self.locations):
            terms = [b * z for b, z in zip(rows[j], columns, strict=False)]
            positions[:, self.places[:, j]] = sum(terms) + _shift(values.T, location)

    def graphs(self, position: Variable) -> list[Placed]:
        """Return the graphs of z."""
        shifted = [
            position[places] - (position[location] if location >= 0 else 0.0)
            for places, location in zip(self.places.T, self.locations, strict=True)
        ]
        return list(zip(self.places.T, _solved(self._at(position), shifted), strict=True))

    def log_jacobians(self, positions: np.ndarray) -> np.ndarray:
        """Return -G log |B|."""
        diagonal = [row[-1][:, 0] for row in self._scales(positions)]
        return np.broadcast_to(
            -float(len(self.places)) * np.sum(np.log(diagonal), axis=0), len(positions)
        )

    def log_jacobian(self, position: Variable) -> Variable:
        """Return the graph of -G log |B|."""
        return -sum(len(self.places) * pt.log(row[-1]) for row in self._at(position))

    def _at(self, position: Variable) -> list[list[Variable]]:
        return self._by_rows(clone_replace(self._flat, {self.position: position}))

    def _scales(self, positions: np.ndarray) -> list[list[np.ndarray]]:
        """Return the entries of B, shape (n, 1) each."""
        return self._by_rows([np.reshape(x, (-1, 1)) for x in self._evaluate(positions)])

    @cached_property
    def _flat(self) -> list[Variable]:
        return [entry for row in self.scale for entry in row]

    def _by_rows(self, flat: Sequence[Any]) -> list[list[Any]]:
        entries = iter(flat)
        return [[next(entries) for _ in row] for row in self.scale]

    @cached_property
    def _evaluate(self) -> Callable[[np.ndarray], list[np.ndarray]]:
        positions = pt.matrix("positions", dtype="float64", shape=(None, *self.position.type.shape))
        outputs = vectorize_graph(self._flat, {self.position: positions})
        return pytensor.function([positions], outputs, mode=IN_PYTHON, on_unused_input="ignore")

    def __getstate__(self) -> dict[str, Any]:
        """Leave out compiled functions."""
        return {field.name: self.__dict__[field.name] for field in fields(self)}


def _shift(coordinates: np.ndarray, location: int) -> Any:
    return coordinates[location][:, None] if location >= 0 else 0.0


def _solved(rows: Sequence[Sequence[Any]], shifted: Sequence[Any]) -> list[Any]:
    """Return z of B z = α - a by forward substitution: arrays or graphs."""
    z: list[Any] = []
    for row, right in zip(rows, shifted, strict=True):
        for entry, known in zip(row[:-1], z, strict=True):
            right = right - entry * known
        z.append(right / row[-1])
    return z


@dataclass(frozen=True, eq=False)
class InverseShape(Map):
    """Coordinates κ = exp(-v/power) in the place of v, elementwise: 1/shape, or 1/√shape.

    The variable exp(v), such as the shape of a negative binomial, can be infinite to all
    that data tell. In κ that is the end of the support, zero, which lies near and not far.
    """

    power: int

    @property
    def ends(self) -> set[int]:
        """All of them."""
        return self.moved

    logs = ends

    def set_values(self, positions: np.ndarray, values: np.ndarray) -> None:
        """Write v."""
        with np.errstate(divide="ignore", invalid="ignore"):
            values[:, self.places] = self._logs(positions)

    def set_positions(self, values: np.ndarray, positions: np.ndarray) -> None:
        """Write κ."""
        with np.errstate(over="ignore"):
            positions[:, self.places] = np.exp(values[:, self.places] / -self.power)

    def graphs(self, position: Variable) -> list[Placed]:
        """Return the graph of v."""
        return [(self.places, self._logs(position))]

    def log_jacobians(self, positions: np.ndarray) -> np.ndarray:
        """Return the sum of log(power/κ)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = self._logs(positions) / self.power + np.log(float(self.power))
        return logs.sum(axis=1)

    def log_jacobian(self, position: Variable) -> Variable:
        """Return the graph of the sum of log(power/κ)."""
        logs = pt.sum(self._logs(position)) / self.power
        return logs + self.places.size * np.log(self.power)

    def _logs(self, x: Any) -> Any:
        """Return v at κ: of graphs, or of an array with κ along its last axis."""
        log = pt.log if isinstance(x, Variable) else np.log
        return -float(self.power) * log(x[..., self.places])
