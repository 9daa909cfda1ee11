"""Records are read on the compiled side as they were laid out, and scratch is a task's own."""

from typing import NamedTuple

import numpy as np
import pytest
from numba import njit, types
from numba.core.errors import TypingError
from numba.extending import overload

from pymc_minibatch_mh.kernels.handle import (
    Handle,
    LinkedRecord,
    function_at,
    lent,
    record_at,
    record_type,
)
from pymc_minibatch_mh.kernels.vectors import ON_STACK, scratch


@lent
class Inner(NamedTuple):
    matrix: np.ndarray
    rows: np.ndarray
    number: float


class Outer(NamedTuple):
    count: int
    inner: Inner
    vector: np.ndarray
    single: np.ndarray
    last: float


def record():
    rng = np.random.default_rng(81)
    inner = Inner(rng.normal(size=(2, 3)), rng.integers(-9, 9, 4), -0.1)
    single = rng.normal(size=(2, 5)).astype(np.float32)
    return Outer(-(2**40), inner, rng.normal(size=3), single, np.inf)


@njit
def read(own, out):
    own.vector[0] += 1.0
    out[0], out[1], out[2] = own.count, own.inner.number, own.last
    k = 3
    for value in own.inner.matrix.ravel():
        out[k] = value
        k += 1
    for value in own.inner.rows:
        out[k] = value
        k += 1
    for value in own.vector:
        out[k] = value
        k += 1
    for value in own.single.ravel():
        out[k] = value
        k += 1
    return own.single.shape[1]


@njit
def read_as_a_whole(handle, out):
    return read(record_at(handle), out)


@pytest.mark.parametrize("reads", [read, read_as_a_whole])
def test_a_record_is_read_as_it_was_laid_out(reads):
    own = record()
    first = own.vector[0]
    bound, out = LinkedRecord(own), np.full(26, np.nan)
    assert bound.entry(reads, types.float64[::1])(bound.address, out) == 5
    numbers = [own.count, own.inner.number, own.last]
    arrays = own.inner.matrix, own.inner.rows, own.vector, own.single
    np.testing.assert_array_equal(out, np.concatenate([numbers, *map(np.ravel, arrays)]))
    # What compiled code sees are the arrays themselves.
    assert own.vector[0] == first + 1.0


def test_an_array_that_cannot_be_written_to_makes_no_other_type():
    own = record()
    known = record_type(own)
    own.single.flags.writeable = False
    assert record_type(own) == known
    assert Handle(known) == Handle(record_type(own))


@pytest.mark.parametrize(
    "part", [np.ones((3, 3)).T[:2], np.ones(6)[::2], np.float64(1.0), True, None, [1.0], "text"]
)
def test_what_would_be_taken_for_other_words_is_refused(part):
    with pytest.raises(TypeError, match="record"):
        LinkedRecord(record()._replace(vector=part))


@njit
def read_nothing(handle):
    return handle.nothing


def test_a_field_that_is_not_there_is_named():
    with pytest.raises(TypingError, match="nothing"):
        LinkedRecord(record()).entry(read_nothing)


def one_more(number):
    class Same(NamedTuple):
        number: float

    @njit
    def more(own):
        return own.number + number

    Same.more = more
    return Same


def added(own):
    raise NotImplementedError


@overload(added)
def _added(own):
    function = own.instance_class.more
    return lambda own: function(own)


@njit
def add(handle):
    return added(record_at(handle))


def test_records_of_two_classes_of_one_name_are_told_from_each_other():
    one, other = one_more(1.0), one_more(2.0)
    linked = LinkedRecord(one(0.5))
    assert linked.entry(add)(linked.address) == 1.5
    linked = LinkedRecord(other(0.5))
    assert linked.entry(add)(linked.address) == 2.5


def test_a_kernel_is_called_by_its_address_with_that_of_a_record():
    linked = LinkedRecord(one_more(1.0)(0.5))
    function = linked.function(add, types.float64)
    called = types.FunctionType(types.float64(types.int64))

    @njit
    def call(function, address):
        return function_at(function, called)(address)

    assert call(function, linked.address) == 1.5


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
