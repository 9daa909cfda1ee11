"""The centre of a model with many elements, and its geometry, without any d × d matrix.

Given scales φ the posterior is near a normal distribution whose precision A is an arrow: a border
b, that all rows may read and locations belong to, and elements α, of which those of the largest
factor are coupled to others alone. Newton steps eliminate these, and factorise the Schur complement
of everything else. Scales maximise the density with the elements integrated over, by EM between
passes over the rows: the average of the prior over N(α, σ²) is that over α + σ and α - σ, as it is
a sum over elements; with several factors, that over a few points with their covariance. Newton
steps with the third-order correction then lead to the mean.

With R₀ = -A_αα⁻¹ A_αb and S = A_bb + A_bα R₀, coordinates (w, e) are b = b̂ + T w, T = chol(S)⁻ᵀ,
and α = α̂ + R₀ T w + e.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve, cholesky, hadamard, solve_triangular
from scipy.linalg.lapack import dtrtri
from scipy.sparse.linalg import ArpackNoConvergence, eigsh, splu

from pymc_minibatch_mh.errors import ModeError
from pymc_minibatch_mh.native.elements import Ends
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.progress import report_stage
from pymc_minibatch_mh.reference.arrow_sums import ElementSums, starts_of
from pymc_minibatch_mh.reference.element_kinks import AveragedPrior, are_kinked
from pymc_minibatch_mh.reference.messages import WAY_ON
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.structure.random_effects import MAX_FACTORS

#: Passes over all rows, and Newton distance per root of the coordinates and change of a scale at
#: which the search ends.
MAX_PASSES, SETTLED, SCALES_SETTLED = 60, 0.01, 0.01
#: Interval, in passes, between searches for kinks in the prior of group effects.
SUSPICIOUS_PASSES = 10
#: Passes in which intervals are fitted, every other one: an end that crosses a kink never rests.
FITS = 16
#: How far a scale moves between two passes, and a coordinate that is moved by a step at most.
REACH = 1.5
#: Steps of the differences of slopes, and change of a slope that is more than their rounding.
STEP, CHANGED = 1e-4, 1e-6
#: Least precision of an element, as a share of that of its rows or its prior.
LEAST = 1e-3
#: What is added to a precision that is not positive, as shares of its parts.
RIDGES = (0.0, 1e-8, 1e-4, 1e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
MOST_HALVINGS = 12
#: Places at equal distances that tell whether a prior is quadratic.
_UNEVEN = (-0.6, 0.4, 1.4)
#: Step of the differences that tell how scales spread, and the most that they do.
SPREAD_STEP, MOST_SPREAD = 0.05, 3.0
#: Part of a message where the prior of elements has kinks.
KINKED = "The prior of {} has kinks, such as an absolute value, which were smoothed. "
#: Directions at most that elements of several factors move along, and the correlation of factors
#: from which on they do.
MOST_DIRECTIONS, SLOW = 16, 0.7
#: Newton steps with the third-order correction.
SMOOTHINGS = 3
#: Way from modes to means, in standard deviations, beyond which it is not gone.
TRUSTED = 2.0


class Arrow:
    """Precision of border and elements, of which the first `n_first` are not coupled."""

    def __init__(
        self, border: np.ndarray, between: np.ndarray, within: sparse.csr_array, n_first: int
    ) -> None:
        self.within = within
        self._first = within.diagonal()[:n_first]
        self._n_first = n_first
        self._cells = sparse.csr_array(within[:n_first, n_first:])
        self._scaled = sparse.csr_array(sparse.diags_array(1.0 / self._first) @ self._cells)
        self._rest = None
        if within.shape[0] > n_first:
            rest = within[n_first:, n_first:] - self._cells.T @ self._scaled
            self._rest = cholesky(rest.toarray(order="F"), lower=True, overwrite_a=True)
        self.response = -self.solved(between)
        self._schur = cho_factor(border + between.T @ self.response, lower=True)

    def solved(self, right: np.ndarray) -> np.ndarray:
        """Return A_αα⁻¹ times vectors, shape (L, ...)."""
        first = (right[: self._n_first].T / self._first).T
        if self._rest is None:
            return first
        other = cho_solve((self._rest, True), right[self._n_first :] - self._cells.T @ first)
        return np.concatenate([first - self._scaled @ other, other])

    def step(self, border: np.ndarray, elements: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return A⁻¹ times a slope in border and elements."""
        way = cho_solve(self._schur, border + self.response.T @ elements)
        return way, self.solved(elements) + self.response @ way

    @cached_property
    def variances(self) -> np.ndarray:
        """The diagonal of A_αα⁻¹."""
        first = 1.0 / self._first
        if self._rest is None:
            return first
        inverse = dtrtri(self._rest, lower=1)[0]
        own = self._scaled @ inverse.T
        squares = np.einsum("ij,ij->i", own, own), np.einsum("ij,ij->j", inverse, inverse)
        return np.concatenate([first + squares[0], squares[1]])

    def scattered(self, noise: np.ndarray) -> np.ndarray:
        """Return vectors with covariance A_αα⁻¹ from uncorrelated numbers, shape (L, k)."""
        first = (noise[: self._n_first].T / np.sqrt(self._first)).T
        if self._rest is None:
            return first
        other = solve_triangular(self._rest, noise[self._n_first :], lower=True, trans="T")
        return np.concatenate([first - self._scaled @ other, other])

    @cached_property
    def border_factor(self) -> np.ndarray:
        """T, with T Tᵀ the inverse of the Schur complement of the border."""
        factor = np.tril(self._schur[0])
        return np.ascontiguousarray(solve_triangular(factor, np.eye(len(factor)), lower=True).T)


class PriorShape(NamedTuple):
    """Slope and second derivatives of the prior."""

    slope: np.ndarray
    #: Minus the second derivatives of elements, shape (L,), of those that are coupled, a symmetric
    #: sparse matrix (L, L), and of the border: with all coordinates, shape (n, d).
    diagonal: np.ndarray
    coupled: sparse.csr_array
    border: np.ndarray


class GroupedReference(NamedTuple):
    """A centre, coordinates (w, e) around it, and expansions of rows and prior in these.

    The `border`, int64, shape (n,), are coordinates that rows read as they stand, `n_fixed` of
    them, and locations. The elements lie at `places`, int64, shape (L,), those of factor f from
    `starts[f]` to `starts[f + 1]`.
    """

    centre: np.ndarray
    border: np.ndarray
    n_fixed: int
    places: np.ndarray
    starts: np.ndarray
    #: T, shape (n, n), and the elements' response R₀ T to w, shape (L, n).
    border_factor: np.ndarray
    response: np.ndarray
    #: Posterior standard deviation of each e given w and the scales, shape (L,).
    sd: np.ndarray
    #: The rows' slopes and second derivatives in w and e; cells in compressed lines.
    gw: np.ndarray
    ge: np.ndarray
    Hww: np.ndarray
    Hew: np.ndarray
    he: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    #: By how much slopes in w and e change in an average over the posterior.
    border_tilt: np.ndarray
    tilts: np.ndarray
    #: Precisions of the elements' own prior, shape (L,), and in which direction of w its location
    #: moves, (L, n); the precision of w that each factor so adds, (F, n, n); and the prior's slope
    #: in w beside what comes by these.
    prior_curvature: np.ndarray
    prior_direction: np.ndarray
    prior_stiffness: np.ndarray
    border_slope: np.ndarray
    #: Scales, their posterior standard deviations, and the one factor that each is a scale of, or
    #: -1: shape (p,).
    scales: np.ndarray
    scale_sd: np.ndarray
    scale_factor: np.ndarray
    #: Directions in e along which factors that explain the same differences move together, each of
    #: a posterior standard deviation given all else, shape (K, L).
    along: np.ndarray
    #: Which of the border rows choose, numbered in it, through all that choose: shape (K,), those
    #: of one from `choices[k]` to `choices[k + 1]`; and their posterior standard deviations.
    chosen: np.ndarray
    choices: np.ndarray
    chosen_sd: np.ndarray
    #: Q of orthonormal lines, shape (r, n): what is left of the border is, in its own standard
    #: coordinates, Q w.
    read: np.ndarray

    @property
    def n_chosen(self) -> int:
        """How many coordinates of the border rows choose."""
        return self.border.size - len(self.read)

    def ends(self, here: np.ndarray, there: np.ndarray) -> Ends:
        """Return how far the parts of rows are from the centre, at both ends of a move."""
        (w, e), (other, new_e) = (self.coordinates(x) for x in (here, there))
        one, two, way = (float(np.linalg.norm(self.read @ x)) for x in (w, other, other - w))
        away = [(x - self.centre)[self.border[self.chosen]] for x in (here, there)]
        return Ends(np.append(e, away[0]), np.append(new_e, away[1]), (one, two, way))

    @property
    def rows_hessian(self) -> sparse.csr_array:
        """The rows' second derivatives in e."""
        size = self.he.size
        cells = sparse.csr_array((self.data, self.indices, self.indptr), shape=(size, size))
        return sparse.csr_array(cells + sparse.diags_array(self.he))

    @property
    def fixed(self) -> np.ndarray:
        """The coordinates of the border that rows read."""
        return self.border[: self.n_fixed]

    def reference(self, inverse_temperature: float) -> Reference:
        """Return the centre alone: metric and expansion are not those of a matrix."""
        nothing = np.empty((0, 0))
        return Reference(
            self.centre, nothing, nothing, np.empty(0), nothing, 2, inverse_temperature
        )

    def told(self) -> str:
        """Say where the centre is, and what moves how."""
        sizes = " and ".join(f"{size:,}" for size in np.diff(self.starts))
        at_once = (
            f"{self.n_chosen:,} effects that appear several times in one row are updated together"
        )
        moved = [f"{sizes} effects are updated one at a time"] if sizes else []
        moved += [at_once] if self.n_chosen else []
        how = ", found without a matrix of all parameters" if sizes else ""
        return (
            f"near the mean of the posterior{how}: {', and '.join(moved)}, beside "
            f"{len(self.read)} parameters that all observations share"
        )

    def coordinates(self, position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (w, e) of a position."""
        away = position - self.centre
        w = np.linalg.solve(self.border_factor, away[self.border])
        return w, away[self.places] - self.response @ w

    def position(self, w: np.ndarray, e: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """Return the position of (w, e) and scales."""
        found = self.centre.copy()
        found[self.border] += self.border_factor @ w
        found[self.places] += self.response @ w + e
        found[self.scales] = scales
        return found

    def draw(self, rng: np.random.Generator, scale: float) -> np.ndarray:
        """Return a position from the Gaussian approximation, `scale` times as wide.

        A border that rows choose from is as wide as it is.
        """
        sizes = self.border.size, self.sd.size, self.scales.size
        w, e, away = (rng.standard_normal(size) for size in sizes)
        scales = self.centre[self.scales] + scale * self.scale_sd * away
        # Hundreds of coordinates that move at once would take long to come in.
        wide = 1.0 if self.chosen.size else scale
        return self.position(wide * w, scale * self.sd * e, scales)

    def distance(self, position: np.ndarray) -> float:
        """Return the distance of a position from the centre, in standard deviations."""
        w, e = self.coordinates(position)
        away = (position - self.centre)[self.scales] / self.scale_sd
        return float(np.sqrt(w @ w + ((e / self.sd) ** 2).sum() + away @ away))

    def unread_steps(self) -> tuple[np.ndarray, np.ndarray]:
        """Return unit directions that no row reads, shape (k, d), and 1/sd along each."""
        locations = self.border[self.n_fixed :]
        spread = np.linalg.norm(self.border_factor[self.n_fixed :], axis=1)
        places = np.concatenate([self.scales, locations])
        directions = np.zeros((places.size, self.centre.size))
        directions[np.arange(places.size), places] = 1.0
        return directions, 1.0 / np.concatenate([self.scale_sd, spread])

    def around(self, target: Target, start: np.ndarray) -> "GroupedReference":
        """Return the same around the centre that a search from `start` ends at.

        It is itself where other coordinates are scales there: chains have a κ for each of these.
        """
        found = find_grouped(target, start)
        pairs = zip(self._moved_by, found._moved_by, strict=True)
        return found if all(np.array_equal(*pair) for pair in pairs) else self

    @property
    def _moved_by(self) -> tuple[np.ndarray, np.ndarray]:
        """The border, and the scales that move with elements."""
        return self.border, self.scales[self.scale_factor >= 0]


def find_grouped(target: Target, start: np.ndarray) -> GroupedReference:
    """Find the centre of a model with elements, and expand rows and prior there.

    ModeError if the search does not settle.
    """
    report_stage("Searching for the mode")
    search = _Search(target, np.array(start, dtype=np.float64))
    search.run()
    report_stage("Expanding the log-likelihood")
    return search.expanded()


def _slow_directions(precision: sparse.csr_array) -> np.ndarray:
    """Return the directions that moves of one factor at a time take longest along, (K, L)."""
    size, diagonal = precision.shape[0], precision.diagonal()
    between = sparse.csr_array(precision - sparse.diags_array(diagonal))
    count = min(MOST_DIRECTIONS, size - 2)
    if not between.nnz or count < 1:
        return np.empty((0, size))
    root = sparse.diags_array(1.0 / np.sqrt(diagonal))
    # Of correlated elements, the largest eigenvalue is their share of what is known of both.
    start = np.random.default_rng(0).standard_normal(size)
    try:
        values, vectors = eigsh(
            -(root @ between @ root), count, which="LA", v0=start, tol=1e-2, maxiter=500
        )
    except ArpackNoConvergence as error:
        # Where many directions are alike, some of them will do.
        values, vectors = error.eigenvalues, error.eigenvectors
    slow = values > SLOW
    return np.ascontiguousarray(((root @ vectors[:, slow]) / np.sqrt(1.0 - values[slow])).T)


def _solved(diagonal: np.ndarray, coupled: sparse.csr_array, right: np.ndarray) -> np.ndarray:
    """Return (D + C)⁻¹ times vectors, shape (L, n); 0 for elements without precision."""
    known = diagonal > 0.0
    if not coupled.nnz or not right.size:
        return right / np.where(known, diagonal, np.inf)[:, None]
    kept = sparse.diags_array(known.astype(np.float64))
    matrix = sparse.diags_array(np.where(known, diagonal, 1.0)) + kept @ coupled @ kept
    return np.asarray(splu(sparse.csc_array(matrix)).solve(kept @ right))


def _orthonormal(factor: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Return Q, with orthonormal lines, of some lines of T, which are U Q."""
    if some.all():
        return np.eye(len(factor))
    return np.ascontiguousarray(np.linalg.qr(factor[some].T)[0].T)


class _Search:
    """A search for the mode of the scales, and for the mean of the rest there."""

    def __init__(self, target: Target, start: np.ndarray) -> None:
        self._target, self._elements = target, target.elements
        elements = self._elements
        self._beta = target.inverse_temperature
        self.rows = target.element_rows
        self.starts = self.rows.starts
        self._factors = [slice(*ends) for ends in zip(self.starts, self.starts[1:], strict=False)]
        self._places = elements.labels
        self.position = start
        #: By how much slopes of border and elements change in an average over the posterior.
        self._tilt = np.zeros(elements.border.size), np.zeros(self._places.size)
        #: The prior of elements averaged over its kinks, where it has any.
        self._averaged_prior: AveragedPrior | None = None
        self._fits = FITS
        locations = self._locations(elements.others)
        self._border = np.concatenate([elements.border, locations]).astype(np.int64)
        self._scales = np.setdiff1d(elements.others, locations)
        self._is_chosen = np.isin(self._border, elements.chosen_places)
        order = np.argsort(self._border)
        self._choices = order[np.searchsorted(self._border, elements.choices, sorter=order)]

    def _gradient(self, position: np.ndarray) -> np.ndarray:
        return self._prior_slopes(position)[1:]

    def _prior_slopes(self, position: np.ndarray) -> np.ndarray:
        """Return value and gradient of the prior, shape (1 + d,)."""
        found = self._target.compiled.prior_slopes(position, self._target.rows.context)
        return np.asarray(found)

    def _locations(self, others: np.ndarray) -> np.ndarray:
        """Return the coordinates, of those that no row reads, in which the prior is quadratic."""
        found = []
        # Where elements are all alike, or around a start of 0, shapes may look quadratic.
        some = self.position.copy()
        some[self._places] += np.random.default_rng(0).standard_normal(self._places.size)
        for k in others:
            slopes = []
            for away in _UNEVEN:
                place = some.copy()
                place[k] += away
                slopes.append(self._gradient(place)[k])
            size = np.abs(slopes).sum()
            if abs(slopes[0] - 2.0 * slopes[1] + slopes[2]) <= CHANGED * size:
                found.append(k)
        return np.array(found, dtype=np.int64)

    def run(self) -> None:
        """Go to the centre."""
        sums, value = self._sums(self.position)
        settled = SETTLED * np.sqrt(self._places.size + np.count_nonzero(self._is_chosen))
        for k in range(MAX_PASSES):
            moved = 0.0
            if k:
                moved = self._move_scales(sums)
                value = self._value(self.position, sums)
            arrow, slope = self._arrow(sums)
            step = arrow.step(*slope)
            distance = float(np.sqrt(max(sum(map(np.dot, step, slope)), 0.0)))
            report_stage("Newton", f"{k + 1}/{MAX_PASSES}, distance {distance:.2g}")
            rests = k > 0 and distance < settled and moved < SCALES_SETTLED
            if self._averages_kinks(
                arrow, sums, now=rests or k % SUSPICIOUS_PASSES == SUSPICIOUS_PASSES - 1
            ):
                continue
            if rests:
                break
            sums, value = self._stepped(step, slope, value)
        else:
            raise ModeError(
                f"{self._elements.names} (group effects): the search for their centre has not "
                f"converged after {MAX_PASSES} passes, and ended {distance:.2g} standard "
                f"deviations away. {self._kinks_in_words()}{WAY_ON}"
            )
        sums = self._means(sums, np.sqrt(arrow.variances))
        self._settle_scales(sums)
        self._last = sums

    def _means(self, sums: ElementSums, deviations: np.ndarray) -> ElementSums:
        """Go from modes to means, unless they are farther than third derivatives can tell."""
        mode = self.position.copy()
        for _ in range(SMOOTHINGS):
            sums = self._smoothed(sums)
            self._move_scales(sums)
            way = self.position - mode
            moved = (
                np.sqrt(np.mean((way[self._places] / deviations) ** 2)) if deviations.size else 0
            )
            if not (moved <= TRUSTED and np.abs(way[self._scales]).max(initial=0.0) <= REACH):
                self.position = mode
                self._tilt = np.zeros_like(self._tilt[0]), np.zeros_like(self._tilt[1])
                return self._sums(mode)[0]
        return sums

    def _averages_kinks(self, arrow: Arrow, sums: ElementSums, *, now: bool) -> bool:
        """Average the prior of elements over kinks, or fit these intervals anew."""
        elements = [self._places[own] for own in self._factors]
        if self._averaged_prior is not None:
            self._fits -= 1
            if self._fits < 0 or not (now or self._fits % 2):
                return False
            deviations = np.sqrt(arrow.variances)
        elif now:
            # At a kink, differences of slopes say nothing: rows alone say how far to look.
            known = np.maximum(-self._beta * sums.diagonal, 0.0)
            deviations = 1.0 / np.sqrt(np.maximum(known, LEAST * known.max(initial=0.0) or 1.0))
            if not are_kinked(self._gradient, self.position, elements, deviations).any():
                return False
        else:
            return False
        self._averaged_prior = AveragedPrior(self._gradient, self._densities, elements, deviations)
        return True

    def _densities(self, factor: int, position: np.ndarray) -> np.ndarray:
        """Return the log prior of each element of a factor."""
        own = self._factors[factor]
        found = np.empty(own.stop - own.start)
        self._target.element_densities[factor](position, self._target.rows.context, found)
        return found

    def _kinks_in_words(self) -> str:
        return "" if self._averaged_prior is None else KINKED.format(self._elements.names)

    def _sums(self, position: np.ndarray) -> tuple[ElementSums, float]:
        fixed = position[self._elements.border]
        sums = self.rows.sums(fixed, position[self._places])
        return sums, self._value(position, sums)

    def _value(self, position: np.ndarray, sums: ElementSums) -> float:
        return self._beta * sums.value + self._target.log_prior(position)

    def _prior(self, position: np.ndarray) -> PriorShape:
        """Return slope and curvature of the prior, by differences of slopes."""
        size = self._places.size
        diagonal, turned = np.empty(size), np.empty((len(self._factors), size))
        for f, own in enumerate(self._factors):
            turned[f] = -self._turn(position, self._places[own])[self._places]
            diagonal[own] = turned[f, own]
        one, other = self._elements.coupled.T
        values = turned[np.searchsorted(self.starts, one, side="right") - 1, other]
        coupled = sparse.coo_array((values, (one, other)), shape=(size, size)).tocsr()
        lines = [-self._turn(position, np.array([k])) for k in self._border]
        border = np.reshape(lines, (-1, position.size))
        if self._averaged_prior is not None:
            diagonal = self._averaged_prior.curvature(position)
        return PriorShape(self._prior_slope(position), diagonal, coupled + coupled.T, border)

    def _prior_slope(self, position: np.ndarray) -> np.ndarray:
        """Return the prior's slope, averaged over kinks of elements, shape (d,)."""
        slope = self._gradient(position)
        if self._averaged_prior is not None:
            slope[self._places] = self._averaged_prior.slope(position)
        return slope

    def _turn(self, position: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return the change of the prior's slope as coordinates move at once, per unit."""
        forth, back = position.copy(), position.copy()
        forth[places] += STEP
        back[places] -= STEP
        return (self._gradient(forth) - self._gradient(back)) / (forth - back)[places[0]]

    def _arrow(self, sums: ElementSums) -> tuple[Arrow, tuple[np.ndarray, np.ndarray]]:
        """Return the precision at the position, and the slopes of border and elements."""
        prior, beta, n = self._prior(self.position), self._beta, self._elements.border.size
        border = prior.border[:, self._border]
        border = 0.5 * (border + border.T)
        border[:n, :n] -= beta * sums.border_hessian
        between = prior.border[:, self._places].T.copy()
        between[:, :n] -= beta * sums.between
        own = prior.diagonal - beta * sums.diagonal
        # A row that is not log-concave, or a prior with heavy tails, bends the other way.
        size = np.abs(prior.diagonal) + beta * np.abs(sums.diagonal) + 1e-12
        own = sparse.diags_array(np.maximum(own, LEAST * size))
        within = sparse.csr_array(own + prior.coupled - beta * sums.cells)
        return self._positive(border, between, within, size), self._tilted(prior.slope, sums)

    def _positive(
        self, border: np.ndarray, between: np.ndarray, within: sparse.csr_array, size: np.ndarray
    ) -> Arrow:
        """Return a precision, made positive definite by the least addition to its diagonal.

        That of elements grows by shares of their `size`.
        """
        n_first = int(self.starts[:2][-1])
        for ridge in RIDGES:
            try:
                return Arrow(
                    border + ridge * np.diag(np.abs(np.diag(border)) + 1e-8),
                    between,
                    sparse.csr_array(within + sparse.diags_array(ridge * size)),
                    n_first,
                )
            except np.linalg.LinAlgError:
                continue
        raise ModeError(
            f"{self._elements.names} (group effects): the log-posterior has no positive precision "
            f"at a point of the search for their centre. {WAY_ON}"
        )

    def _moved(self, step: tuple[np.ndarray, np.ndarray], share: float) -> np.ndarray:
        found = self.position.copy()
        found[self._border] += share * step[0]
        found[self._places] += share * step[1]
        return found

    def _stepped(
        self,
        step: tuple[np.ndarray, np.ndarray],
        slope: tuple[np.ndarray, np.ndarray],
        value: float,
    ) -> tuple[ElementSums, float]:
        """Take a Newton step, as much of it as leads up."""
        for halvings in range(MOST_HALVINGS):
            there = self._moved(step, 0.5**halvings)
            sums, found = self._sums(there)
            if self._averaged_prior is None:
                rises = found >= value - 1e-9 * abs(value)
            else:
                # No value belongs to averaged slopes: they must not have turned round by much.
                onward = sum(map(np.dot, step, self._slopes(there, sums)))
                rises = onward >= -0.5 * sum(map(np.dot, step, slope))
            if rises:
                self.position = there
                return sums, found
        return self._sums(self.position)

    def _slopes(self, position: np.ndarray, sums: ElementSums) -> tuple[np.ndarray, np.ndarray]:
        return self._tilted(self._prior_slope(position), sums)

    def _tilted(self, slope: np.ndarray, sums: ElementSums) -> tuple[np.ndarray, np.ndarray]:
        """Return slopes of border and elements, from that of the prior."""
        border = slope[self._border].copy()
        border[: self._elements.border.size] += self._beta * (sums.border + self._tilt[0])
        return border, slope[self._places] + self._beta * (sums.elements + self._tilt[1])

    def _smoothed(self, sums: ElementSums) -> ElementSums:
        """Take a step to where the slope averaged over the normal distribution vanishes."""
        arrow, _ = self._arrow(sums)
        factor = arrow.border_factor
        n, position = self._elements.border.size, self.position
        self._tilt = self.rows.skewness(
            position[self._elements.border],
            position[self._places],
            factor[:n],
            arrow.response @ factor,
            arrow.variances,
        )
        arrow, slopes = self._arrow(sums)
        self.position = self._moved(arrow.step(*slopes), 1.0)
        return self._sums(self.position)[0]

    def _conditional(self, sums: ElementSums, scales: np.ndarray) -> tuple[np.ndarray, Arrow]:
        """Return the best position given scales by the rows' quadratic, and the precision."""
        here = self.position
        self.position = here.copy()
        self.position[self._scales] = scales
        arrow, slopes = self._arrow(sums)
        there = self._moved(arrow.step(*slopes), 1.0)
        self.position = here
        return there, arrow

    def _spread_by(self, arrow: Arrow) -> np.ndarray:
        """Return how far elements and chosen coordinates lie off on either side, given the rest.

        It is a standard deviation of each element of one factor. Of those that depend on each other
        it is points, shape (L + c, k), that have their covariance: that of each by itself takes
        seconds with thousands, and moves no scale by a tenth of its standard deviation.
        """
        if len(self._factors) <= 1 and not self._is_chosen.any():
            return np.sqrt(arrow.variances)[:, None]
        own, size = self._is_chosen, self._places.size
        chosen = arrow.border_factor[own][:, own] @ self._signs[size:]
        spread = arrow.scattered(self._signs[:size]) + arrow.response[:, own] @ chosen
        return np.concatenate([spread, chosen])

    @cached_property
    def _signs(self) -> np.ndarray:
        """Signs that are orthogonal between factors in each group, shape (L + c, k)."""
        by_factor = hadamard(MAX_FACTORS)
        sizes = np.diff(self.starts)
        rng, most = np.random.default_rng(0), sizes.max(initial=0)
        by_group = rng.choice([-1.0, 1.0], size=(most, MAX_FACTORS))
        signs = [by_factor[f] * by_group[:size] for f, size in enumerate(sizes)]
        chosen = rng.choice([-1.0, 1.0], size=(np.count_nonzero(self._is_chosen), MAX_FACTORS))
        return np.concatenate([*signs, chosen])

    def _best_scales(self, position: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """Return the scales at which the prior is highest, averaged over the elements' spread."""
        # It takes a while to import, and most models have no elements.
        from scipy.optimize import minimize  # noqa: PLC0415

        start = position[self._scales]

        def lowered(x: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = self._averaged(position, spread, x)
            return (-value, -slope) if np.isfinite(value) else (np.inf, np.zeros(x.size))

        bounds = [(x - REACH, x + REACH) for x in start]
        return np.asarray(minimize(lowered, start, jac=True, bounds=bounds, method="L-BFGS-B").x)

    def _averaged(
        self, position: np.ndarray, spread: np.ndarray, scales: np.ndarray
    ) -> tuple[float, np.ndarray]:
        value, slope = 0.0, np.zeros(scales.size)
        places = np.append(self._places, self._border[self._is_chosen])
        for away in (*spread.T, *-spread.T):
            place = position.copy()
            place[self._scales] = scales
            place[places] += away
            found = self._prior_slopes(place)
            value += float(found[0])
            slope += found[1:][self._scales]
        count = 2 * spread.shape[1]
        return value / count, slope / count

    def _improved(self, sums: ElementSums, scales: np.ndarray) -> np.ndarray:
        position, arrow = self._conditional(sums, scales)
        return self._best_scales(position, self._spread_by(arrow))

    def _move_scales(self, sums: ElementSums) -> float:
        """Move the scales by two steps of EM, extrapolated; return how far they have moved."""
        if not self._scales.size:
            return 0.0
        start = self.position[self._scales].copy()
        first = self._improved(sums, start)
        second = self._improved(sums, first)
        way, turn = first - start, second - 2.0 * first + start
        length = np.linalg.norm(turn)
        share = np.clip(np.linalg.norm(way) / length if length > 0.0 else 1.0, 1.0, 8.0)
        there = start + 2.0 * share * way + share**2 * turn
        there = start + np.clip(there - start, -REACH, REACH)
        self.position[self._scales] = there
        if not np.isfinite(self._target.log_prior(self.position)):
            self.position[self._scales] = there = second
        return float(np.abs(there - start).max())

    def _settle_scales(self, sums: ElementSums) -> None:
        """Find the spread of the scales, and which factor each is a scale of."""
        scales = self.position[self._scales]
        self._spread, owner = self._spread_of_scales(sums, scales), np.full(scales.size, -1)
        here = self._prior(self.position).diagonal
        for k in range(scales.size):
            place = self.position.copy()
            place[self._scales[k]] += 0.1
            change = np.abs(self._prior(place).diagonal - here) / (np.abs(here) + 1e-12)
            bent = [change[own].max() for own in self._factors]
            owner[k] = np.argmax(bent) if max(bent, default=0.0) > CHANGED else -1
        self._owner = owner

    def _spread_of_scales(self, sums: ElementSums, scales: np.ndarray) -> np.ndarray:
        """Return the posterior standard deviation of each scale.

        What EM leaves of a step away is the information that is missing: Meng, Rubin (1991),
        doi:10.1080/01621459.1991.10475130.
        """
        if not scales.size:
            return np.empty(0)
        position, arrow = self._conditional(sums, scales)
        spread = self._spread_by(arrow)
        complete, left = np.empty((2, scales.size, scales.size))
        best = self._best_scales(position, spread)
        for k, away in enumerate(SPREAD_STEP * np.eye(scales.size)):
            turn = [self._averaged(position, spread, scales + s * away)[1] for s in (1.0, -1.0)]
            complete[k] = (turn[1] - turn[0]) / (2.0 * SPREAD_STEP)
            left[k] = (self._improved(sums, scales + away) - best) / SPREAD_STEP
        complete = 0.5 * (complete + complete.T)
        information = (np.eye(scales.size) - left) @ complete
        values, vectors = np.linalg.eigh(0.5 * (information + information.T))
        variances = (vectors**2) @ (1.0 / np.maximum(values, 1.0 / MOST_SPREAD**2))
        return np.sqrt(variances)

    def expanded(self) -> GroupedReference:
        """Return the expansions of rows and prior at the centre."""
        sums, prior, n = self._last, self._prior(self.position), self._elements.border.size
        arrow, followed = self._arrow(sums)[0], ~self._is_chosen
        # Elements follow what rows read as it stands; what they choose has bounds of its own.
        factor = arrow.border_factor
        fixed, response = factor[:n], arrow.response[:, followed] @ factor[followed]
        bent, along = sums.hessian_of_elements @ response, sums.between @ fixed
        coupled = along.T @ response
        direction, stiffness, slope = self._followed(prior, factor, response)
        return GroupedReference(
            centre=np.ascontiguousarray(self.position),
            border=self._border,
            n_fixed=n,
            places=self._places.astype(np.int64),
            starts=self.starts,
            border_factor=factor,
            response=np.ascontiguousarray(response),
            sd=np.sqrt(arrow.variances + ((arrow.response @ factor - response) ** 2).sum(axis=1)),
            gw=fixed.T @ sums.border + response.T @ sums.elements,
            ge=sums.elements,
            Hww=fixed.T @ sums.border_hessian @ fixed + coupled + coupled.T + response.T @ bent,
            Hew=along + bent,
            he=sums.diagonal,
            indptr=sums.cells.indptr.astype(np.int64),
            indices=sums.cells.indices.astype(np.int64),
            data=sums.cells.data,
            border_tilt=fixed.T @ self._tilt[0] + response.T @ self._tilt[1],
            tilts=np.asarray(self._tilt[1]),
            prior_curvature=np.maximum(prior.diagonal, 0.0),
            prior_direction=direction,
            prior_stiffness=stiffness,
            border_slope=slope,
            scales=self._scales.astype(np.int64),
            scale_sd=self._spread,
            scale_factor=self._owner,
            along=_slow_directions(arrow.within),
            chosen=self._choices,
            choices=starts_of(self._elements.chosen),
            chosen_sd=np.linalg.norm(factor, axis=1)[self._choices],
            read=_orthonormal(factor, followed),
        )

    def _followed(
        self, prior: PriorShape, factor: np.ndarray, response: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return how the elements' locations move with w, and the precision that they add to w.

        The last is the prior's slope in w beside what comes by them.
        """
        # -∂²/∂α_g∂w with α that follows w.
        turned = prior.diagonal[:, None] * response + prior.coupled @ response
        turned += prior.border[:, self._places].T @ factor
        direction = _solved(np.maximum(prior.diagonal, 0.0), prior.coupled, turned)
        stiffness = [direction[k].T @ turned[k] for k in self._factors]
        found = np.reshape(stiffness, (len(stiffness), *factor.shape))
        slope = prior.slope[self._places]
        through = factor.T @ prior.slope[self._border] + response.T @ slope
        return direction, 0.5 * (found + found.transpose(0, 2, 1)), through - direction.T @ slope
