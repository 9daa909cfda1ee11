"""What a chain tells while it runs: PyMC's progress bar and its warnings.

The functions that the progress bar calls are private in PyMC, and are kept in this one place.

Large deterministics, which ``pm.sample`` evaluates and stores at every draw.

One value per row is the usual case: the fitted probabilities of ``pm.OrderedLogistic``, the
function of a Gaussian process, ``p`` or ``mu`` that a user or Bambi has named. No step has a say in
what is stored, so all that can be done is to name them before sampling.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pymc as pm
import pytensor
from pymc.stats.convergence import SamplerWarning, WarningType
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Variable
from rich.progress import TextColumn
from rich.table import Column

from pymc_minibatch_mh.chain.points import Begun
from pymc_minibatch_mh.chain.pool import ChainState
from pymc_minibatch_mh.chain.program import Program
from pymc_minibatch_mh.kernels import roles as entry
from pymc_minibatch_mh.likelihood.derived import plain
from pymc_minibatch_mh.likelihood.inputs import likelihoods_of
from pymc_minibatch_mh.reference.target import Target

#: Name -> (dtype, meaning). All are scalars per draw. A name that PyMC's own steps use has their
#: type, or both could not own variables of one model: `accepted` is boolean in some of them and
#: not in others, so that no step beside all of them can have it.
STATS: dict[str, tuple[type, str]] = {
    "accept": (np.float64, "estimated acceptance probability, averaged over the draw's updates"),
    "accepted_share": (np.float64, "share of the draw's updates that were accepted"),
    "n_obs": (np.int64, "rows whose log-likelihood was evaluated in this draw"),
    "n_looks": (np.int64, "looks that the test took in this draw"),
    "full_pass": (np.int64, "updates of this draw that read all rows"),
    "n_bright": (np.int64, "rows that were bright in the last update; 0 but for FireflyMH"),
    "n_prior": (np.int64, "evaluations of the prior part by moves without rows"),
    "log_ratio": (np.float64, "estimated log ratio of the last update"),
    "log_ratio_std": (np.float64, "its standard error; 0 after a full pass"),
    "error_estimate": (np.float64, "estimated error of the acceptance probability, averaged"),
    "bound_ratio": (np.float64, "largest change of a row that was read, in units of its bound"),
    "certified": (np.bool_, "whether the draw is exact by bounds that the model itself gave"),
    "invalid": (np.int64, "updates rejected because a log-density was not finite"),
    "scaling": (np.float64, "scale of the random walk"),
    "temperature": (np.float64, "temperature K of the log-likelihood in this draw"),
    "perf_counter_diff": (np.float64, "seconds spent in the draw"),
}

STATS_DTYPES_SHAPES: dict[str, tuple[Any, Any]] = {
    **{name: (dtype, []) for name, (dtype, _) in STATS.items()},
    "warning": (SamplerWarning, None),
}


#: Stats that are counted: name -> (entry of the counts, whether it is averaged over updates).
COUNTED: dict[str, tuple[int, bool]] = {
    "accept": (entry.ACCEPT, True),
    "accepted_share": (entry.ACCEPTED, True),
    "n_obs": (entry.N_OBS, False),
    "n_looks": (entry.N_LOOKS, False),
    "full_pass": (entry.FULL_PASS, False),
    "n_bright": (entry.N_BRIGHT, False),
    "n_prior": (entry.N_PRIOR, False),
    "log_ratio": (entry.LOG_RATIO, False),
    "log_ratio_std": (entry.LOG_RATIO_STD, False),
    "error_estimate": (entry.ERROR, True),
    "bound_ratio": (entry.BOUND_RATIO, False),
    "invalid": (entry.INVALID, False),
}
#: Their Python types, which PyMC's loop stores in those of the table.
_PYTHON = {name: float if STATS[name][0] is np.float64 else int for name in COUNTED}


def stats_of_draw(counts: np.ndarray, n_updates: int) -> dict[str, Any]:
    """Return what the updates of one draw have counted, under the names of the stats."""
    return {
        name: _PYTHON[name](counts[place] / n_updates if averaged else counts[place])
        for name, (place, averaged) in COUNTED.items()
    }


def write_stats(
    stats: Mapping[str, np.ndarray], where: tuple[int, slice], counts: np.ndarray, n_updates: int
) -> None:
    """Write the counts of some draws, shape (draws, N_COUNTS), into arrays of stats.

    The arrays have shape (chains, draws); `where` is a chain and its draws.
    """
    for name, (place, averaged) in COUNTED.items():
        stats[name][where] = counts[:, place] / n_updates if averaged else counts[:, place]


_log = logging.getLogger("pymc")

#: Shares of full-data updates that are warned of.
FULL_PASS_WARNING, FULL_PASS_STRONG = 0.1, 0.5
#: Share of accepted moves below which a chain is stuck.
STUCK = 0.01
#: Updates to see before a warning.
ENOUGH_UPDATES = 500


def progress_columns(n_chains: int = 1) -> tuple[list[TextColumn], dict[str, list]]:
    """Return the columns of the progress bar and what they show before the first draw."""
    columns = [
        TextColumn("{task.fields[n_obs]:,}", table_column=Column("Rows", ratio=1)),
        TextColumn("{task.fields[accept]:0.2f}", table_column=Column("Accept", ratio=1)),
        TextColumn("{task.fields[full_pass]}", table_column=Column("Full passes", ratio=1)),
    ]
    return columns, {
        "n_obs": [0] * n_chains,
        "accept": [0.0] * n_chains,
        "full_pass": [0] * n_chains,
    }


def progress_functions() -> tuple[Callable[[dict[str, Any]], dict[str, Any]]]:
    """Return the function that turns the stats of a draw into the fields of the columns."""
    full_passes = 0

    def update_stats(stats: dict[str, Any]) -> dict[str, Any]:
        nonlocal full_passes
        full_passes += stats["full_pass"]
        return {"n_obs": stats["n_obs"], "accept": stats["accept"], "full_pass": full_passes}

    return (update_stats,)


def warning_of(name: str, state: ChainState, program: Program) -> SamplerWarning | None:
    """Return what a chain of the step `name` has to warn of and has not warned of yet.

    A method that is asked to read all rows at every update does not warn of that.
    """
    method = program.method
    if state.adapting:
        return None
    if state.unmoved:
        reason, state.unmoved = state.unmoved, ""
        return unmoved_warning(name, reason, state.n_draws)
    if state.warned:
        return None
    if not state.started:
        state.warned = True
        return waiting_warning(name, state.n_draws)
    if state.violation:
        state.warned = True
        return violation_warning(name, state.violation, state.n_draws)
    counts = state.n_updates, state.n_accepted, 0 if method.reads_all_rows else state.n_full
    has_groups = program.prepared.target.has_groups
    way_on = method.all_rows_way_on_with_groups if has_groups else method.all_rows_way_on
    words = method.all_rows_because, way_on
    warning = chain_warning(name, counts, state.n_draws, words)
    state.warned = warning is not None
    return warning


def chain_warning(
    name: str, counts: tuple[int, int, int], draw: int, words: tuple[str, str]
) -> SamplerWarning | None:
    """Return a warning of the step `name` about a chain that hardly moves or reads everything.

    `counts` are updates after warm-up, accepted ones and those that read all rows; `words` say why
    updates read all rows, and advise where most of them do.
    """
    n_updates, n_accepted, n_full = counts
    if n_updates < ENOUGH_UPDATES:
        return None
    accepted, full_passes = n_accepted / n_updates, n_full / n_updates
    if accepted < STUCK:
        message = (
            f"{name}: {accepted:.1%} of the moves are accepted, as when a chain starts outside "
            "the bulk of the posterior or the posterior is far from Gaussian. Start chains from "
            "overdispersed_initvals(step, chains), add a random walk with proposal='auto', or "
            "use pm.NUTS()."
        )
        return SamplerWarning(WarningType.BAD_ACCEPTANCE, message, "error", draw)
    if full_passes <= FULL_PASS_WARNING:
        return None
    strong = full_passes > FULL_PASS_STRONG
    because, way_on = words
    message = f"{name}: {full_passes:.0%} of the updates read all rows, because {because}. "
    message += way_on if strong else ""
    return SamplerWarning(
        WarningType.BAD_PARAMS, message.strip(), "error" if strong else "warn", draw
    )


def tell_of_new_start(name: str) -> None:
    """Say that a chain does not start where PyMC would have it start."""
    _log.info(
        "%s: the starting point is far outside the posterior; this chain starts at a draw from the "
        "widened Gaussian approximation instead. Pass other initvals= to choose.",
        name,
    )


#: What a chain does where all effects of a hierarchy are at their location.
_AT_LOCATION: dict[Begun, str] = {
    "stepped off": "this chain starts a tenth of a posterior standard deviation beside it",
    "waits": (
        "other steps move these effects; this step makes no update until they have moved them"
    ),
}


def tell_of_start(name: str, begun: Begun) -> None:
    """Say that a chain starts beside the point that it was given, or later; nothing for None."""
    if begun is not None:
        _log.info(
            "%s: the starting point has all effects of a hierarchy exactly at their location, "
            "where their scale would run to zero; %s. Pass other initvals= to choose.",
            name,
            _AT_LOCATION[begun],
        )


def tell_of_stored(name: str, target: Target) -> None:
    """Say that a trace leaves out stored data, in the place of PyMC's warning of that."""
    if target.source.in_memory:
        return
    observed = likelihoods_of(target.split.terms)
    for one in observed:
        warnings.filterwarnings(
            "ignore",
            f"Could not extract data from symbolic observation {re.escape(one)}$",
            UserWarning,
            r"pymc\.backends\.arviz",
        )
    _log.info(
        "%s: a trace has no observed_data of %s, which stay where Rows(...) has them.",
        name,
        " and ".join(map(repr, observed)),
    )


def tell_of_large_deterministics(
    name: str, priced: Mapping[str, str], var_names: Sequence[str]
) -> None:
    """Say which deterministics ``pm.sample`` computes and stores at every draw.

    `priced` has their sizes for 1,000 draws in words, and `var_names` is stored without them.
    """
    _log.warning(
        "%s: pm.sample() evaluates and stores deterministics at every draw, those of warm-up "
        "included. For 1,000 draws of a chain: %s. This can take far longer than the updates. "
        "Leave them out with pm.sample(..., var_names=%s), and compute them for a few draws "
        "afterwards with pm.compute_deterministics(trace.posterior.isel(draw=slice(None, None, "
        "100)), var_names=%s).",
        name,
        "; ".join(f"{deterministic!r}, {price}" for deterministic, price in priced.items()),
        list(var_names),
        list(priced),
    )


def size_in_words(size: int) -> str:
    """Return a number of bytes in the unit that suits it."""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"


def violation_warning(name: str, message: str, draw: int) -> SamplerWarning:
    """Return the warning that marks a chain which went on after a violated bound."""
    text = f"{name}: a bound was violated, this trace is not exact. {message}"
    return SamplerWarning(WarningType.BAD_PARAMS, text, "error", draw)


def waiting_warning(name: str, draw: int) -> SamplerWarning:
    """Return the warning of a chain that has made no update when its warm-up ended."""
    text = (
        f"{name}: all effects of a hierarchy still are exactly at their location, as no other step "
        "has moved them, and this step makes no update until one has. Pass initvals= for the "
        "effects, or let this step move them."
    )
    return SamplerWarning(WarningType.BAD_PARAMS, text, "error", draw)


def unmoved_warning(name: str, reason: str, draw: int) -> SamplerWarning:
    """Return the warning of a chain that keeps its centre where it should have moved it."""
    text = (
        f"{name}: warm-up ended far from the centre of the control variates, and none could be "
        "found nearer. The old one is kept, which changes nothing of what the method promises, but "
        f"more rows are read than need be. The search ended with this: {reason}"
    )
    return SamplerWarning(WarningType.BAD_PARAMS, text, "warn", draw)


#: Bytes a draw from which a deterministic is large: ten thousand draws of four chains are 1 GiB.
LARGE = 2**30 // 40_000
#: Model -> what was told of: name -> the deterministic.
_told: WeakKeyDictionary[pm.Model, dict[str, LargeDeterministic]] = WeakKeyDictionary()


@dataclass(frozen=True)
class LargeDeterministic:
    """A deterministic that takes more than :data:`LARGE` bytes a draw."""

    name: str
    shape: tuple[int, ...]
    bytes_per_draw: int

    @property
    def priced(self) -> str:
        """Shape and size in words, such as ``1,000,000 × 5 values, 37.3 GiB``."""
        values = " × ".join(f"{length:,}" for length in self.shape)
        return f"{values} values, {size_in_words(1_000 * self.bytes_per_draw)}"


def large_deterministics(
    model: pm.Model, point: Mapping[str, np.ndarray], known: Collection[str] = ()
) -> tuple[LargeDeterministic, ...]:
    """Return the large deterministics of a model, as far as their shapes are known.

    Shapes may depend on the `point`; those with `known` names are not looked at.
    """
    looked_at = [v for v in model.deterministics if v.name not in known]
    shapes = _shapes(model, looked_at, point)
    found = (
        LargeDeterministic(str(v.name), shape, np.dtype(v.dtype).itemsize * prod(shape))
        for v, shape in zip(looked_at, shapes, strict=True)
        if shape is not None
    )
    return tuple(one for one in found if one.bytes_per_draw > LARGE)


def names_without(model: pm.Model, large: Iterable[LargeDeterministic]) -> tuple[str, ...]:
    """Return what ``pm.sample(var_names=...)`` needs to leave out large deterministics."""
    left_out = {one.name for one in large}
    return tuple(str(v.name) for v in model.unobserved_RVs if v.name not in left_out)


def tell_of_large(model: pm.Model, point: Mapping[str, np.ndarray], step: str) -> None:
    """Warn of a model's large deterministics in the name of a step, once for each model."""
    told = _told.setdefault(model, {})
    new = large_deterministics(model, point, told)
    if new:
        told |= {one.name: one for one in new}
        names = names_without(model, told.values())
        priced = {one.name: one.priced for one in told.values()}
        tell_of_large_deterministics(step, priced, names)


def _shapes(
    model: pm.Model, variables: Sequence[Variable], point: Mapping[str, np.ndarray]
) -> Sequence[tuple[int, ...] | None]:
    static = [tuple(v.type.shape) for v in variables]
    if all(None not in shape for shape in static):
        return static
    # Nothing is compiled, and values are computed only where an operation does not tell the shape
    # of its output without them.
    graphs = [plain(v).shape for v in model.replace_rvs_by_values(variables)]
    mode = Mode(linker="py", optimizer="fast_compile")
    lenient: Any = {"on_unused_input": "ignore", "allow_input_downcast": True}
    shapes_at = pytensor.function(model.value_vars, graphs, mode=mode, **lenient)
    try:
        found = shapes_at(*(point[v.name] for v in model.value_vars))
    except Exception:
        # Such an operation is a user's own and may raise anything. A shape is not worth an error:
        # if sampling evaluates it in vain as well, PyMC says so.
        if len(variables) == 1:
            return [None]
        return [shape for v in variables for shape in _shapes(model, [v], point)]
    return [tuple(int(length) for length in shape) for shape in found]
