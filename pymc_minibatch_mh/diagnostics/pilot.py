"""A short run of a step's own loop, from which its efficiency is forecast."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import arviz as az
import numpy as np
import pymc as pm
import xarray as xr

from pymc_minibatch_mh.chain.chain import Chain, perturbed_start, scale_collapses
from pymc_minibatch_mh.diagnostics.explanation import Forecast, Memory
from pymc_minibatch_mh.kernels import roles as entry
from pymc_minibatch_mh.progress import counting, report
from pymc_minibatch_mh.steps.base import MinibatchStep

#: Seconds of a draw that :func:`pymc.sample` spends outside the step, with one chain.
RECORDING = 12e-6
#: Batches whose means tell the error of the mean number of rows.
BATCHES = 20
#: Draws that are made in blocks after the pilot: the fewest, and the work that all of them may
#: take. Passes over all rows that are too rare for a pilot may read most of the rows of a run.
FEWEST_IN_BLOCKS, WORK_IN_BLOCKS = 150, 10_000_000
#: Work of an update beside a unit for every row, of about 50 ns: that of any move, that of a pair
#: of dimensions, and by how much more that of a row is which is stored.
WORK_OF_MOVE, WORK_OF_PAIR, WORK_OF_STORED = 100.0, 0.25, 100.0
#: Passes over all rows that these draws may take, in rows, beside their work.
MOST_PASSES = 4


@dataclass(frozen=True, eq=False)
class Pilot:
    """A pilot run: its draws after warm-up, and the counts of further ones, made in blocks."""

    #: Of the moved coordinates, shape (draws, d), and their names.
    draws: np.ndarray
    names: list[str]
    #: Name of a sampler stat -> its values, shape (draws,).
    stats: Mapping[str, np.ndarray]
    #: Shape (further draws, N_COUNTS), and the seconds that each of these took.
    counts: np.ndarray
    seconds_in_blocks: float
    #: The first that the chain warned of.
    warning: str
    #: The last point, and whether the chain was still exact there.
    point: dict[str, np.ndarray]
    certified: bool


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
    """Run a chain of a copy of `step`, which is not changed.

    It starts at :func:`first_point`. Variables of other steps stay there, and at the model's
    initial point if no row depends on them or they are discrete.
    """
    factorization = step.target.factorization
    others = step.target.source.others
    before = others.copy()
    label = f"Pilot of {type(step).__name__}"
    report(label)
    try:
        with counting(label, tune + draws) as advance:
            chain = fresh_chain(step, rng, tune)
            point = first_point(step, model, rng)
            for _ in range(tune):
                point, _ = chain.step(point)
                advance()
            chain.stop_tuning()
            positions = np.empty((draws, factorization.size))
            stats = []
            for k in range(draws):
                point, (one,) = chain.step(point)
                positions[k] = factorization.ravel_values(point)
                stats.append(one)
                advance()
            rows = float(np.mean([one["n_obs"] for one in stats]))
            counts, seconds_in_blocks = _in_blocks(chain.chain, rows)
    finally:
        others[:] = before
    warnings = [one.pop("warning") for one in stats]
    return Pilot(
        positions[:, factorization.first :],
        factorization.coordinate_names[factorization.first :],
        {name: np.array([one[name] for one in stats]) for name in stats[0]},
        counts,
        seconds_in_blocks,
        next((w.message for w in warnings if w is not None), ""),
        point,
        chain.chain.certified,
    )


def _in_blocks(chain: Chain, rows: float) -> tuple[np.ndarray, float]:
    """Make draws of a copy of a chain in blocks; return their counts and the time of a draw.

    As many as about a second allows, by what a draw of so many `rows` costs; not by a clock, so
    that a seed tells all figures but times. Beyond some passes over all rows there are enough to
    count.
    """
    copied, n_rows = chain.copy(), chain.plan.n_rows
    of_row = 1.0 if chain.plan.target.source.in_memory else WORK_OF_STORED
    of_update = WORK_OF_MOVE + WORK_OF_PAIR * chain.position.size**2
    work = of_row * rows + chain.program.updates_per_draw * of_update
    block = max(FEWEST_IN_BLOCKS, int(WORK_IN_BLOCKS / work)) // BATCHES + 1
    copied.advance(1)
    began, counts = time.perf_counter(), []
    for _ in range(BATCHES):
        counts.append(copied.advance(block).counts)
        if sum(one[:, entry.N_OBS].sum() for one in counts) > WORK_IN_BLOCKS + MOST_PASSES * n_rows:
            break
    made = np.concatenate(counts)
    return made, (time.perf_counter() - began) / len(made)


def counted(pilot: Pilot, name: str) -> np.ndarray:
    """Return the values of a stat, of further draws as well; zero if the step does not count it."""
    if name not in pilot.stats:
        return np.zeros(1)
    return np.append(pilot.stats[name], pilot.counts[:, entry.STATS[name].entry])


def forecast(step: MinibatchStep, pilot: Pilot, tune: int, preparation_seconds: float) -> Forecast:
    """Return the figures of a pilot of a step that took so many seconds to build, or NaN."""
    count, updates = len(pilot.draws), step.updates_per_draw
    rows = counted(pilot, "n_obs") / updates
    held = step.left_to_others
    seconds = seconds_per_draw(pilot)
    ess = effective_draws(pilot.draws)
    halves = [2.0 * float(effective_draws(h).min()) for h in np.array_split(pilot.draws, 2)]
    return Forecast(
        draws=count,
        tune=tune,
        updates_per_draw=updates,
        rows_per_update=float(rows.mean()),
        rows_error=error_of_mean(rows),
        acceptance=float(pilot.stats["accepted_share"].mean()),
        acceptance_error=float(pilot.stats.get("error_estimate", np.zeros(1)).mean()),
        full_pass_share=float(counted(pilot, "full_pass").mean()) / updates,
        microseconds_per_update=1e6 * seconds / updates,
        ess=float(ess.min()),
        ess_low=min(halves),
        ess_high=max(halves),
        worst=pilot.names[int(ess.argmin())],
        ess_per_second=float(ess.min()) / (count * (seconds + RECORDING)),
        ess_per_second_in_blocks=0.0
        if held
        else float(ess.min()) / (count * pilot.seconds_in_blocks),
        memory=memory(step),
        preparation_seconds=preparation_seconds,
        held=held,
        warning=pilot.warning,
        candidates_per_update=float(counted(pilot, "n_candidates").mean()) / updates,
    )


def seconds_per_draw(pilot: Pilot) -> float:
    """Return the mean time of a draw within the step: rare full passes count."""
    return float(pilot.stats["perf_counter_diff"].mean())


def effective_draws(draws: np.ndarray) -> np.ndarray:
    """Return the bulk effective sample size of every column; 0 of one that never moved."""
    ess = az.ess(xr.Dataset({"x": (("chain", "draw", "coordinate"), draws[None])}))
    moved = np.ptp(draws, axis=0) > 0.0
    # ArviZ counts every draw of a constant as effective.
    return np.where(moved, ess["x"].to_numpy(), 0.0)


def error_of_mean(values: np.ndarray) -> float:
    """Return the standard error of a mean of consecutive values, by means of batches."""
    means = [batch.mean() for batch in np.array_split(values, BATCHES)]
    return float(np.std(means, ddof=1) / np.sqrt(BATCHES))


def memory(step: MinibatchStep) -> Memory:
    """Return the bytes of a step; each data array counts once, however many terms read it."""
    tables, source = step.plan.bounds, step.target.source
    arrays = [column.values for column in source.columns]
    data = {a.ctypes.data if isinstance(a, np.ndarray) else id(a): a.nbytes for a in arrays}
    held = 0 if tables is None else tables.nbytes
    sums = sum(np.asarray(part).nbytes for part in step.plan.reference)
    copy = step.plan.bytes_of_copy
    return Memory(sum(data.values()), held, sums, not source.in_memory, copy)
