"""Special functions that the acceptance tests need inside compiled code."""

import math

from numba import float64

from pymc_minibatch_mh._jit import compiled

_SQRT_HALF = math.sqrt(0.5)
_FIRST_NORMAL_DEGREE = 30.0
_TINY = 1e-300


@compiled(float64(float64))
def normal_cdf(x):
    """Return P(Z <= x) of a standard normal Z, to a few ulp in both tails."""
    return 0.5 * math.erfc(-x * _SQRT_HALF)


@compiled(float64(float64))
def logistic(x):
    """Return 1/(1 + exp(-x)); 0 and 1 at the infinities."""
    return 1.0 / (1.0 + math.exp(-x))


@compiled(float64(float64))
def _away_from_zero(x):
    return x if abs(x) > _TINY else _TINY


@compiled(float64(float64, float64, float64))
def _beta_fraction(a, b, x):
    """Evaluate the continued fraction of the incomplete beta function by Lentz's recurrence."""
    c = 1.0
    d = 1.0 / _away_from_zero(1.0 - (a + b) * x / (a + 1.0))
    fraction = d
    for m in range(1, 200):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        d = 1.0 / _away_from_zero(1.0 + even * d)
        c = _away_from_zero(1.0 + even / c)
        fraction *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        d = 1.0 / _away_from_zero(1.0 + odd * d)
        c = _away_from_zero(1.0 + odd / c)
        fraction *= d * c
        if abs(d * c - 1.0) < 1e-15:
            break
    return fraction


@compiled(float64(float64, float64))
def _student_tail_by_beta(t, degrees):
    """Return half the incomplete beta function I_x(degrees/2, 1/2), x = degrees/(degrees+t^2)."""
    a, b = 0.5 * degrees, 0.5
    x = degrees / (degrees + t * t)
    y = t * t / (degrees + t * t)
    if x <= 0.0:
        return 0.0
    if y <= 0.0:
        return 0.5
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    front = math.exp(a * math.log(x) + b * math.log(y) - log_beta)
    if x < (a + 1.0) / (a + b + 2.0):
        return 0.5 * front * _beta_fraction(a, b, x) / a
    return 0.5 * (1.0 - front * _beta_fraction(b, a, y) / b)


@compiled(float64(float64, float64))
def student_tail(t, degrees):
    """Return P(T > t) of Student's t with `degrees` >= 1 degrees of freedom, for t >= 0.

    The absolute error is below 1e-11 for every t and every number of degrees. Below 30 degrees
    it is half an incomplete beta function; from 30 on, Hill's normal deviate.

    References
    ----------
    G. W. Hill (1970), "Algorithm 395: Student's t-distribution", Communications of the ACM 13,
    doi:10.1145/355598.362775.
    """
    if not t < math.inf:
        return 0.0
    if degrees < _FIRST_NORMAL_DEGREE:
        return _student_tail_by_beta(t, degrees)
    a = degrees - 0.5
    b = 48.0 * a * a
    # An overflow of t * t would make the deviate NaN; this power is past every tail already.
    y = min(a * math.log1p(t * t / degrees), 1500.0)
    series = (((-0.4 * y - 3.3) * y - 24.0) * y - 85.5) / (0.8 * y * y + 100.0 + b)
    return normal_cdf(-((series + y + 3.0) / b + 1.0) * math.sqrt(y))
