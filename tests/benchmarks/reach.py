"""Models at the edges of what `TunaMH` reaches, beside NUTS: tests/benchmarks/README.md.

    PYTHONPATH=tests:examples python tests/benchmarks/reach.py [row ...] [--seed SEED]

One chain of each, in one thread (set OMP_NUM_THREADS=1), one after the other in one process, so
that ratios depend little on the machine. Nothing here is a test, and nothing is stored.

Seconds are those of the processor for sampling after warm-up, so that other processes on the
machine hardly count; of NUTS its share of leapfrog steps after warm-up, without compilation. ESS is
the smallest bulk ESS over all unknowns of the model as it is written. The first ratio is of ESS a
second. The second takes every draw of NUTS as an effective one: the smallest ESS of a short run is
too low, so that the truth lies between the two. Means are compared in units of both Monte Carlo
errors, and in posterior standard deviations; with many unknowns the largest of correct runs is near
3 of the former, and more where NUTS has few effective draws.
"""

import argparse
import logging
import shlex
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import arviz as az
import numpy as np
import pymc as pm
import xarray as xr

import pymc_minibatch_mh as mb
from benchmarks import reach_models as models

TUNE = 4_000
#: Seconds that a forecast chain of `TunaMH` may take; longer ones are cut, with their warm-up.
LONGEST = 60.0


class Row(NamedTuple):
    """A row of the table.

    Parameters
    ----------
    build
        Returns the model.
    nuts
        Draws of NUTS, and as many of warm-up; 0 where it is not run.
    draws
        Draws of `TunaMH` after warm-up.
    reference
        Name of the row whose run of NUTS is compared with, if it is not this one's own: other
        spellings of a model have the same posterior in the unknowns that they share.
    """

    build: Callable[[], pm.Model]
    nuts: int
    draws: int = 40_000
    reference: str = ""


def _rows() -> dict[str, Row]:
    flights = {}
    for n_rows, draws in ((50_000, 1_000), (325_724, 200)):
        name = f"flights-{n_rows}"
        flights[f"{name}-centred"] = Row(partial(models.destinations, n_rows, centred=True), draws)
        # The centred form is the quicker one for NUTS: compared with it alone.
        flights[f"{name}-noncentred"] = Row(
            partial(models.destinations, n_rows, centred=False), 0, reference=f"{name}-centred"
        )
    small = {
        f"small-groups-{spelling}": Row(
            partial(models.small_groups, centred=spelling == "centred"), 2_000
        )
        for spelling in ("centred", "noncentred")
    }
    cover = {
        f"covertype-{n_rows}-{'standardised' if scaled else 'raw'}": Row(
            partial(models.covertype, n_rows, standardised=scaled), draws
        )
        for n_rows, scaled, draws in (
            (100_000, False, 200),
            (100_000, True, 100),
            (581_012, False, 0),
            (581_012, True, 0),
        )
    }
    return {
        **flights,
        "robust-slopes": Row(models.robust_slopes, 500),
        **small,
        **cover,
        "softmax": Row(models.softmax, 500),
        "negative-binomial-on-poisson": Row(models.counts, 300),
        "t-on-normal": Row(models.normal_data, 300),
    }


ROWS = _rows()


class Run(NamedTuple):
    """What a sampler made of a model: a trace, and seconds after warm-up."""

    trace: xr.DataTree
    seconds: float

    @property
    def ess(self) -> float:
        """The smallest bulk ESS."""
        return float(_flat(az.ess(self.trace)).min())

    @property
    def draws_per_second(self) -> float:
        """All draws a second."""
        return self.trace["posterior"].sizes["draw"] / self.seconds

    @property
    def speed(self) -> float:
        """ESS a second."""
        return self.ess / self.seconds


def _flat(found: xr.Dataset | xr.DataTree) -> np.ndarray:
    """Return one number of each unknown, in the order of their names."""
    return np.concatenate([np.ravel(found[name]) for name in sorted(found.data_vars)])


class Clock:
    """Wall and processor time since it was made."""

    def __init__(self) -> None:
        self.wall, self.processor = time.perf_counter(), time.process_time()

    def share(self) -> float:
        """Return how much of a processor this process has had."""
        return (time.process_time() - self.processor) / (time.perf_counter() - self.wall)


def minibatch(step: Any, draws: int, tune: int, seed: int) -> Run:
    """Run `TunaMH`; a draw after warm-up takes as long as one during it."""
    clock = Clock()
    trace = mb.sample(
        step,
        draws,
        tune=tune,
        chains=1,
        cores=1,
        random_seed=seed,
        progressbar=False,
        compute_convergence_checks=False,
    )
    seconds = trace["posterior"].attrs["sampling_time"] * clock.share()
    return Run(trace, seconds * draws / (draws + tune))


def nuts(model: pm.Model, draws: int, seed: int) -> Run:
    """Run NUTS by nutpie."""
    # Not among what the project needs.
    nutpie = import_module("nutpie")
    compiled = nutpie.compile_pymc_model(model)
    begin = time.process_time()
    trace = nutpie.sample(
        compiled, draws=draws, tune=draws, chains=1, cores=1, seed=seed, progress_bar=False,
        save_warmup=True,
    )  # fmt: skip
    seconds = time.process_time() - begin
    steps = [
        float(trace[group]["n_steps"].sum()) for group in ("sample_stats", "warmup_sample_stats")
    ]
    return Run(trace, seconds * steps[0] / sum(steps))


def differences(one: Run, other: Run) -> tuple[float, float]:
    """Return the largest difference of means in Monte Carlo errors, and in posterior sds."""
    names = sorted(set(one.trace["posterior"].data_vars) & set(other.trace["posterior"].data_vars))
    errors, deviations = [], []
    for name in names:
        draws = [run.trace["posterior"][name] for run in (one, other)]
        gap = np.abs(draws[0].mean(("chain", "draw")) - draws[1].mean(("chain", "draw"))).values
        variance = sum(np.asarray(az.mcse(x, method="mean").values) ** 2 for x in draws)
        errors.append(np.max(gap / np.sqrt(variance)))
        deviations.append(np.max(gap / draws[0].std(("chain", "draw")).values))
    return float(max(errors)), float(max(deviations))


HEADS = (
    "row", "unknowns", "rows/update", "updates on all rows", "acceptance", "ESS/s", "ratio",
    "ratio to draws", "off, errors", "off, sds", "NUTS ESS",
)  # fmt: skip


def measure(name: str, seed: int, references: dict[str, Run]) -> list[str]:
    """Return the cells of a row."""
    row = ROWS[name]
    model = row.build()
    step = mb.TunaMH(model=model)
    forecast = mb.explain(step, random_seed=seed).forecast
    cut = min(1.0, 1e6 * LONGEST / forecast.microseconds_per_update / (row.draws + TUNE))
    ours = minibatch(step, int(cut * row.draws), int(cut * TUNE), seed)
    if row.nuts:
        references[name] = nuts(model, row.nuts, seed)
    stats = ours.trace["sample_stats"]
    cells = [
        name,
        str(step.target.factorization.size),
        f"{float(stats['n_obs'].mean()) / step.updates_per_draw:,.1f}",
        f"{float(stats['full_pass'].mean()) / step.updates_per_draw:.1%}",
        f"{float(stats['accepted_share'].mean()):.3f}",
        f"{ours.speed:,.1f}",
    ]
    theirs = references.get(row.reference or name)
    if theirs is None:
        return cells + ["–"] * (len(HEADS) - len(cells))
    errors, deviations = differences(ours, theirs)
    ratios = ours.speed / theirs.speed, ours.speed / theirs.draws_per_second
    cells += [f"{x:,.1f}" for x in ratios]
    return [*cells, f"{errors:.1f}", f"{deviations:.3f}", f"{theirs.ess:,.0f}"]


def main() -> None:
    """Print the command and the table."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("row", nargs="*", help=f"of {', '.join(ROWS)}; all by default")
    parser.add_argument("--seed", type=int, default=3)
    asked = parser.parse_args()
    if unknown := set(asked.row) - set(ROWS):
        parser.error(f"no row is named {sorted(unknown)[0]!r}. Use some of {', '.join(ROWS)}.")
    print(f"`PYTHONPATH=tests:examples python {shlex.join(sys.argv)}`\n")
    print(f"| {' | '.join(HEADS)} |\n|{' --- |' * len(HEADS)}", flush=True)
    references: dict[str, Run] = {}
    for name in asked.row or ROWS:
        print(f"| {' | '.join(measure(name, asked.seed, references))} |", flush=True)


if __name__ == "__main__":
    main()
