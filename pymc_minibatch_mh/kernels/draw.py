"""Drawing row numbers without replacement, in memory of the size of the batch."""

import numpy as np

from pymc_minibatch_mh._jit import compiled

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
def reserve(rows, table, n, target):
    """Return a list of rows and a set of them with room for `target`, keeping the first `n`.

    Room at least doubles, so that a test that looks often still does work in proportion to what
    it reads.
    """
    if rows.size >= target:
        return rows, table
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
    """Extend a uniform draw of `n` distinct rows to `target` of them.

    Drawing on is the same as having drawn more at once.

    Parameters
    ----------
    rng : numpy.random.Generator
    total
        Number of rows to draw from. Drawing slows down as `target` comes near it.
    rows, table : ndarray of int64
        The rows drawn so far and the set of them, from :func:`reserve`; extended in place.
    n, target
        Rows drawn so far and rows wanted.
    """
    while n < target:
        row = rng.integers(0, total)
        if insert(table, row):
            rows[n] = row
            n += 1


@compiled()
def skip_rows(numbers, skipped, rows):
    """Write the rows that numbers among all rows but some stand for.

    Parameters
    ----------
    numbers : ndarray of int64
        k for the k-th of the rows that are not skipped, from 0 on.
    skipped : ndarray of int64
        Rows that no number stands for, in order.
    rows : ndarray of int64
        Overwritten, of the length of `numbers`.
    """
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
    """Sort drawn rows by term and number them within their terms.

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
