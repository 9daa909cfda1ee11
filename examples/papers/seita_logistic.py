"""Seita et al. (2017), section 6.2: logistic regression of MNIST's 1 against 7.

Tables 2 and 5, figures 3 (left) and 5, and the grid search of appendix C.2.1: rows that four tests
read, and how fast their draws learn to classify.

Settings that the text does not have are those of the authors' own runs: grey values are divided by
255, weights have a flat prior and start at draws from U(0, 1), the walk has standard deviation .05
(the text gives .05 as a variance), and rows that a scan of all data reads beside a test are not
counted, neither for the confidence sampler nor for the variant with a design for each update.
Barker's published test is the authors' programme, :mod:`papers.programmed`, which ends earlier than
algorithm 1; that stands beside it.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm

from papers.data import Digits, ones_and_sevens
from papers.designs import design_sequential_test
from papers.per_update import PerUpdate, PerUpdateAustereMH
from papers.programmed import PROGRAMMED, WRITTEN, early_barker
from papers.report import Claim, Curve, Panel, Report, Table, curve, histogram, mean_sd
from papers.ridge import RidgeBarkerMH
from papers.runner import Array, Run, Size, acceptance_error, main, trials
from papers.seita_mixture import compared_rows as without_scan
from pymc_minibatch_mh import (
    AustereMH,
    BarkerMinibatchMH,
    BarkerPaperMH,
    ConfidenceScanMH,
    RandomWalk,
)
from pymc_minibatch_mh.steps.base import MinibatchStep

WALK, TEMPERATURE, TOLERANCE = 0.05, 100.0, 0.05
PUBLISHED = {
    PROGRAMMED: (125.4, 9.2),
    "Austere (nc)": (973.8, 49.8),
    "Austere (c)": (1924.3, 52.4),
    "Confidence": (10783.4, 78.9),
}
#: Tolerance and rows -> the published design: rows of a look, and epsilon.
DESIGNS = {(0.1, 13_000): (450, 0.01), (0.2, 100_000): (300, 0.01)}
OURS, UNMOVED = "Barker, predicted batches", "Barker, predicted from the start"
#: Share of the draws that are burn-in of ours, and the least rows of its batches.
BURN_IN, SMALLEST = 0.3, 50
#: Moves whose acceptance is measured.
PAIRS = 4, 100, 1_000
#: Draws from one whose accuracy is computed to the next, and the draw from which a mean is taken.
EVERY, SETTLED = 5, 0.2
LEVELS = (0.9, 0.95, 0.97)
#: Steps that scan all rows at every update, and draws of the others for each size.
SCANNING = ("Austere (nc)", "Confidence")
DRAWS = 100, 2_000, 5_000
RIDGE = f"{WRITTEN}, published correction"


@dataclass(frozen=True)
class Trials:
    """What is kept of the trials of one step.

    Parameters
    ----------
    rows
        Rows that every draw read, as the paper counts them, shape (trials, draws).
    accuracy
        Share of the test digits that every fifth draw classifies correctly.
    acceptance
        Share of the updates that were accepted.
    seconds
        Of sampling, of all trials together, two at a time.
    error
        Mean error of the acceptance probability, where it was measured.
    """

    rows: Array
    accuracy: Array
    acceptance: float
    seconds: float
    error: float | None = None

    @property
    def settled(self) -> tuple[float, float]:
        """Mean accuracy of the draws but the first fifth."""
        return mean_sd(self.accuracy[:, int(SETTLED * self.accuracy.shape[1]) :].mean(axis=1))

    @property
    def read(self) -> Array:
        """Rows read up to each draw that has an accuracy, in the mean of the trials."""
        return np.asarray(self.rows.cumsum(axis=1).mean(axis=0)[::EVERY])

    def reach(self, level: float) -> float:
        """Return the rows read until the accuracy, in the mean of the trials, is at a level."""
        above = np.flatnonzero(self.accuracy.mean(axis=0) >= level)
        return float(self.read[above[0]]) if above.size else np.inf


def regression(X: Array, y: Any) -> pm.Model:
    """Return the model of section 6.2."""
    with pm.Model() as model:
        beta = pm.Flat("beta", shape=X.shape[1])
        pm.Bernoulli("y", logit_p=pm.math.dot(X, beta), observed=y)
    return model


def walk(scale: float) -> RandomWalk:
    """Return the walk of section 6.2."""
    return RandomWalk(scale, covariance="identity", adapt=False)


def steps(model: pm.Model) -> dict[str, MinibatchStep]:
    """Return the published steps, in the order of table 2."""
    shared: dict[str, Any] = {
        "model": model,
        "centre": "start",
        "temperature": TEMPERATURE,
        "proposal": walk(WALK),
        "full_pass_above": np.inf,
    }
    growing: dict[str, Any] = {"batch_size": 100, "sigma": 1.0}
    return {
        PROGRAMMED: early_barker(**shared),
        WRITTEN: BarkerPaperMH(**growing, **shared),
        RIDGE: RidgeBarkerMH(ridge=10.0, points=4_000, **growing, **shared),
        "Austere (nc)": PerUpdateAustereMH(design=PerUpdate(TOLERANCE), **shared),
        "Austere (c)": AustereMH(batch_size=450, epsilon=0.01, **shared),
        "Confidence": ConfidenceScanMH(batch_size=100, gamma=2.0, **shared),
    }


def compared_rows(name: str, run: Run, n_rows: int) -> Array:
    """Return the rows of every test as the paper counts them: without scans of all rows."""
    return run.rows - n_rows if name == "Austere (nc)" else without_scan(name, run, n_rows)


def starts(count: int, seed: int, size: int) -> list[dict[str, Array]]:
    """Return draws from U(0, 1) to start trials from."""
    return [{"beta": rng.random(size)} for rng in np.random.default_rng(seed).spawn(count)]


def kept(name: str, runs: list[Run], digits: Digits) -> Trials:
    """Return what is kept of runs that follow each other."""
    rows = [compared_rows(name, run, digits.y.size) for run in runs]
    draws = np.concatenate([run.values("beta") for run in runs], axis=1)
    return Trials(
        np.concatenate(rows, axis=1),
        np.stack([digits.accuracy(chain[::EVERY]) for chain in draws]),
        runs[-1].acceptance,
        sum(run.seconds for run in runs),
    )


def ours(model: pm.Model, digits: Digits, count: int, size: Size, seed: int) -> Trials:
    """Run Barker's test with growing batches to where the posterior is, then with predicted ones.

    The noise of a batch is predicted from moves around `initial_point`, as far as `covariance`
    says: those of the walk around a draw, where rows differ far less than around the start.
    """
    draws = size.of(*DRAWS)
    burn_in = int(BURN_IN * draws)
    shared: dict[str, Any] = {
        "model": model,
        "centre": "start",
        "temperature": TEMPERATURE,
        "proposal": walk(WALK),
    }
    first = BarkerPaperMH(batch_size=SMALLEST, **shared)
    d = digits.X.shape[1]
    begun = trials(first, burn_in, starts=starts(count, seed, d), seed=seed)
    last = [{"beta": chain[-1]} for chain in begun.values("beta")]
    then = BarkerMinibatchMH(
        batch_size=SMALLEST, initial_point=last[0], covariance=WALK**2 * np.eye(d), **shared
    )
    rest = trials(then, draws - burn_in, starts=last, seed=seed + 1)
    error = acceptance_error(rest, then, size.of(*PAIRS), seed)
    return replace(kept(OURS, [begun, rest], digits), error=error)


def theirs(model: pm.Model, digits: Digits, size: Size, seed: int) -> dict[str, Trials]:
    """Run the published steps."""
    found, d = {}, digits.X.shape[1]
    count = size.of(2, 2, 10)
    for name, step in steps(model).items():
        draws = size.of(*(20, 300, 5_000) if name in SCANNING else DRAWS)
        run = trials(step, draws, starts=starts(count, seed, d), seed=seed)
        found[name] = kept(name, [run], digits)
        if name in (PROGRAMMED, WRITTEN, RIDGE):
            # Of the later draws, as of ours: those before are still on their way.
            late = run.trace.isel(draw=slice(int(BURN_IN * draws), None))
            error = acceptance_error(Run(late, run.seconds), step, size.of(*PAIRS), seed)
            found[name] = replace(found[name], error=error)
    return found


def experiment(size: Size, seed: int) -> Report:
    """Run all steps, and count what they read until they classify well."""
    digits = ones_and_sevens()
    model = regression(digits.X, digits.y)
    found = theirs(model, digits, size, seed)
    found[OURS] = ours(model, digits, size.of(2, 3, 10), size, seed)
    unmoved = BarkerMinibatchMH(
        model=model, centre="start", temperature=TEMPERATURE, proposal=walk(WALK)
    )
    first = starts(2, seed, digits.X.shape[1])
    run = trials(unmoved, size.of(20, 300, 1_000), starts=first, seed=seed)
    found[UNMOVED] = kept(UNMOVED, [run], digits)
    return Report(
        "Seita et al. (2017), section 6.2: tables 2 and 5, figures 3 (left) and 5",
        [*claims(found), design_claim()],
        [table(found)],
        drawn(found),
        digits.differences,
    )


def claims(found: dict[str, Trials]) -> list[Claim]:
    """Return what must come out; algorithm 1 stands beside it, and does not count."""
    rows = {name: mean_sd(trial.rows.mean(axis=1)) for name, trial in found.items()}
    result = []
    for name, (mean, sd) in {**PUBLISHED, WRITTEN: PUBLISHED[PROGRAMMED]}.items():
        what, measured = f"{name}: rows a test, without scans", rows[name]
        limits = 0.75 * mean, 1.25 * mean
        chosen = name == WRITTEN
        result.append(Claim(what, f"{mean} ± {sd}", *limits, *measured, chosen=chosen))
    level = LEVELS[1]
    for name in (PROGRAMMED, WRITTEN):
        reached = found["Austere (nc)"].reach(level) / found[name].reach(level)
        what = f"rows until {level:.0%} are classified correctly, Austere (nc) to {name}"
        # A level that is not reached is infinitely far, which JSON cannot say.
        if np.isfinite(reached):
            result.append(Claim(what, "more than 10", 10.0, None, reached, chosen=name == WRITTEN))
    result.append(Claim(f"{OURS}: rows a test, with burn-in", "-", None, 126.0, *rows[OURS]))
    published = found[PROGRAMMED]
    if (mine := found[OURS].error) is not None and published.error:
        what = f"{OURS}: acceptance error after burn-in, relative to the published test"
        result.append(Claim(what, "-", None, 1.0, mine / published.error))
    mean, sd = published.settled
    what = f"{OURS}: share that is classified correctly, not below the published less 2 sd"
    result.append(Claim(what, "-", mean - 2.0 * sd, None, *found[OURS].settled))
    return result


def design_claim() -> Claim:
    """Return the number of published designs that the grid search finds."""
    found = 0
    for (tolerance, n_rows), published in DESIGNS.items():
        design = design_sequential_test(n_rows, tolerance)
        found += (design.batch_size, design.epsilon) == published
    words = [f"m = {m}, ε = {epsilon}" for m, epsilon in DESIGNS.values()]
    count = len(DESIGNS)
    what = f"designs found by the grid search: {'; '.join(words)}"
    return Claim(what, f"{count} of {count}", count, count, found)


def table(found: dict[str, Trials]) -> Table:
    """Return table 2 beside ours."""
    head = ["test", "rows, table 2", "ours", "accepted", "classified correctly"]
    head += [f"rows until {level:.0%} are" for level in LEVELS]
    head += ["acceptance error", "ms a draw, two threads", "trials", "draws"]
    lines = []
    for name, trial in found.items():
        reach = [trial.reach(level) for level in LEVELS]
        lines.append(
            [
                name,
                PUBLISHED.get(name),
                mean_sd(trial.rows.mean(axis=1)),
                trial.acceptance,
                trial.settled,
                *[rows if np.isfinite(rows) else None for rows in reach],
                trial.error,
                1e3 * trial.seconds / trial.rows.size,
                *map(float, trial.rows.shape),
            ]
        )
    return Table("Rows a test, and how well the draws classify", head, lines)


def drawn(found: dict[str, Trials]) -> list[Panel]:
    """Return figures 5 and 3."""
    sizes = [histogram(name, trial.rows[0]) for name, trial in found.items() if name != UNMOVED]
    means = [rows for rows, _ in PUBLISHED.values()]
    sizes.append(curve("published means", means, np.full(len(means), 1e-3), "published"))
    learned: list[Curve] = []
    in_time: list[Curve] = []
    for name, trial in found.items():
        mean, read = trial.accuracy.mean(axis=0), trial.read
        sd = trial.accuracy.std(axis=0, ddof=1)
        learned.append(curve(name, read, mean, sd=sd))
        seconds = np.arange(1, mean.size + 1) * EVERY * trial.seconds / trial.rows.size
        in_time.append(curve(name, seconds, mean, sd=sd))
    share = "share that is classified correctly"
    return [
        Panel("Rows a test, one trial", "rows", "share of the updates", sizes, True, True),
        Panel("Digits of the test set", "rows read", share, learned, True),
        Panel("The same in time", "seconds a trial, scans included", share, in_time, True),
    ]


if __name__ == "__main__":
    main(experiment)
