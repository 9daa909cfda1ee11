"""Quadratic lower bounds of all observations: their sum, and the gaps to the log-likelihoods.

Two functions have an upper bound that is quadratic in their argument and tangent to them:

    softplus(v) <= v/2 + log(2 cosh(ξ/2)) + (v² - ξ²) tanh(ξ/2)/(4ξ)       at v = ±ξ
    log1p(w)    <= log1p(w₀) + (w - w₀)/(1 + w₀)                          at w = w₀

because log cosh is concave in the square of its argument, and log1p is concave. In a sum of
quadratics and of negative multiples of these functions, the upper bounds give a lower bound of the
sum. It holds for every point of tangency: the same ξ for all observations, or the value of each
observation at the centre, with the same slope there.

References
----------
Jaakkola, Jordan (2000), "Bayesian parameter estimation via variational methods", Statistics and
Computing 10, 25-37, doi:10.1023/A:1008932416310. Maclaurin, Adams (2014), "Firefly Monte Carlo:
exact MCMC with subsets of data", UAI, doi:10.48550/arXiv.1403.5693.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math

from pymc_minibatch_mh.compiled.differences import PlainArithmetic, polynomial_degree
from pymc_minibatch_mh.compiled.form_rows import FormRows, PlacedFormRows, evaluate_predictors
from pymc_minibatch_mh.data import Column
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.expressions.graph import Argument, Expr, ExprGraph
from pymc_minibatch_mh.expressions.patterns import constant_value, is_a, scaled_core
from pymc_minibatch_mh.functions.base import operation_name
from pymc_minibatch_mh.native.bound_tables import BoundTables, no_tables
from pymc_minibatch_mh.native.forms import RowSpace
from pymc_minibatch_mh.native.moves import CONSTANT
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.reference.full_data import FullData
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.structure.row_function import RowData, RowFunction

#: Added to ξ² at the centre, because the slope needs ξ > 0; the gap at 1e-4 is the same as at 0.
MIN_SQUARE = 1e-8


def lower_bound_gap(function: RowFunction, xi: float) -> RowFunction:
    """Log-likelihood of an observation minus its quadratic lower bound, 0 or more everywhere.

    The bounds are tangent at ξ > 0, in units of the linear predictor for logistic regression and in
    units of the scale for Student-t errors. BoundsError if an observation has no such bound.
    """
    return replace(function, root=_gap_root(function, _AtXi(function.exprs, xi)))


def gap_at_centre(function: RowFunction, centre: np.ndarray) -> RowFunction:
    """Log-likelihood minus the quadratic lower bound that is tangent at the centre.

    `centre` has the linear predictors at the centre, shape (rows, m); they become data of the rows.
    """
    root = _gap_root(function, _AtCentre(function.exprs, len(function.columns)))
    columns = [Column(f"centre[{k}]", np.ascontiguousarray(u), 0) for k, u in enumerate(centre.T)]
    return replace(function, root=root, columns=(*function.columns, *columns))


class _NoLowerBoundError(Exception):
    """Description of a part of a log-likelihood that has no quadratic lower bound."""


class _AtXi:
    """Bounds with the same point of tangency ξ for all observations."""

    def __init__(self, exprs: ExprGraph, xi: float) -> None:
        self._exprs, self._xi = exprs, xi

    def predictor(self, _: Expr) -> Expr:
        """Point of tangency ξ for |v|, with v the linear predictor."""
        return self._exprs.constant(self._xi)

    def square(self, _: Expr, weight: float | None) -> Expr:
        """Point of tangency for w, the squared error over ν; the weight is -(ν + 1)/2."""
        if weight is None or not weight < -0.5:
            raise _NoLowerBoundError("log1p whose weight is no number below -1/2")
        return self._exprs.constant(self._xi * self._xi / (-2.0 * weight - 1.0))


class _AtCentre:
    """Bounds tangent at the centre, with each observation's linear predictors there as data."""

    def __init__(self, exprs: ExprGraph, first: int) -> None:
        self._exprs, self._first = exprs, first

    def predictor(self, v: Expr) -> Expr:
        """Point of tangency for |v|: its value at the centre, raised slightly above 0."""
        square = self._exprs.node(scalar.sqr, [self._at_centre(v)])
        raised = self._exprs.node(scalar.add, [square, self._exprs.constant(MIN_SQUARE)])
        return self._exprs.node(scalar.sqrt, [raised])

    def square(self, w: Expr, _: float | None) -> Expr:
        """Point of tangency for w: its value at the centre."""
        return self._at_centre(w)

    def _at_centre(self, expr: Expr) -> Expr:
        if expr.is_data:
            return expr
        if isinstance(expr, Argument):
            return self._exprs.data(self._first + expr.number, ())
        return self._exprs.node(expr.op, [self._at_centre(x) for x in expr.inputs])  # type: ignore[attr-defined]


def _gap_root(function: RowFunction, touching: _AtXi | _AtCentre) -> Expr:
    try:
        return _gap_expression(function, function.root, touching)
    except _NoLowerBoundError as reason:
        raise BoundsError(
            f"{function.name!r} has no quadratic lower bound, because it uses {reason}. Use "
            "bound='derived' or TunaMH()."
        ) from None


def _gap_expression(function: RowFunction, expr: Expr, touching: _AtXi | _AtCentre) -> Expr:
    exprs, plain = function.exprs, PlainArithmetic(function.exprs)
    if polynomial_degree(expr) <= 2:
        return exprs.zero
    if is_a(expr, scalar.Add):
        return plain.add(*(_gap_expression(function, part, touching) for part in expr.inputs))
    if is_a(expr, scalar.Switch) and expr.inputs[0].is_data:
        condition, *branches = expr.inputs
        gaps = [_gap_expression(function, x, touching) for x in branches]
        return exprs.node(scalar.switch, [condition, *gaps])
    core, factor = scaled_core(exprs, expr)
    if (RowData(function, slice(0, function.n_rows)).value(factor) <= 0.0).all():
        weight = exprs.times(exprs.minus_one, factor)
        if is_a(core, scalar_math.Softplus) and polynomial_degree(core.inputs[0]) <= 1:
            xi = touching.predictor(core.inputs[0])
            return plain.multiply(weight, _above_softplus(exprs, core, xi))
        if is_a(core, scalar.Log1p) and polynomial_degree(core.inputs[0]) <= 2:
            there = touching.square(core.inputs[0], constant_value(factor))
            return plain.multiply(weight, _above_log1p(exprs, core, there))
    raise _NoLowerBoundError(f"{operation_name(getattr(core, 'op', core))} of the parameters")


def _above_softplus(exprs: ExprGraph, core: Expr, xi: Expr) -> Expr:
    (v,), plain, node = core.inputs, PlainArithmetic(exprs), exprs.node
    half = node(scalar.mul, [plain.half, xi])
    four = node(scalar.mul, [exprs.constant(4.0), xi])
    slope = node(scalar.true_div, [node(scalar.tanh, [half]), four])
    # log(2 cosh(ξ/2)) = softplus(ξ) - ξ/2
    top = node(scalar.sub, [node(scalar_math.softplus, [xi]), half])
    level = node(scalar.sub, [top, node(scalar.mul, [slope, node(scalar.sqr, [xi])])])
    bound = plain.multiply(slope, node(scalar.sqr, [v]))
    less = plain.multiply(exprs.minus_one, core)
    return plain.add(plain.multiply(plain.half, v), bound, level, less)


def _above_log1p(exprs: ExprGraph, core: Expr, there: Expr) -> Expr:
    (w,), plain, node = core.inputs, PlainArithmetic(exprs), exprs.node
    slope = node(scalar.reciprocal, [node(scalar.add, [exprs.one, there])])
    top = node(scalar.log1p, [there])
    level = node(scalar.sub, [top, node(scalar.mul, [slope, there])])
    less = plain.multiply(exprs.minus_one, core)
    return plain.add(plain.multiply(slope, w), level, less)


#: Placeholder for ξ: each bound is tangent at the centre.
AT_CENTRE: Literal["centre"] = "centre"
type Touching = float | Literal["centre"]
#: Relative enlargement of a gap, far above rounding errors; it lowers the lower bound.
GAP_ENLARGEMENT = 1e-9


@dataclass(frozen=True, eq=False)
class LowerBounds:
    """Quadratic lower bounds as control variates, with gaps as remainders.

    The bounds are tangent at ξ, `touching`, or at the centre; `reference` is their sum. The `gaps`,
    float32, are β times the gaps of all observations at the centre, rounded up.
    """

    target: Target
    touching: Touching
    reference: Reference
    gaps: np.ndarray

    @cached_property
    def rows(self) -> PlacedFormRows:
        """Compiled functions that evaluate the gap of each observation."""
        return _gap_rows(self.target, self.touching, self.reference)

    @cached_property
    def space(self) -> RowSpace:
        """C record of the gaps and their differences, which compiled updates evaluate."""
        return self.rows.space(0)

    @cached_property
    def tables(self) -> BoundTables:
        """Maximum decrease of each gap: its value at the centre. Increases have no bound."""
        headers = np.array([[np.inf, CONSTANT, self.gaps.sum(dtype=np.float64)]])
        return no_tables()._replace(headers=headers, c=self.gaps[None])


def require_lower_bounds(touching: Touching, functions: Sequence[RowFunction]) -> None:
    """Raise BoundsError before the mode search if observations have no quadratic lower bound."""
    for function in functions:
        if touching == AT_CENTRE:
            _gap_root(function, _AtCentre(function.exprs, len(function.columns)))
        else:
            lower_bound_gap(function, touching)


def lower_bounds(target: Target, reference: Reference, touching: Touching) -> LowerBounds:
    """Quadratic lower bounds around a centre; BoundsError if an observation has none."""
    gaps = FullData(_gap_rows(target, touching, reference), target.compiled.prior, target.source)
    full, gap = (p.likelihood(reference.centre, hessian=True) for p in (target.full_data, gaps))
    beta, values = reference.inverse_temperature, gaps.values(reference.centre)
    upper = beta * (values + GAP_ENLARGEMENT * (1.0 + np.abs(values)))
    rounded = np.nextafter(upper.astype(np.float32), np.float32(np.inf))
    gradient, hessian = full.gradient - gap.gradient, full.hessian - gap.hessian
    sums = reference.quadratic()._replace(gradient=gradient, hessian=hessian)
    return LowerBounds(target, touching, sums, rounded)


def _gap_rows(target: Target, touching: Touching, reference: Reference) -> PlacedFormRows:
    functions = target.row_functions
    if isinstance(functions, BoundsError):
        raise functions
    gaps = []
    for function in functions:
        if touching == AT_CENTRE:
            rows, ends = np.arange(function.n_rows), (reference.centre, reference.factor)
            there = evaluate_predictors(function, rows, *ends, directions=False)
            gaps.append(gap_at_centre(function, there.values))
        else:
            gaps.append(lower_bound_gap(function, touching))
    return PlacedFormRows(FormRows(gaps, target.factorization.size), target.source)
