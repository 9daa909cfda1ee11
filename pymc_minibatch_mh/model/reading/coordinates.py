"""Coordinates of the position in which rows are affine, in the place of the model's own variables.

A model that is written as ``mu + tau * z[group]`` has rows that are products of parameters. In
α = mu + tau z they are linear, as in the same model written with ``Normal(mu, tau)``. Whatever the
map, density and draws are those of the model: the density is multiplied by the Jacobian of the map,
which is exact, and draws are mapped back. See Papaspiliopoulos, Roberts & Sköld (2007),
doi:10.1214/088342307000000014, on both ways to write a hierarchy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace, vectorize_graph

from pymc_minibatch_mh.model.reading.derived import IN_PYTHON

if TYPE_CHECKING:
    from pymc_minibatch_mh.model.reading.split import Split


@dataclass(frozen=True, eq=False)
class Scaled:
    """Coordinates α_g = a + B z_g in the place of z_g, for all groups g.

    Parameters
    ----------
    name
        The variable z.
    places : ndarray of int, shape (G, q)
        Where each z_g lies in the position.
    scale
        Rows of the lower triangle of B: graphs of the position, one number each. The diagonal is
        positive wherever the position is.
    locations
        Where a_1..a_q lie in the position; -1 for what is zero.
    words
        α in words, for messages.
    """

    name: str
    places: np.ndarray
    scale: tuple[tuple[Variable, ...], ...]
    locations: tuple[int, ...]
    words: str


@dataclass(frozen=True, eq=False)
class Reciprocal:
    """Coordinates κ = exp(-v/power) in the place of v, elementwise: 1/shape, or 1/√shape.

    What v is the logarithm of, such as the shape of a negative binomial, can be infinite to all
    that data tell. In κ that is the end of the support, zero, which lies near and not far.

    Parameters
    ----------
    name
        The variable v.
    places : ndarray of int
        Where it lies in the position.
    power
        1 or 2.
    words
        κ in words, for messages.
    """

    name: str
    places: np.ndarray
    power: int
    words: str

    def logs(self, x: Any) -> Any:
        """Return v at κ: of graphs, or of an array with κ along its last axis."""
        log = pt.log if isinstance(x, Variable) else np.log
        return -float(self.power) * log(x[..., self.places])


@dataclass(frozen=True, eq=False)
class Coordinates:
    """A map between positions and the model's own value variables, both ravelled.

    Parameters
    ----------
    position : Variable
        Stands for either: what maps of the scaled blocks are made of has the same values in both.
    scaled
        The blocks that are mapped.
    refused
        Names of others that rows meet in products, and why these are not.
    shapes
        Shape parameters that are mapped to their reciprocals. No map of a block depends on them.
    """

    position: Variable
    scaled: tuple[Scaled, ...]
    refused: tuple[tuple[str, str], ...] = ()
    shapes: tuple[Reciprocal, ...] = ()

    @property
    def mapped(self) -> tuple[Scaled | Reciprocal, ...]:
        """All maps."""
        return *self.scaled, *self.shapes

    @property
    def reciprocals(self) -> set[int]:
        """Coordinates that are reciprocals of shapes, which lie between 0 and infinity."""
        return {int(k) for shape in self.shapes for k in shape.places}

    def within(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of the support of positions, from those of values, both shaped (d,)."""
        places = sorted(self.reciprocals)
        lower, upper = lower.copy(), upper.copy()
        lower[places], upper[places] = 0.0, np.inf
        return lower, upper

    def depend_on(self, place: int) -> bool:
        """Whether maps of blocks depend on a coordinate, or move it."""
        moved = {int(k) for block in self.scaled for k in block.places.flat} | self.reciprocals
        located = {k for block in self.scaled for k in block.locations}
        if not self._flat or place in moved | located:
            return place in moved | located
        # Numbers tell more than graphs, in which every entry is an entry of the whole.
        here = np.zeros((2, self._size))
        here[1, place] = 0.5
        found = [np.broadcast_to(np.ravel(x), 2) for x in self._evaluate(here)]
        return any(one != other for one, other in found)

    def mirrored(self, positions: np.ndarray) -> np.ndarray:
        """Return positions with negative reciprocals of shapes made positive, of any shape."""
        places, found = sorted(self.reciprocals), positions.copy()
        found[..., places] = np.abs(found[..., places])
        return found

    def values(self, positions: np.ndarray) -> np.ndarray:
        """Return the model's own variables at positions, both of shape (n, d)."""
        values = positions.copy()
        for block, rows in zip(self.scaled, self._scales(positions), strict=True):
            shifted = [
                positions[:, places] - _shift(positions.T, location)
                for places, location in zip(block.places.T, block.locations, strict=True)
            ]
            for places, z in zip(block.places.T, _solved(rows, shifted), strict=True):
                values[:, places] = z
        with np.errstate(divide="ignore", invalid="ignore"):
            for shape in self.shapes:
                values[:, shape.places] = shape.logs(positions)
        return values

    def positions(self, values: np.ndarray) -> np.ndarray:
        """Return the positions of the model's own variables, both of shape (n, d)."""
        positions = values.copy()
        for block, rows in zip(self.scaled, self._scales(values), strict=True):
            columns = [values[:, places] for places in block.places.T]
            for j, location in enumerate(block.locations):
                terms = [b * z for b, z in zip(rows[j], columns, strict=False)]
                positions[:, block.places[:, j]] = sum(terms) + _shift(values.T, location)
        with np.errstate(over="ignore"):
            for shape in self.shapes:
                positions[:, shape.places] = np.exp(values[:, shape.places] / -shape.power)
        return positions

    def graph(self, position: Variable) -> Variable:
        """Return the graph of the model's own variables at a position."""
        order = np.arange(self._size)
        entries = [position]
        n_entries = self._size
        for block, rows in zip(self.scaled, self._graphs(position), strict=True):
            shifted = [
                position[places] - (position[location] if location >= 0 else 0.0)
                for places, location in zip(block.places.T, block.locations, strict=True)
            ]
            for places, z in zip(block.places.T, _solved(rows, shifted), strict=True):
                order[places] = n_entries + np.arange(places.size)
                entries.append(z)
                n_entries += places.size
        for shape in self.shapes:
            order[shape.places] = n_entries + np.arange(shape.places.size)
            entries.append(shape.logs(position))
            n_entries += shape.places.size
        return pt.concatenate(entries)[order]

    def log_jacobians(self, positions: np.ndarray) -> np.ndarray:
        """Return log |∂ values / ∂ position| at positions of shape (n, d), shape (n,)."""
        found = np.zeros(len(positions))
        for block, rows in zip(self.scaled, self._scales(positions), strict=True):
            found -= sum(len(block.places) * np.log(row[-1][:, 0]) for row in rows)
        for shape in self.shapes:
            logs = shape.logs(positions) / shape.power + np.log(float(shape.power))
            found += logs.sum(axis=1)
        return found

    def log_jacobian(self, position: Variable) -> Variable:
        """Return the graph of log |∂ values / ∂ position|."""
        graphs = zip(self.scaled, self._graphs(position), strict=True)
        scales = -sum(len(block.places) * pt.log(row[-1]) for block, rows in graphs for row in rows)
        return scales + sum(
            pt.sum(shape.logs(position)) / shape.power + shape.places.size * np.log(shape.power)
            for shape in self.shapes
        )

    def _graphs(self, position: Variable) -> list[list[Sequence[Variable]]]:
        flat = clone_replace(self._flat, {self.position: position}) if self._flat else []
        return self._by_blocks(flat)

    def _scales(self, positions: np.ndarray) -> list[list[list[np.ndarray]]]:
        """Return the entries of each B, shape (n, 1) each."""
        if not self._flat:
            return []
        found = [np.reshape(x, (-1, 1)) for x in self._evaluate(positions)]
        return self._by_blocks(found)

    @property
    def _size(self) -> int:
        (size,) = self.position.type.shape
        return int(size)

    @cached_property
    def _flat(self) -> list[Variable]:
        return [entry for block in self.scaled for row in block.scale for entry in row]

    def _by_blocks(self, flat: Sequence[Any]) -> list[list[Any]]:
        entries = iter(flat)
        return [[[next(entries) for _ in row] for row in block.scale] for block in self.scaled]

    @cached_property
    def _evaluate(self) -> Callable[[np.ndarray], list[np.ndarray]]:
        if not self._flat:
            return lambda _: []
        positions = pt.matrix("positions", dtype="float64", shape=(None, self._size))
        outputs = vectorize_graph(self._flat, {self.position: positions})
        return pytensor.function([positions], outputs, mode=IN_PYTHON)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is compiled."""
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


def in_coordinates(split: "Split", coordinates: Coordinates) -> "Split":
    """Return a split model whose position lies in other coordinates, with their Jacobian.

    Parameters
    ----------
    split
        The model in its own variables.
    coordinates
        The map.
    """
    position = split.position.type("position")
    values = {split.position: coordinates.graph(position)}
    prior = split.prior, *(term.logp for term in split.terms), *split.natural.values()
    prior, *graphs = clone_replace(list(prior), values)
    terms = [replace(t, logp=logp) for t, logp in zip(split.terms, graphs, strict=False)]
    natural = dict(zip(split.natural, graphs[len(terms) :], strict=True))
    lower, upper = coordinates.within(split.lower, split.upper)
    return replace(
        split,
        position=position,
        lower=lower,
        upper=upper,
        prior=prior + coordinates.log_jacobian(position),
        terms=tuple(terms),
        natural=natural,
        coordinates=coordinates,
    )
