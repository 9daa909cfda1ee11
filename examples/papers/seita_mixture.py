"""Seita et al. (2017), section 6.1: a mixture of two normal distributions, tempered.

Tables 1 and 4 and figures 1 and 2, and table 2 and figures 1 and 2 of the first version (2016):
rows that three tests read, and how near their draws come to the posterior, on a grid of cells.

Settings that the text does not have are those of the authors' own runs: the walk has standard
deviation .15 (the text gives .15 as a variance, with which the sizes of table 1 do not come out),
and the confidence sampler begins at 100 rows and doubles them. The number of draws is in the first
version alone, whose tests begin at 100 rows, and whose confidence sampler grows them by a half.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from scipy.special import gammaln

from papers.parts import Part, part
from papers.report import Claim, Panel, Report, Table, contours, curve, histogram, mean_sd
from papers.runner import Array, Run, Size, acceptance_error, main, trials
from pymc_minibatch_mh import (
    AustereMH,
    BarkerMinibatchMH,
    BarkerPaperMH,
    ConfidenceScanMH,
    RandomWalk,
)
from pymc_minibatch_mh.steps.base import MinibatchStep

VARIANCE, TEMPERATURE, WALK = 2.0, 1e4, 0.15
START = {"first": 0.5, "apart": 0.0}
DRAWS = 5_000
#: Names of our own variants -> σ. Their batches are sized from the move alone.
OURS = {"Barker, predicted batches, σ = 1.2": 1.2, "the same, σ = 1.5": 1.5}
#: Draws of ours: equal rows allow for more than the draws of the others.
OUR_DRAWS = 100_000
#: Edges of the cells in both coordinates.
EDGES = np.arange(-1.5, 2.51, 0.1), np.arange(-2.5, 3.01, 0.1)
#: Published means and standard deviations over 10 trials: rows, equation 39, chi-squared.
PUBLISHED = {
    "Barker": ((182.3, 11.4), (-1307.0, 229.5), (4502.3, 1821.8)),
    "Austere (c)": ((13540.5, 1521.4), (-1386.9, 322.4), (5216.9, 3315.8)),
    "Confidence": ((65758.9, 3222.6), (-1295.1, 278.0), (3462.3, 1519.5)),
}
#: The first version, one trial: rows, equation 24, chi-squared.
FIRST_VERSION = {
    "Barker": (210.0, -1430.0, 3313.9),
    "Austere (c)": (15562.0, -1578.9, 3647.7),
    "Confidence": (16857.0, -1232.7, 2444.1),
}
IN_2016 = "{}, as in 2016"
#: Expected rows, in the published ones: within these shares of them.
AROUND = {"Barker": 0.25, "Austere (c)": 0.3, "Confidence": 0.3}


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
    growing = shared | {"sigma": 1.0}
    austere = shared | {"epsilon": 0.005, "full_pass_above": np.inf}
    confidence = shared | {"batch_size": 100}
    return {
        "Barker": BarkerPaperMH(batch_size=50, **growing),
        "Austere (c)": AustereMH(batch_size=50, **austere),
        "Confidence": ConfidenceScanMH(gamma=2.0, **confidence),
        IN_2016.format("Barker"): BarkerPaperMH(batch_size=100, **growing),
        IN_2016.format("Austere (c)"): AustereMH(batch_size=100, **austere),
        IN_2016.format("Confidence"): ConfidenceScanMH(gamma=1.5, **confidence),
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
    if not name.startswith("Confidence"):
        return run.rows
    growth = 1.5 if name == IN_2016.format("Confidence") else 2.0
    grown = 100.0 * growth ** (run.stat("n_looks") - 1.0)
    return np.where(run.stat("log_ratio_std") == 0.0, rows, np.minimum(grown, rows))


def fine_density(x: NDArray[np.float64], temperature: float) -> tuple[Array, Array, Array]:
    """Return middles of the quarters of the cells, and the posterior's share of each quarter."""
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
    return first, apart, density / density.sum()


def shares(x: NDArray[np.float64], temperature: float) -> Array:
    """Return the posterior's share of every cell, by the midpoint rule on quarters of cells."""
    *_, density = fine_density(x, temperature)
    cells = density.reshape(EDGES[0].size - 1, 4, EDGES[1].size - 1, 4).sum(axis=(1, 3))
    return np.asarray(cells)


@dataclass(frozen=True)
class Found:
    """What a test read, and how near its draws came.

    Parameters
    ----------
    first, apart
        Draws, shape (trials, draws).
    read
        Rows of every test as the paper counts them, shape (trials, draws).
    accepted
        Share of the updates that were accepted, shape (trials,).
    error
        Error of its acceptance probability; not a number where it was not measured.
    quality
        Means and deviations over trials: see :func:`quality`.
    """

    first: Array
    apart: Array
    read: Array
    accepted: Array
    error: float
    quality: list[tuple[float, float]]

    @property
    def rows(self) -> tuple[float, float]:
        """Rows a test."""
        return mean_sd(self.read.mean(axis=1))


def quality(first: Array, apart: Array, cells: Array) -> list[tuple[float, float]]:
    """Return equation 39, the chi-squared statistic and the total variation of draws."""
    found = []
    for pair in zip(first, apart, strict=True):
        counts = np.histogram2d(*pair, EDGES)[0]
        expected = first.shape[1] * cells
        log_likelihood = (counts * np.log(expected) - expected - gammaln(counts + 1.0)).sum()
        chi_squared = ((counts - expected) ** 2 / expected).sum()
        variation = 0.5 * np.abs(counts / first.shape[1] - cells).sum()
        found.append((log_likelihood, chi_squared, variation))
    return [mean_sd(values) for values in np.transpose(found)]


def own_steps(model: pm.Model, temperature: float, pilot: Found) -> dict[str, MinibatchStep]:
    """Return ours: the same walk, in units of a pilot's draws around the mode with θ₂ > 0.

    What a batch's noise is predicted from is the length of a move, which says most in coordinates
    in which all directions are alike.
    """
    draws = np.array([pilot.first.ravel(), pilot.apart.ravel()])
    one_mode = draws[:, draws[1] > 0.0]
    shared = settings(model, temperature) | {
        "covariance": np.cov(one_mode),
        "initial_point": dict(zip(START, one_mode.mean(axis=1), strict=True)),
    }
    return {
        name: BarkerMinibatchMH(batch_size=20, sigma=sigma, **shared)
        for name, sigma in OURS.items()
    }


def tried(name: str, step: MinibatchStep, rows: int, size: Size, seed: int) -> Part:
    """Run the trials of a test."""
    ours = name in OURS
    draws = size.of(200, 30_000, OUR_DRAWS) if ours else size.of(200, 3_000, DRAWS)
    tune = size.of(50, 500, 500) if ours else 0
    run = trials(step, draws, starts=[START] * count_of(name, size), tune=tune, seed=seed)
    measured = name in ("Barker", *OURS)
    pairs = size.of(4, 200, 300)
    error = acceptance_error(run, step, pairs, seed) if measured else np.nan
    return {
        "first": run.values("first"),
        "apart": run.values("apart"),
        "read": compared_rows(name, run, rows),
        "accepted": run.stat("accepted_share").mean(axis=1),
        "error": np.array(error),
    }


def experiment(size: Size, seed: int) -> Report:
    """Run all steps, and count what they read and how near they come."""
    rows, shown = size.of(20_000, 10**6, 10**6), size.of(200, 3_000, DRAWS)
    temperature = TEMPERATURE * rows / 10**6
    model, x = mixture(rows, seed)
    cells = shares(x, temperature)
    found: dict[str, Found] = {}

    def try_out(name: str, step: MinibatchStep) -> None:
        arrays = dict(part(name, lambda: tried(name, step, rows, size, seed)))
        error = float(arrays.pop("error"))
        near = quality(arrays["first"][:, :shown], arrays["apart"][:, :shown], cells)
        found[name] = Found(**arrays, error=error, quality=near)

    for name, step in steps(model, temperature).items():
        try_out(name, step)
    for name, step in own_steps(model, temperature, found["Barker"]).items():
        try_out(name, step)
    return Report(
        "Seita et al. (2017), section 6.1: tables 1 and 4, figures 1 and 2; table 2 of 2016",
        claims(found, cells),
        [table(found, cells), first_version(found)],
        drawn(found, x, temperature),
        ["The confidence sampler has 2 trials and 1, because each update scans 10⁶ rows"],
    )


def count_of(name: str, size: Size) -> int:
    """Return the number of trials; each update of a confidence sampler scans all rows."""
    if name.startswith("Confidence"):
        return size.of(2, 1, 2 if name == "Confidence" else 1)
    return size.of(2, 4, 10)


def claims(found: dict[str, Found], cells: Array) -> list[Claim]:
    """Return what must come out."""
    return [*published_claims(found), *first_claims(found), *our_claims(found, cells)]


def published_claims(found: dict[str, Found]) -> list[Claim]:
    """Return the figures of tables 1 and 4."""
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
    return result


def first_claims(found: dict[str, Found]) -> list[Claim]:
    """Return the figures of the first version, with the deviations over trials of table 4."""
    result = []
    for name, (rows, *of_counts) in FIRST_VERSION.items():
        ours, around = found[IN_2016.format(name)], AROUND[name] * rows
        limits = rows - around, rows + around
        result.append(Claim(f"2016, {name}: rows a test", f"{rows:g}", *limits, *ours.rows))
        words = "log-likelihood of the counts", "chi-squared"
        sds = (sd for _, sd in PUBLISHED[name][1:])
        for what, mean, sd, measured in zip(words, of_counts, sds, ours.quality, strict=False):
            limits = mean - 2.0 * sd, mean + 2.0 * sd
            result.append(Claim(f"2016, {name}: {what}", f"{mean}", *limits, *measured))
    return result


def our_claims(found: dict[str, Found], cells: Array) -> list[Claim]:
    """Return what ours must beat; σ = 1.5 was chosen after σ = 1.2 had missed."""
    result = []
    for name, sigma in OURS.items():
        late = sigma > 1.2
        result.append(
            Claim(f"{name}: rows a test", "-", None, 135.0, *found[name].rows, chosen=late)
        )
        error = found[name].error / (found["Barker"].error or 1.0)
        what = f"{name}: acceptance error, relative to Barker as published"
        result.append(Claim(what, "-", None, 1.0, error, chosen=late))
    name = list(OURS)[-1]
    for other in PUBLISHED:
        ours = after_as_many_rows(found[name], found[other], cells)
        ratio = ours[0] / found[other].quality[2][0]
        what = f"{name}: total variation after the rows of {other}, relative to it"
        result.append(Claim(what, "-", None, 1.0, ratio, chosen=True))
    return result


def after_as_many_rows(ours: Found, other: Found, cells: Array) -> tuple[float, float]:
    """Return the total variation of our draws after at most as many rows as another step read."""
    draws = int(other.rows[0] * other.read.shape[1] / ours.rows[0])
    return quality(ours.first[:, :draws], ours.apart[:, :draws], cells)[2]


def table(found: dict[str, Found], cells: Array) -> Table:
    """Return tables 1 and 4 beside ours."""
    best = found[list(OURS)[-1]]
    lines = []
    for name in (*PUBLISHED, *OURS):
        numbers = found[name]
        published = PUBLISHED.get(name, (None, None, None))
        both = zip(published, [numbers.rows, *numbers.quality[:2]], strict=True)
        equal = after_as_many_rows(best, numbers, cells) if name in PUBLISHED else None
        pairs = [cell for pair in both for cell in pair]
        error = numbers.error if np.isfinite(numbers.error) else None
        accepted = float(numbers.accepted.mean())
        lines.append([name, *pairs, accepted, numbers.quality[2], equal, error])
    head = ["test", "rows, table 1", "ours", "log-likelihood, table 4", "ours"]
    head += ["chi-squared, table 4", "ours", "accepted", "total variation"]
    head += [f"σ = 1.5 after as many rows, or {OUR_DRAWS:,} draws"]
    return Table("Rows a test, and how near draws come", [*head, "acceptance error"], lines)


def first_version(found: dict[str, Found]) -> Table:
    """Return table 2 of 2016 and the means of its figure 2, beside ours."""
    lines = []
    for name, published in FIRST_VERSION.items():
        ours = found[IN_2016.format(name)]
        both = zip(published, [ours.rows, *ours.quality[:2]], strict=True)
        lines.append([name, *(cell for pair in both for cell in pair)])
    head = ["test", "rows, figure 2", "ours", "log-likelihood, table 2", "ours"]
    return Table("The first version (2016)", [*head, "chi-squared, table 2", "ours"], lines)


def drawn(found: dict[str, Found], x: NDArray[np.float64], temperature: float) -> list[Panel]:
    """Return figure 2, and figure 1: contours of the posterior, and draws."""
    shown = {name: found[name] for name in (*PUBLISHED, *OURS)}
    sizes = [histogram(name, each.read[:, :6_000]) for name, each in shown.items()]
    means = [rows for (rows, _), *_ in PUBLISHED.values()]
    # On the lower end of the axis, where no share of a bin lies.
    sizes.append(curve("published means", means, np.full(len(means), 1e-5), "published"))
    panels = [Panel("Rows a test", "rows", "share of the updates", sizes, True, True)]
    first_middles, apart_middles, density = fine_density(x, temperature)
    limits = [(edges[0], edges[-1]) for edges in EDGES]
    lines = contours(first_middles, apart_middles, density, (0.5, 0.9, 0.99))
    for name, each in shown.items():
        draws = curve("draws", each.first[0, :DRAWS], each.apart[0, :DRAWS], "points")
        panels.append(Panel(name, "θ₁", "θ₂", [draws, *lines], limits=limits))
    return panels


if __name__ == "__main__":
    main(experiment)
