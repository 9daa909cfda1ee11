"""Seita et al. (2017), section 6.1: a mixture of two normal distributions, tempered.

Tables 1 and 4 and figures 1 and 2: rows that three tests read, and how near their draws come to
the posterior, on a grid of cells.

Settings that the text does not have are those of the authors' own runs: the walk has standard
deviation .15 (the text gives .15 as a variance, with which the sizes of table 1 do not come out),
and the confidence sampler begins at 100 rows and doubles them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from scipy.special import gammaln

from papers.report import Claim, Panel, Report, Table, curve, histogram, mean_sd
from papers.runner import Array, Run, Size, acceptance_error, main, trials
from pymc_minibatch_mh import AustereMH, BarkerMinibatchMH, ConfidenceMH, RandomWalk
from pymc_minibatch_mh.steps.base import MinibatchStep

VARIANCE, TEMPERATURE, WALK = 2.0, 1e4, 0.15
START = {"first": 0.5, "apart": 0.0}
#: Names of our own variants -> σ. Their batches are sized from the move alone.
OURS = {"Barker, predicted batches, σ = 1.2": 1.2, "the same, σ = 1.5": 1.5}
LONGER = "Barker, 6,000 draws"
#: Edges of the cells in both coordinates, and the number of draws that counts are scaled to.
EDGES = np.arange(-1.5, 2.51, 0.1), np.arange(-2.5, 3.01, 0.1)
SCALED_TO = 5_000
#: Published means and standard deviations over 10 trials: rows, equation 39, chi-squared.
PUBLISHED = {
    "Barker": ((182.3, 11.4), (-1307.0, 229.5), (4502.3, 1821.8)),
    "Austere (c)": ((13540.5, 1521.4), (-1386.9, 322.4), (5216.9, 3315.8)),
    "Confidence": ((65758.9, 3222.6), (-1295.1, 278.0), (3462.3, 1519.5)),
}


def mixture(rows: int, seed: int) -> tuple[pm.Model, NDArray[np.float64]]:
    """Return the model of section 6.1 on data from θ = (0, 1), and the data."""
    rng = np.random.default_rng(seed)
    x = rng.normal(rng.integers(0, 2, rows), np.sqrt(VARIANCE))
    with pm.Model() as model:
        first = pm.Normal("first", 0.0, np.sqrt(10.0))
        apart = pm.Normal("apart", 0.0, 1.0)
        pm.NormalMixture(
            "x",
            w=[0.5, 0.5],
            mu=pt.stack([first, first + apart]),
            sigma=np.sqrt(VARIANCE),
            observed=x,
        )
    return model, x


def steps(model: pm.Model, temperature: float) -> dict[str, MinibatchStep]:
    """Return the steps that the paper compares, in the order of table 1."""
    shared = settings(model, temperature)
    barker = BarkerMinibatchMH(batch_size=50, batch_rule="grow", sigma=1.0, **shared)
    return {
        "Barker": barker,
        LONGER: barker,
        "Austere (c)": AustereMH(batch_size=50, epsilon=0.005, full_pass_above=np.inf, **shared),
        "Confidence": ConfidenceMH(batch_size=100, gamma=2.0, range="scan", **shared),
    }


def own_steps(model: pm.Model, temperature: float, pilot: Run) -> dict[str, MinibatchStep]:
    """Return ours: the same walk, in units of a pilot's draws around the mode with θ₂ > 0.

    What a batch's noise is predicted from is the length of a move, which says most in coordinates
    in which all directions are alike.
    """
    draws = np.array([pilot.values(name).ravel() for name in START])
    one_mode = draws[:, draws[1] > 0.0]
    shared = settings(model, temperature) | {
        "covariance": np.cov(one_mode),
        "initial_point": dict(zip(START, one_mode.mean(axis=1), strict=True)),
    }
    return {
        name: BarkerMinibatchMH(batch_size=20, sigma=sigma, **shared)
        for name, sigma in OURS.items()
    }


def settings(model: pm.Model, temperature: float) -> dict[str, Any]:
    """Return what all steps share."""
    return {
        "model": model,
        "centre": "start",
        "initial_point": START,
        "temperature": temperature,
        "proposal": RandomWalk(WALK, covariance="identity", adapt=False),
    }


def compared_rows(name: str, run: Run, rows: int) -> Array:
    """Return the rows of every test as the paper counts them: without scans of all rows."""
    if name != "Confidence":
        return run.rows
    grown = 100.0 * 2.0 ** (run.stat("n_looks") - 1.0)
    return np.where(run.stat("log_ratio_std") == 0.0, rows, np.minimum(grown, rows))


def shares(x: NDArray[np.float64], temperature: float) -> Array:
    """Return the posterior's share of every cell, by the midpoint rule on cells of a tenth."""
    # Data enter through a histogram: rows that share a cell of .005 are taken for equal.
    counts, edges = np.histogram(x, np.arange(x.min() - 0.01, x.max() + 0.01, 0.005))
    middles, kept = 0.5 * (edges[1:] + edges[:-1])[counts > 0], counts[counts > 0]
    fine = [np.linspace(e[0], e[-1], 4 * (e.size - 1) + 1) for e in EDGES]
    first, apart = (0.5 * (f[1:] + f[:-1]) for f in fine)
    log_density = np.empty((first.size, apart.size))
    for i, a in enumerate(first):
        near = -((middles - a) ** 2) / (2.0 * VARIANCE)
        far = -((middles[:, None] - a - apart) ** 2) / (2.0 * VARIANCE)
        log_density[i] = kept @ np.logaddexp(near[:, None], far) / temperature
        log_density[i] -= a**2 / 20.0 + apart**2 / 2.0
    density = np.exp(log_density - log_density.max())
    cells = density.reshape(EDGES[0].size - 1, 4, EDGES[1].size - 1, 4).sum(axis=(1, 3))
    return np.asarray(cells / cells.sum())


@dataclass(frozen=True)
class Found:
    """What a test read, and how near its draws came: means and deviations over trials."""

    run: Run
    read: Array
    quality: list[tuple[float, float]]
    acceptance_error: float | None

    @property
    def rows(self) -> tuple[float, float]:
        """Rows a test."""
        return mean_sd(self.read.mean(axis=1))


def quality(run: Run, cells: Array, draws: int | None = None) -> list[tuple[float, float]]:
    """Return equation 39, the chi-squared statistic and the total variation of some draws."""
    found = []
    values = [run.values(name)[:, :draws] for name in START]
    for first, apart in zip(*values, strict=True):
        counts = np.histogram2d(first, apart, EDGES)[0] * SCALED_TO / first.size
        expected = SCALED_TO * cells
        log_likelihood = (counts * np.log(expected) - expected - gammaln(counts + 1.0)).sum()
        chi_squared = ((counts - expected) ** 2 / expected).sum()
        variation = 0.5 * np.abs(counts / SCALED_TO - cells).sum()
        found.append((log_likelihood, chi_squared, variation))
    return [mean_sd(values) for values in np.transpose(found)]


def experiment(size: Size, seed: int) -> Report:
    """Run all steps, and count what they read and how near they come."""
    rows, draws = size.of(20_000, 10**6, 10**6), size.of(200, 3_000, 3_000)
    temperature = TEMPERATURE * rows / 10**6
    model, x = mixture(rows, seed)
    cells = shares(x, temperature)
    found: dict[str, Found] = {}

    def try_out(name: str, step: MinibatchStep, draws: int, count: int, tune: int = 0) -> None:
        run = trials(step, draws, starts=[START] * count, tune=tune, seed=seed)
        read = compared_rows(name, run, rows)
        error = None
        if name in ("Barker", *OURS):
            error = acceptance_error(run, step, size.of(4, 200, 1_000), seed)
        shown = draws if name not in OURS else size.of(200, 3_000, 3_000)
        found[name] = Found(run, read, quality(run, cells, shown), error)

    for name, step in steps(model, temperature).items():
        count = size.of(2, 1, 3) if name == "Confidence" else size.of(2, 4, 10)
        try_out(name, step, 2 * draws if name == LONGER else draws, count)
    for name, step in own_steps(model, temperature, found["Barker"].run).items():
        try_out(name, step, size.of(200, 30_000, 300_000), size.of(2, 4, 10), size.of(50, 500, 500))
    return Report(
        "Seita et al. (2017), section 6.1: tables 1 and 4, figures 1 and 2",
        claims(found, cells),
        [table(found, cells)],
        drawn(found),
        ["The confidence sampler has 3 trials, not 10, because each update scans 10⁶ rows"],
    )


def claims(found: dict[str, Found], cells: Array) -> list[Claim]:
    """Return what must come out."""
    ranges = {"Barker": (140.0, 215.0), "Austere (c)": (9_478.0, 17_603.0)}
    ranges["Confidence"] = (55_895.0, 75_623.0)
    result = []
    for name, (low, high) in ranges.items():
        mean, sd = PUBLISHED[name][0]
        result.append(Claim(f"{name}: rows a test", f"{mean} ± {sd}", low, high, *found[name].rows))
    for name, (_, *published) in PUBLISHED.items():
        names = f"{name}: log-likelihood of the counts", f"{name}: chi-squared"
        of_counts = found[name].quality[:2]
        for what, (mean, sd), measured in zip(names, published, of_counts, strict=True):
            low, high = mean - 2.0 * sd, mean + 2.0 * sd
            result.append(Claim(what, f"{mean} ± {sd}", low, high, *measured))
    for name in OURS:
        result.append(Claim(f"{name}: rows a test", "-", None, 135.0, *found[name].rows))
        error = (found[name].acceptance_error or 0.0) / (found["Barker"].acceptance_error or 1.0)
        what = f"{name}: acceptance error, relative to Barker as published"
        result.append(Claim(what, "-", None, 1.0, error))
    name = list(OURS)[-1]
    for other in PUBLISHED:
        ours = after_as_many_rows(found[name], found[other], cells)
        ratio = ours[0] / found[other].quality[2][0]
        what = f"{name}: total variation after as many rows as {other}, relative to it"
        result.append(Claim(what, "-", None, 1.0, ratio))
    return result


def after_as_many_rows(ours: Found, other: Found, cells: Array) -> tuple[float, float]:
    """Return the total variation of our draws after as many rows as another step has read."""
    draws = int(other.rows[0] * other.read.shape[1] / ours.rows[0])
    return quality(ours.run, cells, draws)[2]


def table(found: dict[str, Found], cells: Array) -> Table:
    """Return tables 1 and 4 beside ours."""
    best = found[list(OURS)[-1]]
    lines = []
    for name, numbers in found.items():
        published = PUBLISHED.get(name, (None, None, None))
        both = zip(published, [numbers.rows, *numbers.quality[:2]], strict=True)
        equal = after_as_many_rows(best, numbers, cells) if name in PUBLISHED else None
        pairs = [cell for pair in both for cell in pair]
        lines.append([name, *pairs, numbers.quality[2], equal, numbers.acceptance_error])
    head = ["test", "rows, table 1", "ours", "log-likelihood, table 4", "ours"]
    head += ["chi-squared, table 4", "ours", "total variation"]
    head += ["that of the last line after as many rows", "acceptance error"]
    return Table("Rows a test, and how near the draws come", head, lines)


def drawn(found: dict[str, Found]) -> list[Panel]:
    """Return figure 2, and the draws of figure 1."""
    shown = {name: each for name, each in found.items() if name != LONGER}
    sizes = [histogram(name, each.read[:, :6_000]) for name, each in shown.items()]
    panels = [Panel("Rows a test", "rows", "share of the updates", sizes, True, True)]
    for name, each in shown.items():
        first, apart = (each.run.values(variable)[0, :3_000] for variable in START)
        panels.append(Panel(name, "θ₁", "θ₂", [curve("draws", first, apart, "points")]))
    return panels


if __name__ == "__main__":
    main(experiment)
