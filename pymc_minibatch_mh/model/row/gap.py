"""Quadratic lower bounds of a row's log-likelihood, and the gap that they leave.

Two functions that log-likelihoods are made of have an upper bound that is quadratic in what they
are applied to, whatever else is known of a row, and touches them at a chosen place:

    softplus(v) <= v/2 + log(2 cosh(ξ/2)) + (v² - ξ²) tanh(ξ/2)/(4ξ)       at v = ±ξ
    log1p(w)    <= log1p(w₀) + (w - w₀)/(1 + w₀)                          at w = w₀

the first because log cosh is concave in the square of its argument, the second because log1p is
concave. A log-likelihood that is a sum of quadratics and of negative multiples of these, such as
that of a logistic regression or of Student-t errors of a known scale, is bounded from below by
what remains if they are replaced: a quadratic in the parameters, known by its coefficients alone.

References
----------
Jaakkola, Jordan (2000), "Bayesian parameter estimation via variational methods", Statistics and
Computing 10, 25-37, doi:10.1023/A:1008932416310.
"""

from dataclasses import replace

import numpy as np
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math

from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.model.row.cells import Cell, Cells
from pymc_minibatch_mh.model.row.expressions import degree
from pymc_minibatch_mh.model.row.function import RowFunction
from pymc_minibatch_mh.model.row.patterns import is_a, number, scaled_core
from pymc_minibatch_mh.model.row.plain import Plain


class _NoLowerBoundError(Exception):
    """A part of a row without a quadratic lower bound, in words."""


def gap_of(function: RowFunction, xi: float) -> RowFunction:
    """Return a row's log-likelihood less its quadratic lower bound: 0 or more everywhere.

    Parameters
    ----------
    function
        A row function.
    xi
        ξ > 0, where the bounds touch: of a logistic regression the linear predictor, either sign;
        of Student-t errors the error, in units of the scale.

    Raises
    ------
    BoundsError
        If a part of it has no such bound.
    """
    try:
        root = _gap(function.cells, function.root, xi)
    except _NoLowerBoundError as reason:
        raise BoundsError(
            f"{function.name!r} has no quadratic lower bound, as it goes through {reason}. Use "
            "bound='map', whose lower bounds are made of derived ones, or TunaMH()."
        ) from None
    return replace(function, root=root)


def _gap(cells: Cells, cell: Cell, xi: float) -> Cell:
    plain = Plain(cells)
    if degree(cell) <= 2:
        return cells.zero
    if is_a(cell, scalar.Add):
        return plain.add(*(_gap(cells, part, xi) for part in cell.inputs))
    if is_a(cell, scalar.Switch) and cell.inputs[0].is_data:
        condition, *branches = cell.inputs
        return cells.node(scalar.switch, [condition, *(_gap(cells, x, xi) for x in branches)])
    core, factor = scaled_core(cells, cell)
    weight = number(factor)
    if weight is not None and weight < 0.0:
        if is_a(core, scalar_math.Softplus) and degree(core.inputs[0]) <= 1:
            return plain.multiply(cells.constant(-weight), _above_softplus(cells, core, xi))
        if is_a(core, scalar.Log1p) and degree(core.inputs[0]) <= 2 and weight < -0.5:
            # The weight is -(ν + 1)/2, and w the square of the error over ν.
            touching = xi * xi / (-2.0 * weight - 1.0)
            return plain.multiply(cells.constant(-weight), _above_log1p(cells, core, touching))
    raise _NoLowerBoundError(f"{getattr(core, 'op', core)} of the parameters")


def _above_softplus(cells: Cells, core: Cell, xi: float) -> Cell:
    (v,), constant, plain = core.inputs, cells.constant, Plain(cells)
    slope = float(np.tanh(0.5 * xi) / (4.0 * xi))
    level = float(np.logaddexp(0.5 * xi, -0.5 * xi) - slope * xi * xi)
    square = cells.node(scalar.sqr, [v])
    return plain.add(
        plain.multiply(constant(0.5), v),
        plain.multiply(constant(slope), square),
        constant(level),
        plain.multiply(constant(-1.0), core),
    )


def _above_log1p(cells: Cells, core: Cell, touching: float) -> Cell:
    (w,), constant, plain = core.inputs, cells.constant, Plain(cells)
    slope = 1.0 / (1.0 + touching)
    return plain.add(
        plain.multiply(constant(slope), w),
        constant(float(np.log1p(touching) - slope * touching)),
        plain.multiply(constant(-1.0), core),
    )
