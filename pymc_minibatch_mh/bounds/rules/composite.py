"""Functions that simplification makes out of several operations."""

from math import factorial

import numpy as np
from scipy import special

from pymc_minibatch_mh.bounds.interval import Array, Interval
from pymc_minibatch_mh.bounds.rules.base import (
    ALTERNATING,
    INCREASING_OR_DECREASING,
    NEVER_POSITIVE,
    Shape,
    outside,
    shaped,
)
from pymc_minibatch_mh.bounds.rules.gamma import above_psi
from pymc_minibatch_mh.kernels.intervals import RELATIVE, TINY, integrals_of_inverse_powers
from pymc_minibatch_mh.likelihood.operations import Log1pRatio, LogAny, LogSoftplus

# Up to here the integral is summed by Gauss and Legendre's rule, whose error is below rounding;
# beyond, closed forms no longer cancel.
_NEAR, _LEAST = 4.0, -0.25
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_NODES, _WEIGHTS = 0.5 * (_NODES + 1.0), 0.5 * _WEIGHTS
# Of log(1 - exp(-exp(x))): h' decreases from 1 to 0; h'' has one valley, h''' a valley and a peak,
# h'''' a valley on either side of a peak.
_LOG_ANY = (
    NEVER_POSITIVE,
    Shape(floor=0.0, ceiling=1.0),
    Shape(valleys=((0.62082965456557214, -0.41253161891314144),), ceiling=0.0),
    Shape(
        valleys=((-0.19894156695829578, -0.19556248033726987),),
        peaks=((1.4266906535862953, 0.42605476914548281),),
        slack=lambda x: 1e-14 * np.exp(3.0 * x - np.exp(x)),
    ),
    Shape(
        valleys=(
            (-0.940063227174712, -0.09563169680468608),
            (1.8540543276938444, -0.6614133842560068),
        ),
        peaks=((0.9116429906269853, 0.6981966057224938),),
        slack=lambda x: 1e-14 * np.exp(4.0 * x - np.exp(x)),
    ),
)
# Of log(log(1 + exp(x))), likewise.
_LOG_SOFTPLUS = (
    INCREASING_OR_DECREASING,
    Shape(floor=0.0, ceiling=1.0),
    Shape(valleys=((0.49498495166079619, -0.16709557267051663),), ceiling=0.0),
    Shape(
        valleys=((-1.0206457692211527, -0.060912710167969209),),
        peaks=((1.9400071513367114, 0.043163481020197341),),
        slack=lambda x: 1e-14 * np.exp(-np.abs(x)),
    ),
    Shape(
        valleys=(
            (-2.051349784294047, -0.025797995530825884),
            (3.068549820893062, -0.0129513197199097),
        ),
        peaks=((0.2909480685402935, 0.0614061047048247),),
        slack=lambda x: 1e-14 * np.exp(-np.abs(x)),
    ),
)
# Below, a power series takes the place of terms that cancel; beyond, derivatives underflow.
_SMALL, _NEGLIGIBLE, _MOST = 1.0, -20.0, 800.0
_EVEN = np.arange(2, 27, 2)
_BERNOULLI = special.bernoulli(26)[_EVEN] / special.factorial(_EVEN)
# SciPy's numbers are off by up to 2e-12: too much for a fourth derivative, which has them times n³.
# These follow from the zeta function: Abramowitz and Stegun (1964), 23.2.16.
_PRECISE = -2.0 * (-1.0) ** (_EVEN // 2) * special.zeta(_EVEN) / (2.0 * np.pi) ** _EVEN
_RARE = 0.1
_POWERS = np.arange(25)


def _slopes_of_log_softplus() -> Array:
    """Return the power series of h' = w / ((1 + w) log(1 + w)), h = log(log(1 + w)), w = exp(x)."""
    divisor = np.array([1.0, *((-1.0) ** (n - 1) / (n * (n + 1)) for n in _POWERS[1:])])
    series = np.zeros(_POWERS.size)
    series[0] = 1.0
    for n in _POWERS[1:]:
        series[n] = -(divisor[1 : n + 1] * series[n - 1 :: -1][:n]).sum()
    return series


_LOG_SOFTPLUS_SLOPES = _slopes_of_log_softplus()


@shaped(Log1pRatio, ALTERNATING, lambda u: u.lo < _LEAST)
def _log1p_ratio_values(x: Array, order: int) -> list[Array]:
    """Return log(1 + x)/x, completely monotone as the integral of 1/(1 + x t) over (0, 1)."""
    near = np.where(x <= _NEAR, x, 0.0)
    far = np.where(x > _NEAR, x, 1.0)
    values: list[Array] = []
    below = np.log1p(far) / far
    close = np.empty((order + 1, near.size))
    integrals_of_inverse_powers(near.reshape(-1), _NODES, _WEIGHTS, order, close)
    for k in range(order + 1):
        if k > 0:
            # x φ = log(1 + x), differentiated k times.
            below = ((-1.0) ** (k - 1) * factorial(k - 1) / (1.0 + far) ** k - k * below) / far
        distant = np.where(np.isposinf(x), 0.0, below)
        values.append(np.where(x <= _NEAR, close[k].reshape(x.shape), distant))
    return values


@shaped(LogAny, _LOG_ANY)
def _log_any_values(x: Array, order: int) -> list[Array]:
    """Return the derivatives of h(x) = log(1 - exp(-w)), w = exp(x): h' = w / (exp(w) - 1)."""
    w = np.minimum(np.exp(x), _MOST)
    near = np.where(x < _NEGLIGIBLE, x - 0.5 * w, np.log(-np.expm1(-w)))
    values = [np.where(w > 0.5, np.log1p(-np.exp(-w)), near)]
    small, large = np.where(w < _SMALL, w, 0.0), np.where(w < _SMALL, _SMALL, w)
    decay = np.exp(-large)
    slope = large * decay / -np.expm1(-large)
    rest = 1.0 - large - slope
    closed = [slope, slope * rest, slope * (rest * rest - large - slope * rest)]
    if order > 3:
        closed.append(_third_slope(slope, rest, large, 1.0))
    for k in range(order):
        # h' = Σ B_n w^n / n!, of which w d/dw is the next derivative.
        numbers = _BERNOULLI if k < 3 else _PRECISE
        even = (_EVEN.astype(float) ** k * numbers * small[..., None] ** _EVEN).sum(axis=-1)
        series = (1.0 if k == 0 else 0.0) - 0.5 * small + even
        values.append(np.where(w < _SMALL, series, closed[k]))
    return values


@shaped(LogSoftplus, _LOG_SOFTPLUS)
def _log_softplus_values(x: Array, order: int) -> list[Array]:
    w = np.exp(np.minimum(x, 0.0))
    size = np.where(x > 0.0, x, 0.0) + np.log1p(np.exp(-np.abs(x)))
    values = [np.where(x < _NEGLIGIBLE, x - 0.5 * w, np.log(size))]
    small, size = np.where(w < _RARE, w, 0.0), np.where(w < _RARE, 1.0, size)
    share = special.expit(x)
    other = special.expit(-x)
    slope = share / size
    rest = other - slope
    closed = [slope, slope * rest, slope * (rest * rest - share * other - slope * rest)]
    if order > 3:
        closed.append(_third_slope(slope, rest, share * other, other - share))
    for k in range(order):
        # w d/dw is the next derivative.
        powers = _POWERS.astype(float) ** k * _LOG_SOFTPLUS_SLOPES
        series = (powers * small[..., None] ** _POWERS).sum(axis=-1)
        values.append(np.where(w < _RARE, series, closed[k]))
    return values


def _third_slope(s: Array, r: Array, p: Array, d: Array | float) -> Array:
    """Return s''', where s' = s r, r' = -p - s r and p' = p d."""
    return s * (r * (r * r - 3.0 * p - 4.0 * s * r + s * s) + p * (s - d))


def gamma_ratio_derivatives(u: Interval, y: Array, z: Array, order: int) -> list[Interval]:
    """Enclose log Γ(u + y) - log Γ(u + z) and its derivatives in u, all of which are monotone.

    ψ(x + y) - ψ(x + z) is completely monotone for y >= z, as an average of ψ' over shifts.
    """
    with np.errstate(all="ignore"):
        ends = [_log_gamma_values(end, y, z, order) for end in (u.lo, u.hi)]
        enclosures = []
        for (low, low_slack), (high, high_slack) in zip(*ends, strict=True):
            slack = np.maximum(low_slack, high_slack)
            enclosures.append(Interval.rounded(np.minimum(low, high), np.maximum(low, high), slack))
    return outside(~(u.lo + np.minimum(y, z) > 0.0), enclosures)


def _log_gamma_values(x: Array, y: Array, z: Array, order: int) -> list[tuple[Array, Array]]:
    pairs = []
    for shift in (y, z):
        at = np.asarray(x + shift)
        pairs.append([special.gammaln(at), special.psi(at), *above_psi(at, 1, order - 1)])
    # Two values cancel: their rounding errors stay. Fourth derivatives are taken times x⁴, and sums
    # of terms of one sign, so that their errors are relative.
    return [
        (one - other, RELATIVE * (np.abs(one) + np.abs(other)) + (1e-14 if n < 4 else TINY))
        for n, (one, other) in enumerate(
            zip(*(values[: order + 1] for values in pairs), strict=True)
        )
    ]
