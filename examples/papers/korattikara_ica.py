"""Korattikara et al. (2014), section 6.2: independent component analysis on a Stiefel manifold.

Figure 3: risk in the posterior mean of the Amari distance to the true unmixing matrix, for five
levels ε of the sequential test.

The paper mixes 1.95 million samples of a piece of classical music, of traffic noise and of two
normal sources; neither its recordings nor its step size are given. Here notes that fade, and noise
of a loudness that drifts, stand for the recordings. A hundredth of the samples is mixed, and the
test looks at 50 of them at a time instead of about 500, so that it still has hundreds of looks.

A second set of sources has two Laplace-distributed ones in place of the normal ones, which the data
cannot tell from rotations of each other.
"""

from dataclasses import dataclass
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from scipy.linalg import polar, sqrtm

from papers.report import Claim, Panel, Report, Table, curve, mean_sd
from papers.runner import Array, Run, Size, main, trials
from papers.stiefel import StiefelWalk
from pymc_minibatch_mh import AustereMH

EPSILONS = (0.0, 0.01, 0.05, 0.1, 0.2)
PUBLISHED_ROWS, ROWS, BATCH = 1_950_000, 19_500, 50
#: Standard deviation of the angles of a step, in 1/√rows.
SCALE = 2.0
#: Draws of a trial that are kept.
KEPT = 1_500
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
    run
        Its trials.
    read, risk : ndarray
        Rows that a trial has read, and the mean over trials of the squared error by then.
    estimates : ndarray, shape (trials,)
        The estimates at the end.
    truth
        What they are of.
    rows_per_update
        Mean number of rows that an update read.
    """

    run: Run
    read: Array
    risk: Array
    estimates: Array
    truth: float
    rows_per_update: float

    @property
    def bias_share(self) -> float:
        """Share of the risk at the end that is squared bias, less what noise adds to it."""
        noise = self.estimates.var(ddof=1) / self.estimates.size
        squared = (self.estimates.mean() - self.truth) ** 2 - noise
        return float(np.clip(squared / self.risk[-1], 0.0, 1.0))


@dataclass(frozen=True)
class Truth:
    """The posterior mean of the Amari distance, with its Monte Carlo error, and draws of W."""

    mean: float
    error: float
    draws: Array


def truth_of(mixed: Mixed, step: AustereMH, kept: int, seed: int) -> Truth:
    """Run the test of all rows for long."""
    run = trials(step, kept, starts=[{"W": mixed.start}] * 2, tune=1_000, seed=seed, thin=10)
    distances = amari(run.values("W"), mixed.unmixing)
    error = float(az.mcse(distances))
    return Truth(float(distances.mean()), error, run.values("W").reshape(-1, 4, 4))


def level(step: AustereMH, mixed: Mixed, truth: Truth, size: Size, seed: int) -> Level:
    """Run a level from draws of the posterior, on a number of rows that all levels have."""
    rows, passes, count = len(mixed.x), size.of(30, 100, 400), size.of(2, 6, 10)
    chosen = np.linspace(0, len(truth.draws) - 1, count).astype(int)
    starts = [{"W": truth.draws[i]} for i in chosen]
    pilot = trials(step, 200, starts=starts[:2], seed=seed)
    updates = 1.05 * passes * rows / pilot.rows_per_update[0]
    thin = max(1, int(updates / KEPT))
    run = trials(step, int(updates / thin), starts=starts, seed=seed + 1, thin=thin)
    totals = run.rows.cumsum(axis=1)
    distances = amari(run.values("W"), mixed.unmixing)
    means = distances.cumsum(axis=1) / np.arange(1, distances.shape[1] + 1)
    read = np.geomspace(passes / 100, min(passes, totals[:, -1].min() / rows), 60) * rows
    found = np.array([np.interp(read, r, m) for r, m in zip(totals, means, strict=True)])
    risk = ((found - truth.mean) ** 2).mean(axis=0)
    return Level(run, read, risk, found[:, -1], truth.mean, float(run.rows.mean()) / thin)


def experiment(size: Size, seed: int) -> Report:
    """Run all levels on two sets of sources, each for the same number of rows."""
    rows = size.of(2_000, ROWS, ROWS)
    claimed: list[Claim] = []
    tables, panels = [], []
    for number, (name, times) in enumerate(SOURCES.items()):
        mixed = recordings(rows, seed, normal=number == 0)
        model = model_of(mixed)
        steps = {epsilon: step_of(model, rows, epsilon, BATCH) for epsilon in EPSILONS}
        truth = truth_of(mixed, steps[0.0], times * size.of(20, 100, 400), seed + 100 * number)
        levels = {
            epsilon: level(step, mixed, truth, size, seed + 100 * number + 10 * i)
            for i, (epsilon, step) in enumerate(steps.items(), 1)
        }
        claimed += claims(name, levels)
        tables.append(table(name, levels, truth))
        panels += drawn(name, levels)
    return Report(
        "Korattikara et al. (2014), section 6.2: figure 3",
        claimed,
        tables,
        panels,
        differences(size, rows),
    )


def differences(size: Size, rows: int) -> list[str]:
    """Return what was not as published."""
    count, passes = size.of(2, 6, 10), size.of(30, 100, 400)
    kept = size.of(20, 100, 400)
    return [
        "The recordings are synthetic, and the step size is ours",
        f"There are {rows:,} rows, not {PUBLISHED_ROWS:,}, and looks have {BATCH} rows, not about "
        "500",
        f"{count} trials evaluate all rows {passes} times each, from draws of the posterior",
        f"The true mean is from {20 * kept:,} draws with all rows, not 100,000, and from "
        f"{80 * kept:,} with normal sources",
    ]


def claims(name: str, levels: dict[float, Level]) -> list[Claim]:
    """Return what must come out."""
    risks = {epsilon: found.risk[-1] for epsilon, found in levels.items()}
    best = min(risks, key=lambda epsilon: risks[epsilon])
    largest = EPSILONS[-1]
    what = f"{name}: risk with ε = 0, in the least"
    bias = f"{name}: share of squared bias in the risk with ε ="
    return [
        Claim(f"{name}: ε of the least risk at equal rows", "0.1", 0.05, 0.1, best),
        Claim(what, "> 1", 1.0, None, float(risks[0.0] / risks[best])),
        Claim(f"{bias} {largest}", "most of it", 0.5, None, levels[largest].bias_share),
        Claim(f"{bias} 0.05", "less than half", None, 0.5, levels[0.05].bias_share),
    ]


def best_at(levels: dict[float, Level]) -> dict[float, str]:
    """Return the first and last number of passes over the rows at which each level is the best."""
    read = levels[0.0].read
    risks = [np.interp(read, found.read, found.risk) for found in levels.values()]
    best, passes = np.argmin(risks, axis=0), read / levels[0.0].rows_per_update
    told = {}
    for i, epsilon in enumerate(levels):
        there = passes[best == i]
        told[epsilon] = f"{there[0]:.0f} to {there[-1]:.0f}" if there.size else "none"
    return told


def table(name: str, levels: dict[float, Level], truth: Truth) -> Table:
    """Return what the levels read, and how near they come."""
    exact = levels[0.0].rows_per_update
    best = best_at(levels)
    lines: list[list[Any]] = [
        [
            epsilon,
            found.rows_per_update,
            exact / found.rows_per_update,
            found.run.acceptance,
            mean_sd(found.estimates),
            found.bias_share,
            float(found.risk[-1]),
            best[epsilon],
            found.run.seconds / found.estimates.size,
        ]
        for epsilon, found in levels.items()
    ]
    head = ["ε", "rows an update", "updates at equal rows, relative to ε = 0", "acceptance"]
    head += ["estimate", "share of squared bias", "risk"]
    head += ["least risk at passes over the rows", "seconds a trial"]
    told = f"{name}: mean of the Amari distance, {truth.mean:.5f} ± {truth.error:.5f} by a long run"
    return Table(told, head, lines)


def drawn(name: str, levels: dict[float, Level]) -> list[Panel]:
    """Return figure 3, against rows and against seconds."""
    rows, seconds = [], []
    for epsilon, found in levels.items():
        label = f"ε = {epsilon:g}"
        # Trials run beside each other: those of one.
        pace = found.run.seconds / found.run.rows.sum()
        rows.append(curve(label, found.read, found.risk))
        seconds.append(curve(label, found.read * pace, found.risk))
    return [
        Panel(f"Risk, {name}", "rows read", "risk", rows, True, True),
        Panel(f"Risk, {name}", "seconds", "risk", seconds, True, True),
    ]


if __name__ == "__main__":
    main(experiment)
