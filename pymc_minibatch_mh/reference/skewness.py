"""The variational normal of a skewed posterior, and a map of third order around it.

N(m, P⁻¹) with E∇log π = 0 and P = -E∇²log π is the stationary point of the Kullback–Leibler
divergence from a normal distribution to the posterior π; S = E∇³log π, in its whitened coordinates,
is the third order (``SkewMap``, skew_map.c). Expectations are averages over antithetic points m ±
r T q_k with orthonormal q_k drawn at random, as long as normal draws. Averages of cubics are exact,
and differences of Hessians give S in the same sweep.

Base coordinates z, standard normal to second order, are those of the tables of scales if there are
any (``ScaleConditional``), else those of the normal approximation. Rows enter by their remainders:
if there are many, a subsample of these is evaluated. Approximations only affect acceptance rates.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import gammaincinv

from pymc_minibatch_mh.native.elements import ScaleConditional
from pymc_minibatch_mh.native.library import function
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.native.skew_map import SkewMap
from pymc_minibatch_mh.progress import report_stage
from pymc_minibatch_mh.reference.full_data import Derivatives
from pymc_minibatch_mh.reference.mode import whitening_factors
from pymc_minibatch_mh.reference.scale_tables import averaged_rows, near_bounds
from pymc_minibatch_mh.reference.target import Target

#: Maximum number of coordinates; minimum number of points of a sweep; maximum number of sweeps.
MAX_SIZE, MIN_POINTS, MAX_SWEEPS = 128, 32, 6
#: Maximum number of rows that a sweep, the first forecast and each later one evaluate.
SWEEP_READS, FIRST_READS, FORECAST_READS = 20_000_000, 4_000_000, 20_000_000
#: Shift and relative change of variances below which sweeps end; limits of such a change. Minimum
#: shift, in standard deviations, of a third sweep that may be the last.
SETTLED, AGREES, MAX_CHANGE, FAR = 0.1, 0.15, 3.0, 1.0
#: Sum of squared coefficients that a map leaves out.
NEGLIGIBLE = 3e-4
#: Draws of the first forecast, at least and at most, and of later ones at most; seed of all draws.
LEAST, FEW, MANY, SEED = 4, 32, 300, 20_261_130
#: Standard deviation of log π - log q, and acceptance rate, with which base coordinates suffice.
NEAR_NORMAL, ACCEPTED = 0.3, 0.9
#: Minimum gain in the acceptance rate of independence proposals.
WORTH = 0.03


class Placed(NamedTuple):
    """Position, and the logarithm of the density of normal numbers there up to a constant."""

    position: np.ndarray
    log_volume: float


@dataclass(frozen=True, eq=False)
class _Base(ABC):
    """Coordinates z that are standard normal to second order."""

    target: Target
    reference: Reference
    rows: "_Remainders"

    @abstractmethod
    def to_position(self, z: np.ndarray) -> Placed:
        """Position of z, and the logarithm of its density."""

    @abstractmethod
    def slopes(self, z: np.ndarray) -> Derivatives:
        """Gradient and Hessian of the log-density of z."""

    @abstractmethod
    def map_of(self, normal: "Variational") -> SkewMap:
        """Map of third order around a variational normal of z."""


@dataclass(frozen=True, eq=False)
class _NormalBase(_Base):
    """z = L⁻¹(θ - centre), with scales first, then shared coordinates, and effects last."""

    order: np.ndarray
    factor: np.ndarray

    @classmethod
    def around(cls, target: Target, reference: Reference, rows: "_Remainders") -> "_NormalBase":
        scales = list(target.scales(reference.centre))
        effects = sorted(target.indexed - {*scales})
        rest = [k for k in range(reference.centre.size) if k not in {*scales, *effects}]
        order = np.array([*scales, *rest, *effects], dtype=np.int64)
        precision = (reference.whitener.T @ reference.whitener)[np.ix_(order, order)]
        return cls(target, reference, rows, order, whitening_factors(precision)[1])

    def to_position(self, z: np.ndarray) -> Placed:
        position = self.reference.centre.copy()
        position[self.order] += self.factor @ z
        return Placed(position, 0.0)

    def slopes(self, z: np.ndarray) -> Derivatives:
        position, reference = self.to_position(z).position, self.reference
        prior, rest = (
            self.target.full_data.prior(position, hessian=True),
            self.rows.derivatives(position),
        )
        beta = reference.inverse_temperature
        expansion = reference.gradient + reference.hessian @ (position - reference.centre)
        gradient = prior.gradient + beta * expansion + rest.gradient
        hessian = prior.hessian + beta * reference.hessian + rest.hessian
        ordered = hessian[np.ix_(self.order, self.order)]
        return Derivatives(
            0.0, self.factor.T @ gradient[self.order], self.factor.T @ ordered @ self.factor
        )

    def map_of(self, normal: "Variational") -> SkewMap:
        centre, factor = self.to_position(normal.mean).position, self.factor @ normal.factor
        return SkewMap.of_thirds(self.order, centre, factor, normal.thirds, NEGLIGIBLE)


@dataclass(frozen=True, eq=False)
class _TabledBase(_Base):
    """z = (u, w) of the tables, which are exact for normal rows: only remainders are skewed."""

    tables: ScaleConditional
    #: Gradient that the tables add to the expansion of the rows.
    tilt: np.ndarray

    #: Step of differences of positions, over which the tables are smoothed.
    STEP = 0.05

    def to_position(self, z: np.ndarray) -> Placed:
        position, log_volume = np.empty(z.size), np.empty(1)
        function("mh_place_given_scales")(self.tables, z, position, log_volume)
        return Placed(position, float(log_volume[0]))

    def slopes(self, z: np.ndarray) -> Derivatives:
        steps, rest = (
            self.STEP * np.eye(z.size),
            self.rows.derivatives(self.to_position(z).position),
        )
        ends = [[self.to_position(z + side * x).position for x in steps] for side in (1.0, -1.0)]
        jacobian = (np.array(ends[0]) - ends[1]).T / (2.0 * self.STEP)
        hessian = jacobian.T @ rest.hessian @ jacobian - np.eye(z.size)
        return Derivatives(0.0, jacobian.T @ (rest.gradient - self.tilt) - z, hessian)

    def map_of(self, normal: "Variational") -> SkewMap:
        every = np.arange(normal.mean.size)
        return SkewMap.of_thirds(every, normal.mean, normal.factor, normal.thirds, NEGLIGIBLE)


class _Remainders:
    """Derivatives of the rows' remainders of order 2, of all rows or of a subsample."""

    def __init__(self, target: Target, reference: Reference, rows: np.ndarray | None) -> None:
        self._full_data, self._centre, self._rows = target.full_data, reference.centre, rows
        self._weight = reference.inverse_temperature
        self._first, self._second = reference.gradient, reference.hessian
        if rows is not None:
            few = self._full_data.likelihood(self._centre, hessian=True, rows=rows)
            self._first, self._second = few.gradient, few.hessian
            self._weight *= self._full_data.n_rows / rows.size

    def derivatives(self, position: np.ndarray) -> Derivatives:
        rows = self._full_data.likelihood(position, hessian=True, rows=self._rows)
        change = rows.gradient - self._first - self._second @ (position - self._centre)
        second = rows.hessian - self._second
        return Derivatives(0.0, self._weight * change, self._weight * second)


def skew_map(
    target: Target, reference: Reference, tables: ScaleConditional | None
) -> SkewMap | None:
    """Map to base coordinates if they are those of `tables`, else to positions; None if no gain.

    The choice compares acceptance rates of independence proposals at full-data evaluations.
    """
    size = reference.centre.size
    if size > MAX_SIZE or reference.order < 2 or target.covariance is not None:
        return None
    if target.source.others.size or not target.source.in_memory or target.meets_kinks:
        return None
    if near_bounds(target, reference).size:
        return None
    rng, n_rows = np.random.default_rng(SEED), target.source.n_rows
    few = max(1, min(n_rows, SWEEP_READS // max(2 * size, MIN_POINTS)))
    rows = None if few == n_rows else np.sort(rng.choice(n_rows, few, replace=False))
    remainders = _Remainders(target, reference, rows)
    base: _Base = _NormalBase.around(target, reference, remainders)
    if tables is not None:
        tilt = averaged_rows(target, reference).gradient
        tilt = tilt - reference.inverse_temperature * reference.gradient
        base = _TabledBase(target, reference, remainders, tables, tilt)
    white = rng.standard_normal((MANY, size))
    first = white[: int(np.clip(FIRST_READS // n_rows, LEAST, FEW))]
    logs = _log_weights(base, base.to_position, first)
    near_normal = np.isfinite(logs).all() and logs.std() < NEAR_NORMAL
    if near_normal or independent_acceptance(logs) > ACCEPTED:
        return None
    normal = variational(base.slopes, size)
    return None if normal is None else _best(base, base.map_of(normal), white)


def _best(base: _Base, skewed: SkewMap, white: np.ndarray) -> SkewMap | None:
    """The map, if independence proposals by it are accepted more often than without it."""
    count = int(np.clip(FORECAST_READS // base.target.source.n_rows, FEW, MANY))

    def mapped(z: np.ndarray) -> Placed:
        position, log_volume = skewed.to_position(z)
        if isinstance(base, _NormalBase):
            return Placed(position, log_volume)
        inner = base.to_position(position)
        return Placed(inner.position, inner.log_volume + log_volume)

    rates = [
        independent_acceptance(_log_weights(base, to_position, white[:count]))
        for to_position in (mapped, base.to_position)
    ]
    return skewed if rates[0] > rates[1] + WORTH else None


def _log_weights(
    base: _Base, to_position: Callable[[np.ndarray], Placed], white: np.ndarray
) -> np.ndarray:
    """Log π - log q at draws of standard normal numbers, shape (n, d), up to a constant."""
    logs, beta = [], base.reference.inverse_temperature
    for z in white:
        position, log_volume = to_position(z)
        density = base.target.log_prior(position)
        if np.isfinite(density):
            density += beta * base.target.log_likelihood(position)
        logs.append(density - log_volume + 0.5 * z @ z)
    return np.where(np.isfinite(logs), logs, -np.inf)


def independent_acceptance(log_weights: np.ndarray) -> float:
    """Stationary acceptance rate of independence proposals from their draws' log π - log q."""
    if not (log_weights > -np.inf).any():
        return 0.0
    weights = np.sort(np.exp(log_weights - log_weights.max()))
    total, ranks = weights.sum(), np.arange(weights.size)
    return float((weights * (2 * (weights.size - ranks) - 1)).sum() / (weights.size * total))


class Variational(NamedTuple):
    """Mean and factor of the variational normal, and S in its whitened coordinates."""

    mean: np.ndarray
    factor: np.ndarray
    thirds: np.ndarray


def variational(slopes: Callable[[np.ndarray], Derivatives], size: int) -> Variational | None:
    """Variational normal from the standard normal on; None if MAX_SWEEPS will not find it."""
    rng = np.random.default_rng(SEED)
    mean, factor, lengths = np.zeros(size), np.eye(size), list[float]()
    for sweep in range(MAX_SWEEPS):
        report_stage("Averaging over the posterior", f"sweep {sweep + 1}")
        averages = _average_derivatives(slopes, mean, factor, rng)
        if averages is None:
            return None
        gradient, hessian, thirds = averages
        sizes, vectors = np.linalg.eigh(-hessian)
        ways = vectors.T @ gradient / np.maximum(sizes, 1.0 / MAX_CHANGE)
        length = float(np.linalg.norm(ways))
        lengths.append(length)
        if _is_hopeless(lengths):
            return None
        mean = mean + factor @ (vectors @ ways) * min(1.0, np.sqrt(size) / max(length, 1e-300))
        agrees = length < SETTLED and np.abs(sizes - 1.0).max() < AGREES
        sizes = np.clip(sizes, 1.0 / MAX_CHANGE, MAX_CHANGE)
        _, relative = whitening_factors((vectors * sizes) @ vectors.T)
        factor = factor @ relative
        if agrees:
            for _ in range(3):
                thirds = np.tensordot(thirds, relative, axes=(0, 0))
            return Variational(mean, factor, thirds)
    return None


def _is_hopeless(lengths: Sequence[float]) -> bool:
    """Whether shifts become smaller too slowly, even if they did so twice as fast from now on."""
    if len(lengths) < 3 or lengths[-1] < FAR:
        return False
    ratio = min(lengths[-1] / max(lengths[-2], FAR), 1.0)
    return lengths[-1] * ratio ** (2 * (MAX_SWEEPS - len(lengths))) > SETTLED


def _average_derivatives(
    slopes: Callable[[np.ndarray], Derivatives],
    mean: np.ndarray,
    factor: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Averages over N(m, T Tᵀ) of whitened derivatives of order 1 to 3; None unless finite."""
    size = mean.size
    first, second, third = np.zeros(size), np.zeros((size, size)), np.zeros((size, size, size))
    radii = _radii(size)
    for radius in radii:
        ways, _ = np.linalg.qr(rng.standard_normal((size, size)))
        for way in ways.T:
            up, down = (slopes(mean + end * (factor @ way)) for end in (radius, -radius))
            if not (np.isfinite(up.hessian).all() and np.isfinite(down.hessian).all()):
                return None
            first += up.gradient + down.gradient
            second += up.hessian + down.hessian
            change = factor.T @ (up.hessian - down.hessian) @ factor
            # Stein's identity: the average of ∇³ is that of ∇² times w.
            third += change[:, :, None] * (radius * way)
    count = 2.0 * size * radii.size
    # The first two indices are symmetric already.
    third = (third + third.transpose(0, 2, 1) + third.transpose(2, 1, 0)) / 3.0
    return factor.T @ first / count, factor.T @ second @ factor / count, third / count


def _radii(size: int) -> np.ndarray:
    """Lengths of points: quantiles of those of normal draws, with a mean square of `size`."""
    count = -(-MIN_POINTS // (2 * size))
    squares = 2.0 * gammaincinv(0.5 * size, (np.arange(count) + 0.5) / count)
    return np.sqrt(squares * size / squares.mean())
