"""Functions made of straight pieces; their values are exact."""

import math

import numpy as np
from numpy.typing import ArrayLike
from pytensor.scalar import basic as scalar
from pytensor.scalar.basic import ScalarOp

from pymc_minibatch_mh.bounds.interval import Array, Interval, Mask
from pymc_minibatch_mh.bounds.rules.base import (
    CANCELLATION,
    INCREASING_OR_DECREASING,
    NEVER_NEGATIVE,
    NEVER_POSITIVE,
    NoRuleError,
    Shape,
    by_shape,
    clipped,
    constant,
    derivatives,
    odd,
    outside,
    positive_zero,
    shaped,
)


@derivatives.register(scalar.Identity)
def _identity(op: scalar.Identity, u: Interval, order: int) -> list[Interval]:
    return _line(u, 1.0, order)


@derivatives.register(scalar.Cast)
def _cast(op: scalar.Cast, u: Interval, order: int) -> list[Interval]:
    """Enclose what a cast to floating-point numbers stands for, which ignores its rounding."""
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
    # At the kink all slopes in between count, which bounds what |u| changes by.
    slope = Interval(np.sign(u.lo), np.sign(u.hi))
    return [enclosures[0], slope, *outside(_touches_zero(u), enclosures[2:])][: order + 1]


@derivatives.register(scalar.Sign)
def _sign(op: scalar.Sign, u: Interval, order: int) -> list[Interval]:
    sign = Interval(np.sign(u.lo), np.sign(u.hi))
    return [sign, *outside(_touches_zero(u), [constant(0.0, u)] * order)]


def _line(value: Interval, slope: float, order: int) -> list[Interval]:
    zero = constant(0.0, value)
    return [value, constant(slope, value), zero, zero, zero][: order + 1]


def _touches_zero(u: Interval) -> np.ndarray:
    return (u.lo <= 0.0) & (u.hi >= 0.0)


_LARGEST = np.finfo(float).max


@derivatives.register(scalar.Sqr)
def _sqr(op: scalar.Sqr, u: Interval, order: int) -> list[Interval]:
    with np.errstate(all="ignore"):
        square = _monomial(u, u.lo * u.lo, u.hi * u.hi, 2.0, 1.0)
        double = _monomial(u, u.lo, u.hi, 1.0, 2.0)
    zero = constant(0.0, u)
    return [square, double, constant(2.0, u), zero, zero][: order + 1]


@derivatives.register(scalar.Sqrt)
def _sqrt(op: scalar.Sqrt, u: Interval, order: int) -> list[Interval]:
    def values(x: Array, order: int) -> list[Array]:
        root, r = np.sqrt(x), 1.0 / x
        slope = 0.5 / root
        slopes = [slope, -0.5 * slope * r, 0.75 * slope * r * r]
        if order > 3:
            slopes.append(-1.875 * slope * r * r * r)
        return [root, *slopes][: order + 1]

    u = positive_zero(u)
    shapes = (NEVER_NEGATIVE, *(NEVER_NEGATIVE, NEVER_POSITIVE) * 2)
    return outside(u.lo < 0.0, by_shape(values, shapes, u, order))


@derivatives.register(scalar.Reciprocal)
def _reciprocal(op: scalar.Reciprocal, u: Interval, order: int) -> list[Interval]:
    u = positive_zero(u)
    enclosures = []
    with np.errstate(all="ignore"):
        first, last = 1.0 / u.lo, 1.0 / u.hi
        low, high = first, last
        for n, factor in enumerate((1.0, -1.0, 2.0, -6.0, 24.0)[: order + 1], start=1):
            enclosures.append(_monomial(u, low, high, -float(n), factor))
            low, high = low * first, high * last
    return enclosures


def power_derivatives(u: Interval, exponent: ArrayLike, order: int) -> list[Interval]:
    """Enclose u to constant powers, shaped to broadcast with u; fractional ones need u >= 0."""
    exponent = np.asarray(exponent, dtype=np.float64)
    u = positive_zero(u)
    real = (exponent != np.floor(exponent)) & (u.lo < 0.0)
    factor, enclosures = np.ones_like(exponent), []
    with np.errstate(all="ignore"):
        for n in range(order + 1):
            e = exponent - n
            enclosures.append(_monomial(u, np.power(u.lo, e), np.power(u.hi, e), e, factor))
            factor = factor * e
    return outside(real, enclosures)


def _monomial(u: Interval, at_lo: Array, at_hi: Array, e: ArrayLike, factor: ArrayLike) -> Interval:
    """Enclose `factor` x^e, from x^e at the ends of `u`, for an integer e where x < 0."""
    e, factor = np.asarray(e), np.asarray(factor)
    lo, hi = _range_of_power(u, at_lo, at_hi, e)
    # An end that overflowed may, times a small factor, still be a number.
    low, high = factor * np.minimum(lo, _LARGEST), factor * np.maximum(hi, -_LARGEST)
    product = Interval.rounded(np.minimum(low, high), np.maximum(low, high))
    # The sign does not follow from the values at the ends, which may have underflowed.
    even = e % 2.0 == 0.0
    pole = (u.lo == 0.0) & (u.hi == 0.0) & (e < 0.0)
    positive, negative = ((u.lo >= 0.0) & ~pole) | even, (u.hi <= 0.0) & ~pole & ~even
    above = (positive & (factor >= 0.0)) | (negative & (factor <= 0.0)) | (factor == 0.0)
    below = (positive & (factor <= 0.0)) | (negative & (factor >= 0.0)) | (factor == 0.0)
    return Interval(
        np.where(above, np.maximum(product.lo, 0.0), product.lo),
        np.where(below, np.minimum(product.hi, 0.0), product.hi),
    )


def _range_of_power(u: Interval, at_lo: Array, at_hi: Array, e: Array) -> tuple[Array, Array]:
    """Return the range of x^e from its values at the ends; over 0 it may turn, or have a pole."""
    lo, hi = np.minimum(at_lo, at_hi), np.maximum(at_lo, at_hi)
    touches = (u.lo <= 0.0) & (u.hi >= 0.0)
    if not touches.any():
        return lo, hi
    even, left, right = e % 2.0 == 0.0, u.lo < 0.0, u.hi > 0.0
    turns, pole = touches & even & (e > 0.0), touches & (e < 0.0)
    falls, rises = pole & (left | ~right) & ~even, pole & (right | even)
    # At the pole itself, the values at the ends may carry the sign of the other side.
    lo = np.where(falls, -np.inf, np.where(turns, 0.0, lo))
    hi = np.where(rises, np.inf, np.where(falls, at_lo, hi))
    return lo, hi


# Beyond, what decays is smaller than the least slack, and its factors would overflow.
_FAR = 1e150
_HALF = math.sqrt(0.5)
_THIRD = math.sqrt(1.0 / 3.0)
_ARCTAN = (
    INCREASING_OR_DECREASING,
    Shape(peaks=((0.0, 1.0),), floor=0.0, ceiling=1.0),
    Shape(peaks=((-_THIRD, 9.0 * _THIRD / 8.0),), valleys=((_THIRD, -9.0 * _THIRD / 8.0),)),
    Shape(
        valleys=((0.0, -2.0),),
        peaks=((-1.0, 0.5), (1.0, 0.5)),
        slack=lambda x: 10.0 * CANCELLATION / (1.0 + np.clip(x, -_FAR, _FAR) ** 2) ** 2,
    ),
    # 24 x (1 - x²) / (1 + x²)⁴ turns at 5x⁴ - 10x² + 1 = 0.
    odd(
        peak=(0.32491969623290634, 4.668559284155213),
        valley=(1.3763819204711736, -0.4209637280433613),
        slack=lambda x: 30.0 * CANCELLATION / np.hypot(1.0, np.clip(x, -_FAR, _FAR)) ** 5,
    ),
)
# arcsinh'' turns at x² = 1/2, where (1 + x²)^(-3/2) = (2/3)^(3/2), arcsinh''' at x² = 3/2.
_PEAK = _HALF * (2.0 / 3.0) ** 1.5
_ARCSINH = (
    INCREASING_OR_DECREASING,
    Shape(peaks=((0.0, 1.0),), floor=0.0, ceiling=1.0),
    Shape(peaks=((-_HALF, _PEAK),), valleys=((_HALF, -_PEAK),)),
    Shape(
        valleys=((0.0, -1.0),),
        peaks=((-math.sqrt(1.5), 2.0 * 0.4**2.5), (math.sqrt(1.5), 2.0 * 0.4**2.5)),
        slack=lambda x: 10.0 * CANCELLATION / np.hypot(1.0, np.clip(x, -_FAR, _FAR)) ** 3,
    ),
    # (9x - 6x³) (1 + x²)^(-7/2) turns at 8x⁴ - 24x² + 3 = 0.
    odd(
        peak=(0.36151570676401423, 1.9322876581800938),
        valley=(1.6939027108316804, -0.12213058179616695),
        slack=lambda x: 30.0 * CANCELLATION / np.hypot(1.0, np.clip(x, -_FAR, _FAR)) ** 4,
    ),
)
_COSH = Shape(valleys=((0.0, 1.0),), floor=1.0)


@shaped(scalar.ArcTan, _ARCTAN)
def _arctan(x: Array, order: int) -> list[Array]:
    value, w, x = np.arctan(x), 1.0 / (1.0 + x * x), np.clip(x, -_FAR, _FAR)
    slopes = [w, -2.0 * x * w * w, (6.0 - 8.0 * w) * w * w]
    if order > 3:
        slopes.append(24.0 * x * w * w * w * (2.0 * w - 1.0))
    return [value, *slopes][: order + 1]


@shaped(scalar.ArcSinh, _ARCSINH)
def _arcsinh(x: Array, order: int) -> list[Array]:
    value, s, x = np.arcsinh(x), 1.0 / np.hypot(1.0, x), np.clip(x, -_FAR, _FAR)
    slopes = [s, -x * s * s * s, (2.0 - 3.0 * s * s) * s * s * s]
    if order > 3:
        slopes.append(x * s * s * s * s * s * (15.0 * s * s - 6.0))
    return [value, *slopes][: order + 1]


@derivatives.register(scalar.Sinh)
@derivatives.register(scalar.Cosh)
def _hyperbolic(op: ScalarOp, u: Interval, order: int) -> list[Interval]:
    """Return sinh and cosh in turns, each of which is the derivative of the other."""
    functions = ((np.sinh, INCREASING_OR_DECREASING), (np.cosh, _COSH))
    first_two = functions if isinstance(op, scalar.Sinh) else functions[::-1]

    def values(x: Array, order: int) -> list[Array]:
        return [function(x) for function, _ in first_two[: order + 1]]

    pair = by_shape(values, [shape for _, shape in first_two], u, min(order, 1))
    return (pair * 3)[: order + 1]


@derivatives.register(scalar.Sin)
@derivatives.register(scalar.Cos)
def _turned(op: ScalarOp, u: Interval, order: int) -> list[Interval]:
    """Return sines, moved by a quarter of a turn for each derivative, and for a cosine."""
    quarters = int(isinstance(op, scalar.Cos))
    waves: dict[bool, Interval] = {}
    enclosures = []
    for n in range(quarters, quarters + order + 1):
        cosine = n % 2 == 1
        if cosine not in waves:
            waves[cosine] = _wave(np.cos if cosine else np.sin, 0.0 if cosine else 0.5, u)
        enclosures.append(-waves[cosine] if n % 4 >= 2 else waves[cosine])
    return enclosures


def _wave(function: np.ufunc, peak: float, u: Interval) -> Interval:
    """Return the range of a function of period 2π with a peak at `peak` π."""
    with np.errstate(all="ignore"):
        at_lo, at_hi = function(u.lo), function(u.hi)
        lo, hi = np.minimum(at_lo, at_hi), np.maximum(at_lo, at_hi)
        hi = np.where(_passes(u, peak), 1.0, hi)
        lo = np.where(_passes(u, peak + 1.0), -1.0, lo)
        return clipped(Interval.rounded(lo, hi), -1.0, 1.0)


def _passes(u: Interval, where: float) -> Mask:
    """Whether an interval may hold π (where + 2k) for an integer k."""
    first = 0.5 * (u.lo / math.pi - where)
    last = 0.5 * (u.hi / math.pi - where)
    # Where the number of turns is not known to less than one, this is true.
    first = first - CANCELLATION * np.abs(first)
    last = last + CANCELLATION * np.abs(last)
    return ~(np.ceil(first) > np.floor(last))
