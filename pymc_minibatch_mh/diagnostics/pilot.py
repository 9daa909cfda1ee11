"""Short runs of a step's own loop, from which its efficiency is forecast."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import arviz as az
import numpy as np
import pymc as pm
import xarray as xr
from pymc.stats.convergence import SamplerWarning
from scipy.special import stdtrit

from pymc_minibatch_mh.chain.chain import Chain, point_of
from pymc_minibatch_mh.chain.starts import perturbed_start, scale_collapses
from pymc_minibatch_mh.diagnostics.explanation import EFFECTIVE, WARM_UP, Forecast, Memory
from pymc_minibatch_mh.native.statistics import STATS
from pymc_minibatch_mh.progress import counting, report
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.report import warning_of

#: Pilots, each with a start, a warm-up and a seed of its own, as their spread is the error; the
#: fewest, and the seconds after which no other begins.
PILOTS, FEWEST_PILOTS, SECONDS_OF_PILOTS = 4, 2, 4.0
#: Seconds of a draw that :func:`pymc.sample` spends outside the step, with one chain.
RECORDING = 12e-6
#: Further draws of each pilot in compiled blocks: the fewest, the most, and the seconds of all
#: pilots after which no other block begins. Each block doubles the draws, so that the clock rarely
#: changes a figure.
FEWEST_IN_BLOCKS, MOST_IN_BLOCKS, SECONDS_IN_BLOCKS = 128, 32_768, 0.6


@dataclass(frozen=True, eq=False)
class Pilot:
    """Pilots: their draws after warm-up, and the counts of further ones, made in blocks."""

    #: Of the moved coordinates, shape (pilots, draws, d), and their names.
    draws: np.ndarray
    names: list[str]
    #: Name of a sampler stat -> its values, shape (pilots, draws).
    stats: Mapping[str, np.ndarray]
    #: Shape (pilots, further draws).
    counts: np.ndarray
    #: Seconds of a draw, made in blocks after warm-up, and in warm-up.
    seconds_in_blocks: float
    seconds_in_warm_up: float
    #: The first that a chain warned of.
    warning: str
    #: The last point, and whether all chains were still exact at their ends.
    point: dict[str, np.ndarray]
    certified: bool


class _Run(NamedTuple):
    """One pilot."""

    step: MinibatchStep
    point: dict[str, np.ndarray]
    positions: np.ndarray
    stats: list[dict]
    #: Seconds of a draw of warm-up.
    in_warm_up: float


def fresh_chain(step: MinibatchStep, rng: np.random.Generator, tune: int) -> MinibatchStep:
    """Return a step that shares all that was prepared, with a chain of its own.

    Pickling would prepare the bounds once more. Everything of a chain that changes is made anew
    by ``setup_chain``, so that the original's chain goes on as if there were no other.
    """
    other = object.__new__(type(step))
    other.__dict__.update(step.__dict__)
    other.setup_chain(rng, tune, 0)
    return other


def first_point(
    step: MinibatchStep, model: pm.Model, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Return where a pilot starts: at a draw from the Gaussian approximation.

    A step with ``centre="start"`` has none that tells of the posterior, and what lies around its
    centre may have no density, as beside a manifold: its pilot starts at the centre, unless no
    chain could go on from there.
    """
    if step.target.covariance is None:
        return {**model.initial_point(), **step.gaussian_draw(rng, 1.0)}
    start = step.plan.reference.centre
    if scale_collapses(step.plan, start):
        near = perturbed_start(step.plan, start, rng)
        start = start if near is None else near
    return {**model.initial_point(), **step.target.factorization.unravel(start, {})}


def fly(
    step: MinibatchStep, model: pm.Model, draws: int, tune: int, rng: np.random.Generator
) -> Pilot:
    """Run up to four chains of copies of `step`, which is not changed; fewer if they are slow.

    They start at :func:`first_point`, each with `tune` draws of warm-up, and share `draws` equally.
    Variables of other steps stay there, and at the model's initial point if no row depends on them
    or they are discrete.
    """
    factorization = step.target.factorization
    others = step.target.source.others
    before = others.copy()
    label = f"Pilots of {type(step).__name__}"
    report(label)
    runs, began = [], time.perf_counter()
    try:
        with counting(label, PILOTS) as advance:
            for _ in range(PILOTS):
                own = np.random.default_rng(rng.integers(2**63))
                runs.append(_run(step, model, -(-draws // PILOTS), tune, own))
                advance()
                if len(runs) >= FEWEST_PILOTS and time.perf_counter() - began > SECONDS_OF_PILOTS:
                    break
            counts, in_blocks = _in_blocks([run.step.chain for run in runs])
    finally:
        others[:] = before
    stats = {
        name: np.array([[one[name] for one in run.stats] for run in runs])
        for name in runs[0].stats[0]
        if name != "warning"
    }
    last = runs[-1]
    return Pilot(
        np.array([run.positions[:, factorization.first :] for run in runs]),
        factorization.coordinate_names[factorization.first :],
        stats,
        counts,
        in_blocks,
        float(np.mean([run.in_warm_up for run in runs])),
        _warning(runs, counts),
        last.point,
        all(run.step.chain.certified for run in runs),
    )


def _run(
    step: MinibatchStep, model: pm.Model, draws: int, tune: int, rng: np.random.Generator
) -> _Run:
    one, point = fresh_chain(step, rng, tune), first_point(step, model, rng)
    began = time.perf_counter()
    if tune:
        point, _ = one.step(point)
        if one.chain.state.started:
            one.chain.advance(tune - 1)
            point = point_of(one.chain, point)
    one.stop_tuning()
    in_warm_up = (time.perf_counter() - began) / max(tune, 1)
    positions, stats = np.empty((draws, step.target.factorization.size)), []
    for position in positions:
        point, (of_draw,) = one.step(point)
        position[:] = step.target.factorization.ravel_values(point)
        stats.append(of_draw)
    return _Run(one, point, positions, stats, in_warm_up)


def _in_blocks(chains: list[Chain]) -> tuple[np.ndarray, float]:
    """Make draws of copies of chains in blocks; return their counts and the time of a draw.

    All make as many: a chain that ended by its own clock would end after its rare full passes.
    """
    copies, blocks, made = [chain.copy() for chain in chains], [], 0
    for copied in copies:
        copied.advance(1)
    began = time.perf_counter()
    while True:
        block = made or FEWEST_IN_BLOCKS
        blocks.append([copied.advance(block).counts for copied in copies])
        made, seconds = made + block, time.perf_counter() - began
        if seconds > SECONDS_IN_BLOCKS or made >= MOST_IN_BLOCKS:
            return np.concatenate(blocks, axis=1), seconds / (made * len(copies))


def _warning(runs: list[_Run], counts: np.ndarray) -> str:
    """Return what a pilot warned of, or what the updates of all of them together say."""
    given: list[SamplerWarning] = [w for run in runs for s in run.stats if (w := s["warning"])]
    if given:
        return given[0].message
    step, made = runs[-1].step, counts.size
    state = step.chain.copy().state
    state.n_updates += step.updates_per_draw * made
    state.n_full += int(counts["full_pass"].sum())
    state.n_accepted += int(counts["accepted"].sum())
    found = warning_of(type(step).__name__, state, step.program)
    return "" if found is None else found.message


def forecast(step: MinibatchStep, pilot: Pilot, tune: int, preparation_seconds: float) -> Forecast:
    """Return the figures of pilots of a step that took so many seconds to build, or NaN."""
    n_pilots, each, _ = pilot.draws.shape
    count, updates = n_pilots * each, step.updates_per_draw
    rows = counted(pilot, "n_obs").mean(axis=1) / updates
    held, seconds = step.left_to_others, seconds_per_draw(pilot)
    effective = effective_draws(pilot.draws)
    ess = float(effective.min())
    of_draw = seconds + RECORDING if held else pilot.seconds_in_blocks
    warm_up = pilot.seconds_in_warm_up if tune else of_draw
    return Forecast(
        draws=count,
        tune=tune,
        updates_per_draw=updates,
        rows_per_update=float(np.mean(rows)),
        rows_error=error_between(rows),
        acceptance=float(pilot.stats["accepted_share"].mean()),
        acceptance_error=float(pilot.counts["error"].mean()) / updates,
        full_pass_share=float(counted(pilot, "full_pass").mean()) / updates,
        microseconds_per_update=1e6 * seconds / updates,
        ess=ess,
        worst=pilot.names[int(effective.argmin())],
        ess_per_second=ess / (count * (seconds + RECORDING)),
        ess_per_second_in_blocks=0.0 if held else ess / (count * pilot.seconds_in_blocks),
        seconds=WARM_UP * warm_up + EFFECTIVE * of_draw * count / max(ess, 1e-9),
        memory=memory(step),
        preparation_seconds=preparation_seconds,
        held=held,
        warning=pilot.warning,
    )


def counted(pilot: Pilot, name: str) -> np.ndarray:
    """Return the values of a stat, shape (pilots, draws), those of further draws as well."""
    further = pilot.counts[STATS[name].entry]
    return np.concatenate([pilot.stats[name], further], axis=1)


def seconds_per_draw(pilot: Pilot) -> float:
    """Return the mean time of a draw within the step: rare full passes count."""
    return float(pilot.stats["perf_counter_diff"].mean())


def effective_draws(draws: np.ndarray) -> np.ndarray:
    """Return the bulk effective sample size of every coordinate, 0 where it never moved.

    Draws have the shape (chains, draws, d).
    """
    ess = az.ess(xr.Dataset({"x": (("chain", "draw", "coordinate"), draws)}))
    moved = np.ptp(draws, axis=(0, 1)) > 0.0
    # ArviZ counts every draw of a constant as effective.
    return np.where(moved, ess["x"].to_numpy(), 0.0)


def error_between(means: np.ndarray) -> float:
    """Return half of the width of Student's 95 % interval for the mean of the means of pilots."""
    n = len(means)
    return float(stdtrit(n - 1, 0.975) * np.std(means, ddof=1) / np.sqrt(n))


def memory(step: MinibatchStep) -> Memory:
    """Return the bytes of a step; each data array counts once, however many terms read it."""
    tables, source = step.plan.bounds, step.target.source
    arrays = [column.values for column in source.columns]
    data = {a.ctypes.data if isinstance(a, np.ndarray) else id(a): a.nbytes for a in arrays}
    held = 0 if tables is None else tables.nbytes
    sums = sum(np.asarray(part).nbytes for part in step.plan.reference)
    return Memory(sum(data.values()), held, sums, not source.in_memory)
