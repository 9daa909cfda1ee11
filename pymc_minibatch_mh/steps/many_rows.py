"""Warning about a step that is forecast to evaluate many observations, with its causes."""

import logging
from collections.abc import Mapping

import numpy as np

from pymc_minibatch_mh.chain.program import SamplerSpec
from pymc_minibatch_mh.chain.starts import rows_of_trial
from pymc_minibatch_mh.native.elements import Ends
from pymc_minibatch_mh.native.looks import rows_of_penalty
from pymc_minibatch_mh.plan.arrow import ArrowPlan
from pymc_minibatch_mh.plan.bound_sources import bounds_pass_of
from pymc_minibatch_mh.plan.plan import Plan
from pymc_minibatch_mh.plan.prepare import forecast_of_few
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.steps.report import describe_rows

_log = logging.getLogger("pymc")

#: Number of updates of a trial; share and number of rows above which their forecast is a warning.
TRIAL_UPDATES, MANY_ROWS, MIN_MANY = 32, 0.05, 1_000
#: Maximum number of variables that a warning names, and minimum share of bounds of each.
MAX_NAMED, MIN_SHARE = 3, 0.2
#: Proposals, rows and seed of the forecast of ``PenaltyMH``.
PENALTY_MOVES, PENALTY_ROWS, SEED = 8, 4_096, 5


def try_bounds(name: str, target: Target | None, point: Mapping[str, np.ndarray]) -> None:
    """Log a warning, before anything is compiled, if a few rows forecast that many are evaluated.

    BoundsError if very many of these have no bound.
    """
    if target is None:
        return
    rows = forecast_of_few(target, target.factorization.ravel(point))
    if rows > max(MANY_ROWS * target.source.n_rows, MIN_MANY):
        _log.warning(
            "%s: by the bounds of a few rows, an update is forecast to evaluate %.0f %% of %s. "
            "Compiling their long log-likelihood goes on; PenaltyMH(), which is approximate, and "
            "pm.NUTS() need no bounds.",
            name,
            100.0 * rows / target.source.n_rows,
            describe_rows(target),
        )


def warn_of_many_rows(name: str, program: SamplerSpec) -> None:
    """Log a warning if a step is to evaluate many rows an update, by bounds or by their noise."""
    plan, method = program.plan, program.method
    bounds, target = plan.bounds, plan.target
    derived = bounds is not None and bounds.verified and not plan.violation
    if not (derived if method.draws_by_bounds else method.follows_noise):
        return
    if plan.integrated or target.covariance is not None or not target.source.in_memory:
        return
    rows = rows_of_trial(program, TRIAL_UPDATES)
    if rows <= max(MANY_ROWS * plan.n_rows, MIN_MANY):
        return
    if not method.draws_by_bounds:
        cause, way_on = "the control variates leave too much noise for few to decide", ""
    elif isinstance(plan, ArrowPlan):
        cause, way_on = _of_effects(plan)
    else:
        cause, way_on = _of_all_together(plan)
    _log.warning(
        "%s: an update is forecast to evaluate %.0f %% of %s, because %s. %sexplain(model) "
        "compares it with NUTS, which is pm.sample(nuts_sampler='nutpie').",
        name,
        100.0 * rows / plan.n_rows,
        describe_rows(target),
        cause,
        way_on,
    )


def _of_effects(plan: ArrowPlan) -> tuple[str, str]:
    """Cause and advice where effects are accepted one at a time."""
    effects = sorted(plan.target.indexed)
    names = dict.fromkeys(plan.target.factorization.name_at(k) for k in effects)
    listed = f"effects {' and '.join(map(repr, names))}"
    of_others, of_effects = typical_ceilings(plan)
    if of_others > of_effects:
        size = plan.target.factorization.size - len(effects)
        cause = f"proposals move the {size:,} unknowns beside the {listed} together, and bounds"
        return f"{cause} are wide", _of_penalty(plan)
    cause = f"the {len(effects):,} {listed} are accepted one at a time, but share"
    return f"{cause} observations or have few each", ""


def typical_ceilings(plan: ArrowPlan) -> tuple[float, float]:
    """Sums of thinning bounds in a proposal of all parameters but effects, and of all effects."""
    rng = np.random.default_rng(SEED)
    ends = plan.elements.ends(*(plan.gaussian_draw(rng, 1.0) for _ in range(2)))
    here, there = ends.here, ends.there
    moves = Ends(here, here, ends.border), Ends(here, there, (*[ends.border[0]] * 2, 0.0))
    of_others, of_effects = (float(plan.parts.row_ceilings(move).sum()) for move in moves)
    return of_others, of_effects


def _of_all_together(plan: Plan) -> tuple[str, str]:
    """Cause and advice where all parameters are proposed together."""
    size, shares = plan.reference.centre.size, shares_of_bounds(plan)
    worst = sorted((x for x in shares if shares[x] >= MIN_SHARE), key=lambda x: -shares[x])
    widest = [f"{shares[x]:.0%} of them vanish if {x!r} is known" for x in worst[:MAX_NAMED]]
    cause = f"proposals move {size:,} unknowns, and bounds are wide" + ": " * bool(widest)
    alone = "Of the effects, blocks=True accepts each alone, or says why not. "
    advice = alone * bool(plan.target.indexed) + _of_penalty(plan)
    return cause + ", and ".join(widest), advice


def _of_penalty(plan: Plan) -> str:
    """How many observations ``PenaltyMH`` would evaluate, in words."""
    count, total = penalty_forecast(plan), plan.target.source.n_rows
    too = ", too" * (count > 0.5 * total)
    return f"PenaltyMH(), which is approximate, is forecast to evaluate {count:,}{too}. "


def shares_of_bounds(plan: Plan) -> Mapping[str, float]:
    """Share of the bounds that vanishes if a variable is known, by its name."""
    target, reference = plan.target, plan.reference
    total = bounds_pass_of(target, reference).forecast()
    if not 0.0 < total < np.inf:
        return {}
    parts, shares = target.factorization, {}
    for block, name in zip(parts.blocks, parts.natural, strict=True):
        factor = reference.factor.copy()
        factor[block.start : block.stop] = 0.0
        left = bounds_pass_of(target, reference._replace(factor=factor)).forecast()
        shares[name] = 1.0 - left / total
    return shares


def penalty_forecast(plan: Plan) -> int:
    """Number of observations in a typical batch of ``PenaltyMH``, from differences of some rows."""
    target, reference, rng = plan.target, plan.reference, np.random.default_rng(SEED)
    moves = [
        (plan.gaussian_draw(rng, 1.0), plan.gaussian_draw(rng, 1.0)) for _ in range(PENALTY_MOVES)
    ]
    rows, total = target.spread(PENALTY_ROWS), target.source.n_rows
    changes = target.full_data.differences(reference.order, moves, reference.centre, rows)
    noises = (reference.inverse_temperature * total) ** 2 * changes.var(axis=1)
    return int(np.median([rows_of_penalty(noise, total) for noise in noises]))
