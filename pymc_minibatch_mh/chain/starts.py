"""Starts of chains at which a scale would collapse, or that nodes of small groups do not reach."""

from typing import Literal

import numpy as np

from pymc_minibatch_mh.chain.chain import WINDOW, Chain
from pymc_minibatch_mh.chain.program import SamplerSpec, possible_slices
from pymc_minibatch_mh.native.library import GeneratorRecord, function
from pymc_minibatch_mh.plan.plan import Plan
from pymc_minibatch_mh.reference.target import whitened_directions

StartOutcome = Literal["stepped off", "waits", "replaced"] | None

#: Size of a start's perturbation in posterior standard deviations.
STEP_OFF = 0.1
#: Maximum number of trial slice proposals, per direction and in total: enough to reveal a slow
#: joint divergence of scale and location.
SWEEPS, MAX_MOVES = 200, 20_000
#: `MIN_FAR_DISTANCE`: excess distance of a divergence, in conditional sd. `MUCH_LESS`: fraction of
#: the original start's distance up to which a perturbed start is accepted, if sd are inaccurate.
MIN_FAR_DISTANCE, MUCH_LESS = 20.0, 0.125
#: Minimum excess distance of a start that is replaced if effects are integrated out, and width of
#: the distribution of new starts, both in posterior standard deviations.
MIN_REPLACED_DISTANCE, NEW_START = 20.0, 2.0
#: Number of evaluated rows that ends a trial, and of evaluations of all rows, whichever is more.
MAX_READ, MAX_PASSES = 1_000_000, 12
#: Seed of the trial proposals, so that every process gives the same answer.
SEED = 20_261_122


def scale_collapses(plan: Plan, position: np.ndarray) -> bool:
    """Whether slice proposals without the likelihood diverge from the posterior."""
    return not _distance_after(plan, position) < MIN_FAR_DISTANCE


def _distance_after(plan: Plan, position: np.ndarray) -> float:
    """Distance from the centre after trial slice proposals, minus the usual distance."""
    slices, there, target = possible_slices(plan), position.copy(), plan.target
    n = len(slices.steps)
    if not n:
        return 0.0
    rng = np.random.default_rng(SEED)
    repeated = slices._replace(moves=n * max(1, min(SWEEPS, MAX_MOVES // n)))
    prior, context = target.full_data.log_prior, target.rows.context
    value, evaluations = np.array([prior(there, context)]), np.zeros(1, np.int64)
    function("mh_move_without_rows")(
        there, there.size, repeated, prior, context, GeneratorRecord(rng), value, evaluations
    )
    reference, basis = plan.reference, whitened_directions(target, plan.reference, most=n)
    away = np.linalg.norm(basis @ (reference.whitener @ (there - reference.centre)))
    return float(away - np.sqrt(n))


def perturbed_start(
    plan: Plan, position: np.ndarray, rng: np.random.Generator, first: int = 0
) -> np.ndarray | None:
    """Position perturbed in coordinates from `first` on; None if its scale collapses as well."""
    noise = plan.reference.factor @ rng.standard_normal(position.size)
    noise[:first] = 0.0
    near = plan.target.factorization.in_support(position + STEP_OFF * noise)
    left = _distance_after(plan, near)
    most = max(MIN_FAR_DISTANCE, MUCH_LESS * _distance_after(plan, position))
    return near if left < most else None


def check_start(chain: Chain) -> StartOutcome:
    """Perturb a start at which a scale collapses, or let the chain wait; None if neither is needed.

    If all effects of a hierarchy equal their location, as at PyMC's default start, the density of
    the scale given the effects has no integral at zero, and updates of the scale alone diverge. A
    chain that updates effects, or their location, is perturbed; another chain makes no update until
    other steps have moved them. All of this happens before the first update only, so the stationary
    distribution stays the same.

    If effects are integrated out, far starts of warm-up are replaced: the frozen nodes of the
    effects are in the wrong places there, and an update evaluates all groups.
    """
    plan, first = chain.plan, chain.plan.reference.first
    if chain.state.is_waiting:
        _end_waiting(chain)
        return None
    away = plan.distance(chain.position) - plan.usual_distance
    if chain.state.adapting and plan.integrated and away > MIN_REPLACED_DISTANCE:
        new = plan.gaussian_draw(chain.rng, NEW_START)
        chain.position[:] = plan.target.factorization.in_support(new)
        return "replaced"
    # Only joint updates get stuck: updates of single effects leave such a start by themselves.
    together = chain.program.sampler.n_decisions == 1
    moves = first > 0 or (together and len(chain.program.slices.steps) > 0)
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


def rows_of_trial(program: SamplerSpec, updates: int) -> float:
    """Mean number of rows that an update evaluates, by a new chain from the normal approximation.

    A window of warm-up comes first, in which tests adapt to the bounds: before, a few far proposals
    evaluate all rows. The trial ends early once it has evaluated very many.
    """
    plan, rng = program.plan, np.random.default_rng(SEED)
    chain = Chain(program, rng, adapting=True)
    position = plan.target.factorization.in_support(plan.gaussian_draw(rng, 1.0))
    chain.place(position, plan.target.source.others)
    most = max(MAX_READ, MAX_PASSES * plan.n_rows)
    for planned in (WINDOW, updates):
        rows, draws = 0.0, 0
        while draws < planned and rows <= most:
            rows += float(chain.advance(1).counts["n_obs"].sum())
            draws += 1
        if draws < planned:
            break
    return rows / (draws * program.updates_per_draw)


def _end_waiting(chain: Chain) -> None:
    """End the waiting of a chain after the variables of the likelihood have changed."""
    state, first = chain.state, chain.plan.reference.first
    moved = chain.position[:first] != state.waits_at[:first]
    if moved.all() or (moved.any() and not scale_collapses(chain.plan, chain.position)):
        state.waits_at[:], state.warned = np.nan, False
