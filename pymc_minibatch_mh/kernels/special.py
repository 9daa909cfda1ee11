"""Special functions that numba lacks, and differences of functions without cancellation.

R(x; y, z) = log Γ(1/x + y) - log Γ(1/x + z) + (y - z) log x is zero at x = 0 and smooth there. For
y - z a natural number it is Σ log(1 + j x) over j from z to y - 1. By Stirling's series (Abramowitz
and Stegun, 1964, 6.1.40) it is E(y) - E(z), in which nothing is infinite:

    E(s) = s [g(s x) - 1] + (s - 1/2) log(1 + s x) + Σ_k B_2k / (2k (2k - 1)) r^(2k - 1),

with g(u) = log(1 + u)/u and r = x / (1 + s x).

Each difference takes the two points and their difference, which is known better than the points
are, and changes its sign exactly where the points change places. Where the points are far apart
nothing cancels, and the values are subtracted.
"""

import math

import numpy as np

from pymc_minibatch_mh._jit import compiled

# From here on the asymptotic series below is good to the last digits.
_FAR = 12.0


@compiled()
def trigamma_of_positive(x):
    """Return the second derivative of log Γ for x > 0."""
    total = 0.0
    while x < _FAR:
        total += 1.0 / (x * x)
        x += 1.0
    u = 1.0 / (x * x)
    series = 1 / 6 - u * (1 / 30 - u * (1 / 42 - u * (1 / 30 - u * (5 / 66 - u * 691 / 2730))))
    return total + 1.0 / x + 0.5 * u + series * u / x


@compiled()
def trigamma(x):
    """Return the second derivative of log Γ, to about 1e-14 relative.

    The recurrence ψ'(x) = ψ'(x + 1) + 1/x² leads to large x, the reflection formula away from
    negative x, and Stirling's series ends it: Abramowitz and Stegun (1964), 6.4.6, 6.4.7, 6.4.12.
    """
    if not x > 0.0:
        sine = math.sin(math.pi * x)
        return (math.pi / sine) ** 2 - trigamma_of_positive(1.0 - x)
    return trigamma_of_positive(x)


# Bernoulli numbers B_2, B_4, ... of the asymptotic series, and from where on these are used.
_BERNOULLI = np.array([1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510])
_ASYMPTOTIC = 20.0


@compiled()
def polygamma(order, x):
    """Return a derivative of log Γ of order 2 to 4, by `order` 1 to 3; NaN for x <= 0.

    Recurrence and asymptotic series: Abramowitz and Stegun (1964), 6.4.6 and 6.4.11.
    """
    if order == 1:
        return trigamma(x)
    if not x > 0.0:
        return np.nan
    factor = 2.0 if order == 2 else 6.0
    total = 0.0
    while x < _ASYMPTOTIC:
        total += factor / x ** (order + 1)
        x += 1.0
    total += factor / order / x**order + 0.5 * factor / x ** (order + 1)
    for k in range(_BERNOULLI.size):
        # (2k + order - 1)! / (2k)!, with k counted from one
        rising = 2.0 * k + 3.0 if order == 2 else (2.0 * k + 3.0) * (2.0 * k + 4.0)
        total += _BERNOULLI[k] * rising / x ** (2 * k + 2 + order)
    return -total if order == 2 else total


@compiled()
def gamma_ratio(x, y, z):
    """Return log Γ(x + y) - log Γ(x + z), to the precision of the difference where x is large."""
    p, q, gap = x + y, x + z, y - z
    if not min(p, q) > _ASYMPTOTIC or abs(gap) > 0.5 * min(p, q):
        return math.lgamma(p) - math.lgamma(q)
    one, other = 1.0 / p, 1.0 / q
    tails = 0.0
    for k in range(_BERNOULLI.size):
        n = 2.0 * k + 2.0
        tails += _BERNOULLI[k] / (n * (n - 1.0)) * (one ** (2 * k + 1) - other ** (2 * k + 1))
    return (q - 0.5) * math.log1p(gap / q) + gap * math.log(p) - gap + tails


@compiled()
def gamma_ratio_slope(order, x, y, z):
    """Return the derivative of :func:`gamma_ratio` in x, of order 1 to 3; NaN outside x + y > 0.

    Recurrence and asymptotic series of both halves together, so that they do not cancel. With
    D_k = p^-k - q^-k, the series is one in D_k, and D_(k+1) = D_k / p + D_1 / q^k.
    """
    p, q, gap = x + y, x + z, y - z
    if not min(p, q) > 0.0:
        return np.nan
    total = 0.0
    while min(p, q) < _ASYMPTOTIC:
        one, other = 1.0 / p, 1.0 / q
        powers = 1.0 if order == 1 else one + other
        if order == 3:
            powers = 2.0 * (one * powers + other * other)
        total += gap * one * other * powers
        p += 1.0
        q += 1.0
    one, other = 1.0 / p, 1.0 / q
    first = -gap * one * other
    apart, power, leading = first, other, math.log1p(gap / q)
    for _ in range(order - 1):
        leading = -apart
        apart, power = one * apart + first * power, other * power
    total += leading - (apart if order == 3 else 0.5 * apart)
    for k in range(_BERNOULLI.size):
        n = 2.0 * k + 2.0
        rising = 1.0 / n if order == 1 else 1.0 if order == 2 else n + 1.0
        apart, power = one * apart + first * power, other * power
        total -= _BERNOULLI[k] * rising * apart
        apart, power = one * apart + first * power, other * power
    # The signs of the polygamma functions alternate.
    return -total if order == 2 else total


_ROOT_PI = math.sqrt(math.pi)
# From here on the continued fraction of the complementary error function takes few terms.
_FROM_TAIL, _TERMS = 5.0, 40
# exp(x) is lost beside one below the first, and beside x above the second.
_LOST, _ALONE = -37.0, 37.0
# Up to here the power series of log(1 + x)/x takes few terms, and closed forms cancel.
_NEAR, _POWERS = 0.3, 36


@compiled()
def _tail(x):
    """Return x √π exp(x²) erfc(x) inverted, for x > 5: Abramowitz and Stegun (1964), 7.1.14."""
    fraction = 1.0
    for k in range(_TERMS, 0, -1):
        fraction = 1.0 + 0.5 * k / (x * x * fraction)
    return fraction


@compiled()
def log_erfc(x):
    """Return log(erfc(x))."""
    if x < _FROM_TAIL:
        return math.log1p(-math.erf(x)) if x < 0.5 else math.log(math.erfc(x))
    return -x * x - math.log(x * _ROOT_PI) - math.log(_tail(x))


@compiled()
def erfc_slope(x):
    """Return the derivative of log(erfc(x))."""
    if x < _FROM_TAIL:
        return -2.0 / _ROOT_PI * math.exp(-x * x) / math.erfc(x)
    return -2.0 * x * _tail(x)


@compiled()
def log_any(x):
    """Return log(1 - exp(-exp(x)))."""
    if x < _LOST:
        return x
    size = math.exp(min(x, _ALONE))
    return math.log(-math.expm1(-size)) if size < 1.0 else math.log1p(-math.exp(-size))


@compiled()
def log_any_slope(x):
    """Return the derivative of :func:`log_any`: w/(exp(w) - 1), w = exp(x)."""
    if x < _LOST:
        return 1.0
    size = math.exp(min(x, _ALONE))
    return size / math.expm1(size) if size < 700.0 else 0.0


@compiled()
def log_softplus(x):
    """Return log(log(1 + exp(x)))."""
    if x < _LOST:
        return x
    return math.log(x if x > _ALONE else math.log1p(math.exp(x)))


@compiled()
def log_add_exp(x, y):
    """Return log(exp(x) + exp(y)), any of which may be -inf."""
    large, small = max(x, y), min(x, y)
    if not small > -np.inf:
        return large
    return large + math.log1p(math.exp(small - large))


@compiled()
def _log1p_ratio_near(order, x):
    total = 0.0
    for k in range(_POWERS, order - 1, -1):
        falling = 1.0
        for i in range(order):
            falling *= k - i
        total = total * x + (falling if k % 2 == 0 else -falling) / (k + 1.0)
    return total


@compiled()
def log1p_ratio_slope(order, x):
    """Return a derivative of log(1 + x)/x, of order 0 to 3."""
    if abs(x) < _NEAR:
        return _log1p_ratio_near(order, x)
    inverse = 1.0 / (1.0 + x)
    value = math.log1p(x) / x
    # x r' + r = 1/(1 + x), and the derivatives of that.
    right, times = inverse, 1.0
    for _ in range(order):
        value = (right - times * value) / x
        right *= -times * inverse
        times += 1.0
    return value


@compiled()
def log1p_ratio(x):
    """Return log(1 + x)/x, one at zero."""
    return log1p_ratio_slope(0, x)


# Factors of r, r³, r⁵, ... and from where on the series is used.
_STIRLING = np.array(
    [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400]
)
# A sum of so few terms is taken term by term.
_FEW = 24.0


@compiled()
def _shift(x, y, z):
    """Return by how much y and z are enlarged, so that the series is precise."""
    return max(0.0, math.ceil(_ASYMPTOTIC - 1.0 / x - min(y, z))) if x > 0.0 else 0.0


@compiled()
def _lack(x):
    """Return log(1 + x)/x - 1, to the precision of itself."""
    if x > _NEAR:
        return log1p_ratio(x) - 1.0
    total = 0.0
    for k in range(_POWERS, 0, -1):
        total = (1.0 / (k + 1.0) - total) * x
    return -total


@compiled()
def _end(s, x):
    """Return E(s)."""
    r = x / (1.0 + s * x)
    square, tail = r * r, 0.0
    for k in range(_STIRLING.size - 1, -1, -1):
        tail = tail * square + _STIRLING[k]
    return s * _lack(s * x) + (s - 0.5) * math.log1p(s * x) + r * tail


@compiled(inlined=True)
def _is_short(y, z):
    """Return whether R is a sum of few logarithms."""
    steps = abs(y - z)
    return steps <= _FEW and steps == math.floor(steps) and min(y, z) >= 0.0


@compiled()
def gamma_rise(x, y, z):
    """Return R(x; y, z) for x >= 0, NaN below."""
    if not x >= 0.0:
        return np.nan
    if _is_short(y, z):
        total = 0.0
        for i in range(int(abs(y - z))):
            total += math.log1p((min(y, z) + i) * x)
        return total if y >= z else -total
    shift, apart = _shift(x, y, z), 0.0
    for i in range(int(shift)):
        apart += math.log1p((y + i) * x) - math.log1p((z + i) * x)
    return _end(y + shift, x) - _end(z + shift, x) - apart


@compiled(inlined=True)
def _log_slope(order, s, e):
    """Return the derivative of log(1 + s x), by e = 1/(1 + s x)."""
    share = s * e
    return share if order == 1 else -share * share if order == 2 else 2.0 * share * share * share


@compiled()
def _end_slope(order, s, x):
    """Return the derivative of E(s) in x, of order 1 to 3."""
    e = 1.0 / (1.0 + s * x)
    r = x * e
    total = s ** (order + 1) * log1p_ratio_slope(order, s * x) + (s - 0.5) * _log_slope(order, s, e)
    power = 1.0
    for k in range(_STIRLING.size):
        m = 2.0 * k + 1.0
        # Of r^m, with `power` r^(m - 1). The derivatives of r are e², -2 s e³ and 6 s² e⁴.
        below = power / r if k > 0 and r > 0.0 else 0.0
        if order == 1:
            part = m * power * e**2
        elif order == 2:
            part = m * e**3 * ((m - 1.0) * below * e - 2.0 * s * power)
        else:
            again = (below / r if r > 0.0 else 0.0) if k > 1 else (1.0 if k == 1 else 0.0)
            part = (m - 1.0) * (m - 2.0) * again * e**2 - 6.0 * (m - 1.0) * s * below * e
            part = m * e**4 * (part + 6.0 * s * s * power)
        total += _STIRLING[k] * part
        power *= r * r
    return total


@compiled()
def gamma_rise_slope(order, x, y, z):
    """Return the derivative of :func:`gamma_rise` in x, of order 1 to 3."""
    if not x >= 0.0:
        return np.nan
    if _is_short(y, z):
        total = 0.0
        for i in range(int(abs(y - z))):
            one = min(y, z) + i
            total += _log_slope(order, one, 1.0 / (1.0 + one * x))
        return total if y >= z else -total
    shift, apart = _shift(x, y, z), 0.0
    for i in range(int(shift)):
        one, other = y + i, z + i
        apart += _log_slope(order, one, 1.0 / (1.0 + one * x))
        apart -= _log_slope(order, other, 1.0 / (1.0 + other * x))
    return _end_slope(order, y + shift, x) - _end_slope(order, z + shift, x) - apart


#: Distance beyond which values are subtracted, of exponents and of logarithms.
FAR, FAR_APART = 1.0, 0.5


@compiled()
def exp_change(before, after, step):
    """Return exp(after) - exp(before)."""
    if abs(step) > FAR:
        return math.exp(after) - math.exp(before)
    return 2.0 * math.exp(0.5 * (before + after)) * math.sinh(0.5 * step)


@compiled()
def log_change(before, after, step):
    """Return log(after) - log(before)."""
    total = before + after
    if not abs(step) < FAR_APART * total:
        return math.log(after) - math.log(before)
    return 2.0 * math.atanh(step / total)


@compiled()
def log1p_change(before, after, step):
    """Return log(1 + after) - log(1 + before)."""
    total = 2.0 + (before + after)
    if not abs(step) < FAR_APART * total:
        return math.log1p(after) - math.log1p(before)
    return 2.0 * math.atanh(step / total)


@compiled()
def _softplus(x):
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@compiled()
def softplus_change(before, after, step):
    """Return log(1 + exp(after)) - log(1 + exp(before))."""
    if abs(step) > FAR:
        return _softplus(after) - _softplus(before)
    half = math.sinh(0.5 * step)
    cosh = math.sqrt(1.0 + half * half)
    return 2.0 * math.atanh(half / (math.exp(-0.5 * (before + after)) + cosh))


@compiled()
def product_change(before, after, step, other_before, other_after, other_step):
    """Return after * other_after - before * other_before.

    Halves of sums on both sides, so that the way back has the same change.
    """
    return 0.5 * (step * (other_before + other_after) + other_step * (before + after))


@compiled()
def product_doubt(middle, step, error, doubt, other_middle, other_step, other_error, other_doubt):
    """Return the rounding error of a change of a product, by those of its factors.

    All errors are in units of the machine precision; `middle` is twice a factor's mean value.
    """
    here, there = 0.5 * abs(middle), 0.5 * abs(other_middle)
    one, other = abs(step), abs(other_step)
    return there * (doubt + one) + here * (other_doubt + other) + one * other_error + other * error


@compiled()
def product_error(value, error, other_value, other_error):
    """Return the rounding error of a product, by those of its factors."""
    here, there = abs(value), abs(other_value)
    return here * there + here * other_error + there * error


@compiled()
def ratio(part, whole):
    """Return |part / whole|, 0 where that has no value."""
    return abs(part / whole) if whole != 0.0 else 0.0


@compiled()
def change_doubt(change, step, doubt, sensitivity, slope):
    """Return the rounding error of a function's change, by that of its argument's step.

    `sensitivity` is the relative error of the function's slope, and `slope` what it is at one end:
    of a step that rounding has left nothing of, no ratio tells it.
    """
    rate = abs(change / step) if step != 0.0 else abs(slope)
    return rate * doubt + abs(change) * (1.0 + sensitivity)


@compiled()
def relative_error(value, sensitivity):
    """Return the rounding error of a value with a relative error, in units of the precision."""
    return abs(value) * (1.0 + sensitivity)


# From this bound on, an exponential draw is kept more often than a normal one.
_EXPONENTIAL_FROM = 0.5
_HALF, _ROOT = math.log(0.5), math.sqrt(0.5)


@compiled()
def log_share_above(bound):
    """Return the logarithm of the chance that a standard normal number exceeds a bound."""
    return _HALF + log_erfc(_ROOT * bound)


@compiled()
def normal_above(bound, rng):
    """Draw a standard normal number that exceeds a bound: Robert (1995), doi:10.1007/BF00143942."""
    if not bound > _EXPONENTIAL_FROM:
        draw = rng.standard_normal()
        while not draw > bound:
            draw = rng.standard_normal()
        return draw
    rate = 0.5 * (bound + math.sqrt(bound * bound + 4.0))
    while True:
        draw = bound + rng.standard_exponential() / rate
        if rng.random() <= math.exp(-0.5 * (draw - rate) ** 2):
            return draw
