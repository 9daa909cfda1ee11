"""Seita et al. (2017), supplement: the correction distribution, and lemma 1.

Table 3, and table 1 of the first version (2016): errors of the published correction, beside those
of the one that this package uses. Lemma 1: how often all rows decide in a sequential test.

The text has no settings for lemma 1, which is about every number of rows: here tests have looks of
100 rows and ε = .05, the confidence sampler is that of the paper's comparison, and moves are those
of the lemma's proof, as wide as the posterior of a normal mean.
"""

from typing import Any

import numpy as np
import pymc as pm

from papers.report import Cell, Claim, Panel, Report, Table, curve
from papers.ridge import correction_errors
from papers.runner import Size, main, trials
from pymc_minibatch_mh import (
    AustereMH,
    BarkerPaperMH,
    ConfidenceScanMH,
    RandomWalk,
)
from pymc_minibatch_mh.steps.base import MinibatchStep

RIDGES = (100.0, 10.0, 1.0, 0.1, 0.01)
#: Table 3: (N, σ) -> errors for these λ.
PUBLISHED = {
    (2000, 0.8): (2.6e-3, 4.0e-4, 6.7e-5, 1.4e-5, 5.0e-6),
    (2000, 0.9): (3.3e-3, 6.4e-4, 1.6e-4, 1.3e-4, 2.7e-4),
    (2000, 1.0): (4.4e-3, 1.3e-3, 1.1e-3, 2.0e-3, 3.6e-3),
    (2000, 1.1): (6.8e-3, 4.6e-3, 7.5e-3, 1.3e-2, 2.4e-2),
    (4000, 0.8): (8.3e-4, 1.3e-4, 2.5e-5, 6.7e-6, 7.4e-6),
    (4000, 0.9): (1.2e-3, 2.6e-4, 1.0e-4, 2.0e-4, 3.9e-4),
    (4000, 1.0): (1.9e-3, 8.9e-4, 1.6e-3, 2.8e-3, 5.2e-3),
    (4000, 1.1): (4.3e-3, 6.0e-3, 1.0e-2, 1.2e-2, 3.5e-2),
}
#: Table 1 of the first version: (N, σ, λ) -> error.
FIRST_VERSION = {(4000, 0.9, 1.0): 1.0e-4, (4000, 0.8, 0.03): 5.0e-6}
#: What the paper itself samples with.
USED = (4000, 1.0, 10.0)
#: The share of updates that all rows decide, of which lemma 1 says that it is never below.
LEMMA = 0.0085

type Errors = dict[tuple[int, float, float], tuple[float, float, float]]


def errors() -> Errors:
    """Return published, ridge and minimax errors of all entries: (N, σ, λ) -> errors."""
    published = {
        (n, sigma, ridge): error
        for (n, sigma), several in PUBLISHED.items()
        for ridge, error in zip(RIDGES, several, strict=True)
    } | FIRST_VERSION
    found = correction_errors(ridges=RIDGES)
    for n, sigma, ridge in FIRST_VERSION:
        found += correction_errors([n], [sigma], [ridge])
    return {
        (one.points, one.sigma, one.ridge): (
            published[one.points, one.sigma, one.ridge],
            one.ridge_error,
            one.minimax_error,
        )
        for one in found
    }


def normal_mean(n_rows: int, seed: int) -> tuple[pm.Model, float]:
    """Return the model of section 2.2, and the posterior's mean."""
    x = np.random.default_rng(seed).normal(0.5, 1.0, n_rows)
    with pm.Model() as model:
        theta = pm.Flat("theta")
        pm.Normal("x", theta, 1.0, observed=x)
    return model, float(x.mean())


def tests(model: pm.Model, mean: float, n_rows: int) -> dict[str, MinibatchStep]:
    """Return sequential tests on moves as wide as the posterior, and Barker's."""
    shared: dict[str, Any] = {
        "model": model,
        "centre": "start",
        "initial_point": {"theta": np.array(mean)},
        "covariance": np.eye(1) / n_rows,
        "proposal": RandomWalk(n_rows**-0.5, covariance="identity", adapt=False),
    }
    published = {**shared, "full_pass_above": np.inf}
    return {
        "Austere": AustereMH(batch_size=100, epsilon=0.05, **published),
        "Austere, looks of N/10 rows": AustereMH(
            batch_size=n_rows // 10, epsilon=0.05, **published
        ),
        "Austere, all rows from half of them on": AustereMH(batch_size=100, epsilon=0.05, **shared),
        "Confidence": ConfidenceScanMH(batch_size=100, gamma=2.0, **published),
        "Barker": BarkerPaperMH(batch_size=100, sigma=1.0, **published),
    }


def decided_by_all(size: Size, seed: int) -> dict[str, dict[int, tuple[float, float, float]]]:
    """Return for tests and numbers of rows: share by all rows, its error, mean share of rows."""
    found: dict[str, dict[int, tuple[float, float, float]]] = {}
    draws = size.of(100, 2_000, 5_000)
    for n_rows in size.of((1_000,), (1_000, 8_000), (1_000, 8_000, 64_000)):
        model, mean = normal_mean(n_rows, seed)
        for name, step in tests(model, mean, n_rows).items():
            run = trials(step, draws, starts=[{"theta": np.array(mean)}] * 2, seed=seed)
            # After a scan of all rows only the last look's noise tells what has decided.
            by_all = run.stat("log_ratio_std") == 0.0
            share = float(by_all.mean())
            noise = float(np.sqrt(share * (1.0 - share) / by_all.size))
            read = run.rows
            if name == "Confidence":
                read = np.where(by_all, n_rows, 100.0 * 2.0 ** (run.stat("n_looks") - 1.0))
            use = float(np.minimum(read / n_rows, 1.0).mean())
            found.setdefault(name, {})[n_rows] = share, noise, use
    return found


def experiment(size: Size, seed: int) -> Report:
    """Compute the errors, and run the tests of the lemma."""
    found, shares = errors(), decided_by_all(size, seed)
    return Report(
        "Seita et al. (2017), supplement: table 3 and lemma 1; table 1 of the version of 2016",
        [*error_claims(found), *lemma_claims(shares)],
        [error_table(found), lemma_table(shares)],
        [lemma_panel(shares)],
    )


def error_claims(found: Errors) -> list[Claim]:
    """Return what must come out of table 3."""
    result = []
    table_3 = {key: value for key, value in found.items() if key[2] in RIDGES}
    strong = [ridge / published for (*_, w), (published, ridge, _) in table_3.items() if w >= 1.0]
    weak = [ridge / published for (*_, w), (published, ridge, _) in table_3.items() if w < 1.0]
    for what, ratios, low, high in (
        ("λ ≥ 1 (24 entries)", strong, 0.95, 1.05),
        ("λ < 1 (16 entries)", weak, 0.5, 2.0),
    ):
        worst = max(ratios, key=lambda ratio: abs(np.log(ratio)))
        what = f"farthest error, relative to the published one, {what}"
        result.append(Claim(what, "1", low, high, worst))
    for key in FIRST_VERSION:
        published, ridge, _ = found[key]
        what = "2016, error for N = {}, σ = {}, λ = {}".format(*key)
        result.append(Claim(what, f"{published:.1e}", 0.95 * published, 1.05 * published, ridge))
    published, _, minimax = found[USED]
    what = f"linear program: error at σ = 1 (ridge regression: {published:.1e})"
    result.append(Claim(what, "-", None, 5.45e-8, minimax))
    return result


def lemma_claims(shares: dict[str, dict[int, tuple[float, float, float]]]) -> list[Claim]:
    """Return what lemma 1 says of both sequential tests; the table has other settings."""
    result = []
    for name in ("Austere", "Confidence"):
        share, noise, _ = min(shares[name].values())
        what = f"{name}: share of updates that evaluate all rows, least of all N"
        result.append(Claim(what, f"at least {LEMMA}", LEMMA, None, share, noise))
    return result


def error_table(found: Errors) -> Table:
    """Return table 3 beside ours, a column for each σ; "-" stands for no entry of the paper."""
    widths = sorted({sigma for _, sigma, _ in found})
    lines: list[list[Cell]] = [
        [float(n), ridge, *(_both(found.get((n, sigma, ridge))) for sigma in widths)]
        for n, ridge in dict.fromkeys((n, ridge) for n, _, ridge in found)
    ]
    linear = {sigma: minimax for (_, sigma, _), (*_, minimax) in found.items()}
    lines.append(["linear program", None, *(f"{linear[sigma]:.2e}" for sigma in widths)])
    head = ["N", "λ", *(f"σ = {sigma}" for sigma in widths)]
    caption = (
        "Largest error of an acceptance probability by ridge regression, published and ours; "
        "λ = 0.03 is in the version of 2016 only"
    )
    return Table(caption, head, lines)


def _both(errors: tuple[float, float, float] | None) -> Cell:
    return None if errors is None else f"{errors[0]:.1e}, {errors[1]:.2e}"


def lemma_table(shares: dict[str, dict[int, tuple[float, float, float]]]) -> Table:
    """Return how often all rows decide."""
    lines: list[list[Cell]] = [
        [name, float(n_rows), (share, noise), use]
        for name, several in shares.items()
        for n_rows, (share, noise, use) in several.items()
    ]
    head = [
        "test",
        "rows N",
        "share of updates that evaluate all rows",
        "share of the rows evaluated",
    ]
    return Table(f"Lemma 1: the share is at least {LEMMA} for every N", head, lines)


def lemma_panel(shares: dict[str, dict[int, tuple[float, float, float]]]) -> Panel:
    """Return how often all rows decide against their number."""
    curves = [
        curve(name, list(several), [share for share, *_ in several.values()])
        for name, several in shares.items()
        if name != "Barker"
    ]
    rows = [n for several in shares.values() for n in several]
    curves.append(curve("lemma 1", [min(rows), max(rows)], [LEMMA, LEMMA], "dashed"))
    return Panel("Lemma 1", "rows N", "share of updates that all rows decide", curves, True)


if __name__ == "__main__":
    main(experiment)
