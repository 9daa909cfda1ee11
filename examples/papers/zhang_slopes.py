"""Zhang, Cooper and De Sa (2020), section 4: how rows grow with the data (corollary 1).

With control variates of order h - 1, moves in proportion to the posterior's width have M of the
order N^(-h/2) relative to C, so that an update reads a number of rows of the order N^((2 - h)/2)
where h = 1, 2, 3 stand for the orders 0, 1 and 2. The paper derives this and runs nothing; the
model here is a logistic regression on standard normal covariates, the walk is 2.38/√d posterior
standard deviations long, and χ = 0, with which CM rows are expected, the corollary's bound.
"""

from typing import Any

import numpy as np
import pymc as pm
from scipy.special import expit

from papers.report import Cell, Claim, Panel, Report, Table, curve, mean_sd
from papers.runner import Run, Size, main, trials
from pymc_minibatch_mh import RandomWalk, TunaMH, TunaPaperMH
from pymc_minibatch_mh.steps.base import MinibatchStep

COVARIATES, STEP = 5, 2.38
#: Order of the control variates -> the exponent of corollary 1.
EXPONENTS = {0: 0.5, 1: 0.0, 2: -0.5}
OURS = "TunaMH()"


def regression(rows: int, seed: int) -> pm.Model:
    """Return a logistic regression on made-up data."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, COVARIATES))
    y = rng.random(rows) < expit(x @ np.linspace(-0.5, 0.5, COVARIATES))
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.0, shape=COVARIATES)
        pm.Bernoulli("y", logit_p=pm.math.dot(x, beta), observed=y.astype(int))
    return model


def steps(model: pm.Model) -> dict[str, MinibatchStep]:
    """Return the published test at every order, and ours as it is."""
    walk = RandomWalk(STEP / np.sqrt(COVARIATES), adapt=False)
    published: dict[str, Any] = {"model": model, "chi": 0.0, "proposal": walk}
    found: dict[str, MinibatchStep] = {
        f"order {order}": TunaPaperMH(taylor_order=order, full_pass_above=np.inf, **published)
        for order in EXPONENTS
    }
    return found | {OURS: TunaMH(model=model)}


def slope(runs: dict[int, Run]) -> tuple[float, float]:
    """Return the slope of log rows against log N, and its standard deviation over trials."""
    rows = np.array([run.rows.mean(axis=1) for run in runs.values()])
    return mean_sd(np.polyfit(np.log(list(runs)), np.log(rows), 1)[0])


def experiment(size: Size, seed: int) -> Report:
    """Sample regressions of several numbers of rows, and fit lines to the rows read."""
    found: dict[str, dict[int, Run]] = {}
    for rows in size.of((1_000, 4_000), (1_000, 10_000, 100_000), (10**3, 10**4, 10**5, 10**6)):
        for name, step in steps(regression(rows, seed)).items():
            # What is rare at a large N takes more updates to see.
            draws = size.of(200, 2_000, 1_000 if name == "order 0" else 20_000)
            tune = size.of(100, 500, 1_000) if name == OURS else 0
            run = trials(step, draws, chains=size.of(2, 2, 4), tune=tune, seed=seed)
            found.setdefault(name, {})[rows] = run
    return Report(
        "Zhang, Cooper and De Sa (2020), section 4: corollary 1",
        claims(found),
        [table(found)],
        [panel(found)],
    )


def claims(found: dict[str, dict[int, Run]]) -> list[Claim]:
    """Return what the slopes must be."""
    return [
        Claim(
            f"order {order}: slope of log rows against log N",
            f"{exponent:g}",
            exponent - 0.1,
            exponent + 0.1,
            *slope(found[f"order {order}"]),
        )
        for order, exponent in EXPONENTS.items()
    ]


def table(found: dict[str, dict[int, Run]]) -> Table:
    """Return rows and acceptance at every N."""
    lines: list[list[Cell]] = [
        [name, rows, run.rows_per_update, run.acceptance, float(run.stat("full_pass").mean())]
        for name, runs in found.items()
        for rows, run in runs.items()
    ]
    head = [
        "control variates",
        "N",
        "rows an update",
        "acceptance",
        "full-data evaluations an update",
    ]
    return Table("Rows against the size of the data", head, lines)


def panel(found: dict[str, dict[int, Run]]) -> Panel:
    """Return rows against N, and lines of the corollary's slopes."""
    curves = []
    for name, runs in found.items():
        rows = np.array(list(runs), float)
        read = [run.rows_per_update[0] for run in runs.values()]
        curves.append(curve(name, rows, read))
        if name != OURS:
            order = int(name[-1])
            line = read[-1] * (rows / rows[-1]) ** EXPONENTS[order]
            curves.append(curve(f"slope {EXPONENTS[order]:g}", rows, line, "dashed"))
    return Panel("Rows against the size of the data", "N", "rows an update", curves, True, True)


if __name__ == "__main__":
    main(experiment)
