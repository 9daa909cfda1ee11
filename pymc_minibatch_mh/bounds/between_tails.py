"""Enclosures of the logarithm of a normal probability between two ends that are close.

With the width g > 0 of an interval from l,

    log ∫_l^(l+g) exp(-s²) ds = log g + F(l, g),    F = log ∫_0^1 exp(-(l + t g)²) dt.

Derivatives of F are cumulants of t, s = l + t g and t s for the density of t on [0, 1] that is
proportional to exp(-s²), so they stay bounded for narrow intervals, in which differences of
distribution functions cancel. For variables with ranges A, B and C, a covariance is at most
A B / 4, and a third joint cumulant at most A B C / 8, by Hölder's inequality and
E |X - E X|³ <= A³ / 8.
"""

from collections.abc import Mapping

import numpy as np

from pymc_minibatch_mh.functions.interval import RELATIVE, Array, Interval

#: Highest order of derivatives that are enclosed.
MAX_ORDER = 3
#: Enclosures of derivatives of F, by the numbers of derivatives in l (0) and g (1).
Partials = Mapping[tuple[int, ...], Interval]


def mean_density_partials(start: Interval, width: Interval) -> Partials:
    """Value of F, and its partial derivatives up to order 3, over boxes of l and of g > 0."""
    unit = Interval.point(0.0).hull(Interval.point(1.0))
    inside = start + unit * width
    s, g = inside.magnitude, width.hi
    along = (start + unit * width * 2.0).magnitude
    least = np.where(
        (inside.lo <= 0.0) & (inside.hi >= 0.0), 0.0, np.minimum(abs(inside.lo), abs(inside.hi))
    )
    square, mean = unit * Interval.point(-2.0), unit * inside * -2.0
    return {
        (): Interval.rounded(-s * s, -least * least),
        (0,): inside * -2.0,
        (1,): mean,
        (0, 0): Interval.point(-2.0) + _up_to(g * g),
        (0, 1): square + _around_zero(g * along),
        (1, 1): square + _up_to(along * along),
        (0, 0, 0): _around_zero(g * g * g),
        (0, 0, 1): _around_zero(g * g * along + 2.0 * g),
        (0, 1, 1): _around_zero(g * along * along + 2.0 * along + g),
        (1, 1, 1): _around_zero(along * along * along + 3.0 * along),
    }


def _up_to(size: Array) -> Interval:
    return Interval(np.zeros_like(size), size * (1.0 + RELATIVE))


def _around_zero(size: Array) -> Interval:
    return Interval(-size * (1.0 + RELATIVE), size * (1.0 + RELATIVE))
