"""Korattikara et al. (2014), section 6.2: independent component analysis on a Stiefel manifold.

Figure 3: risk in the posterior mean of the Amari distance to the true unmixing matrix, for five
levels ε of the sequential test.

The paper mixes 1.95 million samples of a piece of classical music, of traffic noise and of two
normal sources; neither its recordings nor its step size are given. Here notes that fade, and noise
of a loudness that drifts, stand for the recordings. ``--published`` mixes a tenth of the samples,
in looks of 500 as the paper's; other sizes mix a hundredth or less, in looks of 50, so that a test
still has hundreds of looks.

A second set of sources has two Laplace-distributed ones in place of the normal ones, which the data
cannot tell from rotations of each other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from scipy.linalg import polar, sqrtm

from papers.parts import Part, part
from papers.report import Claim, Panel, Report, Table, curve, mean_sd
from papers.runner import Array, Size, main, trials
from papers.stiefel import StiefelWalk
from pymc_minibatch_mh import AustereMH

EPSILONS = (0.0, 0.01, 0.05, 0.1, 0.2)
PUBLISHED_ROWS, ROWS, BATCH = 1_950_000, 19_500, 50
#: Standard deviation of the angles of a step, in 1/√rows.
SCALE = 2.0
#: Draws of a trial that are kept, trials of a level, and of those that are run at a time.
KEPT, MOST_TRIALS, TOGETHER = 1_500, 50, 10
#: Full-data evaluations of a trial; runs that tell the truth, and the draws that each keeps.
PASSES, RUNS, LONG = 400, 10, 400
#: Sets of sources, and how much longer than the other the run has to be that tells the truth.
SOURCES = {"two normal sources": 4, "no normal source": 1}


@dataclass(frozen=True)
class Mixed:
    """Prewhitened recordings of mixed sources.

    Parameters
    ----------
    x : ndarray, shape (rows, 4)
        The recordings.
    unmixing : ndarray, shape (4, 4)
        The matrix that takes them back to the sources.
    """

    x: Array
    unmixing: Array

    @property
    def start(self) -> Array:
        """The orthonormal matrix that is nearest to the true one."""
        return np.ascontiguousarray(polar(self.unmixing)[0])


def recordings(rows: int, seed: int, normal: bool = True) -> Mixed:
    """Mix notes that fade, noise of a drifting loudness and two independent sources."""
    rng = np.random.default_rng(seed)
    seconds = np.linspace(0.0, 44.0, rows, endpoint=False)
    note = (4.0 * seconds).astype(int)
    pitch = 220.0 * 2.0 ** (rng.integers(0, 25, 176) / 12.0)
    angle = 2.0 * np.pi * pitch[note] * seconds
    music = sum(np.sin(k * angle) / k for k in (1, 2, 3)) * np.exp(-12.0 * (seconds % 0.25))
    drift = np.interp(seconds, np.arange(46), rng.normal(0.0, 0.8, 46))
    traffic = rng.standard_normal(rows) * np.exp(drift)
    draw = rng.standard_normal if normal else rng.laplace
    s = np.column_stack([music, traffic, draw(size=(rows, 2))])
    s /= s.std(axis=0)
    mixing = rng.standard_normal((4, 4))
    x = s @ mixing.T
    whitener = np.linalg.inv(sqrtm(np.cov(x.T)).real)
    return Mixed((x - x.mean(axis=0)) @ whitener, np.linalg.inv(whitener @ mixing))


def model_of(mixed: Mixed) -> pm.Model:
    """Return the model: sources of density 1/(4 cosh²(s/2)), unmixed by an orthonormal matrix."""

    def logp(x: Any, unmixing: Any) -> Any:
        # The determinant of an orthonormal matrix is 1 or -1.
        sources = (x[..., None, :] * unmixing).sum(axis=-1)
        return -2.0 * pt.log(2.0 * pt.cosh(0.5 * sources)).sum(axis=-1)

    with pm.Model() as model:
        unmixing = pm.Flat("W", shape=(4, 4), initval=mixed.start)
        pm.CustomDist("x", unmixing, logp=logp, signature="(n,n)->(n)", observed=mixed.x)
    return model


def step_of(model: pm.Model, rows: int, epsilon: float, batch: int, **settings: Any) -> AustereMH:
    """Return the test of a level, on a walk whose steps suit so many rows."""
    walk = StiefelWalk(SCALE / np.sqrt(rows), adapt=False)
    settings = {"centre": "start", "full_pass_above": np.inf, "proposal": walk, **settings}
    return AustereMH(model=model, epsilon=epsilon, batch_size=batch, **settings)


def amari(unmixing: NDArray[Any], truth: Array) -> Array:
    """Return Amari's distance of matrices of shape (..., n, n) to one, scaled to [0, 1]."""
    n = truth.shape[0]
    product = np.abs(unmixing @ np.linalg.inv(truth))
    lines = (product.sum(-1) / product.max(-1)).sum(-1)
    columns = (product.sum(-2) / product.max(-2)).sum(-1)
    return np.asarray((lines + columns - 2 * n) / (2 * n * (n - 1)))


@dataclass(frozen=True)
class Level:
    """What the trials of a level gave.

    Parameters
    ----------
    read
        Rows that a trial has read, shape (times,).
    found
        Estimates by then, shape (trials, times).
    rows_per_update, seconds_per_row, accepted
        Of each trial, shape (trials,).
    truth
        What the estimates are of.
    """

    read: Array
    found: Array
    rows_per_update: Array
    seconds_per_row: Array
    accepted: Array
    truth: float

    @property
    def risk(self) -> Array:
        """Mean squared error over trials, shape (times,)."""
        return np.asarray(((self.found - self.truth) ** 2).mean(axis=0))

    @property
    def risk_error(self) -> Array:
        """Standard error of the risk, shape (times,)."""
        squares = (self.found - self.truth) ** 2
        return np.asarray(squares.std(axis=0, ddof=1) / np.sqrt(len(squares)))

    @property
    def bias_share(self) -> float:
        """Share of the risk at the end that is squared bias, less what noise adds to it."""
        last = self.found[:, -1]
        squared = (last.mean() - self.truth) ** 2 - last.var(ddof=1) / last.size
        return float(np.clip(squared / self.risk[-1], 0.0, 1.0))


@dataclass(frozen=True)
class Truth:
    """The posterior mean of the Amari distance, with its Monte Carlo error, and draws of W."""

    mean: float
    error: float
    draws: Array


def truth_of(
    name: str, mixed: Mixed, step: Callable[..., AustereMH], kept: int, times: int, seed: int
) -> Truth:
    """Run the test of all rows for long, in some runs of two chains each."""
    found = []
    for k in range(times):

        def compute(k: int = k) -> Part:
            starts = [{"W": mixed.start}] * 2
            run = trials(
                step(updates_per_draw=10), kept, starts=starts, tune=100, seed=seed + 1_000 * k
            )
            draws = run.values("W")
            few = draws[:, :: max(1, kept // MOST_TRIALS)].reshape(-1, 4, 4)
            return {"distances": amari(draws, mixed.unmixing), "draws": few}

        found.append(part(f"{name}-truth-{k}", compute))
    distances = np.concatenate([few["distances"] for few in found])
    draws = np.concatenate([few["draws"] for few in found])
    spread = draws[np.linspace(0, len(draws) - 1, MOST_TRIALS).astype(int)]
    return Truth(float(distances.mean()), float(az.mcse(distances)), spread)


def some_trials(
    step: Callable[..., AustereMH],
    mixed: Mixed,
    starts: list[dict[str, Array]],
    passes: int,
    seed: int,
) -> Part:
    """Run trials of a level from draws of the posterior, on so many rows."""
    rows = len(mixed.x)
    pilot = trials(step(), 200, starts=starts[:2], seed=seed)
    updates = 1.05 * passes * rows / pilot.rows_per_update[0]
    thin = max(1, int(updates / KEPT))
    some = step(updates_per_draw=thin)
    run = trials(some, int(updates / thin), starts=starts, seed=seed + 1)
    totals = run.rows.cumsum(axis=1)
    distances = amari(run.values("W"), mixed.unmixing)
    means = distances.cumsum(axis=1) / np.arange(1, distances.shape[1] + 1)
    read = np.geomspace(passes / 100, passes, 60) * rows
    return {
        "read": read,
        "found": np.array([np.interp(read, r, m) for r, m in zip(totals, means, strict=True)]),
        "rows_per_update": run.rows.mean(axis=1) / thin,
        "seconds_per_row": run.stat("perf_counter_diff").sum(axis=1) / totals[:, -1],
        "accepted": run.stat("accepted_share").mean(axis=1),
    }


def level(
    name: str,
    step: Callable[..., AustereMH],
    mixed: Mixed,
    truth: Truth,
    size: Size,
    seed: int,
) -> Level:
    """Run a level, ten trials at a time, on a number of rows that all levels have."""
    passes, count = size.of(30, 100, PASSES), size.of(2, 6, MOST_TRIALS)
    found = []
    for k in range(0, count, TOGETHER):
        starts = [{"W": w} for w in truth.draws[k : min(k + TOGETHER, count)]]

        def compute(starts: list[dict[str, Array]] = starts, k: int = k) -> Part:
            return some_trials(step, mixed, starts, passes, seed + 1_000 * k)

        found.append(part(f"{name}-trials-{k}", compute))
    names = "found", "rows_per_update", "seconds_per_row", "accepted"
    joined = {each: np.concatenate([few[each] for few in found]) for each in names}
    return Level(read=np.asarray(found[0]["read"]), truth=truth.mean, **joined)


def experiment(size: Size, seed: int) -> Report:
    """Run all levels on two sets of sources, each for the same number of rows."""
    claimed: list[Claim] = []
    tables, panels = [], []
    for number, (name, times) in enumerate(SOURCES.items()):
        # The other sources are no experiment of the paper: their largest size is the stored one.
        own_size = size if number == 0 else Size(min(size.value, Size.FULL.value))
        rows, batch = sizes(own_size)
        mixed = recordings(rows, seed, normal=number == 0)
        model = model_of(mixed)
        steps = {epsilon: partial(step_of, model, rows, epsilon, batch) for epsilon in EPSILONS}
        own_seed, runs = seed + 100 * number, times * own_size.of(1, 1, RUNS)
        truth = truth_of(name, mixed, steps[0.0], own_size.of(20, 100, LONG), runs, own_seed)
        levels = {
            epsilon: level(f"{name}-{epsilon}", step, mixed, truth, own_size, own_seed + 10 * i)
            for i, (epsilon, step) in enumerate(steps.items(), 1)
        }
        claimed += claims(name, levels) if number == 0 else []
        tables.append(table(name, levels, truth))
        panels += drawn(name, levels)
    return Report(
        "Korattikara et al. (2014), section 6.2: figure 3",
        claimed,
        tables,
        panels,
        differences(size),
    )


def sizes(size: Size) -> tuple[int, int]:
    """Return the rows that are mixed, and those of a look."""
    return size.of(2_000, ROWS, ROWS, 10 * ROWS), size.of(BATCH, BATCH, BATCH, 10 * BATCH)


def differences(size: Size) -> list[str]:
    """Return what was not as published."""
    rows, batch = sizes(size)
    count, passes = size.of(2, 6, MOST_TRIALS), size.of(30, 100, PASSES)
    kept, runs = size.of(20, 100, LONG), size.of(1, 1, RUNS)
    told = [
        "The recordings are synthetic, and the step size is ours",
        f"There are {rows:,} rows, not {PUBLISHED_ROWS:,}, and looks have {batch} rows, not about "
        "500",
        f"{count} trials evaluate all rows {passes} times each, from draws of the posterior",
        f"The true mean is from {20 * kept * runs:,} draws with all rows, not 100,000, and from "
        f"{80 * kept * runs:,} with normal sources",
    ]
    if size is Size.PUBLISHED:
        return [*told, f"Sources without a normal one have {ROWS:,} rows and looks of {BATCH}"]
    return [*told, f"`--published` has {10 * ROWS:,} rows of the paper's kind of sources"]


def claims(name: str, levels: dict[float, Level]) -> list[Claim]:
    """Return what must come out."""
    risks = {epsilon: found.risk[-1] for epsilon, found in levels.items()}
    best = min(risks, key=lambda epsilon: risks[epsilon])
    largest = EPSILONS[-1]
    ratio = float(risks[0.0] / risks[best])
    relative = [levels[e].risk_error[-1] / risks[e] for e in (0.0, best)]
    what = f"{name}: risk with ε = 0, in the least (± its standard error)"
    bias = f"{name}: share of squared bias in the risk with ε ="
    return [
        Claim(f"{name}: ε of the least risk at equal rows", "0.1", 0.05, 0.1, best),
        Claim(what, "> 1", 1.0, None, ratio, ratio * float(np.hypot(*relative))),
        Claim(f"{bias} {largest}", "most of it", 0.5, None, levels[largest].bias_share),
        Claim(f"{bias} 0.05", "less than half", None, 0.5, levels[0.05].bias_share),
    ]


def table(name: str, levels: dict[float, Level], truth: Truth) -> Table:
    """Return what the levels read, and how near they come."""
    exact = levels[0.0].rows_per_update.mean()
    lines: list[list[Any]] = [
        [
            epsilon,
            mean_sd(found.rows_per_update),
            float(exact / found.rows_per_update.mean()),
            float(found.accepted.mean()),
            mean_sd(found.found[:, -1]),
            found.bias_share,
            (float(found.risk[-1]), float(found.risk_error[-1])),
            float((found.seconds_per_row * found.read[-1]).mean()),
        ]
        for epsilon, found in levels.items()
    ]
    head = ["ε", "rows an update", "updates at equal rows, relative to ε = 0", "acceptance"]
    head += ["estimate", "share of squared bias", "risk (± standard error)", "seconds a trial"]
    told = f"{name}: mean of the Amari distance, {truth.mean:.5f} ± {truth.error:.5f} by a long run"
    return Table(told, head, lines)


def drawn(name: str, levels: dict[float, Level]) -> list[Panel]:
    """Return figure 3, against rows and against seconds, with bands of one standard error."""
    rows, seconds = [], []
    for epsilon, found in levels.items():
        label, error = f"ε = {epsilon:g}", found.risk_error
        rows.append(curve(label, found.read, found.risk, sd=error))
        pace = float(found.seconds_per_row.mean())
        seconds.append(curve(label, found.read * pace, found.risk, sd=error))
    return [
        Panel(f"Risk, {name}", "rows read", "risk", rows, True, True),
        Panel(f"Risk, {name}", "seconds", "risk", seconds, True, True),
    ]


if __name__ == "__main__":
    main(experiment)
