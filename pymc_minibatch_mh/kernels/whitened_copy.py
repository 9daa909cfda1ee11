"""Candidates dropped by their own ceilings, before their data are read: an 8-bit copy of rows.

A row's remainder depends on a move through the whitened gradients of its linear forms alone. With
P the projection on their span, |dU_i| <= c_i M(P a, P a'), which is far below c_i M(a, a') where
there are many coordinates: of a random direction a row sees 1/√d. With t = |P a|, t' = |P a'| and
δ = |P (a' - a)|, the *own ceiling* of a row is c_i times

    order 2    min{ (t³ + t'³)/6, δ max(t, t')²/2 },    and |x'³ - x³|/6 of one direction,
    order 1    min{ (t² + t'²)/2, δ max(t, t') },
    order 0    δ,

or κ times as much, but never more than c_i M. Candidates are drawn at the rates c_i M, which add up
without looking at any row; one is kept with probability (own ceiling)/(c_i M), before its data are
read, and the own ceiling takes the place of c_i M from there on. The share is symmetric in the two
ends, and is a function of the move alone: rows that are kept are independent Poisson counts.

Shares are rounded outwards. A line of the copy has the directions e of a row, orthonormal, as
integers Q of 8 bits with a scale q and the residual |e - q Q|, so that |e·w| is at most

    q |Q·w| + |e - q Q| |w| + (float32 arithmetic) |w|.

Directions that all rows may read, as of log σ, are kept once and in full.
"""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.data.arrays import load, prefetch
from pymc_minibatch_mh.kernels.draw import AHEAD
from pymc_minibatch_mh.kernels.vectors import inner, inner_of_line, scratch

#: Bytes of a scale and a residual, float32, and of a cache line.
HEAD, CACHE_LINE = 8, 64
#: Length of what a direction has left without others, relative to it, from which it is its own.
_DEPENDENT = 1e-8
#: Rounding of whitened gradients and positions, relative to lengths: far more than there is.
_WHITENED = 2.0**-20
#: Far more than the rounding errors of a share, and than that.
_ROUNDING, _ABOVE_ROUNDING = 1.0 + 1e-10, 1.0 + 1e-9
#: Length that products lose where numbers of float32 are too small to be kept.
_SMALLEST = 1e-30


class WhitenedCopy(NamedTuple):
    """Whitened directions of N rows in integers of 8 bits; of no rows where there is no copy."""

    #: A scale and a residual for each direction of a row, then the directions, in bytes: (N, B).
    lines: np.ndarray
    #: Orthonormal directions that every row may read, shape (s, d).
    shared: np.ndarray
    #: Directions of a row beside these.
    own: int = 1

    def aligned(self) -> "WhitenedCopy":
        """Return the same with lines that begin where cache lines do."""
        lines = empty_lines(*self.lines.shape)
        lines[:] = self.lines
        return self._replace(lines=lines)


NO_COPY = WhitenedCopy(np.empty((0, 0), np.int8), np.empty((0, 0)))


class EndsOfMove(NamedTuple):
    """A move as lines are multiplied by it: (a + a')/2 and (a' - a)/2."""

    #: Both in float32, shape (2, d).
    vectors: np.ndarray
    #: Lengths of a, a' and a' - a, and squares of their parts along shared directions.
    lengths: tuple[float, float, float]
    along: tuple[float, float, float]
    #: Errors of products by float32 at an end, and of the step.
    slack: tuple[float, float]
    #: Order of the control variates, and κ over M.
    order: int
    raised: float


def width_of(size: int, own: int) -> int:
    """Return the bytes of a line of `own` directions of `size` numbers: whole cache lines."""
    return -(-own * (size + HEAD) // CACHE_LINE) * CACHE_LINE


def empty_lines(n_rows: int, width: int) -> np.ndarray:
    """Return room for lines, which begin where cache lines do."""
    room = np.empty(n_rows * width + CACHE_LINE, np.int8)
    first = -room.ctypes.data % CACHE_LINE
    return room[first : first + n_rows * width].reshape(n_rows, width)


@compiled()
def _without(directions, k, vector):
    """Take its component along a direction off a vector."""
    along = inner(directions[k], vector)
    for j in range(vector.size):
        vector[j] -= along * directions[k, j]


@compiled()
def orthogonalize(directions, others, k):
    """Make a direction a unit vector orthogonal to the `others` and to those before it.

    Returns 0 where it is zero, 1, or infinity where it is not told from the others: it is then set
    to zero, and may point anywhere.
    """
    vector, largest = directions[k], 0.0
    for j in range(vector.size):
        largest = max(largest, abs(vector[j]))
    # Squares of small numbers, and of large ones, would be none.
    for j in range(vector.size):
        vector[j] = vector[j] / largest if largest > 0.0 else 0.0
    before = np.sqrt(inner(vector, vector))
    # The second time takes off the rounding errors of the first.
    for _ in range(2):
        for other in range(others.shape[0]):
            _without(others, other, vector)
        for other in range(k):
            _without(directions, other, vector)
    left = np.sqrt(inner(vector, vector))
    if left > _DEPENDENT * before and left < np.inf:
        for j in range(vector.size):
            vector[j] /= left
        return 1.0
    vector[:] = 0.0
    return 0.0 if before == 0.0 else np.inf


@compiled()
def _rounded_up(number):
    single = np.float32(number)
    return single if single >= number else np.float32(np.nextafter(single, np.float32(np.inf)))


@compiled()
def _pack(direction, length, heads, line):
    """Write a direction of length 0 or 1, or an unknown one, in integers of 8 bits."""
    largest = 0.0
    for j in range(direction.size):
        largest = max(largest, abs(direction[j]))
    scale = np.float32(largest / 127.0)
    square = 0.0
    for j in range(direction.size):
        whole = np.rint(direction[j] / scale) if scale > 0.0 else 0.0
        whole = min(max(whole, -127.0), 127.0)
        line[j] = np.int8(whole)
        square += (direction[j] - whole * np.float64(scale)) ** 2
    residual = np.sqrt(square) * _ROUNDING if length <= 1.0 else 1.0
    heads[0], heads[1] = scale, _rounded_up(residual)


@compiled()
def pack_rows(whitened, shared, lines):
    """Write lines of some rows.

    `whitened` are the whitened gradients of their forms, shape (rows, own, d), and are overwritten;
    `lines` has shape (rows, B).
    """
    own, size = whitened.shape[1], whitened.shape[2]
    for i in range(whitened.shape[0]):
        lines[i] = 0
        heads = lines[i, : own * HEAD].view(np.float32)
        for k in range(own):
            length = orthogonalize(whitened[i], shared, k)
            start = own * HEAD + k * size
            _pack(whitened[i, k], length, heads[2 * k :], lines[i, start : start + size])


@compiled(inlined=True)
def _squares_along(shared, vector):
    total = 0.0
    for k in range(shared.shape[0]):
        total += inner_of_line(shared, k, vector, 0, vector.size) ** 2
    return total


@compiled(inlined=True)
def ends_of_move(copy, move, order, raised, vectors):
    """Return a move as lines are multiplied by it; `vectors`, shape (2, d), are overwritten.

    They have no entries where there is no copy. Symmetric in the two ends, up to their order.
    """
    middle, half, none = 0.0, 0.0, (0.0, 0.0, 0.0)
    if not vectors.shape[1]:
        return EndsOfMove(vectors, none, none, (0.0, 0.0), order, 0.0)
    for j in range(vectors.shape[1]):
        one, other = 0.5 * (move.here[j] + move.there[j]), 0.5 * move.step[j]
        vectors[0, j], vectors[1, j] = np.float32(one), np.float32(other)
        middle += one * one
        half += other * other
    middle, half = np.sqrt(middle), np.sqrt(half)
    # |q Q| is at most 2; every operation of a sum of d products is off by half an ulp.
    relative = 2.0 * (vectors.shape[1] + 4.0) * 2.0**-24 + _WHITENED
    slack = relative * (middle + half) + _SMALLEST, 2.0 * relative * half + _SMALLEST
    lengths = (
        np.sqrt(inner(move.here, move.here)),
        np.sqrt(inner(move.there, move.there)),
        2.0 * half,
    )
    along = (
        _squares_along(copy.shared, move.here),
        _squares_along(copy.shared, move.there),
        _squares_along(copy.shared, move.step),
    )
    return EndsOfMove(vectors, lengths, along, slack, order, raised)


@compiled(reassociate=True, inlined=True)
def _products_of_line(lines, row, start, vectors):
    """Return Q·(a + a')/2 and Q·(a' - a)/2 in float32."""
    middle, half = np.float32(0.0), np.float32(0.0)
    first = np.uint64(start)
    for j in range(np.uint64(vectors.shape[1])):
        whole = np.float32(lines[row, first + j])
        middle += whole * vectors[0, j]
        half += whole * vectors[1, j]
    return middle, half


@compiled(inlined=True)
def _cube(x):
    return x * x * x


@compiled(inlined=True)
def _size_of_ends(here, there, step, order):
    """Return M of a projected move, by the lengths of its ends and of its step."""
    most = max(here, there)
    if order == 0:
        return step
    if order == 1:
        return min(0.5 * (here * here + there * there), step * most)
    return min((_cube(here) + _cube(there)) / 6.0, 0.5 * step * most * most)


@compiled(inlined=True)
def own_share(copy, ends, row):
    """Return the own ceiling of a row over c_i M: symmetric in the two ends, to the last bit."""
    here, there, step = ends.along
    own, size = copy.own, ends.vectors.shape[1]
    heads, sharp = copy.lines.ctypes.data + row * copy.lines.shape[1], np.inf
    for k in range(own):
        scale = np.float64(load(heads + HEAD * k, np.float32))
        residual = np.float64(load(heads + HEAD * k + 4, np.float32))
        middle, half = _products_of_line(copy.lines, row, own * HEAD + k * size, ends.vectors)
        x, other = scale * middle - scale * half, scale * middle + scale * half
        error = residual * ends.lengths[0] + ends.slack[0]
        other_error = residual * ends.lengths[1] + ends.slack[0]
        here += (abs(x) + error) ** 2
        there += (abs(other) + other_error) ** 2
        step += (2.0 * scale * abs(half) + residual * ends.lengths[2] + ends.slack[1]) ** 2
        if ends.order == 2 and own == 1 and copy.shared.shape[0] == 0:
            rise = _cube(other + other_error) - _cube(x - error)
            sharp = max(rise, _cube(x + error) - _cube(other - other_error)) / 6.0
    found = _size_of_ends(np.sqrt(here), np.sqrt(there), np.sqrt(step), ends.order)
    share = ends.raised * (min(found, sharp) * _ROUNDING)
    # Where anything overflowed the row is kept.
    return share if share < 1.0 else 1.0


@compiled(inlined=True)
def _share_of_ends(copy, ends, row):
    """Return the share by both ends alone: never below :func:`own_share`, and found in less time.

    It is infinite where rows have several directions, or another order than 2.
    """
    if copy.own != 1 or copy.shared.shape[0] or ends.order != 2:
        return np.inf
    heads = copy.lines.ctypes.data + row * copy.lines.shape[1]
    scale = np.float64(load(heads, np.float32))
    residual = np.float64(load(heads + 4, np.float32))
    middle, half = _products_of_line(copy.lines, row, copy.own * HEAD, ends.vectors)
    x = abs(scale * middle - scale * half) + residual * ends.lengths[0] + ends.slack[0]
    other = abs(scale * middle + scale * half) + residual * ends.lengths[1] + ends.slack[0]
    return ends.raised * (_cube(x) + _cube(other)) * _ABOVE_ROUNDING / 6.0


@compiled(inlined=True)
def has_copy(copy):
    """Return whether rows have lines."""
    return copy.lines.shape[0] > 0


@compiled()
def keep_candidates(copy, ends, thresholds, aliases, rng, rows):
    """Draw as many candidates as `rows` has room for; return how many are kept, put to its front.

    `thresholds` and `aliases` are an alias table of the c_i. All of a batch are drawn before the
    first is looked at: none is likely to be in a cache.
    """
    total, width, count = thresholds.size, copy.lines.shape[1], 0
    chances = scratch(AHEAD, np.float64)
    first_line = copy.lines.ctypes.data
    for first in range(0, rows.size, AHEAD):
        n = min(AHEAD, rows.size - first)
        # One by one, each would be an array of its own.
        drawn = rng.integers(0, total, n)
        for k in range(n):
            chances[k] = rng.random()
            prefetch(thresholds.ctypes.data + 8 * drawn[k])
            prefetch(aliases.ctypes.data + 4 * drawn[k])
        for k in range(n):
            threshold = thresholds[drawn[k]]
            # Given which of the two it is, the chance is uniform again.
            if chances[k] < threshold:
                chances[k] /= threshold
            else:
                chances[k] = (chances[k] - threshold) / (1.0 - threshold)
                drawn[k] = aliases[drawn[k]]
            for start in range(0, width, CACHE_LINE):
                prefetch(first_line + drawn[k] * width + start)
        for k in range(n):
            # Nearly all are dropped by both ends; where these overflow, the row is kept.
            if chances[k] >= _share_of_ends(copy, ends, drawn[k]):
                continue
            if chances[k] < own_share(copy, ends, drawn[k]):
                rows[count] = drawn[k]
                count += 1
    return count
