"""The density of scales with the other coordinates integrated over, as a Gaussian.

With φ the scales and x the rest, V(φ) = max over x of [log π₀(x, φ) + the quadratic of the rows]
minus ½ log|A(φ)|, A(φ) the precision of x given φ: Laplace's approximation to the log-density of φ
(Tierney & Kadane, JASA 81:82-86, 1986, doi:10.1080/01621459.1986.10478240; nested in a search as
by Rue, Martino & Chopin, JRSS B 71:319-392, 2009, doi:10.1111/j.1467-9868.2008.00700.x). It has a
maximum where the joint density grows without bound, and reads no row: their quadratic is frozen.

Moves around the mode of a skewed posterior miss its mass on one side. The centre at which the
gradient vanishes *on average over the Gaussian approximation* is the mean, up to third order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from pymc_minibatch_mh.reference.full_data import Derivatives, FullData
from pymc_minibatch_mh.reference.mode import Mode, whitening

#: Newton steps to the maximum over x, and the distance from it, in standard deviations, that ends.
MAX_STEPS, NEAR = 30, 1e-5
MOST_HALVINGS = 30
#: Fall of a value, relative to its size, that may be rounding.
ROUNDING = 1e-12
#: Step of differences of the precision: for its derivatives, and for second ones.
STEP, LONG_STEP = 1e-6, 1e-2
#: Least curvature that is divided by, relative to the largest, where a precision is not positive.
LEAST = 1e-8
#: Steps of a maximisation over the scales, and the slope and the relative rise of V that end it.
#: The next quadratic of the rows has the last word.
MOST_ITERATIONS, NO_SLOPE, NO_RISE = 30, 1e-2, 1e-8


@dataclass(frozen=True)
class Given:
    """The best x for given scales, log π₀ + the quadratic of the rows there, and A with a factor.

    The `factor` is one of :func:`scipy.linalg.cho_factor`.
    """

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
    """V of the coordinates `scales`, with the rows' quadratic in the `rest` frozen at an anchor.

    `slope` is the gradient in x of the tempered log-likelihood there, `curvature` its -Hessian.
    """

    prior: Callable[..., Derivatives]
    scales: np.ndarray
    rest: np.ndarray
    anchor: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray

    @classmethod
    def frozen(
        cls,
        prior: Callable[..., Derivatives],
        scales: Sequence[int] | np.ndarray,
        position: np.ndarray,
        rows: Derivatives,
    ) -> "Marginal":
        """Freeze the quadratic of the rows at a position, from their tempered derivatives."""
        rest = np.setdiff1d(np.arange(position.size), scales)
        curvature = -rows.hessian[np.ix_(rest, rest)]
        return cls(prior, np.array(scales), rest, position, rows.gradient[rest], curvature)

    @property
    def _block(self) -> tuple[np.ndarray, ...]:
        return np.ix_(self.rest, self.rest)

    def given(self, scales: np.ndarray, near: np.ndarray | None = None) -> Given | None:
        """Return the best x for given scales, sought from `near`; None if there is none."""
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
                # No better point can be told apart.
                return here
            here = there
        return here

    def at(self, position: np.ndarray) -> Given | None:
        """Return the state at a position, be its x the best or not; None without density."""
        prior = self.prior(position, hessian=True)
        finite = np.isfinite(prior.value) and np.isfinite(prior.gradient).all()
        if not (finite and np.isfinite(prior.hessian).all()):
            return None
        way = position[self.rest] - self.anchor[self.rest]
        value = prior.value + self.slope @ way - 0.5 * way @ self.curvature @ way
        precision = self.curvature - prior.hessian[self._block]
        return Given(position, float(value), precision, _factor(precision), prior)

    def response(self, given: Given) -> np.ndarray:
        """Return dx/dφ, shape (n, p)."""
        return cho_solve(given.factor, given.prior.hessian[np.ix_(self.rest, self.scales)])

    def value_and_gradient(self, given: Given) -> tuple[float, np.ndarray]:
        """Return V, -inf where the prior has no finite derivatives, and its gradient."""
        own = -given.prior.hessian[self._block]
        turns = np.array([self._bent(given, STEP * w) - own for w in self.ways(given).T])
        if not np.isfinite(turns).all():
            return -np.inf, np.zeros(self.scales.size)
        gradient = given.prior.gradient[self.scales].copy()
        gradient -= [np.trace(cho_solve(given.factor, t)) / (2 * STEP) for t in turns]
        return given.value - given.log_volume, gradient

    def ways(self, given: Given) -> np.ndarray:
        """Return how the position moves with each scale, x by its response, shape (d, p)."""
        ways = np.zeros((self.anchor.size, self.scales.size))
        ways[self.rest] = self.response(given)
        ways[self.scales, range(self.scales.size)] = 1.0
        return ways

    def _bent(self, given: Given, way: np.ndarray) -> np.ndarray:
        """Return the prior's part of the precision of x some way off."""
        there = self.prior(given.position + way, hessian=True)
        return -there.hessian[self._block]

    def curvature_at(self, given: Given) -> np.ndarray:
        """Return minus the Hessian of V, shape (p, p), NaN where the prior has none nearby."""
        hessian, ways = given.prior.hessian, self.ways(given)
        cross = hessian[np.ix_(self.scales, self.rest)] @ ways[self.rest]
        own = -hessian[np.ix_(self.scales, self.scales)] - cross
        return own + self._curvature_of_volume(given, ways)

    def _curvature_of_volume(self, given: Given, ways: np.ndarray) -> np.ndarray:
        """Return the Hessian of ½ log|A| along the response, by second differences."""
        size, h = ways.shape[1], LONG_STEP

        def volume(way: np.ndarray) -> float:
            there = self.curvature + self._bent(given, way)
            if not np.isfinite(there).all():
                return np.nan
            return float(np.log(np.diag(_factor(there)[0])).sum())

        here = given.log_volume
        alone = [volume(h * w) + volume(-h * w) - 2 * here for w in ways.T]
        second = np.diag(alone)
        for k, j in combinations(range(size), 2):
            both = h * (ways[:, k] + ways[:, j])
            mixed = volume(both) + volume(-both) - 2 * here
            second[k, j] = second[j, k] = 0.5 * (mixed - alone[k] - alone[j])
        return second / h**2

    def best(self, start: Given, reach: np.ndarray) -> Given:
        """Maximise V over the scales, no farther than `reach` from a start."""
        # Imported where it is needed: most models have no scales, and it takes long.
        from scipy.optimize import minimize  # noqa: PLC0415

        first, best, highest = start.position[self.scales], start, -np.inf

        def negative(scales: np.ndarray) -> tuple[float, np.ndarray]:
            nonlocal best, highest
            same = np.array_equal(scales, first)
            given = start if same else self.given(scales, best.position)
            if given is None:
                return 1e300, np.zeros_like(scales)
            value, gradient = self.value_and_gradient(given)
            if value > highest:
                highest, best = value, given
            return min(-value, 1e300), -gradient

        lower, upper = first - reach, first + reach
        minimize(
            negative,
            first,
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(lower, upper, strict=True)),
            options={"maxiter": MOST_ITERATIONS, "ftol": NO_RISE, "gtol": NO_SLOPE},
        )
        return best

    def precision(self, given: Given, curvature: np.ndarray) -> np.ndarray:
        """Return the precision of all: of φ by V, whose curvature is given, of x given φ by A."""
        joint = np.empty((self.anchor.size, self.anchor.size))
        response, own = self.response(given), given.precision
        across = -own @ response
        joint[self._block] = own
        joint[np.ix_(self.rest, self.scales)] = across
        joint[np.ix_(self.scales, self.rest)] = across.T
        joint[np.ix_(self.scales, self.scales)] = curvature - response.T @ across
        return 0.5 * (joint + joint.T)


def _factor(precision: np.ndarray) -> tuple[np.ndarray, bool]:
    """Factorise a precision; where it is not positive, one that is curved as much either way."""
    try:
        return cho_factor(precision, lower=True)
    except LinAlgError:
        values, vectors = np.linalg.eigh(precision)
        sizes = np.maximum(np.abs(values), LEAST * np.abs(values).max() or 1.0)
        return cho_factor((vectors * sizes) @ vectors.T, lower=True)


#: Rows that the average gradient is estimated from: its noise goes like d^1.5 / N.
SUBSAMPLE = 20_000
#: Distances in posterior standard deviations: below the first, moving gains nothing; beyond the
#: second, per root of d, the third-order terms are not to be trusted.
WORTH_MOVING, TRUSTED = 0.02, 0.5
#: Steps at most where scales were maximised with the rest integrated over, and the length of one
#: after which another gains nothing.
STEPS_WITH_SCALES, WORTH_ANOTHER = 3, 0.1


def smoothed(
    full_data: FullData, mode: Mode, inverse_temperature: float, rng: np.random.Generator
) -> Mode:
    """Move a mode towards the mean of the posterior, or leave it where moving is of no use."""
    # A second step, which would correct the first one, is not worth its pass with Hessian,
    # but where scales move the rest follows.
    moved = mode
    for _ in range(STEPS_WITH_SCALES if mode.marginal else 1):
        further = _moved(full_data, moved, inverse_temperature, rng)
        if further is None:
            break
        way, moved = further.position - moved.position, further
        if _distance(further, way) < WORTH_ANOTHER:
            break
    far = _distance(mode, moved.position - mode.position) > TRUSTED * np.sqrt(mode.position.size)
    return mode if far else moved


def skewness_shift(
    full_data: FullData,
    centre: np.ndarray,
    factor: np.ndarray,
    weight: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return, from a draw of many rows, their weighted average gradient less that in the centre."""
    rows = None
    if full_data.n_rows > SUBSAMPLE:
        rows = np.sort(rng.choice(full_data.n_rows, SUBSAMPLE, replace=False))
        weight *= full_data.n_rows / SUBSAMPLE
    return weight * full_data.skewness(centre, factor, rows)


def _moved(
    full_data: FullData, here: Mode, inverse_temperature: float, rng: np.random.Generator
) -> Mode | None:
    _, factor = whitening(here.precision)
    gradient = inverse_temperature * here.likelihood.gradient
    gradient = gradient + full_data.prior(here.position, hessian=False).gradient
    skewness = skewness_shift(full_data, here.position, factor, inverse_temperature, rng)
    tilt = factor.T @ (gradient + skewness) + full_data.skewness_of_prior(here.position, factor)
    shift = factor @ tilt
    if not _distance(here, shift) > WORTH_MOVING:
        return None
    position = here.position + shift
    likelihood = full_data.likelihood(position, hessian=True)
    precision = _precision(full_data, here, position, likelihood, inverse_temperature)
    if precision is None or np.linalg.eigvalsh(precision)[0] <= 0.0:
        return None
    return Mode(position, precision, likelihood, marginal=here.marginal)


def _precision(
    full_data: FullData,
    here: Mode,
    position: np.ndarray,
    likelihood: Derivatives,
    inverse_temperature: float,
) -> np.ndarray | None:
    """Return the precision at a position as `here` has its own, None where it is not finite."""
    hessian = inverse_temperature * likelihood.hessian
    if not here.marginal:
        precision = -hessian - full_data.prior(position, hessian=True).hessian
        return precision if np.isfinite(precision).all() else None
    rows = Derivatives(likelihood.value, inverse_temperature * likelihood.gradient, hessian)
    marginal = Marginal.frozen(full_data.prior, here.marginal, position, rows)
    given = marginal.at(position)
    return None if given is None else marginal.precision(given, marginal.curvature_at(given))


def _distance(mode: Mode, shift: np.ndarray) -> float:
    return float(np.sqrt(shift @ mode.precision @ shift))
