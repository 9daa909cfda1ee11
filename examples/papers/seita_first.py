"""Seita et al., first version (2016), section 6.2: figures 3 and 4.

Logistic regression of 1 against 7: test log-likelihood and accuracy against the rows read, and rows
a test. The authors had 450,000 digits of infinite MNIST at temperature 1,000. Those cannot be had;
MNIST's 13,007 digits at a temperature that is lower by as much have the same tempered posterior, so
that the noise of a batch is the same. Tests that would read more than all rows read all.

The published test is the authors' programme, :mod:`papers.programmed`, which ends earlier than
algorithm 1; that stands beside it. Settings beyond the text are those of
:mod:`papers.seita_logistic`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm

from papers.data import Digits, ones_and_sevens
from papers.programmed import PROGRAMMED, WRITTEN, early_barker
from papers.report import Cell, Claim, Panel, Report, Table, curve, histogram, mean_sd
from papers.runner import Array, Size, main, trials
from papers.seita_logistic import EVERY, WALK, regression, starts, walk
from papers.seita_mixture import compared_rows
from pymc_minibatch_mh import AustereMH, BarkerPaperMH, ConfidenceScanMH
from pymc_minibatch_mh.steps.base import MinibatchStep

PUBLISHED_ROWS, TEMPERATURE = 450_000, 1_000.0
#: Mean rows of Barker's test, and the accuracy up to which rows are compared.
MEAN, LEVEL = 393.0, 0.97


@dataclass(frozen=True)
class Learned:
    """Rows of every test, and quality of every fifth draw, each of shape (trials, draws)."""

    rows: Array
    accuracy: Array
    log_likelihood: Array

    @property
    def read(self) -> Array:
        """Rows read up to each draw that has a quality, in the mean of the trials."""
        return np.asarray(self.rows.cumsum(axis=1).mean(axis=0)[::EVERY])

    @property
    def reach(self) -> float:
        """Rows read until the accuracy, in the mean of the trials, is at the level."""
        above = np.flatnonzero(self.accuracy.mean(axis=0) >= LEVEL)
        return float(self.read[above[0]]) if above.size else np.inf


def steps(model: pm.Model, n_rows: int) -> dict[str, MinibatchStep]:
    """Return the tests of the first version; the sequential one has one ε for each look."""
    shared: dict[str, Any] = {
        "model": model,
        "centre": "start",
        "temperature": TEMPERATURE * n_rows / PUBLISHED_ROWS,
        "proposal": walk(WALK),
        "full_pass_above": np.inf,
    }
    return {
        PROGRAMMED: early_barker(**shared),
        WRITTEN: BarkerPaperMH(batch_size=100, sigma=1.0, **shared),
        "Austere": AustereMH(batch_size=100, epsilon=0.05, **shared),
        "Confidence": ConfidenceScanMH(batch_size=100, gamma=2.0, **shared),
    }


def log_likelihood(digits: Digits, beta: Array) -> Array:
    """Return the mean log-likelihood of test rows at weights (draws, d)."""
    signs = np.where(digits.y_test > 0, 1.0, -1.0)
    return np.asarray(-np.logaddexp(0.0, -signs * (beta @ digits.X_test.T)).mean(axis=-1))


def experiment(size: Size, seed: int) -> Report:
    """Run all tests from the start that the authors' own runs have."""
    digits = ones_and_sevens()
    n_rows, d = digits.X.shape
    found = {}
    for name, step in steps(regression(digits.X, digits.y), n_rows).items():
        first = starts(size.of(2, 2, 3), seed, d)
        run = trials(step, size.of(20, 500, 3_000), starts=first, seed=seed)
        draws = run.values("beta")[:, ::EVERY]
        likelihood = np.stack([log_likelihood(digits, chain) for chain in draws])
        rows = compared_rows(name, run, n_rows)
        found[name] = Learned(rows, digits.accuracy(draws), likelihood)
    return Report(
        "Seita et al., first version (2016), section 6.2: figures 3 and 4",
        claims(found),
        [table(found)],
        drawn(found),
        [
            f"There are {n_rows:,} digits, not {PUBLISHED_ROWS:,}, at a temperature lower by as "
            "much",
            *digits.differences,
        ],
    )


def claims(found: dict[str, Learned]) -> list[Claim]:
    """Return what the text says of the figures."""
    rows = mean_sd(found[PROGRAMMED].rows.mean(axis=1))
    result = [Claim(f"{PROGRAMMED}: rows a test", f"{MEAN:g}", 0.75 * MEAN, 1.25 * MEAN, *rows)]
    for name, published, low, high in (
        ("Austere", "roughly twice", 1.0, 4.0),
        ("Confidence", "1.5 orders of magnitude", 10.0, 100.0),
    ):
        ratio = found[name].reach / found[PROGRAMMED].reach
        what = f"rows until {LEVEL:.0%} are classified correctly, {name} to {PROGRAMMED}"
        # A level that is not reached is infinitely far, which JSON cannot say.
        if np.isfinite(ratio):
            result.append(Claim(what, published, low, high, ratio))
    return result


def table(found: dict[str, Learned]) -> Table:
    """Return rows and quality."""
    lines: list[list[Cell]] = [
        [
            name,
            MEAN if name == PROGRAMMED else None,
            mean_sd(one.rows.mean(axis=1)),
            one.reach if np.isfinite(one.reach) else None,
            mean_sd(one.accuracy[:, -1]),
            mean_sd(one.log_likelihood[:, -1]),
        ]
        for name, one in found.items()
    ]
    head = ["test", "rows, figure 4", "ours", f"rows until {LEVEL:.0%} are classified correctly"]
    head += ["classified correctly at the end", "test log-likelihood of a row at the end"]
    return Table("Rows a test, scans not counted, and how draws classify", head, lines)


def drawn(found: dict[str, Learned]) -> list[Panel]:
    """Return figures 3 and 4."""
    sizes = [histogram(name, one.rows[0]) for name, one in found.items()]
    sizes.append(curve("published mean of Barker", [MEAN], [1e-3], "published"))
    panels = [Panel("Rows a test, one trial", "rows", "share of the updates", sizes, True, True)]
    for title, what in (
        ("share that is classified correctly", "accuracy"),
        ("test log-likelihood of a row", "log_likelihood"),
    ):
        lines = []
        for name, one in found.items():
            values = getattr(one, what)
            lines.append(curve(name, one.read, values.mean(axis=0), sd=values.std(axis=0, ddof=1)))
        panels.append(Panel(title.capitalize(), "rows read", title, lines, log_x=True))
    return panels


if __name__ == "__main__":
    main(experiment)
