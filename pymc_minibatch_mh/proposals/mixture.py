"""Laplace proposals, random walks, and mixtures of both.

A component is drawn independently of the position and accepted with its own density, so any weights
are exact. Laplace proposals use the normal approximation of the posterior, or one of two variants.

*Lower-bounded coordinates.* The reciprocal of a shape parameter is drawn first, from its normal
approximation truncated at zero, and the others given it. The truncated probability depends on the
position and enters the acceptance ratio. The mean follows from the gradient at the centre, and may
lie below zero.

*Skewness.* Proposals for a skewed posterior are drawn by a triangular map of third order around the
variational normal (skew_map.c, :mod:`pymc_minibatch_mh.reference.skewness`), which is inverted for
the density; the map is left out unless a forecast accepts its proposals more often.

*Tails.* Along at most four coordinates with a tail that all others lack
(:mod:`pymc_minibatch_mh.reference.tails`), a further component has Cauchy's distribution, which
bounds the length of a stay there.

*Effects given their scales.* Proposals of a hierarchy use coordinates that are standard normal if
effects are normal given their scales (``ScaleConditional``); the acceptance ratio includes the
Jacobian determinant. Lower-bounded coordinates near zero are drawn beside them, and shift them. A
random walk in these coordinates moves a scale together with the effects that the likelihood leaves
free: a partial non-centring (Papaspiliopoulos, Roberts & Sköld, Statistical Science 22:59-73, 2007,
doi:10.1214/088342307000000014).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh import costs
from pymc_minibatch_mh.checks import check_flag, check_positive, is_number
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.native.elements import ScaleConditional
from pymc_minibatch_mh.native.library import LaidOut
from pymc_minibatch_mh.native.skew_map import SkewMap
from pymc_minibatch_mh.proposals.base import Proposal, Tallies
from pymc_minibatch_mh.proposals.walk import tune_scale


class MixtureNumbers(NamedTuple):
    """Adapted parameters of a chain's mixture proposal: ``mh_mixture``."""

    LAYOUT, propose = "mh_mixture", "mh_propose_mixture"  # type: ignore[misc]

    #: Scale s of the random walk.
    scale: float
    #: Weights of the random walk and of each Laplace component, shape (1 + K,).
    weights: np.ndarray
    #: Autoregressive coefficients of the Laplace components, shape (K,).
    rho: np.ndarray

    @property
    def n_components(self) -> int:
        """Number of components: the random walk and the Laplace components."""
        return self.weights.size


class LowerBoundedNumbers(NamedTuple):
    """Parameters of a mixture that draws lower-bounded coordinates before unbounded ones."""

    LAYOUT, propose = "mh_bordered", "mh_propose_bordered"  # type: ignore[misc]

    mixture: MixtureNumbers
    #: Coordinates in drawing order: other steps' first, then `n_ends` lower-bounded ones, then the
    #: rest.
    order: np.ndarray
    n_ends: int
    #: Cholesky factor of the covariance in that order, and its inverse, shape (d, d).
    factor: np.ndarray
    whitener: np.ndarray
    #: Mean of the normal approximation minus the centre, in whitened coordinates, shape (d,).
    tilt: np.ndarray


class TransformedNumbers(NamedTuple):
    """Parameters of a mixture in coordinates that are nearly standard normal."""

    LAYOUT, propose = "mh_transformed", "mh_propose_transformed"  # type: ignore[misc]

    mixture: MixtureNumbers
    #: Distribution of effects given their scales, and map of third order, or None.
    tables: ScaleConditional | None
    map: SkewMap | None


class TailedNumbers(NamedTuple):
    """Parameters of a mixture with a component of heavy tails along some directions."""

    LAYOUT, propose = "mh_tailed", "mh_propose_tailed"  # type: ignore[misc]

    #: Probability of the component.
    weight: float
    #: Whitened unit vectors, shape (n, d).
    directions: np.ndarray
    #: Function and record of the other components.
    propose_others: str
    others: LaidOut

    @property
    def n_directions(self) -> int:
        """Number of directions."""
        return len(self.directions)


def with_tails(record: Any, plan: Any) -> Any:
    """Record with a component for the heavy tails of a plan; unchanged if there are none."""
    names = plan.target.factorization.coordinate_names
    heavy = [names.index(name) for name in plan.heavy_tails]
    if not 0 < len(heavy) <= MAX_DIRECTIONS:
        return record
    reference = plan.reference
    directions = reference.factor[heavy]
    directions[:, : reference.first] = 0.0
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    weight = TAIL_WEIGHT * len(heavy) * min(ROWS_OF_TAILS / plan.n_rows, 1.0)
    return TailedNumbers(weight, directions, record.propose, LaidOut(record.LAYOUT, record))


def with_lower_bounded(record: MixtureNumbers, plan: Any) -> MixtureNumbers | LowerBoundedNumbers:
    """Record that draws lower-bounded coordinates first; unchanged if there are none."""
    target, reference = plan.target, plan.reference
    ends = target.factorization.boundary
    if not ends:
        return record
    centre, first = reference.centre, reference.first
    rest = [k for k in range(centre.size) if k >= first and k not in ends]
    order = np.array([*range(first), *ends, *rest], dtype=np.int64)
    covariance = reference.factor @ reference.factor.T
    factor = np.linalg.cholesky(covariance[np.ix_(order, order)])
    slope = reference.inverse_temperature * reference.gradient
    if reference.order > 0:
        slope = slope + target.full_data.prior(centre, hessian=False).gradient
    whitener = np.ascontiguousarray(np.linalg.inv(factor))
    tilt = np.ascontiguousarray(factor.T @ slope[order])
    return LowerBoundedNumbers(record, order, len(ends), factor, whitener, tilt)


#: Probability of the component of heavy tails for each of its coordinates; maximum number of these:
#: it would find none of many tails often enough; number of observations above which the probability
#: falls, because some proposals lie where no bounds hold, and evaluate all of them.
TAIL_WEIGHT, MAX_DIRECTIONS, ROWS_OF_TAILS = 0.05, 4, 100_000
#: Autoregressive coefficients: antithetic, independent, and three local ones.
LAPLACE_RHO = (-0.3, 0.0, 0.5, 0.8, 0.95)
#: Minimum weight of each component, so that warm-up retries components that failed early; and
#: minimum joint weight of the components with coefficients of at least LOCAL_RHO.
MIN_WEIGHT = 0.03
MIN_LOCAL_WEIGHT = 0.1
#: Smallest and largest value of the random walk's minimum weight: see :func:`walk_floor`.
WALK_FLOORS = (0.01, 0.2)
#: Fraction of bold proposals (small |ρ|) that skewness alone, without heavy tails, may reject, and
#: of antithetic ones that it may reject beyond that.
MAX_SKEW_LOSS = 0.05
LOCAL_RHO = 0.8
#: Minimum number of tries of a component for an estimate of its efficiency.
MIN_TRIES = 20


@dataclass(frozen=True)
class Mixture(Proposal):
    """Mixture of a random walk and Laplace proposals, with weights set in warm-up.

    Guarantee: *exact* for any weights, if the step's test is.

    Parameters
    ----------
    rho
        Autoregressive coefficients of the Laplace proposals θ' = θ̂ + ρ(θ - θ̂) + √(1-ρ²) L ξ.
    walk_weight
        Weight of the random walk θ' = θ + s L ξ before adaptation.
    scale
        Scale s of the walk before adaptation; by default 2.38/√d.
    scale_conditional
        Whether effects of a hierarchy are proposed from a normal distribution given its scales, if
        that helps: see :mod:`pymc_minibatch_mh.proposals.mixture`.
    skewness
        Whether a map of third order makes proposals as skewed as the posterior, if that helps.
    """

    is_independent = True

    rho: tuple[float, ...] = LAPLACE_RHO
    walk_weight: float = 0.2
    scale: float | None = None
    scale_conditional: bool = True
    skewness: bool = True

    def __post_init__(self) -> None:
        sequence: Any = self.rho
        if not isinstance(sequence, tuple | list) or not all(map(is_number, sequence)):
            raise SettingError(
                f"rho={self.rho!r} is not a sequence of numbers. Give a tuple, such as (0.0, 0.5)."
            )
        if not all(-1.0 < r < 1.0 for r in self.rho):
            raise SettingError(
                f"rho={self.rho!r} has a coefficient outside (-1, 1), where a Laplace move is "
                "not stationary. Use coefficients inside it."
            )
        if not (is_number(self.walk_weight) and 0.0 <= self.walk_weight <= 1.0):
            raise SettingError(
                f"walk_weight={self.walk_weight!r} is not a probability. Give a number from 0 to 1."
            )
        if self.scale is not None:
            check_positive("scale", self.scale, "Give one, or None.")
        check_flag("scale_conditional", self.scale_conditional)
        check_flag("skewness", self.skewness)

    @property
    def n_components(self) -> int:
        """Number of components: the random walk and the Laplace components."""
        return 1 + len(self.rho)

    def record(self, size: int) -> MixtureNumbers:
        """Initial scale, with equal weights of the Laplace components."""
        scale = 2.38 / np.sqrt(size) if self.scale is None else self.scale
        each = (1.0 - self.walk_weight) / max(len(self.rho), 1)
        weights = np.array([self.walk_weight, *[each] * len(self.rho)])
        return MixtureNumbers(float(scale), weights, np.array(self.rho, dtype=np.float64))

    def adapted(
        self, record: MixtureNumbers, window: Tallies, total: Tallies, walk_target: float, size: int
    ) -> MixtureNumbers:
        """Adapt the walk's scale to its target acceptance, and weights to the best component."""
        record = record._replace(scale=tune_scale(record.scale, window[0], total[0], walk_target))
        if self.rho and self.walk_weight > 0.0 and (total["tried"] >= MIN_TRIES).all():
            return record._replace(weights=self._component_weights(total, size))
        return record

    def linked(self, record: MixtureNumbers, plan: Any) -> Any:
        """Record for compiled updates, extended for lower-bounded coordinates or scales."""
        tables, skewed = self._transformations(plan)
        numbers: Any = TransformedNumbers(record, tables, skewed)
        if tables is None and skewed is None:
            numbers = with_lower_bounded(record, plan)
        return with_tails(numbers, plan) if self.walk_weight > 0.0 else numbers

    def _transformations(self, plan: Any) -> tuple[ScaleConditional | None, SkewMap | None]:
        """Tables and map of a plan that this proposal uses, or None."""
        tables = plan.scale_conditional if self.scale_conditional else None
        # A map belongs to the coordinates of the plan's tables.
        same = tables is plan.scale_conditional
        return tables, plan.skew_map if self.skewness and same else None

    def skewness_of(self, plan: Any) -> float | None:
        """Size of the third order that proposals follow; None if they are normal."""
        skewed = self._transformations(plan)[1]
        return None if skewed is None else skewed.skewness

    def scales(self, plan: Any) -> tuple[int, ...]:
        """Scales of a hierarchy, if its effects are proposed given them."""
        tables = plan.scale_conditional if self.scale_conditional else None
        return () if tables is None else tuple(tables.scales.tolist())

    def scaling(self, record: MixtureNumbers) -> float:
        """Scale of the random walk."""
        return record.scale

    def _component_weights(self, total: np.ndarray, size: int) -> np.ndarray:
        weights = np.full(self.n_components, MIN_WEIGHT)
        weights[0] = walk_floor(total, self.rho)
        local = [1 + k for k, rho in enumerate(self.rho) if rho >= LOCAL_RHO]
        weights[local] = MIN_LOCAL_WEIGHT / max(len(local), 1)
        merits = component_efficiency(total, size) * ~_lost_by_skewness(total, self.rho)
        weights[int(np.argmax(merits))] += 1.0 - weights.sum()
        return weights


def _lost_by_skewness(total: np.ndarray, rho: tuple[float, ...]) -> np.ndarray:
    """Whether a component is antithetic, and accepted less often than an independent one.

    Its means are then those of normal coordinates only, and others have a small ESS.
    """
    accepted = total["accept"] / np.maximum(total["tried"], 1.0)
    bold = accepted[1 + int(np.argmin(np.abs(rho)))]
    return (np.array([0.0, *rho]) < 0.0) & (accepted < (1.0 - MAX_SKEW_LOSS) * bold)


def walk_floor(total: np.ndarray, rho: tuple[float, ...]) -> float:
    """Minimum weight of the random walk, larger the less Gaussian the posterior is.

    A Gaussian posterior accepts all Laplace proposals alike. With heavier tails, bold proposals are
    accepted less often than local ones, and the random walk is needed.
    """
    accepted = total["accept"][1:] / np.maximum(total["tried"][1:], 1.0)
    bold, local = accepted[int(np.argmin(np.abs(rho)))], accepted[int(np.argmax(rho))]
    lost = 1.0 - bold / local if local > 0.0 else 1.0
    return float(np.clip(lost - MAX_SKEW_LOSS, *WALK_FLOORS))


def component_efficiency(total: np.ndarray, size: int) -> np.ndarray:
    """Efficiency of each component, proportional to ESS/s.

    With g = E[accepted squared jump] / (2 Var), a chain of one component alone would have a lag-one
    autocorrelation of about 1 - g, hence an effective sample of g/(2 - g) per update. The result is
    the geometric mean of the efficiencies of whitened coordinates (variance 1) and of their squares
    (variance 2), divided by the time of an update: antithetic proposals cannot win by means alone.
    """
    tried = np.maximum(total["tried"], 1.0)
    merits = []
    for jump, variance in (("jump", 1.0), ("square_jump", 2.0)):
        g = np.clip(total[jump] / tried / (2.0 * variance * size), 1e-12, 1.9)
        merits.append(g / (2.0 - g))
    overhead = costs.DRAW / costs.OBSERVATION_OF_DRAW
    return np.sqrt(merits[0] * merits[1]) / (overhead + total["rows"] / tried)


def Laplace(rho: float | tuple[float, ...] = LAPLACE_RHO) -> Mixture:  # noqa: N802
    """Laplace (preconditioned Crank–Nicolson) proposals θ' = θ̂ + ρ(θ - θ̂) + √(1-ρ²) L ξ.

    Parameters
    ----------
    rho
        One autoregressive coefficient in (-1, 1), or several with equal weights. If the posterior
        has heavier tails than its Gaussian approximation, use :class:`Mixture`, which adds a
        random walk.

    Examples
    --------
    >>> Laplace(rho=(0.0, 0.9)).rho
    (0.0, 0.9)
    """
    coefficients: Any = (rho,) if isinstance(rho, int | float | np.floating) else rho
    return Mixture(coefficients, walk_weight=0.0, scale_conditional=False, skewness=False)
