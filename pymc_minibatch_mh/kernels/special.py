"""Special functions that numba lacks."""

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
