"""Coordinates κ for variables that data may not tell from an end of their support.

κ = 1/shape or 1/√shape for shape parameters of gamma functions, which may be infinite; a positive
variable instead of its logarithm, and the odds of a probability or their reciprocal instead of
their logarithm. Observations have to be smooth at κ = 0.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math

from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.expressions.graph import Affine, Expr, ExprGraph, coordinates_at
from pymc_minibatch_mh.expressions.patterns import (
    affines_in,
    constant_value,
    is_a,
    scaled_core,
    subexpressions,
    sum_parts,
)
from pymc_minibatch_mh.functions.gamma_ratio import GammaRatio
from pymc_minibatch_mh.model.bijection import Bijection, IndexedValues
from pymc_minibatch_mh.model.factorization import Factorization
from pymc_minibatch_mh.model.layout import Block
from pymc_minibatch_mh.reparametrize.base import reparametrize_by
from pymc_minibatch_mh.reparametrize.reciprocal_rows import write_in_reciprocals
from pymc_minibatch_mh.structure.predictors import single_coordinate
from pymc_minibatch_mh.structure.row_function import LoweredRow, RowData, RowFunction, lowered_rows

#: Value, gradient and Hessian of a log-density.
type Derivatives = tuple[float, np.ndarray, np.ndarray]
#: Maximum number of observations by which branches are found that none of them takes.
MAX_READ = 20_000
#: Powers of κ at the ends of a variable, by its transform: lower end -1, upper end 1.
END_POWERS = {"_log__": (-1,), "_logodds__": (-1, 1), "_interval__": (-1, 1)}
_END_LABELS = {
    ("_log__", -1): "{0}, not log {0}",
    ("_logodds__", -1): "{0}/(1 - {0})",
    ("_logodds__", 1): "(1 - {0})/{0}",
}
#: Names of κ by power (2: square root), for an unbounded shape and for one in an interval.
_LABELS = {1: "1/{}", 2: "1/√{}"}
_INTERVAL_LABELS = {1: "(upper - {0})/({0} - lower)", 2: "√((upper - {0})/({0} - lower))"}


@dataclass(frozen=True, eq=False)
class InverseShape(Bijection):
    """Coordinates κ = exp(-v/power) instead of v, elementwise: 1/shape, or 1/√shape.

    Data may not tell a large shape exp(v), for example of a negative binomial, from an infinite
    one. An infinite shape is κ = 0, the lower end of the support. With a negative power, κ = 0 is
    the lower end of exp(v).
    """

    power: float

    @property
    def support(self) -> tuple[float, float]:
        """Positive numbers."""
        return 0.0, np.inf

    def inverse(self, position: Any) -> list[IndexedValues]:
        """Value variable v."""
        return [(self.indices, self._log_shape(position))]

    def forward(self, values: np.ndarray) -> list[IndexedValues]:
        """Coordinates κ."""
        with np.errstate(over="ignore"):
            return [(self.indices, np.exp(values[self.indices] / -self.power))]

    def log_jacobian(self, position: Any) -> Any:
        """Log-Jacobian, the sum of log(power/κ)."""
        logs = self._log_shape(position).sum(axis=0) / self.power
        return logs + self.indices.size * np.log(abs(self.power))

    def by_chain_rule(self, position: np.ndarray, plain: Derivatives) -> Derivatives:
        """Log-density of κ with gradient and Hessian, from the `plain` ones of v.

        An empty Hessian stays empty.
        """
        value, gradient, hessian = plain
        kappa, slopes = position[self.indices], np.ones(position.size)
        with np.errstate(all="ignore"):
            slopes[self.indices] = -self.power / kappa
            bend = (self.power * gradient[self.indices] + 1.0) / kappa**2
            gradient = slopes * gradient
            gradient[self.indices] -= 1.0 / kappa
            if hessian.size:
                hessian = slopes[:, None] * hessian * slopes
                hessian[self.indices, self.indices] += bend
        return value + float(self.log_jacobian(position)), gradient, hessian

    def values_at(self, position: np.ndarray) -> np.ndarray:
        """Position with v instead of κ."""
        values = position.copy()
        values[self.indices] = self._log_shape(position)
        return values

    def _log_shape(self, position: Any) -> Any:
        log = pt.log if isinstance(position, Variable) else np.log
        with np.errstate(divide="ignore", invalid="ignore"):
            return -float(self.power) * log(position[self.indices])

    @staticmethod
    def rewrite_observation(exprs: ExprGraph, row: Expr) -> Expr:
        """Rewrite an observation from log κ to κ."""
        return write_in_reciprocals(exprs, row)


def shape_variables(factorization: Factorization) -> list[str]:
    """Names of value variables that are logarithms of shapes, and in no other bijection."""
    try:
        rows = lowered_rows(factorization)
    except BoundsError:
        return []
    places = {place for row in rows for place in _shape_coordinates(row)}
    places -= set().union(*(one.moved_indices for one in factorization.maps))
    return [
        block.name
        for block, _ in factorization.real_blocks
        if places.intersection(range(block.start, block.stop))
    ]


def variables_with_ends(factorization: Factorization) -> dict[str, tuple[int, ...]]:
    """Value variables that are logarithms or log-odds in observations, with powers of their κ."""
    try:
        rows = lowered_rows(factorization)
    except BoundsError:
        return {}
    terms = [term for row in rows for x in affines_in(row.root) for term in x.terms]
    read = {k for term in terms for k in coordinates_at(term.place)}
    read -= set().union(*(bijection.coordinates for bijection in factorization.maps))
    return {
        block.name: END_POWERS[_transform_of(block)]
        for block, _ in factorization.real_blocks
        if _transform_of(block) and read.intersection(range(block.start, block.stop))
    }


def _transform_of(block: Block) -> str:
    """End of a value variable's name that says its transform; empty for others."""
    return next((end for end in END_POWERS if block.name.endswith(end)), "")


def in_inverse_shape(factorization: Factorization, name: str, power: int) -> Factorization | None:
    """Factorization in the coordinate κ of a variable, besides its other bijections.

    `name` is the value variable v; power 2 takes the root of a reciprocal. None if observations are
    not smooth in κ, or another bijection depends on v.
    """
    block = next(block for block in factorization.blocks if block.name == name)
    places = np.arange(block.start, block.stop)
    if any(one.coordinates.intersection(places.tolist()) for one in factorization.maps):
        return None
    shape = InverseShape(name, places, _shape_label(factorization, block, power), power)
    found = reparametrize_by(factorization, [shape])
    return found if all(map(_is_smooth, lowered_rows(found))) else None


def _shape_label(factorization: Factorization, block: Block, power: int) -> str:
    """Name of κ; for an interval variable in terms of its ends."""
    name, transform = factorization.name_at(block.start), _transform_of(block)
    if power < 0 or (transform, power) in _END_LABELS:
        return _END_LABELS.get((transform, power), f"exp({block.name})").format(name)
    if name == block.name:
        return _LABELS[power].format(f"exp({name})")
    if not block.name.endswith("_interval__"):
        return _LABELS[power].format(name)
    rows = lowered_rows(factorization)
    if any(block.start in _shape_coordinates(row, scalar.Exp) for row in rows):
        return _LABELS[power].format(f"({name} - lower)")
    return _INTERVAL_LABELS[power].format(name)


def _shape_coordinates(row: LoweredRow, *functions: type) -> Iterator[int]:
    for expr in subexpressions(row.root):
        if is_a(expr, GammaRatio):
            size, _ = scaled_core(row.exprs, expr.inputs[0])
            if is_a(size, *(functions or (scalar.Exp, scalar_math.Sigmoid))):
                yield from _shifted_coordinates(size.inputs[0])


def _shifted_coordinates(expr: Expr) -> range:
    """Coordinates that an expression equals up to an added number."""
    if not isinstance(expr, Affine) or constant_value(expr.offset) is None:
        return range(0)
    return single_coordinate(expr.terms)


def _is_smooth(row: LoweredRow) -> bool:
    """Whether no operation is infinite at κ = 0, in branches that an observation takes."""
    return not any(
        is_a(expr, scalar.Log, scalar.Reciprocal) and _is_of_reciprocal(row, expr.inputs[0])
        for branch in _taken_branches(row)
        for expr in subexpressions(branch)
    )


def _taken_branches(row: LoweredRow) -> Iterator[Expr]:
    """Branches of nested choices by data, without those that none of the first rows takes."""
    term, waiting = row.term, [row.root]
    columns = tuple(column for column, _ in term.batches)
    function = RowFunction(term.name, term.n_rows, columns, row.root, (), row.exprs)
    data = RowData(function, slice(0, min(term.n_rows, MAX_READ)))
    while waiting:
        expr = waiting.pop()
        if is_a(expr, scalar.Switch) and expr.inputs[0].is_data:
            ways = zip(data.where(expr.inputs[0]), expr.inputs[1:], strict=True)
            waiting += [branch for rows, branch in ways if rows.size]
        else:
            yield expr


def _is_of_reciprocal(row: LoweredRow, expr: Expr) -> bool:
    """Whether an expression depends on coordinates κ alone, and may be zero at κ = 0."""
    parts = (expr.offset,) if isinstance(expr, Affine) else sum_parts(expr)
    # A sum with a positive number, such as 1 + κ, is not zero at κ = 0.
    positive = any((constant_value(part) or 0.0) > 0.0 for part in parts)
    reciprocals = [row.exprs.logs.intersection(_shifted_coordinates(x)) for x in affines_in(expr)]
    return not positive and bool(reciprocals) and all(reciprocals)
