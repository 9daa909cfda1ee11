"""Layout of value variables in the position, and their supports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pymc as pm
from pymc.distributions.transforms import ZeroSumTransform, _default_transform
from pymc.logprob.transforms import IntervalTransform, LogOddsTransform, LogTransform
from pymc.pytensorf import constant_fold
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor import as_tensor

from pymc_minibatch_mh.model.constant_data import as_plain_tensor

#: A point of the model: name of each value variable -> its value.
Point = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Block:
    """Slice of the position that holds one value variable, or some `entries` of it.

    Entries are numbers in the ravelled variable; all others are NaN.
    """

    variable: Variable
    name: str
    start: int
    stop: int
    shape: tuple[int, ...]
    #: Whether the variable sums to 0 along its last axis; its value variable has one entry less.
    adds_up_to_0: bool
    entries: np.ndarray | None = None

    @property
    def names(self) -> list[str]:
        """Name of every coordinate, such as ``beta[3]``."""
        numbers = list(np.ndindex(*self.shape))
        chosen = numbers if self.entries is None else [numbers[k] for k in self.entries]
        return [f"{self.name}{list(number)}" if number else self.name for number in chosen]

    def flat(self, values: np.ndarray) -> np.ndarray:
        """Coordinates for values of the variable, shape (..., *shape) -> (..., n)."""
        lines = values.reshape(*values.shape[: values.ndim - len(self.shape)], -1)
        return lines if self.entries is None else lines[..., self.entries]

    def values(self, coordinates: np.ndarray) -> np.ndarray:
        """Values of the variable for coordinates, shape (..., n) -> (..., *shape)."""
        if self.entries is not None:
            some = coordinates
            coordinates = np.full((*some.shape[:-1], int(np.prod(self.shape))), np.nan)
            coordinates[..., self.entries] = some
        return coordinates.reshape((*coordinates.shape[:-1], *self.shape))


def lay_out(
    model: pm.Model, vars: Sequence[Variable], shapes: dict[str, tuple[int, ...]]
) -> tuple[Block, ...]:
    """Consecutive blocks of the position, one for each value variable, from their shapes."""
    blocks, start = [], 0
    for variable in vars:
        shape = shapes[variable.name]
        stop = start + int(np.prod(shape, dtype=int))
        transform = model.rvs_to_transforms[model.values_to_rvs[variable]]
        adds_up = isinstance(transform, ZeroSumTransform) and transform.zerosum_axes == (-1,)
        blocks.append(Block(variable, str(variable.name), start, stop, shape, adds_up))
        start = stop
    return tuple(blocks)


def ravel_blocks(blocks: Sequence[Block], point: Point) -> np.ndarray:
    """Concatenated values of blocks at a point."""
    return np.concatenate([np.empty(0), *(b.flat(np.asarray(point[b.name])) for b in blocks)])


def cut_blocks(blocks: Sequence[Block], values: np.ndarray) -> dict[str, np.ndarray]:
    """Values of blocks, shape (..., n), split by name."""
    return {
        block.name: block.values(values[..., block.start : block.stop]).astype(
            block.variable.dtype, copy=False
        )
        for block in blocks
    }


def total_size(blocks: Sequence[Block]) -> int:
    """Total number of values in consecutive blocks that begin at 0."""
    return blocks[-1].stop if blocks else 0


def split_vector(vector: Variable, blocks: Sequence[Block]) -> dict[Variable, Variable]:
    """Slices of a vector, with the types and shapes of value variables: variable -> slice."""
    return {
        b.variable: vector[b.start : b.stop].reshape(b.shape).astype(b.variable.dtype)
        for b in blocks
    }


def support_of_block(model: pm.Model, block: Block) -> np.ndarray:
    """Lower and upper ends of the support of a block's n values, shape (2, n)."""
    ends = support_bounds(model, block.variable)
    return np.stack([np.broadcast_to(x, block.shape).ravel() for x in ends])


def natural_values(model: pm.Model, values: Sequence[Variable]) -> dict[str, Variable]:
    """Free variables by name, as graphs of the value variables."""
    free = {}
    for value in values:
        rv = model.values_to_rvs[value]
        transform = model.rvs_to_transforms[rv]
        known = value if transform is None else transform.backward(value, *rv.owner.inputs)
        free[str(rv.name)] = known
    by_values = model.replace_rvs_by_values(list(free.values()))
    return dict(zip(free, map(as_plain_tensor, by_values), strict=True))


def support_bounds(model: pm.Model, variable: Variable) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper end of the support of a value variable, infinite if unknown.

    The value variable of a transformed variable can take any real value. An untransformed one, such
    as ``pm.Uniform("x", -3, 3, default_transform=None)``, keeps its support.
    """
    lower, upper = np.asarray(-np.inf), np.asarray(np.inf)
    rv = model.values_to_rvs[variable]
    if model.rvs_to_transforms[rv] is not None:
        return lower, upper
    transform = _default_transform(rv.owner.op, rv)
    if isinstance(transform, LogTransform):
        return np.asarray(0.0), upper
    if isinstance(transform, LogOddsTransform):
        return np.asarray(0.0), np.asarray(1.0)
    if not isinstance(transform, IntervalTransform):
        return lower, upper
    low, high = transform.args_fn(*rv.owner.inputs)
    return _finite_bound(low, lower), _finite_bound(high, upper)


def _finite_bound(end: Variable | None, unknown: np.ndarray) -> np.ndarray:
    # A random or mutable end of an interval is no fixed bound, so it counts as unknown.
    if end is None or any(
        v.owner is None and not isinstance(v, Constant) for v in ancestors([as_tensor(end)])
    ):
        return unknown
    (value,) = constant_fold([as_tensor(end)])
    return np.asarray(value, dtype=np.float64)
