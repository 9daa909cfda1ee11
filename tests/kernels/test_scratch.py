import numpy as np
import pytest
from numba import njit

from pymc_minibatch_mh.kernels.vectors import ON_STACK, scratch


@njit
def swapped(numbers):
    """Return the numbers after a way through two arrays that are wanted at the same time."""
    one, other = scratch(numbers.size, np.float64), scratch((numbers.size, 2), np.int64)
    for i in range(numbers.size):
        one[i] = numbers[i]
        other[i, 0], other[i, 1] = i, -i
    return [one[other[i, 0]] + (other[i, 0] + other[i, 1]) for i in range(numbers.size)]


@njit
def shapes(n, m):
    array = scratch((n, m), np.float64)
    return array.shape, array.strides, array.size


@njit
def addresses(count, times):
    return [scratch(count, np.float64).ctypes.data for _ in range(times)]


def of_bytes(size):
    return size // 8


@pytest.mark.parametrize("count", [0, 1, of_bytes(ON_STACK) - 1, of_bytes(ON_STACK)])
@pytest.mark.parametrize("more", [0, 1, 10_000])
def test_arrays_of_any_size_hold_what_is_written_to_them(count, more):
    numbers = np.random.default_rng(91).normal(size=count + more)
    if numbers.size:
        np.testing.assert_array_equal(swapped(numbers), numbers)


@pytest.mark.parametrize(("n", "m"), [(0, 3), (3, 5), (2_000, 7)])
def test_shapes_are_those_of_an_array_in_c_order(n, m):
    assert shapes(n, m) == ((n, m), (8 * m, 8), n * m)


def test_a_small_array_is_on_the_stack_and_a_large_one_is_not():
    small = addresses(of_bytes(ON_STACK), 3)
    assert len(set(small)) == 1
    on_stack, heap = small[0], addresses(of_bytes(ON_STACK) + 1, 1)[0]
    assert abs(on_stack - heap) > ON_STACK
