"""Updates with an accept of their own for every element: thousands of effects from a few rows.

Rows of a model with groups read a *border* of all their unknowns and one *element* of each factor.
In coordinates (w, e) around a smoothed centre, border b = b̂ + T w, elements α = α̂ + R w + e, an
iteration makes moves of several kinds:

* the border, w → w' by its conditional normal, with all e as they are. It has coordinates of
  which a row reads several, *choices* with bounds of their own, and the rest, of length ‖Q w‖;
* the elements of a factor, each e → e' by its conditional normal. Given the border and the other
  factors they are independent, and no row reads two of them: all are proposed at once, and every
  one is accepted or rejected by itself;
* a scale φ with the elements of its factor, e' = m(φ') + (P/P')^½ (e - m(φ)), by partial
  non-centring: m and P are mean and precision of the conditional normals, and Σ ½ log(P/P') is the
  logarithm of the Jacobian;
* effects of several factors at once, e' = e + c V, by a random walk along the directions V in which
  factors that explain the same differences move least by themselves;
* coordinates that no row reads, without rows (:mod:`pymc_minibatch_mh.kernels.slices`).

Each move is tested as in :mod:`pymc_minibatch_mh.steps.tuna`, with κ times the ceiling of a row
(:mod:`pymc_minibatch_mh.kernels.parts`) in the place of c_i M (1 + χ C M). κ >= 1 buys acceptance
with rows, and is learned in warm-up for each kind of move. Normal approximations of the prior are
differences of the elements' own log-densities, at points that the move leaves where they are: they
only propose. The change of prior and Taylor expansion is exact.

Rows of an element that is beyond its radius at either end of a move are all read in that move, and
candidates among them are dropped. All rows are read where the border is beyond its radius, or where
Λ³ makes too many candidates. Both follow from sums over elements that do not change when the two
ends of any one element are exchanged, so that every element's test is reversible by itself, the
proposals of the others given. Papaspiliopoulos, Roberts & Sköld (2007),
doi:10.1214/088342307000000014, on partial non-centring.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import types

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels import roles as entry
from pymc_minibatch_mh.kernels.draw import AHEAD, generator_at, poisson
from pymc_minibatch_mh.kernels.handle import address_in, function_at, lent
from pymc_minibatch_mh.kernels.moves import Move, hold_against_bound
from pymc_minibatch_mh.kernels.parts import (
    Ends,
    Parts,
    Rates,
    ceiling,
    draw_candidates,
    elements_of,
    find_rates,
    first_outside,
    room_for_rates,
    share_of_candidates,
)
from pymc_minibatch_mh.kernels.posterior import BLOCK, Posterior, log_prior, read_drawn
from pymc_minibatch_mh.kernels.roles import ELEMENTS, VECTOR, thinned
from pymc_minibatch_mh.kernels.slices import Slices, move_without_rows
from pymc_minibatch_mh.kernels.vectors import copy_to, inner_of_line, scratch, sum_of_logs


@lent
class Geometry(NamedTuple):
    """Coordinates (w, e), and expansions in them; L elements of F factors, a border of n."""

    #: Coordinates of the position: of the border, shape (n,), and of the elements, (L,).
    border: np.ndarray
    places: np.ndarray
    #: T and its inverse, shape (n, n), and R, shape (n, L), with a line for each coordinate of w.
    factor: np.ndarray
    whitener: np.ndarray
    response: np.ndarray
    #: Posterior standard deviation of each e, given w.
    sd: np.ndarray
    #: The expansion of all rows: slopes and second derivatives in w and e, and of pairs of elements
    #: of different factors, the cells, in compressed lines.
    border_slope: np.ndarray
    slopes: np.ndarray
    border_hessian: np.ndarray
    between: np.ndarray
    hessian: np.ndarray
    cell_starts: np.ndarray
    cell_elements: np.ndarray
    cells: np.ndarray
    #: By how much the average over the posterior changes the rows' slopes in w and e: proposals are
    #: centred by it, and the expansion, which decides, is not.
    border_tilt: np.ndarray
    tilts: np.ndarray
    #: The prior at the centre: the part of its slope in w that is not the elements', directions of
    #: the elements' locations in w, shape (n, L), and precisions; of each factor the sum of the
    #: precisions, (F,), and of their products with the directions, (F, n, n).
    prior_slope: np.ndarray
    directions: np.ndarray
    precisions: np.ndarray
    total_precision: np.ndarray
    stiffness: np.ndarray
    #: Address of the log-densities of each factor's elements (``ELEMENTS``).
    densities: np.ndarray
    #: Scales that move with the elements of a factor: coordinates, steps, and the factors.
    scales: np.ndarray
    scale_steps: np.ndarray
    scale_factors: np.ndarray
    #: Directions V in e, shape (K, L), of a standard deviation each; slopes and second derivatives
    #: of the rows' expansion along them: (K,), with w (K, n), with e (K, L), and their own (K,).
    along: np.ndarray
    along_slope: np.ndarray
    along_border: np.ndarray
    along_elements: np.ndarray
    along_own: np.ndarray
    #: Coordinates of the border that rows choose, numbered in it, K for all choices; and Q, shape
    #: (r, n), of the rest of it, which is Q w in its own standard coordinates.
    chosen: np.ndarray
    read: np.ndarray


@lent
class Kinds(NamedTuple):
    """κ of each kind of move: the border, each factor's elements, each scale, directions."""

    kappa: np.ndarray


@lent
class Scratch(NamedTuple):
    """Memory of an iteration; nothing in it outlives one."""

    #: w and w', and the slope of the rows' expansion in w that is due to e; shape (n,) each.
    w: np.ndarray
    new_w: np.ndarray
    pull: np.ndarray
    #: e and e', and what the choices are off the centre, shape (L + K,) each.
    e: np.ndarray
    new_e: np.ndarray
    #: R w; the slope of each e, and its conditional mean and precision; the logarithm of the ratio
    #: of each element's test; shape (L,) each.
    moved: np.ndarray
    slope: np.ndarray
    mean: np.ndarray
    precision: np.ndarray
    log_ratio: np.ndarray
    #: Slope and precision of the prior of each element at e = 0, and zeros, shape (L,) each; and
    #: whether those of the factor that moves are the position's, shape (1,).
    prior_slope: np.ndarray
    prior_precision: np.ndarray
    zeros: np.ndarray
    expanded: np.ndarray
    #: Log-densities of elements at three points, shape (3, L).
    at: np.ndarray
    #: ‖Qw‖, ‖Qw'‖ and ‖Qw' - Qw‖ of a move, and the prior part at the position, shape (1,).
    norms: np.ndarray
    prior: np.ndarray
    #: Elements and choices beyond their radii, after their number, shape (L + K + 1,).
    outside: np.ndarray
    rates: Rates


def room_for_moves(n_border: int, n_elements: int, n_chosen: int, n_factors: int) -> Scratch:
    """Return memory for iterations of so many coordinates."""
    ends, own = n_elements + n_chosen, np.zeros((8, n_elements))
    w, new_w, pull = np.empty((3, n_border))
    return Scratch(
        w=w, new_w=new_w, pull=pull, e=np.empty(ends), new_e=np.empty(ends), moved=own[0],
        slope=own[1], mean=own[2], precision=own[3], log_ratio=own[4], prior_slope=own[5],
        prior_precision=own[6], zeros=own[7], expanded=np.zeros(1, np.int64),
        at=np.empty((3, n_elements)), norms=np.empty(3), prior=np.empty(1),
        outside=np.empty(ends + 1, np.int64), rates=room_for_rates(n_factors, ends),
    )  # fmt: skip


class ElementState(NamedTuple):
    """All that the iterations of one chain work with.

    Moves and their test are called by address, as each is compiled again with all that calls it.
    """

    #: Addresses of the functions (``MOVE``) for the border, elements, scales and directions, and of
    #: their test (``TEST``).
    move_border: int
    move_elements: int
    move_scale: int
    move_along: int
    test_rows: int

    posterior: Posterior
    #: The record of a Poisson test, with χ = 1: rates are raised by κ - 1 in the place of χ C M.
    test: Any
    geometry: Geometry
    parts: Parts
    kinds: Kinds
    #: Addresses of the chain's generator, shape (4,).
    generator: np.ndarray
    move: Move
    #: Efficiency of each kind of move, added to, shape (kinds, N_TALLIES).
    tallies: np.ndarray
    #: See ``KernelState``.
    worst_move: np.ndarray
    slices: Slices
    scratch: Scratch


#: (address of ElementState, factor or scale, counts) -> whether the chain goes on.
MOVED = types.int64(types.int64, types.int64, VECTOR)
MOVE = types.FunctionType(MOVED)

#: (address of ElementState, kind of move, factor or -1, log ratios, counts) -> the same.
TESTED = types.int64(types.int64, types.int64, types.int64, VECTOR, VECTOR)
TEST = types.FunctionType(TESTED)

# Columns of the tallies: decisions, candidates over κ, Σ of squared ratios of kept rows to their
# ceilings, kept rows over κ, kept rows.
DECISIONS, CANDIDATES, SQUARES, SIZE, KEPT = range(5)
#: Factors of the step of a scale, one of which is drawn for each walk; the share of moves that
#: draw it anew, from a t distribution around the centre, and its degrees of freedom.
_STEPS = np.array([0.3, 1.0, 3.0, 10.0])
_ANEW, _FREEDOM = 0.8, 4.0
#: Share of moves of border and elements that are random walks, and the length of these, in
#: conditional standard deviations. Where rows say little, as far out in a logistic regression, a
#: posterior has heavier tails than its expansion: independent proposals alone would stay there.
_WALKS, _STRIDE = 0.1, 1.0
#: Share of moves of elements by wider normals, and how much wider: of ten thousand elements some
#: are in the long tail of a skewed posterior, from which walks alone take hundreds of moves.
_WIDE, _WIDTH = 0.1, 1.4
#: Autoregressive coefficient of moves that are no walks. It is antithetic: means gain as much as
#: rejections cost, and squares lose a tenth of it. And the share of new noise.
_RHO = -0.25
_NEW = np.sqrt(1.0 - _RHO * _RHO)
#: Candidates beyond which all rows are read, as there is no room for more.
_MOST_CANDIDATES = 1e8
#: Moves along directions in an iteration at most, and the length of their walk.
_MOST_ALONG, _STRIDE_ALONG = 4, 2.4
#: Least share of the precision at the centre that a proposal has, and the most times of it.
_LEAST, _MOST = 0.05, 20.0


@compiled(inlined=True)
def _generator(generator):
    return generator_at(generator[0], generator[1], generator[2], generator[3])


@compiled(inlined=True)
def _ends(found):
    """Return both ends of the move that lies in the memory of an iteration."""
    return Ends(found.e, found.new_e, (found.norms[0], found.norms[1], found.norms[2]))


@compiled(inlined=True)
def _add_lines(matrix, weights, low, high, out):
    """Add lines of a matrix, shape (n, L), times weights, (n,), to entries of a vector, (L,)."""
    for j in range(weights.size):
        for g in range(np.uint64(low), np.uint64(high)):
            out[g] += weights[j] * matrix[j, g]


@compiled(inlined=True)
def _follow_border(geometry, w, moved):
    """Write R w, by which elements move with the border."""
    moved[:] = 0.0
    _add_lines(geometry.response, w, 0, moved.size, moved)


@compiled(inlined=True)
def _length(read, w):
    """Return ‖Q w‖."""
    total = 0.0
    for i in range(read.shape[0]):
        own = inner_of_line(read, i, w, 0, w.size)
        total += own * own
    return np.sqrt(total)


@compiled(inlined=True)
def _find_chosen(geometry, centre, position, e):
    """Write how far what rows choose of the border is from the centre."""
    for k in range(geometry.chosen.size):
        place = geometry.border[geometry.chosen[k]]
        e[geometry.places.size + k] = position[place] - centre[place]


@compiled()
def _find_coordinates(geometry, centre, position, found):
    """Write w, R w and e of a position."""
    n = geometry.border.size
    away = scratch(n, np.float64)
    for j in range(n):
        away[j] = position[geometry.border[j]] - centre[geometry.border[j]]
    for i in range(n):
        found.w[i] = inner_of_line(geometry.whitener, i, away, 0, n)
    _follow_border(geometry, found.w, found.moved)
    for g in range(np.uint64(geometry.places.size)):
        place = geometry.places[g]
        found.e[g] = position[place] - centre[place] - found.moved[g]
    _find_chosen(geometry, centre, position, found.e)


@compiled()
def _write_elements(own, e, f, position):
    """Write the elements of a factor for given R w and e."""
    for g in elements_of(own.parts, f):
        place = own.geometry.places[g]
        position[place] = own.posterior.reference.centre[place] + own.scratch.moved[g] + e[g]


@compiled(inlined=True)
def _densities(own, f, position, out):
    """Write the prior's log-density of each element of a factor to its part of `out`, (L,)."""
    low, high = own.parts.first[f], own.parts.first[f + 1]
    address, context = own.geometry.densities[f], own.posterior.space.context
    function_at(address, ELEMENTS)(position, context, out[low:high])


@compiled()
def _expand_prior(own, f, e, position, slopes, precisions):
    """Write slope and precision of the prior of each element of a factor, at some e.

    They are differences over a standard deviation either way; where there are none, as at the end
    of a support, 0 and those of the centre. The elements of `position` become those of these e.
    """
    found, sd, centre = own.scratch, own.geometry.sd, own.posterior.reference.centre
    for k in (0, 2, 1):
        for g in elements_of(own.parts, f):
            place = own.geometry.places[g]
            position[place] = centre[place] + found.moved[g] + e[g] + (k - 1) * sd[g]
        _densities(own, f, position, found.at[k])
    for g in elements_of(own.parts, f):
        back, middle, forth = found.at[0, g], found.at[1, g], found.at[2, g]
        slopes[g] = (forth - back) / (2.0 * sd[g])
        precisions[g] = -(forth + back - 2.0 * middle) / (sd[g] * sd[g])
        if not np.isfinite(slopes[g] + precisions[g]):
            slopes[g], precisions[g] = 0.0, own.geometry.precisions[g]


@compiled()
def _find_slopes(own, f):
    """Write the slope of the rows' expansion along each element of a factor, but for its own e."""
    low, high = own.parts.first[f], own.parts.first[f + 1]
    geometry, found = own.geometry, own.scratch
    copy_to(found.slope[low:high], geometry.slopes[low:high])
    _add_lines(geometry.between, found.w, low, high, found.slope)
    for g in elements_of(own.parts, f):
        slope = found.slope[g]
        for k in range(geometry.cell_starts[g], geometry.cell_starts[g + np.uint64(1)]):
            slope += geometry.cells[k] * found.e[geometry.cell_elements[k]]
        found.slope[g] = own.posterior.reference.inverse_temperature * slope


@compiled()
def _condition(own, f, prior_slopes, prior_precisions):
    """Write the conditional means and precisions of elements, given the rows' slopes."""
    found, geometry = own.scratch, own.geometry
    beta = own.posterior.reference.inverse_temperature
    for g in elements_of(own.parts, f):
        precision = prior_precisions[g] - beta * geometry.hessian[g]
        precision = max(precision, _LEAST / (geometry.sd[g] * geometry.sd[g]))
        slope = found.slope[g] + beta * geometry.tilts[g] + prior_slopes[g]
        found.mean[g] = slope / precision
        found.precision[g] = precision


@compiled()
def _condition_here(own, f):
    """Write the same at the position of the chain, of which `move.new` is a copy."""
    found = own.scratch
    if not found.expanded[0]:
        _expand_prior(own, f, found.zeros, own.move.new, found.prior_slope, found.prior_precision)
        found.expanded[0] = 1
    _condition(own, f, found.prior_slope, found.prior_precision)


@compiled()
def _add_evidence(own, kind, f, rows, in_full, log_ratio, counts):
    """Add what rows say to the log ratios of their decisions.

    Rows that are read in full add their changes; others were kept by their ceilings, and are
    thinned.
    """
    rng, ends = _generator(own.generator), _ends(own.scratch)
    beta, raised, tally = (
        own.posterior.reference.inverse_temperature,
        own.kinds.kappa[kind] - 1.0,
        own.tallies[kind],
    )
    numbers, differences, scales = np.empty(BLOCK, np.int64), np.empty(BLOCK), np.empty(BLOCK)
    for first in range(0, rows.size, BLOCK):
        drawn = rows[first : first + BLOCK]
        some = numbers[: drawn.size]
        read_drawn(own.posterior, own.move, drawn, some, differences, scales)
        for i in range(some.size):
            label = own.parts.elements[some[i], f] if f >= 0 else 0
            if label < 0:
                continue
            if in_full:
                log_ratio[label] += beta * differences[i]
                counts[entry.INVALID] += not np.isfinite(differences[i])
                continue
            bound, largest = ceiling(own.parts, ends, some[i]), counts[entry.BOUND_RATIO]
            ratio = hold_against_bound(some[i], differences[i], scales[i], bound, beta, counts)
            if not counts[entry.BOUND_RATIO] <= max(largest, 1.0):
                copy_to(own.worst_move[0], own.move.position)
                copy_to(own.worst_move[1], own.move.new)
            tally[SQUARES] += ratio * ratio
            change = min(max(-beta * differences[i], -bound), bound)
            keep, added = thinned(change, bound, raised, own.test)
            if rng.random() < keep:
                log_ratio[label] += added


@compiled()
def _rows_outside(own):
    """Return the rows of elements beyond their radii, each once."""
    parts, outside, most = own.parts, own.scratch.outside, 0
    ends = _ends(own.scratch)
    for k in range(1, outside[0] + 1):
        most += parts.starts[outside[k] + 1] - parts.starts[outside[k]]
    rows, count = np.empty(most, np.int64), 0
    for k in range(1, outside[0] + 1):
        for j in range(parts.starts[outside[k]], parts.starts[outside[k] + 1]):
            # Of two elements that are outside, the first factor's has the row.
            if first_outside(parts, ends, parts.rows[j]) == outside[k]:
                rows[count] = parts.rows[j]
                count += 1
    return rows[:count]


@compiled()
def _keep_candidates(own, kappa, limit):
    """Return the candidates that are kept by their ceilings, with repetition."""
    rng, ends = _generator(own.generator), _ends(own.scratch)
    parts, rates, total, count = own.parts, own.scratch.rates, poisson(rng, kappa * limit), 0
    kept, rows, chances = np.empty(total, np.int64), np.empty(AHEAD, np.int64), np.empty(AHEAD)
    some_outside = own.scratch.outside[0] > 0
    for first in range(0, total, AHEAD):
        n = min(AHEAD, total - first)
        draw_candidates(parts, rates, rng, rows[:n], chances[:n])
        for k in range(n):
            share, _ = share_of_candidates(parts, ends, rates, limit, rows[k])
            if some_outside and first_outside(parts, ends, rows[k]) >= 0:
                continue
            if chances[k] < share:
                kept[count] = rows[k]
                count += 1
    return kept[:count]


@compiled()
def _add_evidence_of_all(own, kind, f, log_ratio, counts):
    """Read all rows in full."""
    total = own.parts.border.size
    for first in range(0, total, BLOCK):
        rows = np.arange(first, min(first + BLOCK, total))
        _add_evidence(own, kind, f, rows, True, log_ratio, counts)
    counts[entry.FULL_PASS] += 1.0
    counts[entry.N_OBS] += total


@compiled()
def test_rows(own, kind, f, log_ratio, counts):
    """Add to each decision's log ratio what rows say; return whether the chain goes on.

    The move is `own.move`; decisions are those of a factor's elements, or at f = -1 a single one.
    """
    parts, kappa, outside = own.parts, own.kinds.kappa[kind], own.scratch.outside
    ends = _ends(own.scratch)
    limit = find_rates(parts, ends, own.scratch.rates, outside)
    counts[entry.N_LOOKS] += 1.0
    beyond = not max(ends.border[0], ends.border[1]) <= parts.border_radius
    if beyond or not kappa * limit <= min(own.test.max_rate, _MOST_CANDIDATES):
        _add_evidence_of_all(own, kind, f, log_ratio, counts)
        return 1
    if outside[0]:
        rows = _rows_outside(own)
        _add_evidence(own, kind, f, rows, True, log_ratio, counts)
        counts[entry.N_OBS] += rows.size
        counts[entry.N_GROUPS_IN_FULL] += outside[0]
    kept = _keep_candidates(own, kappa, limit)
    counts[entry.N_CANDIDATES] += kappa * limit
    counts[entry.N_OBS] += kept.size
    tally = own.tallies[kind]
    tally[CANDIDATES] += limit
    tally[KEPT] += kept.size
    tally[SIZE] += kept.size / kappa
    if kept.size:
        _add_evidence(own, kind, f, kept, False, log_ratio, counts)
    return 1 if counts[entry.BOUND_RATIO] <= 1.0 or own.test.tolerates else 0


@compiled(inlined=True)
def _probability(log_ratio):
    """Return min(1, exp(log_ratio)); a log ratio of NaN or -inf rejects."""
    return np.exp(min(0.0, log_ratio)) if log_ratio > -np.inf else 0.0


@compiled(inlined=True)
def _passes_first_stage(delayed, cheap, rng):
    """Return whether a move goes on to its rows: delayed acceptance has the cheap part decide."""
    return delayed == 0 or rng.random() < _probability(cheap)


@compiled()
def _factorize(matrix):
    """Overwrite a matrix by its lower Cholesky factor; pivots have a least share of the largest."""
    n, largest = matrix.shape[0], 0.0
    for j in range(n):
        largest = max(largest, matrix[j, j])
    for j in range(n):
        for i in range(j, n):
            matrix[i, j] -= inner_of_line(matrix, i, matrix[j], 0, j)
        pivot = np.sqrt(max(matrix[j, j], 1e-6 * largest))
        matrix[j, j] = pivot
        for i in range(j + 1, n):
            matrix[i, j] /= pivot


@compiled()
def _multiply_back(factor, right):
    """Overwrite a vector x by Lᵀ x; an empty L is the identity."""
    n = factor.shape[0]
    for i in range(n):
        total = 0.0
        for k in range(i, n):
            total += factor[k, i] * right[k]
        right[i] = total


@compiled()
def _solve_back(factor, right):
    """Overwrite a vector x by L⁻ᵀ x; an empty L is the identity."""
    n = factor.shape[0]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            right[i] -= factor[k, i] * right[k]
        right[i] /= factor[i, i]


@compiled()
def _solve(factor, right):
    """Overwrite a vector x by L⁻¹ x; an empty L is the identity."""
    for i in range(factor.shape[0]):
        right[i] = (right[i] - inner_of_line(factor, i, right, 0, i)) / factor[i, i]


@compiled()
def _border_slopes(own, position, slopes, matrix):
    """Write the slope in w of rows and prior at w = 0, and the precision of w given all e.

    Of `position` the border and the elements are overwritten. Returned is nothing that depends on
    the border's own place.
    """
    geometry, found = own.geometry, own.scratch
    n, beta = geometry.border.size, own.posterior.reference.inverse_temperature
    for j in range(n):
        position[geometry.border[j]] = own.posterior.reference.centre[geometry.border[j]]
        slopes[j] = beta * (geometry.border_slope[j] + geometry.border_tilt[j])
        slopes[j] += geometry.prior_slope[j]
        for i in range(matrix.shape[0]):
            matrix[i, j] = 1.0 if i == j else 0.0
    found.moved[:] = 0.0
    for f in range(geometry.densities.size):
        _write_elements(own, found.e, f, position)
    for f in range(geometry.densities.size):
        low, high = own.parts.first[f], own.parts.first[f + 1]
        _expand_prior(own, f, found.e, position, found.mean, found.precision)
        total = 0.0
        for g in elements_of(own.parts, f):
            total += found.precision[g]
        for j in range(n):
            slopes[j] += inner_of_line(geometry.directions, j, found.mean, low, high)
        if geometry.total_precision[f] > 0.0:
            share = min(max(total / geometry.total_precision[f], _LEAST), _MOST)
            for i in range(n):
                for j in range(n):
                    matrix[i, j] += (share - 1.0) * geometry.stiffness[f, i, j]
    for j in range(n):
        found.pull[j] = inner_of_line(geometry.between, j, found.e, 0, geometry.places.size)
        slopes[j] += beta * found.pull[j]


@compiled()
def _propose_border(own, rng, slopes, matrix):
    """Propose w' from its conditional normal, autoregressively, or a walk by it.

    Returned is log q(w | w') - log q(w' | w).
    """
    found, n = own.scratch, slopes.size
    mean, noise, away = scratch(n, np.float64), scratch(n, np.float64), scratch(n, np.float64)
    copy_to(mean, slopes)
    _factorize(matrix)
    _solve(matrix, mean)
    _solve_back(matrix, mean)
    for j in range(n):
        noise[j] = rng.standard_normal()
    if rng.random() < _WALKS:
        _solve_back(matrix, noise)
        for i in range(n):
            found.new_w[i] = found.w[i] + _STRIDE / np.sqrt(float(n)) * noise[i]
        return 0.0
    for i in range(n):
        away[i] = found.w[i] - mean[i]
    _multiply_back(matrix, away)
    log_q = 0.0
    for i in range(n):
        noise[i] = _RHO * away[i] + _NEW * noise[i]
        log_q += 0.5 * (noise[i] * noise[i] - away[i] * away[i])
    _solve_back(matrix, noise)
    for i in range(n):
        found.new_w[i] = mean[i] + noise[i]
    return log_q


@compiled()
def _change_of_border(own, slopes):
    """Return the change of the rows' expansion from w to w', of which e stays as it is."""
    geometry, found, n = own.geometry, own.scratch, slopes.size
    total, middle = 0.0, scratch(n, np.float64)
    for j in range(n):
        middle[j] = 0.5 * (found.w[j] + found.new_w[j])
    for j in range(n):
        slopes[j] = geometry.border_slope[j]
        slopes[j] += found.pull[j] + inner_of_line(geometry.border_hessian, j, middle, 0, n)
    for j in range(n):
        total += slopes[j] * (found.new_w[j] - found.w[j])
    return own.posterior.reference.inverse_temperature * total


@compiled()
def _write_border(own, position):
    """Write border and elements of a position for w' and e; R w' overwrites `scratch.moved`."""
    geometry, found, n = own.geometry, own.scratch, own.geometry.border.size
    centre = own.posterior.reference.centre
    for i in range(n):
        place = geometry.border[i]
        position[place] = centre[place] + inner_of_line(geometry.factor, i, found.new_w, 0, n)
    _follow_border(geometry, found.new_w, found.moved)
    for g in range(np.uint64(geometry.places.size)):
        place = geometry.places[g]
        position[place] = centre[place] + found.moved[g] + found.e[g]


@compiled()
def move_border(own, _, counts):
    """Move the border; return whether the chain goes on."""
    found, move, n, rng = own.scratch, own.move, own.geometry.border.size, _generator(own.generator)
    slopes, log_ratio = scratch(n, np.float64), scratch(1, np.float64)
    # Without elements, whose prior bends as they move, it stays the identity.
    size = n if own.geometry.densities.size else 0
    matrix = np.empty((size, size))
    copy_to(move.new, move.position)
    _border_slopes(own, move.new, slopes, matrix)
    log_q = _propose_border(own, rng, slopes, matrix)
    _write_border(own, move.new)
    prior_there = log_prior(own.posterior, move.new)
    cheap = prior_there - found.prior[0] + log_q + _change_of_border(own, slopes)
    probability, goes_on = 0.0, 1
    if np.isfinite(cheap) and _passes_first_stage(own.test.delayed, cheap, rng):
        log_ratio[0] = 0.0 if own.test.delayed else cheap
        for i in range(n):
            slopes[i] = found.new_w[i] - found.w[i]
        read = own.geometry.read
        found.norms[0], found.norms[1] = _length(read, found.w), _length(read, found.new_w)
        found.norms[2] = _length(read, slopes)
        copy_to(found.new_e, found.e)
        _find_chosen(own.geometry, own.posterior.reference.centre, move.new, found.new_e)
        goes_on = function_at(own.test_rows, TEST)(address_in(own), 0, -1, log_ratio, counts)
        probability = _probability(log_ratio[0])
        counts[entry.LOG_RATIO] = log_ratio[0]
    counts[entry.INVALID] += not np.isfinite(cheap)
    own.tallies[0, DECISIONS] += 1.0
    counts[entry.ACCEPT_BORDER] += probability
    if goes_on and rng.random() < probability:
        copy_to(move.position, move.new)
        copy_to(found.w, found.new_w)
        copy_to(found.e, found.new_e)
        counts[entry.ACCEPTED] += 1.0
        found.prior[0] = prior_there
        return 1
    _follow_border(own.geometry, found.w, found.moved)
    return goes_on


@compiled(inlined=True)
def _stay_on_border(found, geometry):
    """Have the border stay where it is in the next move."""
    found.norms[0] = found.norms[1] = _length(geometry.read, found.w)
    found.norms[2] = 0.0


@compiled()
def _propose_elements(own, f, rng):
    """Propose all elements of a factor; write the cheap part of each one's log ratio.

    Elements that it rejects stay where they are, and change no row.
    """
    found, move, geometry = own.scratch, own.move, own.geometry
    beta = own.posterior.reference.inverse_temperature
    copy_to(move.new, move.position)
    _find_slopes(own, f)
    found.expanded[0] = 0
    _condition_here(own, f)
    copy_to(found.new_e, found.e)
    kind = rng.random()
    walks, width = kind < _WALKS, 1.0 if kind < 1.0 - _WIDE else _WIDTH
    for g in elements_of(own.parts, f):
        noise = rng.standard_normal() / np.sqrt(found.precision[g])
        if walks:
            found.new_e[g] = found.e[g] + _STRIDE * noise
        else:
            away = found.e[g] - found.mean[g]
            found.new_e[g] = found.mean[g] + _RHO * away + _NEW * width * noise
    _write_elements(own, found.new_e, f, move.new)
    _densities(own, f, move.position, found.at[0])
    _densities(own, f, move.new, found.at[1])
    for g in elements_of(own.parts, f):
        here, there = found.e[g], found.new_e[g]
        squares = there * there - here * here
        away_here, away_there = here - found.mean[g], there - found.mean[g]
        cheap = found.at[1, g] - found.at[0, g] + found.slope[g] * (there - here)
        cheap += 0.5 * beta * geometry.hessian[g] * squares
        if not walks:
            narrow = found.precision[g] / (width * width)
            cheap += 0.5 * narrow * (away_there * away_there - away_here * away_here)
        if np.isfinite(cheap) and _passes_first_stage(own.test.delayed, cheap, rng):
            found.log_ratio[g] = 0.0 if own.test.delayed else cheap
        else:
            found.log_ratio[g] = -np.inf
            found.new_e[g] = here
            move.new[geometry.places[g]] = move.position[geometry.places[g]]


@compiled()
def move_elements(own, f, counts):
    """Move the elements of a factor, each by itself; return whether the chain goes on."""
    found, move, geometry, rng = own.scratch, own.move, own.geometry, _generator(own.generator)
    low, high = own.parts.first[f], own.parts.first[f + 1]
    _propose_elements(own, f, rng)
    _stay_on_border(found, geometry)
    if not function_at(own.test_rows, TEST)(address_in(own), 1 + f, f, found.log_ratio, counts):
        return 0
    total = 0.0
    for g in elements_of(own.parts, f):
        probability = _probability(found.log_ratio[g])
        total += probability
        if rng.random() < probability:
            move.position[geometry.places[g]] = move.new[geometry.places[g]]
            found.e[g] = found.new_e[g]
    own.tallies[1 + f, DECISIONS] += high - low
    counts[entry.ACCEPT_ELEMENTS] += total / (high - low) / geometry.densities.size
    return 1


@compiled(inlined=True)
def _log_t(away, sign):
    """Return the log-density of a t distribution but for a constant, times a sign."""
    return -0.5 * sign * (_FREEDOM + 1.0) * np.log1p(away * away / _FREEDOM)


@compiled()
def _propose_scale(own, s, rng):
    """Propose a scale with the elements of its factor; return Jacobian and log q(φ) - log q(φ')."""
    found, move, geometry = own.scratch, own.move, own.geometry
    f, place = geometry.scale_factors[s], geometry.scales[s]
    low, high = own.parts.first[f], own.parts.first[f + 1]
    copy_to(move.new, move.position)
    _condition_here(own, f)
    copy_to(found.new_e, found.e)
    for g in elements_of(own.parts, f):
        found.new_e[g] = np.sqrt(found.precision[g]) * (found.e[g] - found.mean[g])
    log_ratio = 0.5 * sum_of_logs(found.precision, low, high)
    middle, size = own.posterior.reference.centre[place], geometry.scale_steps[s]
    if rng.random() < _ANEW:
        spread = np.sqrt(0.5 * _FREEDOM / rng.standard_gamma(0.5 * _FREEDOM))
        move.new[place] = middle + size * spread * rng.standard_normal()
        log_ratio += _log_t((move.new[place] - middle) / size, -1.0)
        log_ratio += _log_t((move.position[place] - middle) / size, 1.0)
    else:
        step = size * _STEPS[rng.integers(0, _STEPS.size)]
        move.new[place] = move.position[place] + step * rng.standard_normal()
    _expand_prior(own, f, found.zeros, move.new, found.mean, found.precision)
    _condition(own, f, found.mean, found.precision)
    for g in elements_of(own.parts, f):
        found.new_e[g] = found.mean[g] + found.new_e[g] / np.sqrt(found.precision[g])
    log_ratio -= 0.5 * sum_of_logs(found.precision, low, high)
    _write_elements(own, found.new_e, f, move.new)
    return log_ratio


@compiled()
def _decide_as_one(own, kind, cheap, ahead, counts):
    """Decide a move of elements at once; `cheap` is its log ratio without rows and prior.

    The cheap part always decides first: a scale far off takes elements beyond their radii, whose
    rows would all be read. It has `ahead` what rows will say on average, which they then leave out.
    Returned are the probability of the rest, and whether the chain goes on.
    """
    found, move, rng = own.scratch, own.move, _generator(own.generator)
    prior_there, log_ratio = log_prior(own.posterior, move.new), scratch(1, np.float64)
    probability, goes_on = 0.0, 1
    if rng.random() < _probability(cheap + ahead + (prior_there - found.prior[0])):
        log_ratio[0] = -ahead
        _stay_on_border(found, own.geometry)
        goes_on = function_at(own.test_rows, TEST)(address_in(own), kind, -1, log_ratio, counts)
        probability = _probability(log_ratio[0])
    own.tallies[kind, DECISIONS] += 1.0
    if goes_on and rng.random() < probability:
        copy_to(move.position, move.new)
        copy_to(found.e, found.new_e)
        found.prior[0] = prior_there
        found.expanded[0] = 0
    return probability, goes_on


@compiled()
def move_scale(own, s, counts):
    """Move a scale and its factor's elements by partial non-centring; return as `move_along`."""
    found, geometry, f = own.scratch, own.geometry, own.geometry.scale_factors[s]
    cheap, ahead = _propose_scale(own, s, _generator(own.generator)), 0.0
    beta = own.posterior.reference.inverse_temperature
    for g in elements_of(own.parts, f):
        here, there = found.e[g], found.new_e[g]
        cheap += found.slope[g] * (there - here)
        cheap += 0.5 * beta * geometry.hessian[g] * (there * there - here * here)
        ahead += beta * geometry.tilts[g] * (there - here)
    kind = 1 + geometry.densities.size + s
    probability, goes_on = _decide_as_one(own, kind, cheap, ahead, counts)
    counts[entry.ACCEPT_SCALES] += probability / geometry.scales.size
    return goes_on


@compiled()
def move_along(own, k, counts):
    """Walk along a direction of elements of several factors; return whether the chain goes on."""
    found, move, geometry, rng = own.scratch, own.move, own.geometry, _generator(own.generator)
    step = _STRIDE_ALONG * rng.standard_normal()
    line = geometry.along_slope[k] + 0.5 * step * geometry.along_own[k]
    line += inner_of_line(geometry.along_border, k, found.w, 0, found.w.size)
    line += inner_of_line(geometry.along_elements, k, found.e, 0, geometry.places.size)
    copy_to(found.new_e, found.e)
    for g in range(np.uint64(geometry.places.size)):
        found.new_e[g] = found.e[g] + step * geometry.along[k, g]
    copy_to(move.new, move.position)
    for f in range(geometry.densities.size):
        _write_elements(own, found.new_e, f, move.new)
    cheap = own.posterior.reference.inverse_temperature * step * line
    kind = 1 + geometry.densities.size + geometry.scales.size
    probability, goes_on = _decide_as_one(own, kind, cheap, 0.0, counts)
    counts[entry.ACCEPT_DIRECTIONS] += probability / min(geometry.along_slope.size, _MOST_ALONG)
    return goes_on


@compiled()
def _move_along_some(own, counts):
    """Make moves along directions, each drawn at random; return whether the chain goes on."""
    directions, rng, goes_on = own.geometry.along_slope.size, _generator(own.generator), 1
    for _ in range(min(directions, _MOST_ALONG)):
        k = rng.integers(0, directions)
        goes_on = goes_on and function_at(own.move_along, MOVE)(address_in(own), k, counts)
    return goes_on


@compiled()
def _iterate(own, counts):
    """Make one move of every kind; return whether the chain goes on."""
    posterior, move, found, address = own.posterior, own.move, own.scratch, address_in(own)
    _find_coordinates(own.geometry, posterior.reference.centre, move.position, found)
    passes = counts[entry.FULL_PASS]
    found.prior[0] = log_prior(posterior, move.position)
    goes_on = function_at(own.move_border, MOVE)(address, 0, counts)
    for f in range(own.geometry.densities.size):
        goes_on = goes_on and function_at(own.move_elements, MOVE)(address, f, counts)
        found.prior[0] = log_prior(posterior, move.position)
        # Slopes of the rows along these elements are still those of the position.
        for s in range(own.geometry.scales.size):
            if own.geometry.scale_factors[s] == f:
                goes_on = goes_on and function_at(own.move_scale, MOVE)(address, s, counts)
    if not (goes_on and _move_along_some(own, counts)):
        return False
    if own.slices.moves:
        prior, context = posterior.prior, posterior.space.context
        _, evaluations = move_without_rows(
            move.position, own.slices, prior, context, found.prior[0], _generator(own.generator)
        )
        counts[entry.N_PRIOR] += evaluations
    # An iteration is one update, however many of its moves have read all rows.
    counts[entry.FULL_PASS] = min(counts[entry.FULL_PASS], passes + 1.0)
    made = counts[entry.ACCEPT_BORDER] + counts[entry.ACCEPT_ELEMENTS] + counts[entry.ACCEPT_SCALES]
    kinds = 1.0 + (own.geometry.densities.size > 0) + (own.geometry.scales.size > 0)
    counts[entry.ACCEPT] = made / kinds
    return True


@compiled()
def run_elements(own, n_updates, draws, counts):
    """Make draws of a chain, as :func:`pymc_minibatch_mh.kernels.run.run` does."""
    position = own.move.position
    for k in range(draws.shape[0]):
        for _ in range(n_updates):
            if not _iterate(own, counts[k]):
                copy_to(draws[k], position)
                return k + 1
        copy_to(draws[k], position)
    return draws.shape[0]
