"""Seita et al. (2017), section 6.2: what the start decides, and the authors' programme.

Table 2 (first column) and figure 3 (left) again. From draws of U(0, 1), where the authors' own runs
start, the draws of :mod:`papers.seita_logistic` first walk a long way at several hundred rows a
test, so that means over 5,000 draws and rows until digits are classified depend on the start more
than on the test. Here other starts stand beside it, rows with scans beside those without, and the
test as the authors programmed it, :mod:`papers.programmed`.
"""

import numpy as np

from papers.data import Digits, ones_and_sevens
from papers.programmed import PROGRAMMED, WRITTEN
from papers.report import Cell, Claim, Panel, Report, Table, curve, mean_sd
from papers.runner import Array, Size, main, trials
from papers.seita_logistic import (
    EVERY,
    LEVELS,
    PUBLISHED,
    Trials,
    kept,
    regression,
    starts,
    steps,
)

AUSTERE = "Austere (nc)"
#: Draws of each test.
DRAWS = {
    WRITTEN: (60, 1_000, 5_000),
    PROGRAMMED: (60, 1_000, 5_000),
    AUSTERE: (20, 300, 700),
}
#: Draws that the walk from U(0, 1) takes to the posterior, as the rows of a test show.
FAR = 400

type Starts = list[dict[str, Array]]
type Found = dict[tuple[str, str], Trials]


def places(count: int, seed: int, size: int) -> dict[str, Starts]:
    """Return starts for trials, by their names."""
    rng = np.random.default_rng(seed)
    return {
        "U(0, 1)": starts(count, seed, size),
        "N(0, 1)": [{"beta": rng.standard_normal(size)} for _ in range(count)],
        "0": [{"beta": np.zeros(size)}] * count,
    }


def from_all(digits: Digits, size: Size, seed: int) -> Found:
    """Run the tests from all starts; the one that scans from two of them, in fewer trials."""
    found, made = {}, steps(regression(digits.X, digits.y))
    for name, draws in DRAWS.items():
        count = size.of(2, 2, 10)
        for place, first in places(count, seed, digits.X.shape[1]).items():
            if name != AUSTERE or place != "N(0, 1)":
                run = trials(made[name], size.of(*draws), starts=first, seed=seed)
                found[name, place] = kept(name, [run], digits)
    return found


def reach(trial: Trials, level: float, scanned: int) -> float:
    """Return the rows read until the accuracy is at a level, with scans of so many rows a draw."""
    above = np.flatnonzero(trial.accuracy.mean(axis=0) >= level)
    return float(trial.read[above[0]] + scanned * (EVERY * above[0] + 1)) if above.size else np.inf


def experiment(size: Size, seed: int) -> Report:
    """Run the tests from all starts."""
    digits = ones_and_sevens()
    found = from_all(digits, size, seed)
    n_rows = digits.y.size
    return Report(
        "Seita et al. (2017), section 6.2: table 2 and figure 3 (left), other readings",
        claims(found, n_rows),
        [table(found, n_rows)],
        drawn(found),
        [
            "Chains of the test that scans all rows have 700 draws, not 5,000",
            *digits.differences,
        ],
    )


def claims(found: Found, n_rows: int) -> list[Claim]:
    """Return what other starts, tests and ways of counting make of figures of table 2.

    None counts: :mod:`papers.seita_logistic` has the published figures from the published start.
    """
    result = []
    mean, sd = PUBLISHED[PROGRAMMED]
    limits = 0.75 * mean, 1.25 * mean
    for (name, place), trial in found.items():
        if name != AUSTERE:
            rows = mean_sd(trial.rows.mean(axis=1))
            what = f"{name} from {place}: rows a test"
            result.append(Claim(what, f"{mean} ± {sd}", *limits, *rows, chosen=True))
    for name, place in ((WRITTEN, "U(0, 1)"), (PROGRAMMED, "U(0, 1)"), (WRITTEN, "0")):
        barker = reach(found[name, place], LEVELS[1], 0)
        for said, scanned in (("without scans", 0), ("with scans", n_rows)):
            ratio = reach(found[AUSTERE, place], LEVELS[1], scanned) / barker
            if np.isfinite(ratio):
                what = f"rows until 95% are classified correctly from {place}, (nc) to {name}"
                what = f"{what}, {said}"
                result.append(Claim(what, "more than 10", 10.0, None, ratio, chosen=True))
    return result


def table(found: Found, n_rows: int) -> Table:
    """Return rows of the tests, by start."""
    lines: list[list[Cell]] = []
    for (name, place), trial in found.items():
        scanned = n_rows if name == AUSTERE else 0
        reached = [reach(trial, level, k) for k in (0, scanned) for level in LEVELS]
        first, later = trial.rows[:, :FAR], trial.rows[:, FAR:]
        of_later = mean_sd(later.mean(axis=1)) if later.size else None
        lines.append(
            [
                name,
                place,
                float(trial.rows.shape[1]),
                mean_sd(trial.rows.mean(axis=1)),
                mean_sd(first.mean(axis=1)),
                of_later,
                *[rows if np.isfinite(rows) else None for rows in reached],
            ]
        )
    head = ["test", "start", "draws", "rows a test", f"of the first {FAR} draws", "of later ones"]
    head += [f"rows until {level:.0%} are classified correctly" for level in LEVELS]
    head += [f"until {level:.0%}, with scans" for level in LEVELS]
    return Table("Rows by start", head, lines)


def drawn(found: Found) -> list[Panel]:
    """Return figure 3 (left) by start."""
    curves = [
        curve(
            f"{name} from {place}",
            trial.read,
            trial.accuracy.mean(axis=0),
            sd=trial.accuracy.std(axis=0, ddof=1),
        )
        for (name, place), trial in found.items()
    ]
    share = "share that is classified correctly"
    return [Panel("Digits of the test set", "rows read, without scans", share, curves, True)]


if __name__ == "__main__":
    main(experiment)
