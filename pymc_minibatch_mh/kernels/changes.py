"""Differences of functions at two points, without the cancellation of their values.

Each takes the two points and their difference, which is known better than the points are, and
changes its sign exactly where the points change places. Where the points are far apart nothing
cancels, and the values are subtracted.
"""

import math

from pymc_minibatch_mh._jit import compiled

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
