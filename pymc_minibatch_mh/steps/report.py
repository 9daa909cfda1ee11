"""Statistics, progress and warnings of a running chain, in PyMC's format.

The progress bar calls private functions of PyMC, which only this module implements.
"""

import logging
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakSet

import numpy as np
import pymc as pm
import xarray as xr
from pymc.stats.convergence import SamplerWarning, WarningType
from rich.progress import TextColumn
from rich.table import Column

from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.chain.program import SamplerSpec
from pymc_minibatch_mh.chain.starts import StartOutcome
from pymc_minibatch_mh.chain.state import ChainState
from pymc_minibatch_mh.model.bambi import response_parameters
from pymc_minibatch_mh.model.inputs import likelihood_names
from pymc_minibatch_mh.native.statistics import STATS, Statistic
from pymc_minibatch_mh.plan.plan import Plan
from pymc_minibatch_mh.reference.rotations import rotated_together
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.steps.deterministics import warn_of_large

_log = logging.getLogger("pymc")
_REAL = np.float64


def draw_statistics(
    counts: np.void, n_updates: int, statistics: Mapping[str, Statistic]
) -> dict[str, Any]:
    """Statistics of one draw for PyMC, from the counts of its updates."""
    sums = dict(zip(counts.dtype.names or (), counts.item(), strict=True))
    return {
        name: sums[at] / n_updates if averaged else sums[at] if dtype is _REAL else int(sums[at])
        for name, (dtype, _, at, _, averaged) in statistics.items()
        if at is not None
    }


def write_stats(
    stats: Mapping[str, np.ndarray], where: tuple[int, slice], counts: np.ndarray, n_updates: int
) -> None:
    """Write the counts of draws, shape (draws,), into arrays of statistics.

    The arrays have shape (chains, draws); `where` selects a chain and its draws.
    """
    for name, values in stats.items():
        _, _, entry, _, averaged = STATS[name]
        if entry is not None:
            values[where] = counts[entry] / n_updates if averaged else counts[entry]


#: Fractions of full-data updates that cause a warning, and a stronger one with advice.
FULL_PASS_WARNING, FULL_PASS_STRONG = 0.1, 0.5
#: Acceptance rate below which a chain counts as stuck.
MIN_ACCEPTANCE = 0.01
#: Minimum number of updates before a warning.
MIN_UPDATES = 500
_NOISE = "the control variates leave too much noise for a batch to decide"
_GAINS_NOTHING = (
    "Subsampling gains nothing here: use pm.NUTS(), or fewer parameters with more rows each."
)
_FEWER_GROUPS = (
    ", such as fewer groups. How a hierarchy is written makes no difference, unless "
    "explain(model) says why a variable is not reparametrised."
)
_WAITING = (
    "all group effects still equal their mean, because no other step has moved them, and this "
    "step waits for that. Pass initvals= for the effects, or let this step update them."
)


def progress_columns(n_chains: int = 1) -> tuple[list[TextColumn], dict[str, list]]:
    """Columns of the progress bar, and their values before the first draw."""
    # Fixed width: PyMC's own columns share the remaining space.
    columns = [
        TextColumn("{task.fields[n_obs]:,}", table_column=Column("Rows", min_width=6)),
        TextColumn("{task.fields[accept]:0.2f}", table_column=Column("Accept", min_width=6)),
    ]
    return columns, {"n_obs": [0] * n_chains, "accept": [0.0] * n_chains}


def progress_functions() -> tuple[Callable[[dict[str, Any]], dict[str, Any]]]:
    """Function from the statistics of a draw to the fields of the columns."""
    return (lambda stats: {name: stats[name] for name in ("n_obs", "accept")},)


def next_warning(name: str, state: ChainState, program: SamplerSpec) -> SamplerWarning | None:
    """Next warning of a chain of the step `name`; None if there is no new one."""
    if state.adapting:
        return None
    if state.unmoved:
        reason, state.unmoved = state.unmoved, ""
        text = (
            "warm-up ended far from the centre of the control variates, and no nearer centre was "
            "found. The old one stays: draws are as valid as before, but updates evaluate more "
            f"observations than necessary. The search ended with: {reason}"
        )
        return _make_warning(state, name, text, "warn")
    if state.warned:
        return None
    if not state.started:
        warning = _make_warning(state, name, _WAITING)
    elif state.violation:
        text = f"a bound was violated, so this trace is not exact. {state.violation}"
        warning = _make_warning(state, name, text)
    else:
        warning = _update_warning(name, state, program)
    state.warned = warning is not None
    return warning


def _update_warning(name: str, state: ChainState, program: SamplerSpec) -> SamplerWarning | None:
    """Warning of a chain that rarely accepts, or often evaluates the full data; else None."""
    method = program.method
    if state.n_updates < MIN_UPDATES:
        return None
    accepted = state.n_accepted / state.n_updates
    if accepted < MIN_ACCEPTANCE:
        text = (
            f"{accepted:.1%} of the proposals are accepted, perhaps because the chain started "
            "outside the bulk of the posterior or the posterior is far from Gaussian. Start "
            "chains from overdispersed_initvals(step, chains), add a random walk with "
            "proposal='auto', or use pm.NUTS()."
        )
        return _make_warning(state, name, text, kind=WarningType.BAD_ACCEPTANCE)
    full_passes = 0.0 if method.reads_all_rows else state.n_full / state.n_updates
    if full_passes <= FULL_PASS_WARNING:
        return None
    because, way_on = method.all_rows_words or (_NOISE, _GAINS_NOTHING)
    text = f"{full_passes:.0%} of the updates evaluate all observations, because {because}."
    if full_passes <= FULL_PASS_STRONG:
        return _make_warning(state, name, text, "warn")
    if program.plan.target.n_elements and method.all_rows_words is None:
        way_on = f"{way_on[:-1]}{_FEWER_GROUPS}"
    return _make_warning(state, name, f"{text} {way_on}")


def _make_warning(
    state: ChainState,
    name: str,
    text: str,
    level: str = "error",
    kind: WarningType = WarningType.BAD_PARAMS,
) -> SamplerWarning:
    return SamplerWarning(kind, f"{name}: {text}", level, state.n_draws)


def describe_rows(target: Target) -> str:
    """Text such as "10,000 observations of 'y'"."""
    terms = target.factorization.terms
    return " and ".join(f"{term.n_rows:,} observations of {term.name!r}" for term in terms)


def describe_seconds(seconds: float) -> str:
    """Text such as "2.5 seconds" or "38 milliseconds"."""
    return f"{seconds:.1f} seconds" if seconds >= 1.0 else f"{1000.0 * seconds:.0f} milliseconds"


def log_preparation(
    name: str, target: Target, model: pm.Model, point: Mapping[str, np.ndarray], source: Any
) -> None:
    """Log the preparation of a step, and data that traces omit or statistics do not count.

    These are stored data. Potentials of which every update evaluates many rows, and large
    deterministics cause a warning, unless Bambi computes them afterwards for its model, the
    `source`.
    """
    warn_of_large(model, point, name, response_parameters(source))
    for potential, (_, words) in target.factorization.in_full.items():
        _log.warning("%s: %r is %s", name, potential, words)
    if not target.source.in_memory:
        _log_left_out(name, target)
    _log.info("%s: preparing %s.", name, describe_rows(target))


def log_prepared_plan(name: str, plan: Plan, seconds: float, leaves_start: bool) -> None:
    """Log the time of preparation, and replaced starts of chains."""
    bounds = "without" if plan.bounds is None else "with"
    _log.info("%s: prepared in %s, %s bounds.", name, describe_seconds(seconds), bounds)
    if leaves_start:
        _log.info("Starting chains near the posterior mode.")


#: Maximum number of coordinates that a warning names.
MAX_NAMED = 3


def warn_of_tails(name: str, program: SamplerSpec) -> None:
    """Log a warning if the posterior has a tail that independent proposals lack."""
    heavy = program.plan.heavy_tails if program.sampler.is_independent else {}
    if not heavy:
        return
    worst = sorted(heavy, key=lambda name: heavy[name])[:MAX_NAMED]
    others = len(heavy) - len(worst)
    _log.warning(
        "%s: the posterior of %s%s has a tail that normal proposals lack: %.0f %% of their "
        "efficiency is left along %r. Draws are as valid as before. Some proposals of Mixture(), "
        "the default, go along up to four such tails: stays there end, but the ESS is small. By "
        "other proposals, the ESS of a short run is too large. Sample several long chains and "
        "compare them, use a prior that excludes the tail, or use pm.NUTS().",
        name,
        " and ".join(map(repr, worst)),
        f" and {others} others" if others else "",
        100.0 * heavy[worst[0]],
        worst[0],
    )


def warn_of_rotations(name: str, target: Target, point: Mapping[str, np.ndarray]) -> None:
    """Log a warning if rotations of some variables leave the posterior unchanged."""
    turned = rotated_together(target, target.factorization.ravel(point))
    if not turned:
        return
    _log.warning(
        "%s: the posterior does not change if %s rotated%s. Its modes form a curve, and it is far "
        "from the normal distribution around any of them: chains hardly move along the curve, and "
        "evaluate many observations. Fix as many rows of %r as it has columns, such as "
        "pt.concatenate([np.eye(2), rest]), and data tell all others; or use pm.NUTS().",
        name,
        " and ".join(map(repr, turned)) + (" is" if len(turned) == 1 else " are"),
        " together" * (len(turned) > 1),
        turned[-1],
    )


#: Number of places of jumps beyond which chains that propose all of them together hardly move: of
#: proposals across one change as large as the noise, half are rejected.
MAX_JUMPING = 3


def warn_of_jumps(name: str, program: SamplerSpec) -> None:
    """Log a warning if proposals move many places at once at which observations jump."""
    plan = program.plan
    jumping = () if plan.integrated or plan.blocks else plan.target.jumping
    if len(jumping) <= MAX_JUMPING:
        return
    names = dict.fromkeys(plan.target.factorization.name_at(k) for k in jumping)
    _log.warning(
        "%s: observations jump at %d places, which %s decide, and proposals move all of them at "
        "once. About half are rejected for each place, so the ESS is a hundredth of the draws or "
        "less. Replace each jump by a smooth step, b + (a - b) * pm.math.sigmoid((tau - t) / "
        "width); use a model for each group, if groups share no parameter; or sample many more "
        "draws.",
        name,
        len(jumping),
        " and ".join(map(repr, names)),
    )


#: Stays longer than LONG_STAY draws, and than LONGER times the longest one of independent
#: decisions, cause a warning.
LONG_STAY, LONGER = 50, 5.0
_OF_STAYS = (
    "Posteriors with such tails need several long chains, a prior that excludes the tail, or "
    "pm.NUTS(): the ESS of a short run is too large. Mixture(), the default proposal, shortens "
    "stays along up to four tails that are named before sampling."
)


def longest_stay(accepted: np.ndarray) -> tuple[int, int]:
    """Length of the longest run of draws without an accepted update, and its first draw."""
    moved = np.concatenate([[-1], np.flatnonzero(accepted > 0.0), [accepted.size]])
    stays = np.diff(moved) - 1
    longest = int(np.argmax(stays))
    return int(stays[longest]), int(moved[longest]) + 1


def _is_long_stay(n_stayed: int, n_draws: int, rate: float) -> bool:
    """Whether a stay is longer than independent decisions at an acceptance rate explain."""
    if n_stayed <= LONG_STAY:
        return False
    usual = np.log(n_draws) / -np.log1p(-np.clip(rate, 1e-3, 1.0 - 1e-3))
    return bool(n_stayed > LONGER * usual)


def stay_warning(name: str, chain: Chain) -> SamplerWarning | None:
    """Warning of a chain that has stayed at one position for long, the first of its chain."""
    state, program, plan = chain.state, chain.program, chain.plan
    if state.adapting or state.warned or state.n_stayed <= LONG_STAY:
        return None
    rate, n_draws = state.n_accepted / state.n_updates, state.n_updates // program.updates_per_draw
    if not (program.sampler.is_independent and _is_long_stay(state.n_stayed, n_draws, rate)):
        return None
    state.warned = True
    reference = plan.reference
    spreads = np.sqrt(np.sum(reference.factor**2, axis=1))
    away = np.abs(chain.position - reference.centre) / spreads
    k = int(np.argmax(away))
    text = (
        f"a chain stayed at one position for {state.n_stayed} draws, where "
        f"{plan.target.factorization.name_at(k)!r} is {away[k]:.1f} posterior sds from the centre. "
        f"{_OF_STAYS}"
    )
    return _make_warning(state, name, text, "warn")


def warn_of_stays(name: str, tree: xr.DataTree) -> None:
    """Log a warning if a chain stayed at one position for long, and the variable that is far."""
    shares = tree["sample_stats"]["accepted_share"]
    for chain, accepted in zip(shares["chain"].to_numpy(), shares.to_numpy(), strict=True):
        if accepted.size <= LONG_STAY:
            continue
        n_draws, first = longest_stay(accepted)
        if not _is_long_stay(n_draws, accepted.size, float(accepted.mean())):
            continue
        far = _farthest_variable(tree, chain, first)
        _log.warning(
            "%s: chain %s stayed at one position for %s draws from draw %s on%s. %s",
            name,
            chain,
            f"{n_draws:,}",
            f"{first:,}",
            f", where {far[0]!r} is {far[1]:.1f} posterior sds from its mean" if far else "",
            _OF_STAYS,
        )
        return


def _farthest_variable(tree: xr.DataTree, chain: int, draw: int) -> tuple[str, float] | None:
    """Variable with an entry far from its mean in a draw, and its distance in sds."""
    distances = {}
    for name, values in tree["posterior"].data_vars.items():
        spread = values.std(("chain", "draw"))
        # A variable that never changes has no distance.
        with np.errstate(divide="ignore", invalid="ignore"):
            far = np.abs(values.sel(chain=chain)[draw] - values.mean(("chain", "draw"))) / spread
        distances[str(name)] = float(far.max())
    return max(distances.items(), key=lambda pair: pair[1], default=None)


#: Messages for starts that are perturbed or replaced, or at which a chain waits.
_OF_STARTS: dict[StartOutcome, str] = {
    "stepped off": (
        "Starting chains slightly beside their starting points, because all group effects equal "
        "their mean there."
    ),
    "waits": (
        "Updating only once other steps have moved the group effects, because all of them equal "
        "their mean at the start."
    ),
    "replaced": (
        "Starting chains near the posterior mode instead of initvals=, which are more than twenty "
        "posterior standard deviations away, where effects cannot be integrated out. Leave "
        "initvals= out, or pass blocks=True."
    ),
}
#: Specs of samplers whose chains have logged their start.
_STARTS_LOGGED = WeakSet[SamplerSpec]()


def log_start(program: SamplerSpec, begun: StartOutcome) -> None:
    """Log once per program that chains start from another point, or wait."""
    if begun is not None and program not in _STARTS_LOGGED:
        _STARTS_LOGGED.add(program)
        log = _log.warning if begun == "replaced" else _log.info
        log(_OF_STARTS[begun])


def _log_left_out(name: str, target: Target) -> None:
    """Log that traces leave out stored data, in place of PyMC's warning."""
    observed = likelihood_names(target.factorization.terms)
    for one in observed:
        warnings.filterwarnings(
            "ignore",
            f"Could not extract data from symbolic observation {re.escape(one)}$",
            UserWarning,
            r"pymc\.backends\.arviz",
        )
    _log.info(
        "%s: traces have no observed_data for %s, whose data stay in Rows(...).",
        name,
        " and ".join(map(repr, observed)),
    )
