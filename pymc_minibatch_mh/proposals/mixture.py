"""Laplace moves, random walks, and mixtures of both.

A component is drawn independently of the position and accepted with its own density, which is
exact for any weights. Moves are of the normal approximation of the posterior, or of two others.

*Coordinates that end at zero.* The reciprocal of a shape parameter is drawn first, from the part of
its normal approximation above zero, and the others given it. The share of that part depends on the
position, and is corrected for. The mean, which follows from the gradient at the centre, may lie
below zero.

*Effects given their scales.* Moves of a hierarchy are made in numbers that are standard normal
where effects are normal given their scales (:mod:`pymc_minibatch_mh.native.scale_conditional`),
and corrected for the volume of that map. A walk of them moves a scale with the effects that rows do
not hold: a partial non-centring (Papaspiliopoulos, Roberts & Sköld, Statistical Science 22:59-73,
2007, doi:10.1214/088342307000000014).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.checks import flag, is_number, positive
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.native.scale_conditional import ScaleConditional
from pymc_minibatch_mh.proposals.base import Proposal, Tallies
from pymc_minibatch_mh.proposals.walk import tuned


class MixtureNumbers(NamedTuple):
    """Numbers of a mixture in a chain: ``mh_mixture``."""

    LAYOUT, propose = "mh_mixture", "mh_propose_mixture"  # type: ignore[misc]

    #: Scale s of the random walk.
    scale: float
    #: Weight of the walk, then of each Laplace component, shape (1 + K,).
    weights: np.ndarray
    #: Autoregressive coefficients of these, shape (K,).
    rho: np.ndarray

    @property
    def n_components(self) -> int:
        """The walk and the Laplace components."""
        return self.weights.size


class BorderedNumbers(NamedTuple):
    """Numbers of a mixture, and an order in which coordinates that end at zero are first."""

    LAYOUT, propose = "mh_bordered", "mh_propose_bordered"  # type: ignore[misc]

    mixture: MixtureNumbers
    #: Coordinates as they are drawn: those of other steps, `n_ends` that end at zero, the rest.
    order: np.ndarray
    n_ends: int
    #: Cholesky factor of the covariance in that order, and its inverse, shape (d, d).
    factor: np.ndarray
    whitener: np.ndarray
    #: Mean of the normal approximation, in the coordinates that these whiten.
    tilt: np.ndarray


class ByScalesNumbers(NamedTuple):
    """Numbers of a mixture, and the distribution that its moves are drawn by."""

    LAYOUT, propose = "mh_by_scales", "mh_propose_by_scales"  # type: ignore[misc]

    mixture: MixtureNumbers
    tables: ScaleConditional


def bordered(record: MixtureNumbers, plan: Any) -> MixtureNumbers | BorderedNumbers:
    """Return numbers of a mixture, with those of coordinates that end at zero if there are any."""
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
    return BorderedNumbers(record, order, len(ends), factor, whitener, tilt)


def given_scales(record: MixtureNumbers, plan: Any) -> MixtureNumbers | ByScalesNumbers:
    """Return numbers of a mixture, with the tables of a hierarchy if there is one."""
    tables = plan.scale_conditional
    return record if tables is None else ByScalesNumbers(record, tables)


#: Autoregressive coefficients: antithetic, independent, and three that move locally.
LAPLACE_RHO = (-0.3, 0.0, 0.5, 0.8, 0.95)
#: Least weight of every component, so that one that failed on the way to the posterior is tried
#: again; and least joint weight of coefficients of at least LOCAL_RHO.
FLOOR = 0.03
LOCAL_FLOOR = 0.1
#: Least and largest floor of the walk's weight.
WALK_FLOORS = (0.01, 0.2)
#: Share of bold moves that a posterior without heavy tails may lose to its skewness.
SKEW_LOSS = 0.05
LOCAL_RHO = 0.8
#: Tries of a component before its efficiency is trusted.
ENOUGH_TRIES = 20
#: Cost of a draw besides reading rows, in rows: 20 µs of PyMC's loop, at 0.13 µs a row.
OVERHEAD_ROWS = 150.0


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
    """

    rho: tuple[float, ...] = LAPLACE_RHO
    walk_weight: float = 0.2
    scale: float | None = None
    scale_conditional: bool = True

    def __post_init__(self) -> None:
        """Check the settings."""
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
            positive("scale", self.scale, "Give one, or None.")
        flag("scale_conditional", self.scale_conditional)

    @property
    def n_components(self) -> int:
        """The walk and the Laplace moves."""
        return 1 + len(self.rho)

    def record(self, size: int) -> MixtureNumbers:
        """Return the starting scale and equal weights of the Laplace moves."""
        scale = 2.38 / np.sqrt(size) if self.scale is None else self.scale
        each = (1.0 - self.walk_weight) / max(len(self.rho), 1)
        weights = np.array([self.walk_weight, *[each] * len(self.rho)])
        return MixtureNumbers(float(scale), weights, np.array(self.rho, dtype=np.float64))

    def adapted(
        self, record: MixtureNumbers, window: Tallies, total: Tallies, walk_target: float, size: int
    ) -> MixtureNumbers:
        """Move the walk's acceptance to its target and weight to the best component."""
        record = record._replace(scale=tuned(record.scale, window[0], total[0], walk_target))
        if self.rho and self.walk_weight > 0.0 and (total["tried"] >= ENOUGH_TRIES).all():
            return record._replace(weights=self._weights(total, size))
        return record

    def linked(self, record: MixtureNumbers, plan: Any) -> Any:
        """Return the record, with more numbers where coordinates end at zero, or have scales."""
        found = given_scales(record, plan) if self.scale_conditional else record
        return bordered(record, plan) if found is record else found

    def scales(self, plan: Any) -> tuple[int, ...]:
        """Return the scales of a hierarchy where moves draw its effects given them."""
        tables = plan.scale_conditional if self.scale_conditional else None
        return () if tables is None else tuple(tables.scales.tolist())

    def scaling(self, record: MixtureNumbers) -> float:
        """Return the scale of the walk."""
        return record.scale

    def _weights(self, total: np.ndarray, size: int) -> np.ndarray:
        weights = np.full(self.n_components, FLOOR)
        weights[0] = walk_floor(total, self.rho)
        local = [1 + k for k, rho in enumerate(self.rho) if rho >= LOCAL_RHO]
        weights[local] = LOCAL_FLOOR / max(len(local), 1)
        weights[int(np.argmax(efficiency(total, size)))] += 1.0 - weights.sum()
        return weights


def walk_floor(total: np.ndarray, rho: tuple[float, ...]) -> float:
    """Return the least weight of the walk, from how far the posterior is from Gaussian.

    A Gaussian posterior accepts all Laplace moves alike: the bold ones are accepted less than local
    ones where tails are heavier, which the walk is for.
    """
    accepted = total["accept"][1:] / np.maximum(total["tried"][1:], 1.0)
    bold, local = accepted[int(np.argmin(np.abs(rho)))], accepted[int(np.argmax(rho))]
    lost = 1.0 - bold / local if local > 0.0 else 1.0
    return float(np.clip(lost - SKEW_LOSS, *WALK_FLOORS))


def efficiency(total: np.ndarray, size: int) -> np.ndarray:
    """Return a figure of merit per component, proportional to effective draws per second.

    With g = E[accepted squared jump] / (2 Var), a chain of this component alone would have a
    lag-one autocorrelation of about 1 - g, hence an effective sample of g/(2 - g) per update. The
    figure is the geometric mean of that of whitened coordinates, of variance 1, and of their
    squares, of variance 2, over the time of an update: antithetic moves cannot win on means alone.
    """
    tried = np.maximum(total["tried"], 1.0)
    merits = []
    for jump, variance in (("jump", 1.0), ("square_jump", 2.0)):
        g = np.clip(total[jump] / tried / (2.0 * variance * size), 1e-12, 1.9)
        merits.append(g / (2.0 - g))
    return np.sqrt(merits[0] * merits[1]) / (OVERHEAD_ROWS + total["rows"] / tried)


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
    single = isinstance(rho, int | float | np.floating)
    return Mixture(rho=(rho,) if single else rho, walk_weight=0.0, scale_conditional=False)  # type: ignore[arg-type]
