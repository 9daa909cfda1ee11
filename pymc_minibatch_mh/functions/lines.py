"""Enclosures of the absolute value and of the sign, without rounding."""

import numpy as np
from pytensor.scalar import basic as scalar

from pymc_minibatch_mh.functions.enclosures import enclose_derivatives, without_bounds_where
from pymc_minibatch_mh.functions.interval import Interval


@enclose_derivatives.register(scalar.Abs)
def _enclose_abs(op: scalar.Abs, u: Interval, order: int) -> list[Interval]:
    nearest = np.maximum(np.maximum(u.lo, -u.hi), 0.0)
    # At the kink the slope is the range [-1, 1], which bounds the change of |u|.
    return [Interval(nearest, u.magnitude), *enclose_derivatives(scalar.sign, u, order - 1)][
        : order + 1
    ]


@enclose_derivatives.register(scalar.Sign)
def _enclose_sign(op: scalar.Sign, u: Interval, order: int) -> list[Interval]:
    sign = Interval(np.sign(u.lo), np.sign(u.hi))
    touches_zero = (u.lo <= 0.0) & (u.hi >= 0.0)
    return [sign, *without_bounds_where(touches_zero, [u.filled_with(0.0)] * order)]
