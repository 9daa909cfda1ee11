"""What is said of a run, before and after it, as ``pm.sample`` says it."""

from __future__ import annotations

import logging

from pymc.stats.convergence import log_warning

from pymc_minibatch_mh.sampling.crew import Crew, Plan
from pymc_minibatch_mh.step import report
from pymc_minibatch_mh.step.base import MinibatchStep

_log = logging.getLogger("pymc")


def tell_of_run(step: MinibatchStep, plan: Plan) -> None:
    """Say what is going to run."""
    threads = min(plan.cores, plan.chains)
    _log.info("Sampling %s in %s", _number(plan.chains, "chain"), _number(threads, "thread"))
    _log.info("%s: [%s]", type(step).__name__, ", ".join(str(v.name) for v in step.vars))


def tell_of_end(name: str, crew: Crew, seconds: float, interrupted: bool) -> None:
    """Say what was made, and what the chains of the step `name` warn of."""
    for chain in crew.chains:
        # One warning at a time, until nothing is left that was not told.
        while (warning := report.warning_of(name, chain.state, chain.program)) is not None:
            log_warning(warning)
    chains, draws = crew.complete()
    if interrupted:
        _log.warning(
            "Sampling was interrupted. %s draws of each of %s are kept.",
            f"{draws:,}",
            _number(len(chains), "chain"),
        )
    _log.info(
        "Sampling %s for %s tune and %s draw iterations took %.1f seconds.",
        _number(len(chains), "chain"),
        f"{crew.plan.tune:_d}",
        f"{draws:_d}",
        seconds,
    )


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
