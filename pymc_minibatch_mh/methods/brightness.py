"""Which rows are bright: the part of a firefly sampler's state beside the position.

A row has a likelihood L_i(θ) and a lower bound B_i(θ) of it. Given θ it is bright with probability
1 - B_i/L_i, independently of the others: its odds are o_i = (L_i - B_i)/B_i. With r_i the remainder
of a row after its expansion around the centre θ̂, c_i its bound and m(θ) = M(θ̂, θ),

    log(L_i/B_i) = β [r_i(θ) - r_i(θ̂)] + c_i m(θ),

which is 0 or more, as M bounds remainders in a move that begins in the centre. Which table gives
c_i and m follows from θ alone, or B_i would be no function of θ.

An update proposes each dark row to become bright with probability q, and accepts with probability
min(1, o_i/q); it proposes each bright row to become dark, and accepts with probability
min(1, q/o_i). That balances every pair of sets of bright rows. Dark rows that are not proposed are
neither read nor looked at.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels import counts as entry
from pymc_minibatch_mh.kernels.bound_tables import TOTAL, ask_for_bounds, smallest_table
from pymc_minibatch_mh.kernels.moves import Move, ratio_to_bound
from pymc_minibatch_mh.kernels.posterior import read_drawn
from pymc_minibatch_mh.kernels.scratch import scratch

#: Rows that are read at a time: what is known of them fits on the stack.
BLOCK = 1024
#: In place of the number of bright rows: they have yet to be drawn.
UNKNOWN = -1
# What a row goes through: it is drawn anew; dark, it was proposed to become bright; bright, it was
# proposed to become dark. A Python int is a type of its own for numba, these are not.
ANEW, DARK, BRIGHT = np.arange(3)


class Brightness(NamedTuple):
    """Which rows are bright.

    Parameters
    ----------
    q
        Probability that a dark row is proposed to become bright.
    rows : ndarray of int32, shape (N,)
        All rows, the bright ones first; written to by updates.
    n_bright : ndarray of int64, shape (1,)
        How many are bright, or UNKNOWN.
    at : ndarray, shape (d,)
        The position that they belong to.
    """

    q: float
    rows: np.ndarray
    n_bright: np.ndarray
    at: np.ndarray


def unknown_brightness(q: float, n_rows: int, size: int) -> Brightness:
    """Return what a chain of `size` coordinates starts with: nothing is drawn yet."""
    return Brightness(q, np.arange(n_rows, dtype=np.int32), np.array([UNKNOWN]), np.zeros(size))


class Place(NamedTuple):
    """A position as the end of a move from the centre, and what bounds remainders there.

    Parameters
    ----------
    move
        The move from the centre.
    table
        Number of the table, below 0 where there is none.
    m
        M of the move.
    """

    move: Move
    table: int
    m: float


@compiled(inlined=True)
def log_odds(excess):
    """Return log o_i = log[exp(excess) - 1] of a row with log(L_i/B_i) = excess.

    An excess below 0, which is rounding if the bound is valid, is taken for 0.
    """
    if not excess > 0.0:
        return -np.inf
    if excess > 1.0:
        return excess + math.log1p(-math.exp(-excess))
    return math.log(math.expm1(excess))


@compiled(inlined=True)
def chance_to_be_bright(odds, q, kind):
    """Return the probability that a row is bright afterwards.

    Parameters
    ----------
    odds
        log o_i.
    q
        Probability that a dark row is proposed.
    kind
        ANEW, or what a row was that was proposed to change: DARK or BRIGHT.
    """
    if kind == ANEW:
        return 1.0 / (1.0 + np.exp(-odds))
    if kind == DARK:
        return math.exp(min(0.0, odds - math.log(q)))
    return -math.expm1(min(0.0, math.log(q) - odds))


@compiled(inlined=True)
def place_of(posterior, position, whitened, centre):
    """Return a position as a place, by its whitened coordinates and by those of the centre."""
    move = Move(posterior.surrogate.centre, position, centre, whitened, whitened)
    table, m = smallest_table(posterior.tables, move, posterior.surrogate)
    return Place(move, table, m)


@compiled(inlined=True)
def size_of(posterior, place):
    """Return C m: the product of all B_i is that of the expansions times exp(-C m)."""
    return posterior.tables.heads[place.table, TOTAL] * place.m


@compiled(inlined=True)
def _swap(rows, i, j):
    rows[i], rows[j] = rows[j], rows[i]


@compiled()
def _read(place, posterior, rows, odds, counts):
    """Write the log odds of some rows at a place, and put the rows into their order.

    The counts remember the row that exceeds its bound most.
    """
    c, beta = posterior.tables.c[place.table], posterior.surrogate.inverse_temperature
    starts = posterior.space.term_starts
    ask_for_bounds(posterior.tables, place.table, rows)
    differences, scales = scratch(rows.size, np.float64), scratch(rows.size, np.float64)
    inside, ends = scratch(rows.size, np.int64), scratch(starts.size - 1, np.int64)
    read_drawn(posterior, place.move, rows, inside, ends, differences, scales)
    term = 0
    for i in range(rows.size):
        while i >= ends[term]:
            term += 1
        row = inside[i] + starts[term]
        rows[i] = row
        bound, change = c[row] * place.m, differences[i]
        # A lower bound says nothing of how far a row can rise.
        ratio = ratio_to_bound(0.0 if change > 0.0 else change, scales[i], bound, beta)
        if not ratio <= counts[entry.BOUND_RATIO]:
            counts[entry.BOUND_RATIO], counts[entry.BOUND_ROW] = ratio, row
        odds[i] = log_odds(beta * change + bound)


@compiled()
def _partition(brightness, place, posterior, part, kind, rng, counts):
    """Update the rows ``rows[part[0]:part[1]]``, which are all of a kind.

    Returns
    -------
    tuple
        Where those that are bright now end, which come first; the sum of their log odds.
    """
    odds, total, end = scratch(BLOCK, np.float64), 0.0, part[0]
    rows = brightness.rows
    for first in range(part[0], part[1], BLOCK):
        last = min(first + BLOCK, part[1])
        _read(place, posterior, rows[first:last], odds, counts)
        for i in range(first, last):
            own = odds[i - first]
            if rng.random() < chance_to_be_bright(own, brightness.q, kind):
                _swap(rows, i, end)
                total += own
                end += 1
    return end, total


@compiled()
def _propose_dark(brightness, n_bright, rng):
    """Propose dark rows, each with probability q, and bring them to the front of the dark ones.

    The gaps between them are geometric, so that the others are not even looked at.

    Returns
    -------
    int
        Where they end.
    """
    rows, end, place = brightness.rows, n_bright, n_bright
    log_left = math.log1p(-brightness.q) if brightness.q < 1.0 else -np.inf
    while True:
        gap = np.floor(math.log1p(-rng.random()) / log_left)
        if not gap < rows.size - place:
            return end
        place += int(gap)
        _swap(rows, end, place)
        end += 1
        place += 1


@compiled()
def update_brightness(brightness, place, posterior, rng, counts):
    """Update which rows are bright at a place, or draw it where it is not known.

    Returns
    -------
    tuple
        Sum of the log odds of the bright rows, and how many rows were read.
    """
    rows, n_bright = brightness.rows, brightness.n_bright[0]
    brightness.n_bright[0] = UNKNOWN
    if n_bright < 0:
        part = (np.int64(0), rows.size)
        end, odds = _partition(brightness, place, posterior, part, ANEW, rng, counts)
        brightness.n_bright[0] = end
        counts[entry.FULL_PASS] += 1.0
        return odds, rows.size
    proposed = _propose_dark(brightness, n_bright, rng)
    part = (n_bright, proposed)
    lit, new_odds = _partition(brightness, place, posterior, part, DARK, rng, counts)
    part = (np.int64(0), n_bright)
    left, odds = _partition(brightness, place, posterior, part, BRIGHT, rng, counts)
    # Between those that stayed bright and those that became so lie those that went dark.
    for k in range(lit - n_bright):
        _swap(rows, left + k, n_bright + k)
    brightness.n_bright[0] = left + lit - n_bright
    return odds + new_odds, proposed


@compiled()
def odds_of_bright(brightness, place, posterior, counts):
    """Return the sum of the log odds of the bright rows at a place."""
    odds, total = scratch(BLOCK, np.float64), 0.0
    n_bright = brightness.n_bright[0]
    for first in range(0, n_bright, BLOCK):
        last = min(first + BLOCK, n_bright)
        _read(place, posterior, brightness.rows[first:last], odds, counts)
        for i in range(last - first):
            total += odds[i]
    return total
