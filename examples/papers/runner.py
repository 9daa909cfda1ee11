"""Run an experiment at a size, time it, and store what it found."""

import argparse
import inspect
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from papers import data, parts, provenance
from papers.report import RESULTS, Report, mean_sd
from pymc_minibatch_mh import audit, sample
from pymc_minibatch_mh.bounds import bounds_pass
from pymc_minibatch_mh.steps.base import model_behind

type Array = NDArray[np.float64]


class Size(Enum):
    """How much of an experiment is run."""

    SMOKE = 0
    QUICK = 1
    FULL = 2
    #: The lengths of the paper, where those take hours: a run that can be stopped and goes on.
    PUBLISHED = 3

    def of[T](self, smoke: T, quick: T, full: T, published: T | None = None) -> T:
        """Return what belongs to this size; the published lengths are the full ones by default."""
        return (smoke, quick, full, full if published is None else published)[self.value]


@dataclass(frozen=True)
class Run:
    """Trials of one step on one model: independent chains.

    Parameters
    ----------
    trace
        Draws and stats, with one chain a trial.
    seconds
        Seconds that sampling took, by the clock, without compilation and without preparation.
    """

    trace: xr.DataTree
    seconds: float

    @property
    def rows(self) -> Array:
        """Rows that each draw read, shape (trials, draws)."""
        return self.stat("n_obs")

    @property
    def rows_per_update(self) -> tuple[float, float]:
        """Rows that an update read: mean, and standard deviation over trials."""
        return mean_sd(self.rows.mean(axis=1))

    @property
    def acceptance(self) -> float:
        """Share of the updates that were accepted."""
        return float(self.stat("accepted_share").mean())

    def stat(self, name: str) -> Array:
        """Return a stat of every draw, shape (trials, draws)."""
        return np.asarray(self.trace.sample_stats[name], float)

    def values(self, name: str) -> Array:
        """Return the draws of a variable, shape (trials, draws, ...)."""
        return np.asarray(self.trace.posterior[name], float)

    def ess(self, name: str) -> float:
        """Return the smallest bulk effective sample size of a variable over its elements."""
        return float(az.ess(self.trace, var_names=[name])[name].min())

    def rows_per_effective_draw(self, name: str) -> float:
        """Return rows that were read for one effective draw of a variable."""
        return float(self.rows.sum() / self.ess(name))


def trials(
    step: Any,
    draws: int,
    *,
    starts: Sequence[dict[str, Any]] | None = None,
    chains: int = 1,
    tune: int = 0,
    seed: int = 1,
    **options: Any,
) -> Run:
    """Sample independent chains, one from each start.

    A short run beforehand compiles what the step needs, so that seconds are those of sampling.
    """
    chains = chains if starts is None else len(starts)
    provenance.note_data(model_behind(step))
    settings = {
        "chains": chains,
        "initvals": None if starts is None else list(starts),
        "random_seed": seed,
        "progressbar": False,
        "compute_convergence_checks": False,
        **options,
    }
    sample(step, 2, tune=min(tune, 2), **settings)
    began = time.perf_counter()
    trace = sample(step, draws, tune=tune, **settings)
    return Run(trace, time.perf_counter() - began)


def acceptance_error(run: Run, step: Any, pairs: int, seed: int) -> float:
    """Return the root mean square error of acceptance probabilities, without that of measuring."""
    found = audit(run.trace, step, pairs=pairs, random_seed=seed)["pairs"]
    squares = found["acceptance_error"] ** 2 - found["acceptance_error_mcse"] ** 2
    return float(np.sqrt(max(float(squares.mean()), 0.0)))


def main(experiment: Callable[[Size, int], Report]) -> None:
    """Run an experiment from the command line, print what it found and store it."""
    script = Path(inspect.getfile(experiment)).stem
    parser = argparse.ArgumentParser(prog=f"python -m papers.{script}")
    parser.add_argument("--quick", action="store_true", help="minutes; what is run by default")
    parser.add_argument("--full", action="store_true", help="the stored results")
    parser.add_argument(
        "--published",
        action="store_true",
        help="the paper's lengths, in hours; goes on where it was stopped",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--out", type=Path, help="folder of the results; by default the stored ones"
    )
    asked = parser.parse_args()
    size = Size.PUBLISHED if asked.published else Size.FULL if asked.full else Size.QUICK
    # What each run of a sampler says of its progress.
    logging.getLogger("pymc").setLevel(logging.WARNING)
    stored = size.value >= Size.FULL.value
    data.require(stored)
    report = measured(experiment, size, asked.seed)
    for claim in report.claims:
        verdict = "set" if claim.chosen else "reached" if claim.reached else "MISSED"
        print(f"{verdict:>8}  {claim.what}: {claim.measured:.4g} (published: {claim.published})")
    for table in report.tables:
        print("", table.caption, *[" | ".join(map(str, row)) for row in table.rows], sep="\n")
    print(f"\n{report.run['seconds']:,.0f} s")
    if stored or asked.out:
        report.write((asked.out or RESULTS) / f"{script}.json")
        parts.discard()


@contextmanager
def every_drawn_row_read() -> Iterator[None]:
    """Have no row dropped by a ceiling of its own: the papers' methods read each that they draw."""
    narrow, bounds_pass.NARROW = bounds_pass.NARROW, math.inf
    try:
        yield
    finally:
        bounds_pass.NARROW = narrow


def measured(experiment: Callable[[Size, int], Report], size: Size, seed: int) -> Report:
    """Run an experiment, and note how; parts of stored results are kept as they come."""
    script = Path(inspect.getfile(experiment)).stem
    option = {Size.FULL: " --full", Size.PUBLISHED: " --published"}.get(size, "")
    command = f"python -m papers.{script}{option}" + ("" if seed == 1 else f" --seed {seed}")
    folder = parts.FOLDER / f"{script}{option.replace(' --', '-')}-{seed}" if option else None
    kept = parts.keep_in(folder, provenance.commit())
    provenance.forget()
    began = time.perf_counter()
    with every_drawn_row_read():
        report = experiment(size, seed)
    run = provenance.record(command, seed, time.perf_counter() - began)
    if kept.commits:
        # Of all sessions, not of the last alone.
        seconds = max(run["seconds"], round(kept.seconds, 1))
        run |= {"commit": "; ".join(sorted(kept.commits)), "seconds": seconds}
    return replace(report, run=run)
