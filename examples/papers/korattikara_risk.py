"""Korattikara, Chen and Welling (2014), section 6.1: risk of a logistic regression's predictions.

Figure 2: mean squared error of the predictive means of test digits, 7 against 9, after so many
rows, for levels ε of the sequential test; at ε = 0 all rows decide.

The text does not say where its chains start: here at draws from the posterior, so that burn-in,
which its analysis leaves out, plays no part. Rows are read in batches of 500, as it recommends.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import pymc as pm
from numpy.typing import NDArray
from scipy.special import expit

from papers.data import Digits, sevens_and_nines
from papers.parts import Part, part
from papers.report import Cell, Claim, Panel, Report, Table, curve, mean_sd
from papers.runner import Array, Run, Size, main, trials
from pymc_minibatch_mh import AustereMH, RandomWalk, TunaMH
from pymc_minibatch_mh.steps.base import MinibatchStep

#: Levels, and draws in the time of one at ε = 0 as published.
PUBLISHED = {0.0: 1.0, 0.01: 1.8, 0.05: 2.7, 0.1: 3.4, 0.2: 5.6}
BATCH, WALK, PRECISION, THIN = 500, 0.01, 10.0, 5
PUBLISHED_UPDATES = 75_484
OURS = "TunaMH, default settings"

type Starts = list[dict[str, Any]]


@dataclass(frozen=True)
class Estimates:
    """Estimates of the predictive means after so many rows.

    Parameters
    ----------
    rows
        Rows that a chain has read, shape (times,).
    seconds
        Seconds that it took, shape (chains, times).
    means
        Estimates, shape (chains, times, test rows).
    rows_per_update, seconds_per_update, accepted
        Rows and seconds that an update took, and the share accepted, shape (chains,).
    truth
        The predictive means, shape (test rows,).
    """

    rows: Array
    seconds: Array
    means: NDArray[np.float64]
    rows_per_update: Array
    seconds_per_update: Array
    accepted: Array
    truth: Array

    @classmethod
    def of(cls, parts: Sequence[Part], truth: Array) -> Self:
        """Join chains that were run a few at a time."""
        joined = {
            name: np.concatenate([part[name] for part in parts])
            for name in parts[0]
            if name != "rows"
        }
        return cls(rows=np.asarray(parts[0]["rows"]), truth=truth, **joined)

    @property
    def errors(self) -> Array:
        """Estimate minus truth, shape (chains, times, test rows)."""
        return np.asarray(self.means - self.truth)

    @property
    def risks(self) -> Array:
        """Mean squared error of each chain, shape (chains, times)."""
        return np.asarray((self.errors**2).mean(axis=2))

    @property
    def risk(self) -> Array:
        """Risk: the mean over chains, shape (times,)."""
        return np.asarray(self.risks.mean(axis=0))

    @property
    def risk_error(self) -> Array:
        """Standard error of the risk, shape (times,)."""
        return np.asarray(self.risks.std(axis=0, ddof=1) / np.sqrt(len(self.risks)))

    @property
    def variance(self) -> float:
        """Variance over chains of the last estimates."""
        return float(self.means[:, -1].var(axis=0, ddof=1).mean())

    @property
    def squared_bias(self) -> float:
        """Squared bias of the last estimates, as far as the chains can tell; may be negative."""
        squared = float((self.errors[:, -1].mean(axis=0) ** 2).mean())
        return squared - self.variance / len(self.means)

    def at(self, rows: float) -> float:
        """Return the risk after so many rows."""
        return float(np.interp(rows, self.rows, self.risk))

    def error_at(self, rows: float) -> float:
        """Return the standard error of that risk."""
        return float(np.interp(rows, self.rows, self.risk_error))


def regression(digits: Digits) -> pm.Model:
    """Return the logistic regression."""
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, PRECISION**-0.5, shape=digits.X.shape[1])
        pm.Bernoulli("y", logit_p=pm.math.dot(digits.X, beta), observed=digits.y)
    return model


def published_step(
    model: pm.Model, epsilon: float, batch_size: int = BATCH, updates_per_draw: int = 1
) -> MinibatchStep:
    """Return the walk, decided by the sequential test."""
    return AustereMH(
        model=model,
        batch_size=batch_size,
        epsilon=epsilon,
        centre="start",
        full_pass_above=np.inf,
        proposal=RandomWalk(WALK, covariance="identity", adapt=False),
        updates_per_draw=updates_per_draw,
    )


def estimates(run: Run, digits: Digits, rows: Array, thin: int) -> Part:
    """Return running means of the predictions of chains at numbers of rows: see `Estimates`."""
    read = run.rows.cumsum(axis=1)
    spent = run.stat("perf_counter_diff").cumsum(axis=1)
    means = np.empty((read.shape[0], rows.size, len(digits.y_test)))
    seconds = np.empty(means.shape[:2])
    for chain, beta in enumerate(run.values("beta")):
        counts = np.maximum(np.searchsorted(read[chain], rows, side="right"), 1)
        sums, done = np.zeros(means.shape[2]), 0
        for k, count in enumerate(counts):
            for some in np.array_split(beta[done:count], 1 + (count - done) // 2_000):
                sums = sums + expit(some @ digits.X_test.T).sum(axis=0)
            done = count
            means[chain, k] = sums / count
        seconds[chain] = spent[chain, counts - 1]
    return {
        "rows": rows,
        "seconds": seconds,
        "means": means,
        "rows_per_update": run.rows.mean(axis=1) / thin,
        "seconds_per_update": run.stat("perf_counter_diff").mean(axis=1) / thin,
        "accepted": run.stat("accepted_share").mean(axis=1),
    }


def long_run(step: MinibatchStep, digits: Digits, size: Size, seed: int) -> Part:
    """Return predictive means of a long exact run, and ten of its draws, far from each other."""
    draws = size.of(200, 4_000, 20_000, 200_000)
    run = trials(step, draws, chains=2, tune=1_000, seed=seed)
    beta = run.values("beta").reshape(-1, digits.X.shape[1])
    some = np.array_split(beta, 1 + len(beta) // 2_000)
    means = sum(expit(few @ digits.X_test.T).sum(axis=0) for few in some) / len(beta)
    starts = beta[np.linspace(0, len(beta) - 1, 10).astype(int)]
    return {"means": np.asarray(means), "starts": starts, "draws": np.array(len(beta))}


def levels(
    model: pm.Model, digits: Digits, starts: Starts, size: Size, seed: int
) -> dict[float, list[Part]]:
    """Run the chains of all levels to the same rows, two at a time, while levels take turns."""
    budget = float(updates_of(size) * digits.X.shape[0])
    rows = np.geomspace(max(THIN * digits.X.shape[0], budget / 1e3), budget, 60)
    steps = {
        epsilon: published_step(model, epsilon, updates_per_draw=THIN) for epsilon in PUBLISHED
    }
    draws = {
        epsilon: 1
        + int(1.15 * budget / pilot(published_step(model, epsilon), starts, size, seed) / THIN)
        for epsilon in PUBLISHED
    }
    found: dict[float, list[Part]] = {epsilon: [] for epsilon in PUBLISHED}

    def compute(epsilon: float, k: int) -> Part:
        two, its_seed = starts[k : k + 2], seed + 1_000 * k
        run = trials(steps[epsilon], draws[epsilon], starts=two, seed=its_seed)
        return estimates(run, digits, rows, THIN)

    for k in range(0, len(starts), 2):
        for epsilon in PUBLISHED:
            name = f"level-{epsilon}-chains-{k}"
            found[epsilon].append(part(name, partial(compute, epsilon, k)))
    return found


def updates_of(size: Size) -> int:
    """Return the number of updates at ε = 0."""
    return size.of(20, 500, 3_000, PUBLISHED_UPDATES)


def default_chains(
    step: TunaMH, digits: Digits, starts: Starts, size: Size, seed: int
) -> list[Part]:
    """Run chains of the default step, which need far fewer rows."""
    draws, tune = size.of(20, 500, 5_000), size.of(50, 500, 1_000)
    run = trials(step, draws, starts=starts, tune=tune, seed=seed)
    read = run.rows.cumsum(axis=1)
    last = float(read[:, -1].min())
    rows = np.geomspace(max(float(read[:, 0].max()), last / 1e3), last, 60)
    return [estimates(run, digits, rows, 1)]


def experiment(size: Size, seed: int) -> Report:
    """Run all levels to the same number of rows, and ours."""
    digits = sevens_and_nines()
    model = regression(digits)
    updates, count = updates_of(size), size.of(2, 4, 10)
    ours = TunaMH(model=model)
    long = part("truth", lambda: long_run(ours, digits, size, seed + 1))
    truth, beta = np.asarray(long["means"]), long["starts"]
    starts: Starts = [{"beta": each} for each in beta[:count]]
    found: dict[float | str, Estimates] = {
        epsilon: Estimates.of(parts, truth)
        for epsilon, parts in levels(model, digits, starts, size, seed).items()
    }
    found[OURS] = Estimates.of(default_chains(ours, digits, starts, size, seed), truth)
    differences = [
        *digits.differences,
        f"The truth is from {int(long['draws']):,} draws of the exact TunaMH, not from Hamiltonian "
        "Monte Carlo",
    ]
    if updates != PUBLISHED_UPDATES:
        differences.append(
            f"There are {updates:,} draws at ε = 0, not {PUBLISHED_UPDATES:,}, and as many rows at "
            "other levels; `--published` makes all"
        )
    return Report(
        "Korattikara, Chen and Welling (2014), section 6.1: figure 2",
        claims(found),
        [table(found), other_batches(model, starts, size, seed)],
        drawn(found),
        differences,
    )


def other_batches(model: pm.Model, starts: list[dict[str, Any]], size: Size, seed: int) -> Table:
    """Return draws for the rows of one at ε = 0 with other batches, of which the text is vague."""
    sizes, lines = (300, 400, 600, 800), []
    rows = pilot(published_step(model, 0.0), starts, size, seed)
    for epsilon, published in list(PUBLISHED.items())[1:]:
        steps = [published_step(model, epsilon, batch_size) for batch_size in sizes]
        found: list[Cell] = [rows / pilot(step, starts, size, seed) for step in steps]
        lines.append([f"ε = {epsilon}", published, *found])
    head = [
        "test",
        "published, by time",
        *(f"batches of {batch_size} rows" for batch_size in sizes),
    ]
    return Table(
        "Draws for the rows of one at ε = 0, with other batches, in short runs", head, lines
    )


def pilot(step: MinibatchStep, starts: list[dict[str, Any]], size: Size, seed: int) -> float:
    """Return the rows that an update reads, from a short run."""
    draws = size.of(10, 100, 300)
    return trials(step, draws, starts=starts[:4], seed=seed + 2).rows_per_update[0]


def relative_draws(found: dict[float | str, Estimates], name: float | str) -> tuple[float, float]:
    """Return draws for the rows of one at ε = 0: mean, and standard deviation over chains."""
    return mean_sd(found[0.0].rows_per_update.mean() / found[name].rows_per_update)


def draws_in_time(found: dict[float | str, Estimates], name: float | str) -> tuple[float, float]:
    """Return draws in the time of one at ε = 0: mean, and standard deviation over chains."""
    return mean_sd(found[0.0].seconds_per_update.mean() / found[name].seconds_per_update)


def claims(found: dict[float | str, Estimates]) -> list[Claim]:
    """Return what must come out; the published ratios are of seconds."""
    result = []
    for epsilon, published in list(PUBLISHED.items())[1:]:
        limits = 0.7 * published, 1.3 * published
        what = f"ε = {epsilon}: draws in the time of one at ε = 0"
        result.append(Claim(what, f"{published}", *limits, *draws_in_time(found, epsilon)))
        what = f"ε = {epsilon}: draws for the rows of one at ε = 0"
        rows = relative_draws(found, epsilon)
        result.append(Claim(what, f"{published}, by time", *limits, *rows, chosen=True))
    last = found[0.0].rows[-1]
    for share, name in ((0.1, "a tenth of the rows"), (1.0, "all rows")):
        best = min((e for e in PUBLISHED if e), key=lambda e: found[e].at(share * last))
        exact, least = (found[epsilon].at(share * last) for epsilon in (0.0, best))
        errors = [found[epsilon].error_at(share * last) for epsilon in (0.0, best)]
        ratio = least / exact
        error = ratio * float(np.hypot(errors[0] / exact, errors[1] / least))
        what = f"least risk at ε > 0 after {name}, relative to ε = 0 (± its standard error)"
        result.append(Claim(what, "below 1", None, 1.0, ratio, error))
    rows = found[OURS].rows[-1]
    least = min(found[epsilon].at(rows) for epsilon in PUBLISHED)
    what = f"{OURS}: risk after {rows:.2g} rows, in the least of all ε"
    result.append(Claim(what, "-", None, 0.01, found[OURS].at(rows) / least))
    return result


def table(found: dict[float | str, Estimates]) -> Table:
    """Return what each level reads, and its risk with its standard error."""
    budget = found[0.0].rows[-1]
    head = ["test", "draws in the time of one at ε = 0, published", "ours", "for its rows"]
    head += ["rows an update", "accepted"]
    head += [f"risk after {share * budget:.2g} rows (± standard error)" for share in (0.1, 1.0)]
    head += ["squared bias", "variance", "seconds a chain"]
    lines: list[list[Cell]] = []
    for name, one in found.items():
        published = PUBLISHED.get(name) if isinstance(name, float) else None
        risks: list[Cell] = [
            (one.at(at), one.error_at(at)) if at <= one.rows[-1] else None
            for at in (0.1 * budget, budget)
        ]
        lines.append(
            [
                name if isinstance(name, str) else f"ε = {name}",
                published,
                draws_in_time(found, name),
                relative_draws(found, name),
                mean_sd(one.rows_per_update),
                float(one.accepted.mean()),
                *risks,
                one.squared_bias,
                one.variance,
                float(one.seconds[:, -1].mean()),
            ]
        )
    return Table("Draws, rows and risk", head, lines)


def drawn(found: dict[float | str, Estimates]) -> list[Panel]:
    """Return figure 2 against rows, and against seconds, with bands of one standard error."""
    rows, seconds = [], []
    for name, one in found.items():
        label = name if isinstance(name, str) else f"ε = {name}"
        rows.append(curve(label, one.rows, one.risk, sd=one.risk_error))
        seconds.append(curve(label, one.seconds.mean(axis=0), one.risk, sd=one.risk_error))
    return [
        Panel("Risk of the predictive mean, by rows", "rows read", "risk", rows, True, True),
        Panel("The same by time", "seconds", "risk", seconds, True, True),
    ]


if __name__ == "__main__":
    main(experiment)
