"""Centre and precision of posteriors whose log-likelihood has kinks or jumps.

Slopes and curvatures are averaged over intervals as wide as the posterior, along the columns L_j of
a factor L Lᵀ = A⁻¹ of its covariance. With θ± = θ ± √3 L_j, the averages are

    slope (ℓ(θ+) - ℓ(θ-)) / (2√3),    curvature (2 ℓ(θ) - ℓ(θ+) - ℓ(θ-)) / 3,

and differences of gradients between θ+ and θ- for two directions. Values alone notice jumps. A
is then the averaged curvature, and both are repeated until they agree: intervals widen where the
log-density is flat, and narrow where it is curved. They cost 2d + 1 full-data evaluations.

Scales, whose joint mode with their effects is at 0, go to the mode of their marginal density, and
the averages are repeated at these scales.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pymc_minibatch_mh.errors import ModeError
from pymc_minibatch_mh.progress import report_stage
from pymc_minibatch_mh.reference import messages
from pymc_minibatch_mh.reference.density import Density
from pymc_minibatch_mh.reference.full_data import Derivatives
from pymc_minibatch_mh.reference.hierarchy import REACH
from pymc_minibatch_mh.reference.marginal import Marginal
from pymc_minibatch_mh.reference.messages import WAY_ON
from pymc_minibatch_mh.reference.mode import (
    Mode,
    precision_of_scores,
    rows_of_few,
    whitening_factors,
)
from pymc_minibatch_mh.reference.prior_kinks import HALF_WIDTH

#: Maximum number of coordinates: each costs two passes over all rows in a step.
MAX_SIZE = 150
#: Maximum number of steps; maximum number of halvings of one.
MAX_STEPS, MAX_HALVINGS = 100, 12
#: Maximum factor by which a variance changes in a step; by which it may still change at the end.
MAX_CHANGE, AGREES = 9.0, 1.25
#: Maximum ratio of averaged curvature to that at the mode for which kinks can be ignored.
MAX_DIFFERENCE = 2.0
#: Number of steps after which tolerances are doubled; number of coordinates above which they grow
#: with its root, as the noise of averages does.
PATIENCE, SMALL = 10, 5
#: Maximum length of a step, of one that is shortened with time, and of the last one, in posterior
#: standard deviations.
MAX_STEP, SHORT, NEAR = 100.0, 2.0, 0.2


def find_smoothed(
    density: Density,
    start: np.ndarray,
    rng: np.random.Generator,
    jumping: Sequence[int] = (),
    scales: Sequence[int] = (),
) -> Mode:
    """Centre of a posterior with kinks, and its averaged precision; ModeError if there is none.

    The coordinates `jumping` decide where rows jump; the precision has no entries beside them.
    `scales` are at the mode of their marginal density.
    """
    if start.size > MAX_SIZE:
        raise too_many_coordinates(f"{density.first_names}, ...", start.size)
    full_data = density.full_data
    few = rows_of_few(full_data, start.size, rng)
    precision = precision_of_scores(density, start, rng)
    if not np.isfinite(precision).all() or np.linalg.eigvalsh(precision)[0] <= 0.0:
        precision = np.diag(np.maximum(np.abs(np.diag(precision)), 1.0))
    search = _Search(np.isin(np.arange(start.size), jumping), np.array(scales, dtype=np.int64))
    position = np.array(start, dtype=np.float64)
    precision = _without_cross_terms(precision, search.alone)
    if few is not None:
        # With its own weight, the posterior of a subsample is wide enough to average many kinks.
        coarse, ratio = replace(density, rows=few), full_data.n_rows / few.size
        position, precision = search.centre(coarse, position, precision / ratio)
        precision = ratio * precision
    position, precision = search.centre(density, position, precision)
    likelihood, every = full_data.likelihood(position, hessian=True), tuple(range(position.size))
    return Mode(position, precision, likelihood, every, tuple(map(int, scales)))


def too_many_coordinates(names: str, size: int) -> ModeError:
    """Error about observations with kinks and more coordinates than averages are built for."""
    return ModeError(
        f"{names}: observations have kinks, and their centre is an average along each of {size:,} "
        f"coordinates, which is built for up to {MAX_SIZE}. Use fewer groups, a smooth "
        "log-likelihood, such as w * pt.softplus(x / w) instead of pt.maximum(x, 0) with a width "
        "w, or pm.NUTS()."
    )


@dataclass(frozen=True)
class _Search:
    """Search for a centre; which coordinates are `alone`, shape (d,), and which are `scales`."""

    alone: np.ndarray
    scales: np.ndarray

    def centre(
        self, density: Density, position: np.ndarray, precision: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Centre and precision, from a position and a precision nearby."""
        if not self.scales.size:
            return _climb(density, position, precision, self.alone)
        rest = np.setdiff1d(np.arange(position.size), self.scales)
        among = np.ix_(rest, rest)
        position, given_scales = position.copy(), precision[among]
        for _ in range(MAX_STEPS):
            part = replace(density, rest=rest, fixed=position)
            position[rest], given_scales = _climb(
                part, position[rest], given_scales, self.alone[rest]
            )
            marginal = self._marginal(density, position, among, given_scales)
            near = marginal.given(position[self.scales])
            if near is None:
                raise messages.start_without_density()
            best = marginal.best(near, np.full(self.scales.size, REACH))
            curvature = marginal.curvature_at(best)
            move = best.position[self.scales] - position[self.scales]
            position = best.position.copy()
            if move @ curvature @ move < NEAR**2:
                return position, _checked(density, marginal.precision(best, curvature))
        raise _without_centre(density)

    def _marginal(
        self,
        density: Density,
        position: np.ndarray,
        among: tuple[np.ndarray, ...],
        given_scales: np.ndarray,
    ) -> Marginal:
        """Marginal density of the scales around a centre given these, with its precision."""
        prior = density.prior(position, hessian=True)
        rows = -prior.hessian
        rows[among] -= given_scales
        likelihood = Derivatives(0.0, -prior.gradient, rows)
        return Marginal.freeze_rows(density.prior, self.scales, position, likelihood)


def _climb(
    density: Density, position: np.ndarray, precision: np.ndarray, alone: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Centre and precision; no entries beside coordinates that are `alone`, shape (d,)."""
    loose = max(1.0, position.size / SMALL) ** 0.5
    for k in range(MAX_STEPS):
        whitener, factor = whitening_factors(precision)
        averages = _averages(density, position, factor)
        if averages is None:
            precision = MAX_CHANGE * precision
            continue
        value, slopes, curvature = averages
        # Gradients do not notice jumps, so they tell nothing about their coordinates.
        curvature = _without_cross_terms(curvature, alone)
        sizes, vectors = np.linalg.eigh(curvature)
        # Averages over few jumps never agree closely.
        patience = 1.0 + k / PATIENCE
        most = patience * (1.0 + (AGREES - 1.0) * loose)
        agrees = 1.0 / most < sizes[0] and sizes[-1] < most
        sizes = np.clip(np.abs(sizes), 1.0 / MAX_CHANGE, MAX_CHANGE)
        step = vectors @ ((vectors.T @ slopes) / sizes)
        distance = float(np.linalg.norm(step))
        step *= min(1.0, MAX_STEP / max(distance, 1e-300))
        # Nearby, steps follow the noise of the averages.
        step *= 1.0 / patience if distance < SHORT * loose else 1.0
        report_stage("Averaging over kinks", f"{k + 1}/{MAX_STEPS}, distance {distance:.2g}")
        precision = whitener.T @ (vectors * sizes) @ vectors.T @ whitener
        if distance < NEAR * loose * patience and agrees:
            return position, precision
        tried = (position + 0.5**h * (factor @ step) for h in range(MAX_HALVINGS))
        # Nearby, a kink may lower the value although the average rises.
        least = value if distance > 1.0 else -np.inf
        better = (x for x in tried if density.at(x, hessian=False).total.value > least)
        position = next(better, position)
    raise _without_centre(density)


def _checked(density: Density, precision: np.ndarray) -> np.ndarray:
    """Precision; ModeError unless it is finite and positive."""
    values, vectors = np.linalg.eigh(np.where(np.isfinite(precision), precision, 0.0))
    if not values[0] > 0.0:
        raise messages.density_flat(density.names, np.abs(vectors[:, 0]))
    return precision


def _without_centre(density: Density) -> ModeError:
    """Error about a search that did not end."""
    return ModeError(
        f"{density.first_names}: no centre was found in {MAX_STEPS} steps, although "
        f"the log-posterior was averaged across its kinks. {WAY_ON}"
    )


def _without_cross_terms(matrix: np.ndarray, alone: np.ndarray) -> np.ndarray:
    """Matrix whose rows and columns of some coordinates have only their diagonal entry."""
    crossed = alone[:, None] | alone
    return np.where(crossed, np.diag(np.diag(matrix)), matrix)


def is_averaged(density: Density, mode: Mode) -> bool:
    """Whether the precision of a mode is also that of the log-density averaged over kinks."""
    _, factor = whitening_factors(mode.precision)
    averages = _averages(density, mode.position, factor)
    if averages is None:
        return False
    sizes = np.linalg.eigvalsh(averages[2])
    return bool(sizes[0] > 1.0 / MAX_DIFFERENCE and sizes[-1] < MAX_DIFFERENCE)


def _averages(
    density: Density, position: np.ndarray, factor: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray] | None:
    """Value at a position, averaged slopes and curvature in whitened coordinates; None if -inf."""
    value = density.at(position, hessian=False).total.value
    ends = [
        [density.at(position + side * HALF_WIDTH * c, hessian=False).total for c in factor.T]
        for side in (1.0, -1.0)
    ]
    above, below = (np.array([end.value for end in side]) for side in ends)
    if not np.isfinite([value, *above, *below]).all():
        return None
    if not all(np.isfinite(end.gradient).all() for side in ends for end in side):
        return None
    changes = [up.gradient - down.gradient for up, down in zip(*ends, strict=True)]
    curvature = -np.array(changes) @ factor / (2.0 * HALF_WIDTH)
    curvature = 0.5 * (curvature + curvature.T)
    curvature[np.diag_indices_from(curvature)] = (2.0 * value - above - below) / HALF_WIDTH**2
    return value, (above - below) / (2.0 * HALF_WIDTH), curvature
