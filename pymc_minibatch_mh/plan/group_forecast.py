"""Forecasts of updates of all parameters but the effects of small groups, from some of the groups.

An independence sampler of π by proposals q stays at x with the probability

    λ(x) = 1 - ∫ min{1, w(y)/w(x)} q(y) dy,   w = π/q,

so a mean of f over n draws has the variance E (f - E f)² (1 + λ)/(1 - λ) / n: Liu (1996),
doi:10.1007/BF00162521. Along the scale of the effects, w is known from the remainders of some
groups, which stand for all. It tells what a short chain does not: a scale that it has not reached.

Effects that are accepted one at a time carry the information on their scale from one iteration to
the next. With f the share of an effect's variance that its rows remove, the lag-one correlation is
about 1 - f², so an iteration has f²/(2 - f²) effective draws; moves of a scale together with its
effects leave some where f is small.
"""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh import costs
from pymc_minibatch_mh.bounds.over_nodes import NodeBoundsPass
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.reference.effect_nodes import EffectMoments
from pymc_minibatch_mh.reference.node_rule import GroupTarget

#: Positions along a scale: range in its standard deviations, number of them, and of places between
#: them; maximum number of groups that are evaluated there.
ENDS, POSITIONS, PLACES, SOME_GROUPS = (-4.5, 5.5), 21, 400, 1_000
#: Least probability of a move; share that noise and other coordinates leave of the effective draws
#: along a scale, .4 to .8 in benchmarks; least effective draws of an iteration of effects.
LEAST, LEFT_BY_OTHERS, LEAST_OF_ITERATION = 1e-12, 0.5, 0.07


class GroupForecast(NamedTuple):
    """Groups that an update evaluates, effective draws of it along the scale, and its seconds."""

    evaluated: float
    share: float
    seconds: float

    @property
    def seconds_of_draw(self) -> float:
        """Seconds to an effective draw."""
        return self.seconds / max(LEFT_BY_OTHERS * self.share, LEAST)


def forecast_groups(target: GroupTarget, reference: Reference) -> GroupForecast:
    """Forecast of updates around a reference."""
    most = target.source.n_rows
    evaluated = min(NodeBoundsPass(target.group_rows, reference).forecast_evaluated(), most)
    seconds = costs.UPDATE + costs.NODE * target.group_rows.evaluations * evaluated
    return GroupForecast(evaluated, share_along_scale(target, reference), seconds)


def seconds_one_at_a_time(target: GroupTarget, moments: EffectMoments) -> float:
    """Seconds to an effective draw of the other parameters if effects move one at a time."""
    variances = (moments.factor**2).sum(axis=2)
    informed = float((np.clip(1.0 - variances, 0.0, 1.0) ** 2).mean())
    numbers = costs.ELEMENT_NUMBER * (costs.OTHER_NUMBERS + target.factorization.size)
    seconds = costs.ITERATION + variances.size * (costs.ELEMENT + numbers)
    return seconds / max(informed / (2.0 - informed), LEAST_OF_ITERATION)


def share_along_scale(target: GroupTarget, reference: Reference) -> float:
    """Effective draws of an update along the only free scale; 1 if there are none or several."""
    if len(target.compiled.layout.free_scales) != 1:
        return 1.0
    return effective_share(*log_ratios(target, reference))


def log_ratios(target: GroupTarget, reference: Reference) -> tuple[np.ndarray, np.ndarray]:
    """Numbers z of standard deviations along the scale, and log π/q there up to a constant."""
    (scale,) = target.compiled.layout.free_scales
    line = reference.factor[scale.coordinate] / np.linalg.norm(reference.factor[scale.coordinate])
    z = np.linspace(*ENDS, POSITIONS)
    moves = np.outer(z, reference.factor @ line)
    reached = (reference.centre + moves)[:, scale.coordinate]
    limits = target.factorization.lower, target.factorization.upper
    low, high = (limit[scale.coordinate] for limit in limits)
    z, moves = (x[(low < reached) & (reached < high)] for x in (z, moves))
    positions, numbers = reference.centre + moves, target.spread(SOME_GROUPS)
    pairs = [(reference.centre, position) for position in positions]
    changes = target.full_data.differences(2, pairs, reference.centre, numbers).sum(axis=1)
    logs = changes * (target.source.n_rows / numbers.size)
    logs += [target.log_prior(position) for position in positions]
    logs += moves @ reference.gradient + 0.5 * ((moves @ reference.hessian) * moves).sum(axis=1)
    return z, logs + 0.5 * z**2


def effective_share(z: np.ndarray, log_ratio: np.ndarray) -> float:
    """Effective draws of an update of an independence sampler on a line with normal proposals.

    Densities are 0 beyond the first and the last z, and where the logarithm of the ratio is not
    finite.
    """
    finite = np.isfinite(log_ratio)
    x = np.linspace(z[0], z[-1], PLACES)
    logs = np.interp(x, z[finite], log_ratio[finite])
    weights = np.exp(logs - logs.max())
    proposed = np.exp(-0.5 * x**2) * (x[1] - x[0]) / np.sqrt(2.0 * np.pi)
    posterior = weights * proposed / (weights @ proposed)
    with np.errstate(divide="ignore", over="ignore"):
        moved = np.minimum(1.0, weights / weights[:, None]) @ proposed
    square = (x - posterior @ x) ** 2
    lengths = (2.0 - moved) / np.maximum(moved, LEAST)
    return float((posterior @ square) / (posterior @ (square * lengths)))
