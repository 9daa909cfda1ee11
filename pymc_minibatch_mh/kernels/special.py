"""Special functions that numba lacks."""

import math

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
