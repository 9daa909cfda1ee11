"""M(θ, θ'): how much the remainders of rows can change in a move, in units of their c_i.

With a, a' the whitened positions relative to the centre and b = a' - a, a row with arguments of
norm n_i changes its remainder by at most c_i M, c_i from the row and M from the move alone. All
of these are symmetric in the two positions.
"""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels.signatures import METRIC_SIGNATURE

#: Kinds of tables of c_i: sums over directions; over the joint length of the arguments; one
#: argument; a metric that the user gave.
DIRECTIONAL, JOINT, SHARP, GIVEN = range(4)

#: Panels of the trapezoid along the path. The integrand is convex, so that any number is a bound.
PANELS = 4
# Spacing of angles in the search for the maximum of a trigonometric polynomial of degree 3, and
# by how much its values there can miss it: Ehlich, Zeller (1964), doi:10.1007/BF01111276.
_ANGLES = 24
_COSINES = np.cos(np.arange(_ANGLES) * np.pi / _ANGLES)
_SINES = np.sin(np.arange(_ANGLES) * np.pi / _ANGLES)
_MISSED = 1.0 / np.cos(1.5 * np.pi / _ANGLES)
#: Rounding error of a difference of log-likelihoods, in units of the larger of them.
ULPS = 64 * 2.220446049250313e-16
# Far more than the rounding errors of what M is computed from.
_ROUNDING = 1.0 + 1e-10


class Move(NamedTuple):
    """Inner products of a move in whitened coordinates: |a|², |a'|², |b|², a·b and a'·b."""

    here: float
    there: float
    step: float
    along_here: float
    along_there: float


@compiled(METRIC_SIGNATURE)
def no_metric(position, new):
    """Stand in where no table needs a metric of its own."""
    return np.inf


@compiled()
def move_between(whitener, centre, position, new):
    """Return the inner products of a move."""
    here, there, step, along_here, along_there = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(position.size):
        a, other, b = 0.0, 0.0, 0.0
        for j in range(i + 1):
            a += whitener[i, j] * (position[j] - centre[j])
            other += whitener[i, j] * (new[j] - centre[j])
            b += whitener[i, j] * (new[j] - position[j])
        here += a * a
        there += other * other
        step += b * b
        along_here += a * b
        along_there += other * b
    return Move(here, there, step, along_here, along_there)


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
    return (2.0 + w * q) ** 1.5 / (q * 3.0**1.5)


@compiled()
def _path(move, order, directional):
    """Bound the integral along the path by a composite trapezoid."""
    if move.step <= 0.0:
        return 0.0
    total = 0.0
    for k in range(PANELS + 1):
        t = k / PANELS
        square = (1.0 - t) * move.here + t * move.there - t * (1.0 - t) * move.step
        square = max(square, 0.0)
        along = (1.0 - t) * move.along_here + t * move.along_there
        w = _cosine(along, square, move.step) if directional else 1.0
        if order == 1:
            value = np.sqrt(square) * _direction_one(w)
        else:
            value = 0.5 * square * _direction_two(w)
        total += 0.5 * value if k == 0 or k == PANELS else value
    return total / PANELS * np.sqrt(move.step)


@compiled()
def _of_one_argument(move):
    """Return the largest |(x·a')³ - (x·a)³|/6 over unit directions x.

    With |f‴| <= D a second-order remainder changes by D times that at most, whether or not the
    centre lies between the ends. (At first order it can change by more than |v² - u²|/2.)
    """
    length = np.sqrt(move.step)
    if length == 0.0:
        return 0.0
    first = move.along_here / length
    second = np.sqrt(max(move.here - first * first, 0.0))
    largest = 0.0
    for k in range(_ANGLES):
        here = first * _COSINES[k] + second * _SINES[k]
        change = length * _COSINES[k]
        there = here + change
        # Factorised: a difference of cubes would lose the change in a short step.
        largest = max(largest, abs(change) * (here * here + here * there + there * there))
    return largest * _MISSED / 6.0


@compiled()
def _ordered(move):
    """Return the move in the one of its two directions that both of them have in common.

    Rounding would otherwise depend on the direction, and M has to be symmetric to the last bit.
    """
    swap = move.here > move.there
    if move.here == move.there:
        one, other = abs(move.along_here), abs(move.along_there)
        swap = one > other or (one == other and move.along_here < 0.0)
    if not swap:
        return move
    return Move(move.there, move.here, move.step, -move.along_there, -move.along_here)


@compiled()
def size_of_move(move, order, kind):
    """Return M for one kind of table.

    Parameters
    ----------
    move : Move
    order
        Order of the control variates.
    kind
        DIRECTIONAL, JOINT or SHARP.
    """
    if order == 0:
        return np.sqrt(move.step) * _ROUNDING
    move = _ordered(move)
    if order == 1:
        ends = 0.5 * (move.here + move.there)
    else:
        ends = (move.here**1.5 + move.there**1.5) / 6.0
    size = min(ends, _path(move, order, kind == DIRECTIONAL))
    if kind == SHARP and order == 2:
        size = min(size, _of_one_argument(move))
    return size * _ROUNDING


@compiled()
def ratio_to_bound(difference, scale, bound, inverse_temperature):
    """Return |dU_i| / (c_i M), rounding errors of the difference taken off.

    Parameters
    ----------
    difference, scale
        r_i(θ') - r_i(θ), and what its rounding errors are relative to.
    bound
        c_i M.
    inverse_temperature
        β.
    """
    excess = inverse_temperature * (abs(difference) - ULPS * scale)
    # A change that is no number has no bound, and must not be lost among numbers.
    if np.isnan(excess):
        return np.inf
    if bound > 0.0:
        return max(excess, 0.0) / bound
    return np.inf if excess > 0.0 else 0.0
