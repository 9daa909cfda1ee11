"""M(θ, θ'): how much the remainders of rows can change in a move, in units of their c_i.

With a, a' the whitened positions relative to the centre and b = a' - a, a row with arguments of
norm n_i changes its remainder by at most c_i M, c_i from the row and M from the move alone. All
of these are symmetric in the two positions.
"""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels.roles import BOUND_RATIO, BOUND_ROW

#: Kinds of tables of c_i: sums over directions; over the joint length of the arguments; one
#: argument; a metric that the user gave; the gap of a row above its lower bound in the centre,
#: which bounds how far it can fall in a move from there, and nothing else; widths of the ranges of
#: log-likelihoods, with M = 1.
DIRECTIONAL, JOINT, SHARP, GIVEN, FROM_CENTRE, RANGE = range(6)

#: Panels of the trapezoid along the path. The integrand is convex, so that any number is a bound.
PANELS = 4
# Spacing of angles in the search for the maximum of a trigonometric polynomial of degree 3, and
# by how much its values there can miss it: Ehlich, Zeller (1964), doi:10.1007/BF01111276.
_ANGLES = 24
_COSINES = np.cos(np.arange(_ANGLES) * np.pi / _ANGLES)
_SINES = np.sin(np.arange(_ANGLES) * np.pi / _ANGLES)
_THREE_HALVES = 3.0 * np.sqrt(3.0)
_MISSED = 1.0 / np.cos(1.5 * np.pi / _ANGLES)
#: Rounding error of a difference of log-likelihoods, in units of the larger of them.
ULPS = 64 * 2.220446049250313e-16
# Far more than the rounding errors of the inputs of M.
_ROUNDING = 1.0 + 1e-10


class Move(NamedTuple):
    """A proposed move, with the whitened coordinates of its ends and of its step, shape (d,)."""

    #: θ and θ'.
    position: np.ndarray
    new: np.ndarray
    #: a = L⁻¹(θ - θ̂), a' = L⁻¹(θ' - θ̂), and b = L⁻¹(θ' - θ), which a difference of the two would
    #: lose in a short step.
    here: np.ndarray
    there: np.ndarray
    step: np.ndarray


class Products(NamedTuple):
    """Inner products of a move in whitened coordinates: |a|², |a'|², |b|², a·b and a'·b."""

    here: float
    there: float
    step: float
    along_here: float
    along_there: float


@compiled(reassociate=True)
def whiten(whitener, end, start, out):
    """Write L⁻¹(end - start)."""
    for i in range(end.size):
        total = 0.0
        for j in range(i + 1):
            total += whitener[i, j] * (end[j] - start[j])
        out[i] = total


@compiled(inlined=True)
def move_between(reference, position, new):
    """Return the move between two positions."""
    here, there, step = np.empty(new.size), np.empty(new.size), np.empty(new.size)
    whiten(reference.whitener, position, reference.centre, here)
    whiten(reference.whitener, new, reference.centre, there)
    whiten(reference.whitener, new, position, step)
    return Move(position, new, here, there, step)


@compiled(inlined=True)
def products(move):
    """Return the inner products of a move."""
    here, there, step, along_here, along_there = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(move.step.size):
        a, other, b = move.here[i], move.there[i], move.step[i]
        here += a * a
        there += other * other
        step += b * b
        along_here += a * b
        along_there += other * b
    return Products(here, there, step, along_here, along_there)


@compiled()
def _cosine(along, square, step):
    product = np.sqrt(square * step)
    return min(abs(along) / product, 1.0) if product > 0.0 else 0.0


@compiled()
def _direction_one(w):
    """Return sup of s·x t·x over unit x, for unit s and t at a cosine of w."""
    return 0.5 * (1.0 + w)


@compiled()
def _direction_two(w):
    """Return sup of (s·x)² t·x over unit x, for unit s and t at a cosine of w."""
    q = np.sqrt(2.0 + 0.25 * w * w) - 0.5 * w
    sum_of_both = 2.0 + w * q
    return sum_of_both * np.sqrt(sum_of_both) / (q * _THREE_HALVES)


@compiled()
def _path(dots, order, directional):
    """Bound the integral along the path by a composite trapezoid."""
    if dots.step <= 0.0:
        return 0.0
    total = 0.0
    for k in range(PANELS + 1):
        t = k / PANELS
        square = (1.0 - t) * dots.here + t * dots.there - t * (1.0 - t) * dots.step
        square = max(square, 0.0)
        value = np.sqrt(square) if order == 1 else 0.5 * square
        if directional:
            along = (1.0 - t) * dots.along_here + t * dots.along_there
            w = _cosine(along, square, dots.step)
            value *= _direction_one(w) if order == 1 else _direction_two(w)
        total += 0.5 * value if k == 0 or k == PANELS else value
    return total / PANELS * np.sqrt(dots.step)


@compiled()
def _first_of_one_argument(dots):
    """Return the largest |v |v| - u |u||/2 over unit directions x, with u = x·a and v = x·a'.

    With |f″| <= D a first-order remainder changes by D times that at most. With the middle m of the
    move it is |x·b x·m| for u and v of one sign, and (x·b)²/4 + (x·m)² for others: the largest of
    the latter is an eigenvalue where m is shorter than b/2, and smaller than one of the former
    elsewhere.
    """
    half = 0.25 * dots.step
    middle = max(0.5 * (dots.here + dots.there) - half, 0.0)
    along = 0.5 * (dots.along_here + dots.along_there)
    largest = 0.5 * (np.sqrt(dots.step * middle) + abs(along))
    if middle < half:
        apart = np.sqrt((half - middle) ** 2 + along**2)
        largest = max(largest, 0.5 * (half + middle + apart))
    return largest


@compiled()
def _second_of_one_argument(dots):
    """Return the largest |(x·a')³ - (x·a)³|/6 over unit directions x.

    With |f‴| <= D a second-order remainder changes by D times that at most, whether or not the
    centre lies between the ends.
    """
    length = np.sqrt(dots.step)
    if length == 0.0:
        return 0.0
    first = dots.along_here / length
    second = np.sqrt(max(dots.here - first * first, 0.0))
    largest = 0.0
    for k in range(_ANGLES):
        here = first * _COSINES[k] + second * _SINES[k]
        change = length * _COSINES[k]
        there = here + change
        # Factorised: a difference of cubes would lose the change in a short step.
        largest = max(largest, abs(change) * (here * here + here * there + there * there))
    return largest * _MISSED / 6.0


@compiled()
def _ordered(dots):
    """Return the products in the one of a move's two directions that both of them have in common.

    Rounding would otherwise depend on the direction, and M has to be symmetric to the last bit.
    """
    swap = dots.here > dots.there
    if dots.here == dots.there:
        one, other = abs(dots.along_here), abs(dots.along_there)
        swap = one > other or (one == other and dots.along_here < 0.0)
    if not swap:
        return dots
    return Products(dots.there, dots.here, dots.step, -dots.along_there, -dots.along_here)


@compiled()
def size_of_move(dots, order, kind):
    """Return M for control variates of an order and a table: DIRECTIONAL, JOINT, SHARP or RANGE."""
    if kind == RANGE:
        return 1.0
    if order == 0:
        return np.sqrt(dots.step) * _ROUNDING
    dots = _ordered(dots)
    if order == 1 and kind == SHARP:
        return _first_of_one_argument(dots) * _ROUNDING
    if order == 1:
        ends = 0.5 * (dots.here + dots.there)
    else:
        ends = (dots.here * np.sqrt(dots.here) + dots.there * np.sqrt(dots.there)) / 6.0
    size = min(ends, _path(dots, order, kind == DIRECTIONAL))
    if kind == SHARP:
        size = min(size, _second_of_one_argument(dots))
    return size * _ROUNDING


@compiled()
def ratio_to_bound(difference, scale, bound, inverse_temperature):
    """Return |dU_i| / (c_i M), rounding errors of the difference taken off.

    `difference` is r_i(θ') - r_i(θ), `scale` the unit of its rounding errors, `bound` c_i
    M.
    """
    excess = inverse_temperature * (abs(difference) - ULPS * scale)
    # A change that is no number has no bound, and must not be lost among numbers.
    if np.isnan(excess):
        return np.inf
    if bound > 0.0:
        return max(excess, 0.0) / bound
    return np.inf if excess > 0.0 else 0.0


@compiled(inlined=True)
def hold_against_bound(row, difference, scale, bound, inverse_temperature, counts):
    """Return :func:`ratio_to_bound` of a row; the counts remember the largest, and its row."""
    ratio = ratio_to_bound(difference, scale, bound, inverse_temperature)
    if not ratio <= counts[BOUND_RATIO]:
        counts[BOUND_RATIO], counts[BOUND_ROW] = ratio, row
    return ratio
