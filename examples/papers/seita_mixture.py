"""Seita et al. (2017), section 6.1: a mixture of two normal distributions, tempered.

Tables 1 and 4 and figures 1 and 2: rows that three tests read, and how near their draws come to
the posterior, on a grid of cells.

Settings that the text does not have are those of the authors' own runs: the walk has standard
deviation .15 (the text gives .15 as a variance, with which the sizes of table 1 do not come out),
and the confidence sampler begins at 100 rows and doubles them.
"""

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from scipy.special import gammaln

from papers.report import Claim, Panel, Report, Table, curve, histogram, mean_sd
from papers.runner import Array, Run, Size, main, trials
from pymc_minibatch_mh import AustereMH, BarkerMinibatchMH, ConfidenceMH, RandomWalk, audit
from pymc_minibatch_mh.step.base import MinibatchStep

VARIANCE, TEMPERATURE, WALK = 2.0, 1e4, 0.15
OURS = "Barker, predicted batches"
START = {"first": 0.5, "apart": 0.0}
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
    """Return the steps that are compared, in the order of table 1, and ours beside them."""
    walk = RandomWalk(WALK, covariance="identity", adapt=False)
    shared: dict[str, Any] = {
        "model": model,
        "centre": "start",
        "temperature": temperature,
        "proposal": walk,
    }
    return {
        "Barker": BarkerMinibatchMH(batch_size=50, batch_rule="grow", sigma=1.0, **shared),
        "Austere (c)": AustereMH(batch_size=50, epsilon=0.005, full_pass_above=np.inf, **shared),
        "Confidence": ConfidenceMH(batch_size=100, gamma=2.0, range="scan", **shared),
        OURS: BarkerMinibatchMH(batch_size=50, sigma=1.2, **shared),
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


def quality(run: Run, cells: Array) -> tuple[Array, Array, Array]:
    """Return equation 39, the chi-squared statistic and the total variation of each trial."""
    found = []
    for first, apart in zip(run.values("first"), run.values("apart"), strict=True):
        counts = np.histogram2d(first, apart, EDGES)[0] * SCALED_TO / first.size
        expected = SCALED_TO * cells
        log_likelihood = (counts * np.log(expected) - expected - gammaln(counts + 1.0)).sum()
        chi_squared = ((counts - expected) ** 2 / expected).sum()
        variation = 0.5 * np.abs(counts / SCALED_TO - cells).sum()
        found.append((log_likelihood, chi_squared, variation))
    likelihood, chi, variation = np.array(found).T
    return likelihood, chi, variation


def experiment(size: Size, seed: int) -> Report:
    """Run all steps, and count what they read and how near they come."""
    rows, draws = size.of(20_000, 10**6, 10**6), size.of(200, 3_000, 3_000)
    temperature = TEMPERATURE * rows / 10**6
    model, x = mixture(rows, seed)
    cells = shares(x, temperature)
    found: dict[str, tuple[tuple[float, float], ...]] = {}
    panels, errors = [], {}
    for name, step in steps(model, temperature).items():
        count = size.of(2, 4, 10)
        if name == "Confidence":
            count = size.of(2, 1, 3)
        tune = size.of(50, 500, 500) if name == OURS else 0
        run = trials(step, draws, starts=[START] * count, tune=tune, seed=seed)
        read = compared_rows(name, run, rows)
        found[name] = (mean_sd(read.mean(axis=1)), *map(mean_sd, quality(run, cells)))
        panels.append((histogram(name, read), run))
        if name.startswith("Barker"):
            pairs = audit(run.trace, step, pairs=size.of(4, 100, 200), random_seed=seed)
            errors[name] = float(np.abs(pairs["acceptance_error"]).mean())
    return Report(
        "Seita et al. (2017), section 6.1: tables 1 and 4, figures 1 and 2",
        claims(found, errors),
        [table(found, errors)],
        [*drawn(panels)],
        ["3 trials of the confidence sampler, of 10: each of its updates scans 10⁶ rows"],
    )


def claims(found: dict[str, Any], errors: dict[str, float]) -> list[Claim]:
    """Return what must come out."""
    barker = "Barker"
    ranges = {barker: (140.0, 215.0), "Austere (c)": (9_478.0, 17_603.0)}
    ranges["Confidence"] = (55_895.0, 75_623.0)
    result = []
    for name, (low, high) in ranges.items():
        mean, sd = PUBLISHED[name][0]
        rows = found[name][0]
        result.append(Claim(f"{name}: rows a test", f"{mean} ± {sd}", low, high, *rows))
    for name, (_, *published) in PUBLISHED.items():
        names = f"{name}: log-likelihood of the counts", f"{name}: chi-squared"
        for what, (mean, sd), measured in zip(names, published, found[name][1:3], strict=True):
            low, high = mean - 2.0 * sd, mean + 2.0 * sd
            result.append(Claim(what, f"{mean} ± {sd}", low, high, *measured))
    result.append(Claim(f"{OURS}: rows a test", "-", None, 135.0, *found[OURS][0]))
    ratio = errors[OURS] / errors[barker]
    result.append(Claim(f"{OURS}: acceptance error, in that of {barker}", "-", None, 1.0, ratio))
    variation = found[OURS][3][0] / min(found[name][3][0] for name in PUBLISHED)
    what = f"{OURS}: total variation of the draws, in the least of the others"
    result.append(Claim(what, "-", None, 1.0, variation))
    return result


def table(found: dict[str, Any], errors: dict[str, float]) -> Table:
    """Return tables 1 and 4 beside ours."""
    lines = [
        [
            name,
            PUBLISHED[name][0] if name in PUBLISHED else None,
            numbers[0],
            PUBLISHED[name][1] if name in PUBLISHED else None,
            numbers[1],
            PUBLISHED[name][2] if name in PUBLISHED else None,
            numbers[2],
            numbers[3],
            errors.get(name),
        ]
        for name, numbers in found.items()
    ]
    head = ["test", "rows, table 1", "ours", "log-likelihood, table 4", "ours"]
    head += ["chi-squared, table 4", "ours", "total variation", "acceptance error"]
    return Table("Rows a test, and how near the draws come", head, lines)


def drawn(runs: list[tuple[Any, Run]]) -> list[Panel]:
    """Return figure 2, and the draws of figure 1."""
    sizes = Panel("Rows a test", "rows", "share of the updates", [c for c, _ in runs], True, True)
    clouds = [
        Panel(
            c.label,
            "θ₁",
            "θ₂",
            [curve("draws", run.values("first")[0], run.values("apart")[0], "points")],
        )
        for c, run in runs
    ]
    return [sizes, *clouds]


if __name__ == "__main__":
    main(experiment)
