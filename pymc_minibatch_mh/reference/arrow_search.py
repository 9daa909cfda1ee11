"""Search for the centre of a model with many group effects.

Given scales φ, the posterior is nearly normal with an arrow-shaped precision
(:mod:`~pymc_minibatch_mh.reference.arrow_reference`). Newton steps alternate with EM steps in the
scales, which maximise their density with the group effects α integrated out. EM averages the log
prior, a sum over effects, over N(α, σ²): at the two points α + σ and α - σ for one factor, and at
a few points with the joint covariance for several. Newton steps with a third-order correction then
lead to the mean.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import hadamard
from scipy.sparse.linalg import ArpackNoConvergence, eigsh, splu

from pymc_minibatch_mh.errors import ModeError
from pymc_minibatch_mh.progress import report_stage
from pymc_minibatch_mh.reference.arrow_reference import Arrow, GroupedReference
from pymc_minibatch_mh.reference.arrow_sums import ElementSums, starts_of
from pymc_minibatch_mh.reference.messages import WAY_ON
from pymc_minibatch_mh.reference.prior_kinks import AveragedPrior, are_kinked
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.structure.random_effects import MAX_FACTORS

#: Maximum number of iterations; limits for convergence: `SETTLED` for the Newton distance divided
#: by √d, `SCALES_SETTLED` for the change of a scale.
MAX_PASSES, SETTLED, SCALES_SETTLED = 60, 0.01, 0.01
#: Number of iterations between searches for kinks in the prior of group effects.
SUSPICIOUS_PASSES = 10
#: Number of iterations that may refit averaging intervals: refits might never converge.
FITS = 16
#: Maximum change of a (transformed) scale in one iteration.
REACH = 1.5
#: Step of finite differences of gradients; minimum relative change of a slope above rounding.
STEP, CHANGED = 1e-4, 1e-6
#: Minimum precision of a group effect, relative to the summed |precisions| of its rows and prior.
LEAST = 1e-3
#: Multiples of the diagonal, tried in order, that are added until a precision is positive definite.
RIDGES = (0.0, 1e-8, 1e-4, 1e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
#: The first of these after a step along which no density rises, as where rows have no curvature.
FIRST_DAMPING = 4
MOST_HALVINGS = 12
#: Equidistant offsets of a coordinate, at which the log prior is tested for being quadratic.
_UNEVEN = (-0.6, 0.4, 1.4)
#: Step of finite differences in scales; maximum posterior standard deviation of a scale.
SPREAD_STEP, MAX_SPREAD = 0.05, 3.0
#: Sentence about a prior with kinks, for the message of a failed search.
KINKED = "The prior of {} has kinks, such as an absolute value, which were smoothed. "
#: `MOST_DIRECTIONS`: maximum number of joint directions across factors; `SLOW`: minimum correlation
#: between factors along such a direction.
MOST_DIRECTIONS, SLOW = 16, 0.7
#: Number of Newton steps with the third-order correction.
SMOOTHINGS = 3
#: Maximum distance of means from modes, in standard deviations, for third-order corrections.
TRUSTED = 2.0


class PriorShape(NamedTuple):
    """Gradient (`slope`) and negative second derivatives of the log prior.

    These are `diagonal`, shape (L,), for group effects, `coupled`, (L, L), for pairs of them, and
    `border`, (n, d), for common effects with all coordinates.
    """

    slope: np.ndarray
    diagonal: np.ndarray
    coupled: sparse.csr_array
    border: np.ndarray


def find_grouped(target: Target, start: np.ndarray) -> GroupedReference:
    """Centre of a model with group effects, and expansions there; ModeError if none is found."""
    report_stage("Searching for the mode")
    search = _Search(target, np.array(start, dtype=np.float64))
    sums = search.run()
    report_stage("Expanding the log-likelihood")
    return search.expanded_reference(sums)


def centre_around(
    reference: GroupedReference, target: Target, start: np.ndarray
) -> GroupedReference:
    """Reference at a centre found from `start`, if coordinates have the same roles there.

    Otherwise the old `reference` is kept, because chains have one rate factor κ for each scale.
    """
    found = find_grouped(target, start)
    pairs = zip(reference.moved_by, found.moved_by, strict=True)
    return found if all(np.array_equal(*pair) for pair in pairs) else reference


def _slow_directions(precision: sparse.csr_array) -> np.ndarray:
    """Directions along which updates of one factor at a time are slowest, shape (K, L)."""
    size, diagonal = precision.shape[0], precision.diagonal()
    between = sparse.csr_array(precision - sparse.diags_array(diagonal))
    count = min(MOST_DIRECTIONS, size - 2)
    if not between.nnz or count < 1:
        return np.empty((0, size))
    root = sparse.diags_array(1.0 / np.sqrt(diagonal))
    # Eigenvalues are correlations between factors; the largest belong to the slowest updates.
    start = np.random.default_rng(0).standard_normal(size)
    try:
        values, vectors = eigsh(
            -(root @ between @ root), count, which="LA", v0=start, tol=1e-2, maxiter=500
        )
    except ArpackNoConvergence as error:
        # The directions that have converged are enough, because there are many similar ones.
        values, vectors = error.eigenvalues, error.eigenvectors
    slow = values > SLOW
    return np.ascontiguousarray(((root @ vectors[:, slow]) / np.sqrt(1.0 - values[slow])).T)


def _solve_known(diagonal: np.ndarray, coupled: sparse.csr_array, right: np.ndarray) -> np.ndarray:
    """(D + C)⁻¹ times vectors, shape (L, n); 0 for group effects whose precision is 0."""
    known = diagonal > 0.0
    if not coupled.nnz or not right.size:
        return right / np.where(known, diagonal, np.inf)[:, None]
    kept = sparse.diags_array(known.astype(np.float64))
    matrix = sparse.diags_array(np.where(known, diagonal, 1.0)) + kept @ coupled @ kept
    return np.asarray(splu(sparse.csc_array(matrix)).solve(kept @ right))


class _Search:
    """Search for the mode of the scales and the mean of all other coordinates."""

    def __init__(self, target: Target, start: np.ndarray) -> None:
        elements = target.elements
        self._target, self._elements, self.rows = target, elements, target.element_rows
        self._beta, self.starts = target.inverse_temperature, self.rows.starts
        self._factors = [slice(*ends) for ends in zip(self.starts, self.starts[1:], strict=False)]
        self._places = elements.labels
        self.position = start
        #: Posterior average of the rows' gradient minus the gradient, for common and group effects.
        self._tilt = np.zeros(elements.border.size), np.zeros(self._places.size)
        self._averaged_prior: AveragedPrior | None = None
        self._fits = FITS
        #: Number of the first ridge, above 0 after steps that failed.
        self._damping = 0
        locations = self._quadratic_locations(elements.others)
        self._border = np.concatenate([elements.border, locations]).astype(np.int64)
        self._scales = np.setdiff1d(elements.others, locations)
        self._is_chosen = np.isin(self._border, elements.chosen_places)
        order = np.argsort(self._border)
        self._choices = order[np.searchsorted(self._border, elements.choices, sorter=order)]

    def _gradient(self, position: np.ndarray) -> np.ndarray:
        return self._prior_slopes(position)[1:]

    def _prior_slopes(self, position: np.ndarray) -> np.ndarray:
        """Value and gradient of the prior, shape (1 + d,)."""
        return np.asarray(self._target.compiled.prior.slopes(position, self._target.rows.context))

    def _quadratic_locations(self, others: np.ndarray) -> np.ndarray:
        """Locations: coordinates outside the likelihood in which the log prior is quadratic."""
        found = []
        # Jitter the group effects: if all are equal, priors of their scales may look quadratic.
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

    def run(self) -> ElementSums:
        """Search for the centre, and set `position` to it; return the sums over rows there."""
        sums, value = self._sums_at(self.position)
        settled = SETTLED * np.sqrt(self._places.size + np.count_nonzero(self._is_chosen))
        for k in range(MAX_PASSES):
            moved = 0.0
            if k:
                moved = self._move_scales(sums)
                value = self._log_posterior(self.position, sums)
            arrow, slope = self._arrow_and_slopes(sums)
            step = arrow.step(*slope)
            distance = float(np.sqrt(max(sum(map(np.dot, step, slope)), 0.0)))
            report_stage("Newton", f"{k + 1}/{MAX_PASSES}, distance {distance:.2g}")
            rests = k > 0 and distance < settled and moved < SCALES_SETTLED and not self._damping
            now = rests or k % SUSPICIOUS_PASSES == SUSPICIOUS_PASSES - 1
            if self._averages_kinks(arrow, sums, now=now):
                continue
            if rests:
                break
            sums, value = self._newton_step(step, slope, value)
        else:
            names = self._elements.names
            kinks = "" if self._averaged_prior is None else KINKED.format(names)
            raise ModeError(
                f"{names} (group effects): the search for their centre has not converged after "
                f"{MAX_PASSES} passes, and ended {distance:.2g} standard deviations away. "
                f"{kinks}{WAY_ON}"
            )
        sums = self._move_to_means(sums, np.sqrt(arrow.variances))
        self._settle_scales(sums)
        return sums

    def _move_to_means(self, sums: ElementSums, deviations: np.ndarray) -> ElementSums:
        """Move from the mode to the mean, unless it is too far away for third derivatives."""
        mode = self.position.copy()
        for _ in range(SMOOTHINGS):
            sums = self._smoothing_step(sums)
            self._move_scales(sums)
            way = self.position - mode
            away = way[self._places] / deviations
            moved = np.sqrt(np.mean(away**2)) if away.size else 0
            if not (moved <= TRUSTED and np.abs(way[self._scales]).max(initial=0.0) <= REACH):
                self.position = mode
                self._tilt = np.zeros_like(self._tilt[0]), np.zeros_like(self._tilt[1])
                return self._sums_at(mode)[0]
        return sums

    def _averages_kinks(self, arrow: Arrow, sums: ElementSums, *, now: bool) -> bool:
        """Average the prior over new kinks or refitted intervals; return whether it is changed."""
        elements = [self._places[own] for own in self._factors]
        if self._averaged_prior is not None:
            self._fits -= 1
            if self._fits < 0 or not (now or self._fits % 2):
                return False
            deviations = np.sqrt(arrow.variances)
        elif now:
            # At a kink the prior has no curvature: standard deviations come from the rows alone.
            known = np.maximum(-self._beta * sums.diagonal, 0.0)
            deviations = 1.0 / np.sqrt(np.maximum(known, LEAST * known.max(initial=0.0) or 1.0))
            if not are_kinked(self._gradient, self.position, elements, deviations):
                return False
        else:
            return False
        self._averaged_prior = AveragedPrior(self._gradient, self._log_priors, elements, deviations)
        return True

    def _log_priors(self, factor: int, position: np.ndarray) -> np.ndarray:
        """Log prior density of each level of a factor."""
        own = self._factors[factor]
        found = np.empty(own.stop - own.start)
        self._target.compiled.element_densities[factor](position, self._target.rows.context, found)
        return found

    def _sums_at(self, position: np.ndarray) -> tuple[ElementSums, float]:
        sums = self.rows.sums(position[self._elements.border], position[self._places])
        return sums, self._log_posterior(position, sums)

    def _log_posterior(self, position: np.ndarray, sums: ElementSums) -> float:
        return self._beta * sums.value + self._target.log_prior(position)

    def _prior_shape(self, position: np.ndarray) -> PriorShape:
        """Gradient and curvature of the log prior, by finite differences of gradients."""
        size = self._places.size
        diagonal, turned = np.empty(size), np.empty((len(self._factors), size))
        for f, own in enumerate(self._factors):
            turned[f] = -self._slope_change(position, self._places[own])[self._places]
            diagonal[own] = turned[f, own]
        one, other = self._elements.coupled.T
        values = turned[np.searchsorted(self.starts, one, side="right") - 1, other]
        coupled = sparse.coo_array((values, (one, other)), shape=(size, size)).tocsr()
        lines = [-self._slope_change(position, np.array([k])) for k in self._border]
        border = np.reshape(lines, (-1, position.size))
        if self._averaged_prior is not None:
            diagonal = self._averaged_prior.curvature(position)
        return PriorShape(self._prior_slope(position), diagonal, coupled + coupled.T, border)

    def _prior_slope(self, position: np.ndarray) -> np.ndarray:
        """Gradient of the log prior, averaged over kinks in group effects, shape (d,)."""
        slope = self._gradient(position)
        if self._averaged_prior is not None:
            slope[self._places] = self._averaged_prior.slope(position)
        return slope

    def _slope_change(self, position: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Derivative of the prior's gradient along a joint shift of coordinates, shape (d,)."""
        forth, back = position.copy(), position.copy()
        forth[places] += STEP
        back[places] -= STEP
        return (self._gradient(forth) - self._gradient(back)) / (forth - back)[places[0]]

    def _arrow_and_slopes(
        self, sums: ElementSums, position: np.ndarray | None = None
    ) -> tuple[Arrow, tuple[np.ndarray, np.ndarray]]:
        """Precision at a position (default: current); gradients in common and group effects."""
        prior = self._prior_shape(self.position if position is None else position)
        beta, n = self._beta, self._elements.border.size
        border = prior.border[:, self._border]
        border = 0.5 * (border + border.T)
        border[:n, :n] -= beta * sums.border_hessian
        between = prior.border[:, self._places].T.copy()
        between[:, :n] -= beta * sums.between
        own = prior.diagonal - beta * sums.diagonal
        # Raise precisions to a minimum: rows or priors that are not log-concave make them negative.
        size = np.abs(prior.diagonal) + beta * np.abs(sums.diagonal) + 1e-12
        own = sparse.diags_array(np.maximum(own, LEAST * size))
        within = sparse.csr_array(own + prior.coupled - beta * sums.cells)
        return self._add_ridge(border, between, within, size), self._tilt_slopes(prior.slope, sums)

    def _add_ridge(
        self, border: np.ndarray, between: np.ndarray, within: sparse.csr_array, size: np.ndarray
    ) -> Arrow:
        """Precision, made positive definite by adding the smallest multiple of its diagonal."""
        n_first = int(self.starts[:2][-1])
        for ridge in RIDGES[self._damping :]:
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

    def _moved(
        self, position: np.ndarray, step: tuple[np.ndarray, np.ndarray], share: float = 1.0
    ) -> np.ndarray:
        found = position.copy()
        found[self._border] += share * step[0]
        found[self._places] += share * step[1]
        return found

    def _newton_step(
        self,
        step: tuple[np.ndarray, np.ndarray],
        slope: tuple[np.ndarray, np.ndarray],
        value: float,
    ) -> tuple[ElementSums, float]:
        """Newton step with backtracking line search."""
        for halvings in range(MOST_HALVINGS):
            there = self._moved(self.position, step, 0.5**halvings)
            # Far steps overflow, and are shortened.
            with np.errstate(all="ignore"):
                sums, found = self._sums_at(there)
            if self._averaged_prior is None:
                rises = found >= value - 1e-9 * abs(value)
            else:
                # The averaged prior has no value, so the slope decides; it may reverse a little.
                slopes = self._tilt_slopes(self._prior_slope(there), sums)
                onward = sum(map(np.dot, step, slopes))
                rises = onward >= -0.5 * sum(map(np.dot, step, slope))
            if rises:
                self.position, self._damping = there, max(self._damping - 1, 0)
                return sums, found
        self._damping = min(max(self._damping + 1, FIRST_DAMPING), len(RIDGES) - 1)
        return self._sums_at(self.position)

    def _tilt_slopes(self, slope: np.ndarray, sums: ElementSums) -> tuple[np.ndarray, np.ndarray]:
        """Gradients in common and group effects, from the gradient `slope` of the prior."""
        border = slope[self._border].copy()
        border[: self._elements.border.size] += self._beta * (sums.border + self._tilt[0])
        return border, slope[self._places] + self._beta * (sums.elements + self._tilt[1])

    def _smoothing_step(self, sums: ElementSums) -> ElementSums:
        """Step to the point where the gradient averaged over the normal distribution is zero."""
        arrow, position = self._arrow_and_slopes(sums)[0], self.position
        self._tilt = self.rows.skewness(
            position[self._elements.border], position[self._places], arrow
        )
        arrow, slopes = self._arrow_and_slopes(sums)
        self.position = self._moved(self.position, arrow.step(*slopes))
        return self._sums_at(self.position)[0]

    def _best_given_scales(self, sums: ElementSums, scales: np.ndarray) -> tuple[np.ndarray, Arrow]:
        """Mode given scales, for the rows' quadratic approximation, and its precision."""
        position = self.position.copy()
        position[self._scales] = scales
        arrow, slopes = self._arrow_and_slopes(sums, position)
        return self._moved(position, arrow.step(*slopes)), arrow

    def _spread_by(self, arrow: Arrow) -> np.ndarray:
        """Deviations of group effects and crossed levels given other parameters, shape (L + c, k).

        For one factor these are standard deviations, k = 1. Otherwise k vectors have about the
        joint covariance: exact ones take seconds, and change scales by under 0.1 of their sd.
        """
        if len(self._factors) <= 1 and not self._is_chosen.any():
            return np.sqrt(arrow.variances)[:, None]
        own, size = self._is_chosen, self._places.size
        chosen = arrow.border_factor[own][:, own] @ self._sign_table[size:]
        spread = arrow.from_noise(self._sign_table[:size]) + arrow.response[:, own] @ chosen
        return np.concatenate([spread, chosen])

    @cached_property
    def _sign_table(self) -> np.ndarray:
        """Random signs for each level, orthogonal between factors, shape (L + c, k)."""
        by_factor = hadamard(MAX_FACTORS)
        sizes = np.diff(self.starts)
        counts, rng = (sizes.max(initial=0), self._is_chosen.sum()), np.random.default_rng(0)
        by_group, chosen = (rng.choice([-1.0, 1.0], (count, MAX_FACTORS)) for count in counts)
        signs = [by_factor[f] * by_group[:size] for f, size in enumerate(sizes)]
        return np.concatenate([*signs, chosen])

    def _best_scales(self, position: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """Scales that maximise the log prior averaged over the effects' deviations (M-step)."""
        # Imported here, because the import is slow and most models do not need it.
        from scipy.optimize import minimize  # noqa: PLC0415

        start = position[self._scales]

        def loss_at(x: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = self._average_at(position, spread, x)
            return (-value, -slope) if np.isfinite(value) else (np.inf, np.zeros(x.size))

        bounds = [(x - REACH, x + REACH) for x in start]
        return np.asarray(minimize(loss_at, start, jac=True, bounds=bounds, method="L-BFGS-B").x)

    def _average_at(
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

    def _em_step(self, sums: ElementSums, scales: np.ndarray) -> np.ndarray:
        position, arrow = self._best_given_scales(sums, scales)
        return self._best_scales(position, self._spread_by(arrow))

    def _move_scales(self, sums: ElementSums) -> float:
        """Move the scales by two EM steps, extrapolated; return the largest change."""
        if not self._scales.size:
            return 0.0
        start = self.position[self._scales].copy()
        first = self._em_step(sums, start)
        second = self._em_step(sums, first)
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
        """Set the standard deviation of each scale, and the factor whose prior it scales."""
        scales = self.position[self._scales]
        self._spread, owner = self._spread_of_scales(sums, scales), np.full(scales.size, -1)
        here = self._prior_shape(self.position).diagonal
        for k in range(scales.size):
            place = self.position.copy()
            place[self._scales[k]] += 0.1
            change = np.abs(self._prior_shape(place).diagonal - here) / (np.abs(here) + 1e-12)
            bent = [change[own].max() for own in self._factors]
            owner[k] = np.argmax(bent) if max(bent, default=0.0) > CHANGED else -1
        self._owner = owner

    def _spread_of_scales(self, sums: ElementSums, scales: np.ndarray) -> np.ndarray:
        """Posterior standard deviations of scales, from the convergence rate of EM.

        Meng, Rubin (1991), doi:10.1080/01621459.1991.10475130.
        """
        if not scales.size:
            return np.empty(0)
        position, arrow = self._best_given_scales(sums, scales)
        spread = self._spread_by(arrow)
        complete, left = np.empty((2, scales.size, scales.size))
        best = self._best_scales(position, spread)
        for k, away in enumerate(SPREAD_STEP * np.eye(scales.size)):
            turn = [self._average_at(position, spread, scales + s * away)[1] for s in (1.0, -1.0)]
            complete[k] = (turn[1] - turn[0]) / (2.0 * SPREAD_STEP)
            left[k] = (self._em_step(sums, scales + away) - best) / SPREAD_STEP
        complete = 0.5 * (complete + complete.T)
        information = (np.eye(scales.size) - left) @ complete
        values, vectors = np.linalg.eigh(0.5 * (information + information.T))
        variances = (vectors**2) @ (1.0 / np.maximum(values, 1.0 / MAX_SPREAD**2))
        return np.sqrt(variances)

    def expanded_reference(self, sums: ElementSums) -> GroupedReference:
        """Reference with expansions at the centre; group effects do not follow crossed levels."""
        prior, n = self._prior_shape(self.position), self._elements.border.size
        arrow, followed = self._arrow_and_slopes(sums)[0], ~self._is_chosen
        factor = arrow.border_factor
        fixed, response = factor[:n], arrow.response[:, followed] @ factor[followed]
        bent, along = sums.hessian_of_elements @ response, sums.between @ fixed
        coupled = along.T @ response
        direction, stiffness, slope = self._location_response(prior, factor, response)
        read = np.eye(len(factor)) if followed.all() else np.linalg.qr(factor[followed].T)[0].T
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
            read=np.ascontiguousarray(read),
        )

    def _location_response(
        self, prior: PriorShape, factor: np.ndarray, response: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Derivatives of α minus prior means in w, resulting precision of w, remaining gradient."""
        # -∂²/∂α_g∂w of the log prior, where α responds to w.
        turned = prior.diagonal[:, None] * response + prior.coupled @ response
        turned += prior.border[:, self._places].T @ factor
        direction = _solve_known(np.maximum(prior.diagonal, 0.0), prior.coupled, turned)
        stiffness = [direction[k].T @ turned[k] for k in self._factors]
        found = np.reshape(stiffness, (len(stiffness), *factor.shape))
        slope = prior.slope[self._places]
        through = factor.T @ prior.slope[self._border] + response.T @ slope
        return direction, 0.5 * (found + found.transpose(0, 2, 1)), through - direction.T @ slope
