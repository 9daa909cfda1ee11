"""Functions made of straight pieces; their values are exact."""

import numpy as np
from pytensor.scalar import basic as scalar

from pymc_minibatch_mh.functions.interval import Interval
from pymc_minibatch_mh.functions.rules import NoRuleError, derivatives, outside


@derivatives.register(scalar.Identity)
def _identity(op: scalar.Identity, u: Interval, order: int) -> list[Interval]:
    return _line(u, 1.0, order)


@derivatives.register(scalar.Cast)
def _cast(op: scalar.Cast, u: Interval, order: int) -> list[Interval]:
    """Enclose a cast to floating-point numbers, without its rounding."""
    if not op.o_type.dtype.startswith("float"):
        raise NoRuleError(op)
    return _line(u, 1.0, order)


@derivatives.register(scalar.Neg)
def _neg(op: scalar.Neg, u: Interval, order: int) -> list[Interval]:
    return _line(-u, -1.0, order)


@derivatives.register(scalar.Abs)
def _abs(op: scalar.Abs, u: Interval, order: int) -> list[Interval]:
    nearest = np.maximum(np.maximum(u.lo, -u.hi), 0.0)
    enclosures = _line(Interval(nearest, u.magnitude), 1.0, order)
    # At the kink all slopes in between count, which bounds the change of |u|.
    slope = Interval(np.sign(u.lo), np.sign(u.hi))
    return [enclosures[0], slope, *outside(_touches_zero(u), enclosures[2:])][: order + 1]


@derivatives.register(scalar.Sign)
def _sign(op: scalar.Sign, u: Interval, order: int) -> list[Interval]:
    sign = Interval(np.sign(u.lo), np.sign(u.hi))
    return [sign, *outside(_touches_zero(u), [u.filled(0.0)] * order)]


def _line(value: Interval, slope: float, order: int) -> list[Interval]:
    zero = value.filled(0.0)
    return [value, value.filled(slope), zero, zero, zero][: order + 1]


def _touches_zero(u: Interval) -> np.ndarray:
    return (u.lo <= 0.0) & (u.hi >= 0.0)
