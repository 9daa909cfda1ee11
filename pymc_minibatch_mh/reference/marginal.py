"""Laplace approximation to the marginal density of scales φ, with the rest x integrated out.

V(φ) = max over x of [log π₀(x, φ) + the rows' quadratic expansion] - ½ log|A(φ)|, with A(φ) the
precision of x given φ: Tierney & Kadane (1986), doi:10.1080/01621459.1986.10478240, nested as by
Rue, Martino & Chopin (2009), doi:10.1111/j.1467-9868.2008.00700.x. V has a maximum even if the
joint density is unbounded. The expansion is frozen, so V evaluates no rows.

Proposals around the mode of a skewed posterior miss mass on one side, so the centre moves to
the mean: the zero of the gradient averaged over the Gaussian approximation, up to third order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from pymc_minibatch_mh.reference.full_data import Derivatives, FullData
from pymc_minibatch_mh.reference.mode import Mode, whitening_factors

#: Maximum number of Newton steps in x; final distance in standard deviations; maximum halvings.
MAX_STEPS, NEAR, MOST_HALVINGS = 30, 1e-5, 30
#: Maximum decrease of the log-density that counts as rounding, relative to its value.
ROUNDING = 1e-12
#: Steps of finite differences: first ones of the precision A; second ones of ½ log|A|.
STEP, LONG_STEP = 1e-6, 1e-2
#: Minimum |eigenvalue| of an indefinite precision, relative to the largest.
LEAST = 1e-8
#: Maximum iterations of the maximisation of V over the scales; its tolerances for gradient and
#: relative increase, loose because the next quadratic expansion refines the result.
MAX_ITERATIONS, NO_SLOPE, NO_RISE = 30, 1e-2, 1e-8


@dataclass(frozen=True)
class Given:
    """Best x given scales, its log-density, and A with its :func:`scipy.linalg.cho_factor`."""

    position: np.ndarray
    value: float
    precision: np.ndarray
    factor: tuple[np.ndarray, bool]
    prior: Derivatives

    @property
    def log_volume(self) -> float:
        """½ log|A|."""
        return float(np.log(np.diag(self.factor[0])).sum())


@dataclass(frozen=True)
class Marginal:
    """V as a function of `scales`, with a fixed quadratic of the rows in the `rest` at `anchor`.

    The tempered log-likelihood has the gradient `slope` and the Hessian -`curvature` there.
    """

    prior: Callable[..., Derivatives]
    scales: np.ndarray
    rest: np.ndarray
    anchor: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray

    @classmethod
    def freeze_rows(
        cls,
        prior: Callable[..., Derivatives],
        scales: Sequence[int] | np.ndarray,
        position: np.ndarray,
        rows: Derivatives,
        fixed: Sequence[int] | np.ndarray = (),
    ) -> "Marginal":
        """V with the quadratic expansion at a position, from the rows' tempered derivatives.

        Coordinates `fixed` stay as they are at the position.
        """
        rest = np.setdiff1d(np.arange(position.size), [*scales, *fixed])
        curvature = -rows.hessian[np.ix_(rest, rest)]
        return cls(prior, np.array(scales), rest, position, rows.gradient[rest], curvature)

    @property
    def _rest_block(self) -> tuple[np.ndarray, ...]:
        return np.ix_(self.rest, self.rest)

    def given(self, scales: np.ndarray, near: np.ndarray | None = None) -> Given | None:
        """Best x for given scales, searched from `near`; None if the prior is not finite."""
        position = (self.anchor if near is None else near).copy()
        position[self.scales] = scales
        here = self.at(position)
        for _ in range(MAX_STEPS):
            if here is None:
                return None
            way = here.position[self.rest] - self.anchor[self.rest]
            gradient = here.prior.gradient[self.rest] + self.slope - self.curvature @ way
            step = cho_solve(here.factor, gradient)
            distance = np.sqrt(max(step @ gradient, 0.0))
            if distance < NEAR:
                return here
            way, slack = np.zeros(position.size), ROUNDING * (1.0 + abs(here.value))
            way[self.rest] = step
            tried = (self.at(here.position + 0.5**k * way) for k in range(MOST_HALVINGS))
            there = next((x for x in tried if x and x.value >= here.value - slack), None)
            if there is None:
                return here
            here = there
        return here

    def at(self, position: np.ndarray) -> Given | None:
        """State at a position whose x need not be the best; None if the prior is not finite."""
        prior = self.prior(position, hessian=True)
        finite = np.isfinite(prior.value) and np.isfinite(prior.gradient).all()
        if not (finite and np.isfinite(prior.hessian).all()):
            return None
        way = position[self.rest] - self.anchor[self.rest]
        value = prior.value + self.slope @ way - 0.5 * way @ self.curvature @ way
        precision = self.curvature - prior.hessian[self._rest_block]
        return Given(position, float(value), precision, _cholesky_or_absolute(precision), prior)

    def response(self, given: Given) -> np.ndarray:
        """Derivatives dx/dφ of the best x, shape (n, p)."""
        return cho_solve(given.factor, given.prior.hessian[np.ix_(self.rest, self.scales)])

    def value_and_gradient(self, given: Given) -> tuple[float, np.ndarray]:
        """V and its gradient; V is -inf if derivatives of the prior are not finite."""
        own = -given.prior.hessian[self._rest_block]
        turns = np.array([self._curved_at(given, STEP * w) - own for w in self.scale_ways(given).T])
        if not np.isfinite(turns).all():
            return -np.inf, np.zeros(self.scales.size)
        gradient = given.prior.gradient[self.scales].copy()
        gradient -= [np.trace(cho_solve(given.factor, t)) / (2 * STEP) for t in turns]
        return given.value - given.log_volume, gradient

    def scale_ways(self, given: Given) -> np.ndarray:
        """Derivatives of the position in each scale, if x remains the best x, shape (d, p)."""
        ways = np.zeros((self.anchor.size, self.scales.size))
        ways[self.rest] = self.response(given)
        ways[self.scales, range(self.scales.size)] = 1.0
        return ways

    def _curved_at(self, given: Given, way: np.ndarray) -> np.ndarray:
        """Negative Hessian of the log prior in x, at the displacement `way` from the position."""
        return -self.prior(given.position + way, hessian=True).hessian[self._rest_block]

    def curvature_at(self, given: Given) -> np.ndarray:
        """Negative Hessian of V, shape (p, p); NaN if the prior is not smooth nearby."""
        hessian, ways = given.prior.hessian, self.scale_ways(given)
        cross = hessian[np.ix_(self.scales, self.rest)] @ ways[self.rest]
        own = -hessian[np.ix_(self.scales, self.scales)] - cross
        return own + self._curvature_of_volume(given, ways)

    def _curvature_of_volume(self, given: Given, ways: np.ndarray) -> np.ndarray:
        """Hessian of ½ log|A| in the scales, along `ways`, by second differences."""
        size, h = ways.shape[1], LONG_STEP

        def log_volume_at(way: np.ndarray) -> float:
            there = self.curvature + self._curved_at(given, way)
            if not np.isfinite(there).all():
                return np.nan
            return float(np.log(np.diag(_cholesky_or_absolute(there)[0])).sum())

        here = given.log_volume
        alone = [log_volume_at(h * w) + log_volume_at(-h * w) - 2 * here for w in ways.T]
        second = np.diag(alone)
        for k, j in combinations(range(size), 2):
            both = h * (ways[:, k] + ways[:, j])
            mixed = log_volume_at(both) + log_volume_at(-both) - 2 * here
            second[k, j] = second[j, k] = 0.5 * (mixed - alone[k] - alone[j])
        return second / h**2

    def best(self, start: Given, reach: np.ndarray) -> Given:
        """State at the maximum of V over the scales within `reach` of a start."""
        # Imported here, because the import is slow and most models do not need it.
        from scipy.optimize import minimize  # noqa: PLC0415

        first, best, highest = start.position[self.scales], start, -np.inf

        def negative_marginal(scales: np.ndarray) -> tuple[float, np.ndarray]:
            nonlocal best, highest
            same = np.array_equal(scales, first)
            given = start if same else self.given(scales, best.position)
            if given is None:
                return 1e300, np.zeros_like(scales)
            value, gradient = self.value_and_gradient(given)
            if value > highest:
                highest, best = value, given
            return min(-value, 1e300), -gradient

        bounds = list(zip(first - reach, first + reach, strict=True))
        limits = {"maxiter": MAX_ITERATIONS, "ftol": NO_RISE, "gtol": NO_SLOPE}
        minimize(
            negative_marginal, first, jac=True, method="L-BFGS-B", bounds=bounds, options=limits
        )
        return best

    def precision(self, given: Given, curvature: np.ndarray) -> np.ndarray:
        """Joint precision, from the `curvature` of V for φ and from A for x given φ."""
        joint = np.empty((self.anchor.size, self.anchor.size))
        response, own = self.response(given), given.precision
        across = -own @ response
        joint[self._rest_block] = own
        joint[np.ix_(self.rest, self.scales)] = across
        joint[np.ix_(self.scales, self.rest)] = across.T
        joint[np.ix_(self.scales, self.scales)] = curvature - response.T @ across
        return 0.5 * (joint + joint.T)


def _cholesky_or_absolute(precision: np.ndarray) -> tuple[np.ndarray, bool]:
    """Cholesky factor of a precision, with absolute eigenvalues if it is indefinite."""
    try:
        return cho_factor(precision, lower=True)
    except LinAlgError:
        values, vectors = np.linalg.eigh(precision)
        sizes = np.maximum(np.abs(values), LEAST * np.abs(values).max() or 1.0)
        return cho_factor((vectors * sizes) @ vectors.T, lower=True)


#: Subsample size for the average gradient, whose noise is of order d^1.5 / N.
SUBSAMPLE = 20_000
#: `WORTH_MOVING`: minimum useful step in posterior standard deviations; `TRUSTED`: maximum total
#: step, divided by √d, for which third-order terms are reliable.
WORTH_MOVING, TRUSTED = 0.02, 0.5
#: Maximum number of steps in models with scales; minimum length of a step that another follows.
STEPS_WITH_SCALES, WORTH_ANOTHER = 3, 0.1


def mode_near_mean(
    full_data: FullData, mode: Mode, inverse_temperature: float, rng: np.random.Generator
) -> Mode:
    """Mode moved towards the mean of the posterior, if the step is useful and reliable."""
    # A second step is not worth its full-data Hessian, unless scales shift all other coordinates.
    moved = mode
    for _ in range(STEPS_WITH_SCALES if mode.marginal else 1):
        further = _step_to_mean(full_data, moved, inverse_temperature, rng)
        if further is None:
            break
        way, moved = further.position - moved.position, further
        if _length_of(further, way) < WORTH_ANOTHER:
            break
    far = _length_of(mode, moved.position - mode.position) > TRUSTED * np.sqrt(mode.position.size)
    return mode if far else moved


def skewness_shift(
    full_data: FullData,
    centre: np.ndarray,
    factor: np.ndarray,
    weight: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """`weight` times (average gradient of rows - gradient at the centre), from a subsample."""
    rows = None
    if full_data.n_rows > SUBSAMPLE:
        rows = np.sort(rng.choice(full_data.n_rows, SUBSAMPLE, replace=False))
        weight *= full_data.n_rows / SUBSAMPLE
    return weight * full_data.skewness(centre, factor, rows)


def _step_to_mean(
    full_data: FullData, here: Mode, inverse_temperature: float, rng: np.random.Generator
) -> Mode | None:
    _, factor = whitening_factors(here.precision)
    gradient = inverse_temperature * here.likelihood.gradient
    gradient = gradient + full_data.prior(here.position, hessian=False).gradient
    skewness = skewness_shift(full_data, here.position, factor, inverse_temperature, rng)
    tilt = factor.T @ (gradient + skewness) + full_data.skewness_of_prior(here.position, factor)
    shift = factor @ tilt
    if not _length_of(here, shift) > WORTH_MOVING:
        return None
    position = here.position + shift
    likelihood = full_data.likelihood(position, hessian=True)
    precision = precision_at(full_data, here, position, likelihood, inverse_temperature)
    if precision is None or np.linalg.eigvalsh(precision)[0] <= 0.0:
        return None
    return Mode(position, precision, likelihood, marginal=here.marginal)


def precision_at(
    full_data: FullData,
    here: Mode,
    position: np.ndarray,
    likelihood: Derivatives,
    inverse_temperature: float,
) -> np.ndarray | None:
    """Precision at a position, defined as in `here`; None unless finite.

    Derivatives of the likelihood are multiplied by the inverse temperature.
    """
    hessian = inverse_temperature * likelihood.hessian
    if not here.marginal:
        precision = -hessian - full_data.prior(position, hessian=True).hessian
        return precision if np.isfinite(precision).all() else None
    rows = Derivatives(likelihood.value, inverse_temperature * likelihood.gradient, hessian)
    marginal = Marginal.freeze_rows(full_data.prior, here.marginal, position, rows)
    given = marginal.at(position)
    return None if given is None else marginal.precision(given, marginal.curvature_at(given))


def _length_of(mode: Mode, shift: np.ndarray) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.sqrt(shift @ mode.precision @ shift))
