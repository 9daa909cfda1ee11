"""Differences of products and quotients in a move, and the rounding errors of differences.

Each difference takes the two points and their difference, which is known better than the points
are, and changes its sign exactly where the points change places. Where the points are far apart
nothing cancels, and the values are subtracted.
"""

from numba import literal_unroll

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.functions.base import operation


@compiled()
def product_change_at(before, after, step, other_before, other_after, other_step):
    """Return after * other_after - before * other_before.

    Halves of sums on both sides, so that the way back has the same change.
    """
    return 0.5 * (step * (other_before + other_after) + other_step * (before + after))


@compiled()
def product_doubt_at(
    middle, step, error, doubt, other_middle, other_step, other_error, other_doubt
):
    """Return the rounding error of a change of a product, by those of its factors.

    All errors are in units of the machine precision; `middle` is twice a factor's mean value.
    """
    here, there = 0.5 * abs(middle), 0.5 * abs(other_middle)
    one, other = abs(step), abs(other_step)
    return there * (doubt + one) + here * (other_doubt + other) + one * other_error + other * error


@compiled()
def product_error_at(value, error, other_value, other_error):
    """Return the rounding error of a product, by those of its factors."""
    here, there = abs(value), abs(other_value)
    return here * there + here * other_error + there * error


@compiled()
def ratio_at(part, whole):
    """Return |part / whole|, 0 where that has no value."""
    return abs(part / whole) if whole != 0.0 else 0.0


@compiled()
def relative_error_at(value, sensitivity):
    """Return the rounding error of a value with a relative error, in units of the precision.

    A value of 0 has none, as that of a softplus at -inf, whatever the error of its argument.
    """
    return abs(value) * (1.0 + sensitivity) if value != 0.0 else 0.0


@compiled()
def change_doubt_at(change, step, doubt, sensitivity, slope):
    """Return the rounding error of a function's change, by that of its argument's step.

    `sensitivity` is the relative error of the function's slope, and `slope` its value at one end:
    of a step that rounding has left nothing of, no ratio tells it.
    """
    rate = abs(change / step) if step != 0.0 else abs(slope)
    return rate * doubt + relative_error_at(change, sensitivity)


@compiled()
def sizes_at(*values):
    """Return a sum of absolute values."""
    result = 0.0
    # A constant of the model's may be an integer or of single precision.
    for value in literal_unroll(values):
        result += abs(value)
    return result


ProductChange, product_change = operation(product_change_at)
ProductDoubt, product_doubt = operation(product_doubt_at)
ProductError, product_error = operation(product_error_at)
ChangeDoubt, change_doubt = operation(change_doubt_at)
RelativeError, relative_error = operation(relative_error_at)
Ratio, ratio = operation(ratio_at)
Sizes, sizes = operation(sizes_at)
