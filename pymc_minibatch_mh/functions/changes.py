"""Differences of products between two points, and rounding errors of values and differences.

A difference is computed from both points and from the step between them, which is known more
accurately. Swapping the points exactly reverses its sign.
"""

from numba import literal_unroll

from pymc_minibatch_mh._jit import compile_by_numba
from pymc_minibatch_mh.functions.base import make_operation


@compile_by_numba()
def product_change_at(before, after, step, other_before, other_after, other_step):
    """Difference after * other_after - before * other_before; swapping the points negates it."""
    return 0.5 * (step * (other_before + other_after) + other_step * (before + after))


@compile_by_numba()
def product_doubt_at(
    middle, step, error, doubt, other_middle, other_step, other_error, other_doubt
):
    """Rounding error of the change of a product; `middle` is the sum of a factor's two values."""
    here, there = 0.5 * abs(middle), 0.5 * abs(other_middle)
    one, other = abs(step), abs(other_step)
    return there * (doubt + one) + here * (other_doubt + other) + one * other_error + other * error


@compile_by_numba()
def product_error_at(value, error, other_value, other_error):
    """Rounding error of a product, from the errors of its factors."""
    here, there = abs(value), abs(other_value)
    return here * there + here * other_error + there * error


@compile_by_numba()
def ratio_at(part, whole):
    """|part / whole|, or 0 where the quotient is undefined."""
    return abs(part / whole) if whole != 0.0 else 0.0


@compile_by_numba()
def relative_error_at(value, sensitivity):
    """Rounding error of a value, from its relative sensitivity; 0 if the value is 0."""
    return abs(value) * (1.0 + sensitivity) if value != 0.0 else 0.0


@compile_by_numba()
def change_doubt_at(change, step, doubt, sensitivity, slope):
    """Rounding error of a function's change; `slope` replaces change / step if the step is 0."""
    rate = abs(change / step) if step != 0.0 else abs(slope)
    return rate * doubt + relative_error_at(change, sensitivity)


@compile_by_numba()
def sizes_at(*values):
    """Sum of absolute values."""
    result = 0.0
    # Unrolled because types may differ: a constant may be an integer or of single precision.
    for value in literal_unroll(values):
        result += abs(value)
    return result


ProductChange, product_change = make_operation(product_change_at)
ProductDoubt, product_doubt = make_operation(product_doubt_at)
ProductError, product_error = make_operation(product_error_at)
ChangeDoubt, change_doubt = make_operation(change_doubt_at)
RelativeError, relative_error = make_operation(relative_error_at)
Ratio, ratio = make_operation(ratio_at)
Sizes, sizes = make_operation(sizes_at)
