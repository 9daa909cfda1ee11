"""Rows drawn with and without replacement, in memory of the size of the batch.

Numba unwraps a ``numpy.random.Generator`` in 8 µs, on every call: kernels are handed the four
addresses of its bit generator, which take none. The stream of random numbers is the same.

Which rows a test draws, by their bounds or evenly, does not depend on the position: of rows that
are stored, some of each table of bounds are drawn and fetched ahead. Each is used once, in order;
when the last of a table is used, Python is asked for more. Rows that are kept of candidates by a
copy in memory depend on the move: Python is asked for them by their numbers.
"""

import ctypes
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.random.distributions import random_loggam, random_poisson_mult
from numba.np.random.random_methods import buffered_bounded_lemire_uint32

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels.handle import function_at
from pymc_minibatch_mh.kernels.roles import GENERATOR


def generator_addresses(rng: np.random.Generator) -> np.ndarray:
    """Return the addresses of the bit generator's state and of its three functions, int64.

    The caller keeps `rng` alive for as long as the addresses are used.
    """
    interface = rng.bit_generator.ctypes
    functions = (interface.next_double, interface.next_uint64, interface.next_uint32)
    addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in functions]
    return np.array([interface.state_address, *addresses], dtype=np.int64)


@intrinsic
def generator_at(typing_context, state, next_double, next_uint64, next_uint32):
    """Return the generator whose bit generator lies at these addresses."""
    signature = GENERATOR(*[types.int64] * 4)

    def generate(context, builder, _signature, arguments):
        bits = cgutils.create_struct_proxy(types.NumPyRandomBitGeneratorType("bit_generator"))(
            context, builder
        )
        bits.state_address = bits.state = arguments[0]
        bits.fnptr_next_double = arguments[1]
        bits.fnptr_next_uint64 = arguments[2]
        bits.fnptr_next_uint32 = arguments[3]
        generator = cgutils.create_struct_proxy(GENERATOR)(context, builder)
        generator.bit_generator = bits._getvalue()
        # Nothing is owned: the Python object outlives the call.
        pointer = context.get_value_type(types.pyobject)
        bits.parent = generator.parent = ir.Constant(pointer, None)
        generator.meminfo = ir.Constant(cgutils.voidptr_t, None)
        return generator._getvalue()

    return signature, generate


@compiled(inlined=True)
def integer_below(rng, size):
    """Return ``rng.integers(0, size)``, for which Numba asks for memory each time."""
    if 1 < size < 2**32:
        return np.int64(buffered_bounded_lemire_uint32(rng.bit_generator, size - 1))
    return rng.integers(0, size)


@compiled()
def poisson(rng, mean):
    """Poisson number of a finite mean, as ``rng.poisson(mean)`` of NumPy draws it.

    Numba's own is wrong from a mean of 10 on: its rejection sampler cuts a proposal off towards
    zero where NumPy rounds it down, so that proposals in (-1, 0) are zeros instead of rejected.
    Hörmann (1993), doi:10.1016/0167-6687(93)90997-4.
    """
    if mean == 0.0:
        return 0
    if mean < 10.0:
        return random_poisson_mult(rng.bit_generator, mean)
    log_mean = np.log(mean)
    b = 0.931 + 2.53 * np.sqrt(mean)
    a = -0.059 + 0.02483 * b
    log_inverse_alpha = np.log(1.1239 + 1.1328 / (b - 3.4))
    accepted_at_once = 0.9277 - 3.6224 / (b - 2.0)
    while True:
        u, v = rng.random() - 0.5, rng.random()
        inside = 0.5 - abs(u)
        k = np.floor((2.0 * a / inside + b) * u + mean + 0.43)
        if inside >= 0.07 and v <= accepted_at_once:
            return np.int64(k)
        if k < 0.0 or (inside < 0.013 and v > inside):
            continue
        log_hat = np.log(v) + log_inverse_alpha - np.log(a / (inside * inside) + b)
        if log_hat <= -mean + k * log_mean - random_loggam(k + 1.0):
            return np.int64(k)


@compiled()
def build_alias(weights, thresholds, aliases):
    """Fill an alias table: keep place i with probability thresholds[i], else go to aliases[i].

    All have shape (N,); `weights`, float32, are non-negative with a positive sum. Vose (1991),
    doi:10.1109/32.92917.
    """
    size = weights.size
    total = 0.0
    for i in range(size):
        total += weights[i]
    small, large = np.empty(size, np.int32), np.empty(size, np.int32)
    n_small, n_large = 0, 0
    for i in range(size):
        thresholds[i] = size * (weights[i] / total)
        aliases[i] = i
        if thresholds[i] < 1.0:
            small[n_small] = i
            n_small += 1
        else:
            large[n_large] = i
            n_large += 1
    while n_small > 0 and n_large > 0:
        n_small -= 1
        low, high = small[n_small], large[n_large - 1]
        aliases[low] = high
        thresholds[high] -= 1.0 - thresholds[low]
        if thresholds[high] < 1.0:
            n_large -= 1
            small[n_small] = high
            n_small += 1
    # The rest differs from 1 by rounding.
    for k in range(n_large):
        thresholds[large[k]] = 1.0
    for k in range(n_small):
        thresholds[small[k]] = 1.0


#: Candidates whose memory is asked for before the first of them is looked at.
AHEAD = 256


@compiled()
def draw_alias(rng, thresholds, aliases, rows, count):
    """Write `count` places to `rows`, drawn with replacement in proportion to the weights."""
    size = thresholds.size
    for k in range(count):
        place = integer_below(rng, size)
        # Both are read at once: neither is likely to be in a cache.
        threshold, alias = thresholds[place], aliases[place]
        rows[k] = place if rng.random() < threshold else alias


_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)


@compiled()
def insert(table, row):
    """Put `row` into an open-addressing set; return whether it was new."""
    mask = table.size - 1
    place = np.int64((np.uint64(row) * _MULTIPLIER) >> _SHIFT) & mask
    while table[place] >= 0:
        if table[place] == row:
            return False
        place = (place + 1) & mask
    table[place] = row
    return True


@compiled()
def list_all(rows, n, total):
    """Return the first `n` of `rows` and after them, in order, the others of all `total`."""
    drawn = np.zeros(total, np.bool_)
    drawn[rows[:n]] = True
    return np.concatenate((rows[:n], np.flatnonzero(~drawn)))


@compiled()
def reserve(rows, table, n, target, total):
    """Return a list of rows and a set of them with room for `target`, keeping the first `n`.

    Room at least doubles, so that a test that looks often still does work in proportion to what
    it reads. From half of the `total` on, the list has all rows, and the set is empty.
    """
    if rows.size >= target:
        return rows, table
    if 2 * target > total:
        return list_all(rows, n, total), table[:0]
    size = 16
    while size < target:
        size *= 2
    grown = np.empty(size, np.int64)
    roomy = np.full(2 * size, -1, np.int64)
    for i in range(n):
        grown[i] = rows[i]
        insert(roomy, rows[i])
    return grown, roomy


@compiled()
def draw_more(rng, total, rows, table, n, target):
    """Extend a uniform draw of `n` distinct rows of `total` to `target` of them, in place.

    Drawing on is the same as having drawn more at once. `rows` and `table` are from
    :func:`reserve`.
    """
    if table.size == 0:
        for k in range(n, target):
            chosen = k + integer_below(rng, total - k)
            rows[k], rows[chosen] = rows[chosen], rows[k]
        return
    while n < target:
        for row in rng.integers(0, total, target - n):
            if insert(table, row):
                rows[n] = row
                n += 1


@compiled()
def skip_rows(numbers, skipped, rows):
    """Write the `numbers[i]`-th row, from 0 on, of all but the `skipped` ones, in order."""
    for i in range(numbers.size):
        # How many skipped rows lie before: the m-th does if as many others lie before it.
        low, high = 0, skipped.size
        while low < high:
            middle = (low + high) // 2
            if skipped[middle] - middle <= numbers[i]:
                low = middle + 1
            else:
                high = middle
        rows[i] = numbers[i] + low


@compiled(inlined=True)
def arrange(drawn, start, stop, term_starts, rows, ends):
    """Sort the drawn rows from `start` to `stop` by term and number them within their terms.

    Writes the row numbers to `rows` and the place where each term's rows end to `ends`.
    """
    n_terms = term_starts.size - 1
    if n_terms == 1:
        for i in range(start, stop):
            rows[i - start] = drawn[i]
        ends[0] = stop - start
        return
    ends[:] = 0
    for i in range(start, stop):
        ends[np.searchsorted(term_starts, drawn[i], side="right") - 1] += 1
    total = 0
    for k in range(n_terms):
        total += ends[k]
        ends[k] = total - ends[k]
    for i in range(start, stop):
        term = np.searchsorted(term_starts, drawn[i], side="right") - 1
        rows[ends[term]] = drawn[i] - term_starts[term]
        ends[term] += 1


@compiled()
def arrange_block(first, last, term_starts, rows, ends):
    """Number the consecutive rows `first` to `last` within their terms."""
    place = 0
    for k in range(term_starts.size - 1):
        low = max(first, term_starts[k])
        high = min(last, term_starts[k + 1])
        for row in range(low, high):
            rows[place] = row - term_starts[k]
            place += 1
        ends[k] = place


@compiled(inlined=True)
def number_through(rows, ends, term_starts):
    """Number rows that are arranged by term through all terms again."""
    for term in range(1, ends.size):
        for i in range(ends[term - 1], ends[term]):
            rows[i] += term_starts[term]


#: Columns of the places: next unused row, end of the rows that are there, supplies that were made.
NEXT, END, NUMBER = range(3)
#: (table, ALL for a pass, or ALL - n for n rows). Called from compiled code, run by Python.
REFILL_SIGNATURE = types.void(types.int64)
REFILL = types.FunctionType(REFILL_SIGNATURE)
#: The request for the change of all rows in the move, in the place of a table.
ALL = -1


class Supply(NamedTuple):
    """Rows that were drawn ahead for one chain."""

    #: NEXT, END and NUMBER of each table of bounds, shape (T, 3).
    places: np.ndarray
    #: Address of a function that draws more (``REFILL``).
    fetch_next: int
    #: Change of all rows in a move, after it was asked for, shape (1,).
    change: np.ndarray
    #: 1 from when Python is asked until it has answered, shape (1,). It stays so where that failed,
    #: or where an interrupt kept Python from beginning: nothing more is asked then.
    open_requests: np.ndarray
    #: Rows of one supply; 0 where all rows are in memory and none is drawn ahead.
    room: int
    #: Number of all rows, and the number of the row that lies in each place.
    n_rows: int
    rows: np.ndarray


_NO_ROWS, _NO_PLACES = np.empty(0, np.int64), np.empty((0, 3), np.int64)
NO_SUPPLY = Supply(_NO_PLACES, 0, np.empty(1), np.zeros(1, np.int64), 0, 0, _NO_ROWS)


@compiled(inlined=True)
def has_failed(supply):
    """Return whether a request to Python is open, so that its rows are not there."""
    return supply.open_requests[0] != 0


@compiled(inlined=True)
def ask(supply, what):
    """Ask Python for more rows of a table, or for a pass; return whether it has answered."""
    if not has_failed(supply):
        supply.open_requests[0] = 1
        function_at(supply.fetch_next, REFILL)(what)
    return not has_failed(supply)


@compiled(inlined=True)
def take(supply, table, rows):
    """Write the next unused rows of a table to `rows`; return whether they could be had."""
    places = supply.places
    for k in range(rows.size):
        if places[table, NEXT] == places[table, END] and not ask(supply, table):
            return False
        rows[k] = places[table, NEXT]
        places[table, NEXT] += 1
    return True


@compiled(inlined=True)
def fetch(supply, rows):
    """Have rows fetched that are stored, and write where they lie to `rows`, until the next are.

    Return whether they could be had. Rows in memory lie at their numbers.
    """
    if supply.room == 0 or rows.size == 0:
        return True
    for k in range(rows.size):
        supply.rows[k] = rows[k]
        rows[k] = k
    return ask(supply, ALL - rows.size)


@compiled(inlined=True)
def number_of(supply, place):
    """Return the number of the row that lies in a place."""
    return supply.rows[place] if supply.room > 0 else place


@compiled(inlined=True)
def change_of_all(supply):
    """Have all rows read outside of compiled code; return their change in the move, or NaN."""
    if not ask(supply, ALL):
        return np.nan
    return supply.change[0]
