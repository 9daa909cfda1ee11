"""Tables of bounds as kernels read them, and which of them serves a move."""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.data.arrays import prefetch
from pymc_minibatch_mh.kernels.draw import NO_SUPPLY, Supply, draw_alias, take
from pymc_minibatch_mh.kernels.handle import address_of, function_at
from pymc_minibatch_mh.kernels.moves import (
    FROM_CENTRE,
    GIVEN,
    Move,
    Products,
    move_between,
    products,
    size_of_move,
)
from pymc_minibatch_mh.kernels.roles import METRIC, METRIC_SIGNATURE
from pymc_minibatch_mh.kernels.vectors import copy_to, inner_of_line, scratch
from pymc_minibatch_mh.kernels.whitened_copy import NO_COPY, WhitenedCopy

# Columns of the headers of tables.
RADIUS, KIND, TOTAL = range(3)
NO_ROWS = np.empty(0, np.int64)
NO_DIRECTIONS = np.empty((0, 0))


class BoundTables(NamedTuple):
    """Bounds |dU_i| <= c_i M of all rows over nested regions, smallest first."""

    #: Radius, kind and Σc_i of every table, shape (T, 3).
    headers: np.ndarray
    #: The c_i, float32, and alias tables to draw rows in proportion to them, shape (T, N).
    c: np.ndarray
    thresholds: np.ndarray
    aliases: np.ndarray
    #: Address of a custom metric M (``METRIC``), for tables of the kind GIVEN.
    metric: int
    #: Rows that every update reads and never draws, in order: totals and alias tables are those
    #: of all others, and batches are drawn from these. Tests without bounds may have them too.
    heavy: np.ndarray = NO_ROWS
    #: Orthonormal whitened directions along which no row changes, shape (n, d): bounds take moves
    #: without their components along them.
    unread: np.ndarray = NO_DIRECTIONS
    #: Orthonormal whitened directions that all rows may depend on, shape (s, d), where they are
    #: known by groups of rows: M is then the largest of the groups', and `unread` is not asked.
    shared: np.ndarray = NO_DIRECTIONS
    #: Those of each group beside them, `each` of a group: shape (groups * each, d).
    own: np.ndarray = NO_DIRECTIONS
    each: int = 1
    #: Rows that were drawn ahead, where rows are stored: numbers of rows are then places in it.
    supply: Supply = NO_SUPPLY
    #: Whitened directions of rows, which thin candidates before they are evaluated.
    copy: WhitenedCopy = NO_COPY


@compiled(METRIC_SIGNATURE)
def no_metric(position, new):
    """Stand in where no table needs a metric of its own."""
    return np.inf


def no_tables() -> BoundTables:
    """Return the empty tables of a test without bounds."""
    empty = np.empty((0, 0))
    return BoundTables(
        np.empty((0, 3)),
        empty.astype(np.float32),
        empty,
        empty.astype(np.int32),
        address_of(no_metric),
    )


@compiled(inlined=True)
def _read_part(unread, vector, out):
    """Write a whitened vector without its components along directions that change no row."""
    copy_to(out, vector)
    for k in range(unread.shape[0]):
        along = -inner_of_line(unread, k, vector, 0, vector.size)
        for i in range(vector.size):
            out[i] += along * unread[k, i]


@compiled()
def _products_of_read(unread, here, there, step):
    """Return the largest changes of rows in a move, as products; symmetric as those of the move."""
    ends = scratch((3, step.size), np.float64)
    for part, vector in enumerate((here, there, step)):
        _read_part(unread, vector, ends[part])
    return products(Move(ends[0], ends[0], ends[0], ends[1], ends[2]))


@compiled(inlined=True)
def _add_along(directions, k, here, there, step, out):
    """Add the component along a direction to the products of a move."""
    a = inner_of_line(directions, k, here, 0, here.size)
    other = inner_of_line(directions, k, there, 0, here.size)
    b = inner_of_line(directions, k, step, 0, here.size)
    out[0] += a * a
    out[1] += other * other
    out[2] += b * b
    out[3] += a * b
    out[4] += other * b


@compiled()
def _products_of_groups(shared, own, each, here, there, step, out):
    """Write the largest changes of rows of each group in a move, as products, shape (groups, 5).

    Symmetric as those of the move. The squares of the two ends are returned, the largest of each.
    """
    common, found = scratch(5, np.float64), scratch(5, np.float64)
    common[:] = 0.0
    for k in range(shared.shape[0]):
        _add_along(shared, k, here, there, step, common)
    largest_here, largest_there = 0.0, 0.0
    for group in range(out.shape[0]):
        copy_to(found, common)
        for k in range(group * each, (group + 1) * each):
            _add_along(own, k, here, there, step, found)
        for i in range(5):
            out[group, i] = found[i]
        largest_here = max(largest_here, found[0])
        largest_there = max(largest_there, found[1])
    return Products(largest_here, largest_there, 0.0, 0.0, 0.0)


@compiled()
def _largest_size(groups, dots, order, kind):
    """Return M: the largest of all groups, or of the whole move where there are none."""
    if not groups.shape[0]:
        return size_of_move(dots, order, kind)
    largest = 0.0
    for g in range(groups.shape[0]):
        own = Products(groups[g, 0], groups[g, 1], groups[g, 2], groups[g, 3], groups[g, 4])
        largest = max(largest, size_of_move(own, order, kind))
    return largest


@compiled(inlined=True)
def smallest_table(tables, move, reference):
    """Return the table with the smallest C M of those that hold for a move, and its M.

    Symmetric in the two positions. Without a table the number is -1.
    """
    here, there, step = move.here, move.there, move.step
    groups = scratch((tables.own.shape[0] // tables.each, 5), np.float64)
    if groups.shape[0]:
        dots = _products_of_groups(
            tables.shared, tables.own, tables.each, here, there, step, groups
        )
    elif tables.unread.shape[0]:
        dots = _products_of_read(tables.unread, here, there, step)
    else:
        dots = products(move)
    outer = np.sqrt(max(dots.here, dots.there)) * (1.0 + 1e-12)
    best, best_size, best_m = -1, np.inf, np.inf
    known, m = -1, np.inf
    for k in range(tables.headers.shape[0]):
        if outer <= tables.headers[k, RADIUS]:
            kind = int(tables.headers[k, KIND])
            if kind == GIVEN:
                metric = function_at(tables.metric, METRIC)
                forth, back = metric(move.position, move.new), metric(move.new, move.position)
                # A table without bounds lets all rows decide, there and back.
                m = max(forth, back) if forth >= 0.0 and back >= 0.0 else np.inf
            elif kind == FROM_CENTRE:
                m = 1.0 if dots.here == 0.0 else np.inf
            elif kind != known:
                m = _largest_size(groups, dots, reference.order, kind)
            known = kind
            if tables.headers[k, TOTAL] * m < best_size:
                best, best_size, best_m = k, tables.headers[k, TOTAL] * m, m
    return best, reference.relative * best_m


@compiled(inlined=True)
def draw_rows(rng, tables, table, rows):
    """Draw rows in proportion to their bounds in a table; return whether they could be had."""
    if tables.supply.room > 0:
        return take(tables.supply, table, rows)
    draw_alias(rng, tables.thresholds[table], tables.aliases[table], rows, rows.size)
    return True


@compiled(inlined=True)
def ask_for_bounds(tables, table, drawn):
    """Have the bounds of drawn rows fetched, for when the rows have been read."""
    c = tables.c[table]
    for i in range(drawn.size):
        prefetch(c.ctypes.data + c.itemsize * drawn[i])


@compiled()
def table_of_move(tables, reference, position, new):
    """Return the same for two positions; functions called from Python are kept on disk."""
    return smallest_table(tables, move_between(reference, position, new), reference)


@compiled()
def sizes_between(tables, reference, ends, sizes):
    """Write C M of each of some moves, `ends` of shape (moves, 2, d); inf where none is bounded."""
    for k in range(sizes.size):
        best, m = table_of_move(tables, reference, ends[k, 0], ends[k, 1])
        sizes[k] = tables.headers[best, TOTAL] * m if best >= 0 else np.inf
