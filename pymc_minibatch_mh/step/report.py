"""What a chain tells while it runs: PyMC's progress bar and its warnings.

The functions that the progress bar calls are private in PyMC, and are kept in this one place.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pymc.stats.convergence import SamplerWarning, WarningType
from rich.progress import TextColumn
from rich.table import Column

from pymc_minibatch_mh.chain.program import Program
from pymc_minibatch_mh.chain.starts import Begun
from pymc_minibatch_mh.chain.state import ChainState
from pymc_minibatch_mh.expansion.target import Target
from pymc_minibatch_mh.model.reading.joined import likelihoods_of

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

    Parameters
    ----------
    name
        Name of the step.
    counts
        Updates after warm-up, and how many of them were accepted and read all rows.
    draw
        Number of the draw.
    words
        Why updates read all rows, and what to do where most of them do.
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
    """Say that a trace leaves out stored data, in the place of PyMC's warning of that.

    Parameters
    ----------
    name
        Name of the step.
    target
        What it is built on; nothing is said where all data are in memory.
    """
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
    """Say what ``pm.sample`` would compute and store beside the variables.

    Parameters
    ----------
    name
        Name of the step.
    priced
        Name of a deterministic -> its size for 1,000 draws, in words.
    var_names
        What is stored if these are left out.
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
