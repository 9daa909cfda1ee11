"""Starts of chains from which the scale of a hierarchy would collapse."""

from typing import Literal

import numpy as np

from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.chain.program import possible_slices
from pymc_minibatch_mh.native.slices import sweep_without_rows
from pymc_minibatch_mh.plan.dense import DensePlan
from pymc_minibatch_mh.plan.plan import Plan
from pymc_minibatch_mh.reference.posterior import whitened_directions

Begun = Literal["stepped off", "waits"] | None

#: Posterior standard deviations of the step off.
STEP_OFF = 0.1
#: Moves along each direction, and moves in all, at most, after which one that runs away is far off:
#: along the scale alone a few are enough, while scale and location of effects that other steps move
#: run away together, and slower.
SWEEPS, MOST_MOVES = 200, 20_000
#: How many conditional standard deviations are far, in excess of the usual number; and the share of
#: that way that is no running away any more, where nobody knows the standard deviations.
FAR, MUCH_LESS = 20.0, 0.125
#: Of the moves that are tried, so that a start is judged the same in all processes.
SEED = 20_261_122


def scale_collapses(plan: Plan, position: np.ndarray) -> bool:
    """Whether moves without rows alone go from a position to far from the posterior."""
    return not _distance_after(plan, position) < FAR


def _distance_after(plan: Plan, position: np.ndarray) -> float:
    """Try moves without rows; return how far from the centre they end, in excess of the usual."""
    slices, there, target = possible_slices(plan), position.copy(), plan.target
    n = len(slices.steps)
    if not n:
        return 0.0
    rng = np.random.default_rng(SEED)
    own = slices._replace(moves=n * max(1, min(SWEEPS, MOST_MOVES // n)))
    sweep_without_rows(there, own, target.prior, target.rows.context, rng)
    reference, basis = plan.reference, whitened_directions(target, plan.reference, most=n)
    away = np.linalg.norm(basis @ (reference.whitener @ (there - reference.centre)))
    return float(away - np.sqrt(n))


def perturbed_start(
    plan: Plan, position: np.ndarray, rng: np.random.Generator, first: int = 0
) -> np.ndarray | None:
    """Return a position nearby, moved from coordinate `first` on, whose scale does not collapse."""
    noise = plan.reference.factor @ rng.standard_normal(position.size)
    noise[:first] = 0.0
    near = plan.target.factorization.mirrored(position + STEP_OFF * noise)
    left = _distance_after(plan, near)
    most = max(FAR, MUCH_LESS * _distance_after(plan, position))
    return near if left < most else None


def begin(chain: Chain) -> Begun:
    """Have a chain leave a start whose scale collapses, or wait for other steps; return which.

    Where all effects of a hierarchy equal their location, as at PyMC's default start, the density
    of the scale given the effects has no integral at zero: moves of the scale alone run away. A
    chain that moves effects, or their location, steps off such a start; another makes no update
    until other steps have moved them. Either happens before the first update alone: the stationary
    distribution stays.
    """
    plan, first = chain.plan, chain.plan.reference.first
    if chain.state.waiting:
        _wait(chain)
        return None
    # Updates that move all coordinates leave by themselves.
    moves = first > 0 or (isinstance(plan, DensePlan) and len(chain.program.slices.steps) > 0)
    if not moves or not scale_collapses(plan, chain.position):
        return None
    near = perturbed_start(plan, chain.position, chain.rng, first)
    if near is not None:
        chain.position[:] = near
        return "stepped off"
    if first > 0:
        chain.state.waits_at[:] = chain.position
        return "waits"
    return None


def _wait(chain: Chain) -> None:
    """End the waiting of a chain, once the variables of rows have moved."""
    state, first = chain.state, chain.plan.reference.first
    moved = chain.position[:first] != state.waits_at[:first]
    if moved.all() or (moved.any() and not scale_collapses(chain.plan, chain.position)):
        state.waits_at[:], state.warned = np.nan, False
