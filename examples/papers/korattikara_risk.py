"""Korattikara, Chen and Welling (2014), section 6.1: risk of a logistic regression's predictions.

Figure 2: mean squared error of the predictive means of test digits, 7 against 9, after so many
rows, for levels ε of the sequential test; at ε = 0 all rows decide.

The text does not say where its chains start: here at draws from the posterior, so that burn-in,
which its analysis leaves out, plays no part. Rows are read in batches of 500, as it recommends.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from numpy.typing import NDArray
from scipy.special import expit

from papers.data import Digits, sevens_and_nines
from papers.report import Cell, Claim, Panel, Report, Table, curve, mean_sd
from papers.runner import Array, Run, Size, main, trials
from pymc_minibatch_mh import AustereMH, RandomWalk, TunaMH
from pymc_minibatch_mh.steps.base import MinibatchStep

#: Levels, and draws in the time of one at ε = 0 as published.
PUBLISHED = {0.0: 1.0, 0.01: 1.8, 0.05: 2.7, 0.1: 3.4, 0.2: 5.6}
BATCH, WALK, PRECISION, THIN = 500, 0.01, 10.0, 5
OURS = "TunaMH, default settings"


@dataclass(frozen=True)
class Estimates:
    """Estimates of the predictive means after so many rows.

    Parameters
    ----------
    rows
        Rows that a chain has read, shape (times,).
    seconds
        Seconds that it took, mean over chains, shape (times,).
    errors
        Estimate minus truth, shape (chains, times, test rows).
    run
        The chains.
    thin
        Updates between two draws that were kept.
    """

    rows: Array
    seconds: Array
    errors: NDArray[np.float64]
    run: Run
    thin: int

    @property
    def updates_per_row(self) -> Array:
        """Updates for a row that was read, of each chain."""
        return np.asarray(self.thin / self.run.rows.mean(axis=1))

    @property
    def seconds_per_update(self) -> float:
        """Seconds that an update took."""
        return float(self.run.stat("perf_counter_diff").mean()) / self.thin

    @property
    def risks(self) -> Array:
        """Mean squared error of each chain, shape (chains, times)."""
        return np.asarray((self.errors**2).mean(axis=2))

    @property
    def risk(self) -> Array:
        """Risk: the mean over chains, shape (times,)."""
        return np.asarray(self.risks.mean(axis=0))

    @property
    def variance(self) -> float:
        """Variance over chains of the last estimates."""
        return float(self.errors[:, -1].var(axis=0, ddof=1).mean())

    @property
    def squared_bias(self) -> float:
        """Squared bias of the last estimates, as far as the chains can tell; may be negative."""
        squared = float((self.errors[:, -1].mean(axis=0) ** 2).mean())
        return squared - self.variance / self.errors.shape[0]

    def at(self, rows: float) -> float:
        """Return the risk after so many rows."""
        return float(np.interp(rows, self.rows, self.risk))


def regression(digits: Digits) -> pm.Model:
    """Return the logistic regression."""
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, PRECISION**-0.5, shape=digits.X.shape[1])
        pm.Bernoulli("y", logit_p=pm.math.dot(digits.X, beta), observed=digits.y)
    return model


def published_step(model: pm.Model, epsilon: float, batch_size: int = BATCH) -> MinibatchStep:
    """Return the walk, decided by the sequential test."""
    return AustereMH(
        model=model,
        batch_size=batch_size,
        epsilon=epsilon,
        centre="start",
        full_pass_above=np.inf,
        proposal=RandomWalk(WALK, covariance="identity", adapt=False),
    )


def estimates(run: Run, digits: Digits, truth: Array, budget: float, thin: int) -> Estimates:
    """Return running means of the predictions at 60 numbers of rows up to a budget."""
    read = run.rows.cumsum(axis=1)
    last = min(budget, read[:, -1].min())
    rows = np.geomspace(max(read[:, 0].max(), last / 1e3), last, 60)
    errors = np.empty((read.shape[0], rows.size, truth.size))
    seconds = np.zeros(rows.size)
    spent = run.stat("perf_counter_diff").cumsum(axis=1)
    for chain, beta in enumerate(run.values("beta")):
        counts = np.searchsorted(read[chain], rows, side="right")
        sums, done = np.zeros(truth.size), 0
        for k, count in enumerate(counts):
            sums = sums + expit(beta[done:count] @ digits.X_test.T).sum(axis=0)
            done = count
            errors[chain, k] = sums / count - truth
        seconds += spent[chain, counts - 1] / read.shape[0]
    return Estimates(rows, seconds, errors, run, thin)


def long_run(step: MinibatchStep, digits: Digits, draws: int, seed: int) -> tuple[Array, Any]:
    """Return predictive means of a long exact run, and its draws, shape (draws, components)."""
    run = trials(step, draws, chains=2, tune=1_000, seed=seed)
    beta = run.values("beta").reshape(-1, digits.X.shape[1])
    means = sum(expit(part @ digits.X_test.T).sum(axis=0) for part in np.array_split(beta, 20))
    return np.asarray(means) / beta.shape[0], beta


def experiment(size: Size, seed: int) -> Report:
    """Run all levels to the same number of rows, and ours."""
    digits = sevens_and_nines()
    model = regression(digits)
    updates, chains = size.of(20, 500, 3_000), size.of(2, 4, 10)
    budget = float(updates * digits.X.shape[0])
    ours = TunaMH(model=model)
    truth, beta = long_run(ours, digits, size.of(200, 4_000, 20_000), seed + 1)
    starts = [{"beta": beta[k]} for k in np.linspace(0, beta.shape[0] - 1, chains).astype(int)]
    found: dict[float | str, Estimates] = {}
    for epsilon in PUBLISHED:
        step = published_step(model, epsilon)
        draws = int(1.15 * budget / pilot(step, starts, size, seed) / THIN) + 1
        run = trials(step, draws, starts=starts, seed=seed, thin=THIN)
        found[epsilon] = estimates(run, digits, truth, budget, THIN)
    draws, tune = size.of(20, 500, 5_000), size.of(50, 500, 1_000)
    run = trials(ours, draws, starts=starts, tune=tune, seed=seed)
    found[OURS] = estimates(run, digits, truth, budget, 1)
    return Report(
        "Korattikara, Chen and Welling (2014), section 6.1: figure 2",
        claims(found),
        [table(found, budget), other_batches(model, starts, size, seed)],
        drawn(found),
        [
            *digits.differences,
            f"There are {updates:,} draws at ε = 0, not 75,484, and as many rows at other levels",
            f"The truth is from {beta.shape[0]:,} draws of the exact TunaMH, not from Hamiltonian "
            "Monte Carlo",
        ],
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
    return mean_sd(found[name].updates_per_row / found[0.0].updates_per_row.mean())


def claims(found: dict[float | str, Estimates]) -> list[Claim]:
    """Return what must come out."""
    result = []
    for epsilon, published in list(PUBLISHED.items())[1:]:
        what = f"ε = {epsilon}: draws for the rows of one at ε = 0"
        low, high = 0.7 * published, 1.3 * published
        result.append(Claim(what, f"{published}", low, high, *relative_draws(found, epsilon)))
    last = found[0.0].rows[-1]
    for share, name in ((0.1, "a tenth of the rows"), (1.0, "all rows")):
        least = min(found[epsilon].at(share * last) for epsilon in PUBLISHED if epsilon)
        what = f"least risk at ε > 0 after {name}, in that of ε = 0"
        result.append(Claim(what, "below 1", None, 1.0, least / found[0.0].at(share * last)))
    rows = found[OURS].rows[-1]
    least = min(found[epsilon].at(rows) for epsilon in PUBLISHED)
    what = f"{OURS}: risk after {rows:.2g} rows, in the least of all ε"
    result.append(Claim(what, "-", None, 0.01, found[OURS].at(rows) / least))
    return result


def table(found: dict[float | str, Estimates], budget: float) -> Table:
    """Return what each level reads, and its risk."""
    head = ["test", "draws for one at ε = 0, published", "ours, by rows", "rows an update"]
    head += ["accepted", f"risk after {0.1 * budget:.2g} rows", f"risk after {budget:.2g} rows"]
    head += ["squared bias", "variance", "seconds", "draws in the time of one at ε = 0"]
    time = found[0.0].seconds_per_update
    lines: list[list[Cell]] = []
    for name, one in found.items():
        published = PUBLISHED.get(name) if isinstance(name, float) else None
        reached = one.rows[-1] >= 0.99 * budget
        tenth = 0.1 * budget <= one.rows[-1]
        lines.append(
            [
                name if isinstance(name, str) else f"ε = {name}",
                published,
                relative_draws(found, name),
                mean_sd(1.0 / one.updates_per_row),
                one.run.acceptance,
                one.at(0.1 * budget) if tenth else None,
                mean_sd(one.risks[:, -1]) if reached else None,
                one.squared_bias,
                one.variance,
                float(one.seconds[-1]),
                time / one.seconds_per_update,
            ]
        )
    return Table("Draws, rows and risk", head, lines)


def drawn(found: dict[float | str, Estimates]) -> list[Panel]:
    """Return figure 2 against rows, and against seconds."""
    named = {n if isinstance(n, str) else f"ε = {n}": one for n, one in found.items()}
    return [
        Panel(
            "Risk of the predictive mean",
            "rows read",
            "risk",
            [curve(name, one.rows, one.risk) for name, one in named.items()],
            log_x=True,
            log_y=True,
        ),
        Panel(
            "Risk of the predictive mean, by time",
            "seconds",
            "risk",
            [curve(name, one.seconds, one.risk) for name, one in named.items()],
            log_x=True,
            log_y=True,
        ),
    ]


if __name__ == "__main__":
    main(experiment)
