"""What kinks and jumps cost: quantile regression, Laplace errors, hinges, change points.

PYTHONPATH=.:tests python -m benchmarks.kinks
"""

import time

import arviz as az
import numpy as np
import pymc as pm

from pymc_minibatch_mh import TunaMH, sample

CHAINS, TUNE, DRAWS, COLUMNS = 2, 1_500, 8_000, 5


def design(rows, rng):
    """Return an intercept and standard normal columns."""
    return np.column_stack([np.ones(rows), rng.standard_normal((rows, COLUMNS - 1))])


def quantile_regression(rows, rng, quantile=0.8):
    """Declare a regression of a quantile, with a free scale."""
    X = design(rows, rng)
    noise = (1.0 + 0.3 * np.abs(X[:, 1])) * rng.standard_t(5, rows)
    b, rate = pm.Normal("b", 0.0, 10.0, shape=COLUMNS), pm.HalfNormal("rate", 2.0)
    y = X @ rng.normal(0.0, 0.5, COLUMNS) + noise
    pm.AsymmetricLaplace("y", q=quantile, mu=X @ b, b=rate, observed=y)


def laplace_errors(rows, rng):
    """Declare a median regression, with a free scale."""
    X = design(rows, rng)
    b, scale = pm.Normal("b", 0.0, 10.0, shape=COLUMNS), pm.HalfNormal("scale", 2.0)
    pm.Laplace("y", X @ b, scale, observed=X @ rng.normal(size=COLUMNS) + rng.laplace(size=rows))


def hinge(rows, rng):
    """Declare a line that bends at an unknown place."""
    x = rng.uniform(-2.0, 2.0, rows)
    y = 0.5 + 0.3 * x + 1.2 * np.maximum(x - 0.4, 0.0) + 0.5 * rng.standard_normal(rows)
    a, b, c = (pm.Normal(name, 0.0, 5.0) for name in "abc")
    place, sigma = pm.Normal("place"), pm.HalfNormal("sigma", 2.0)
    pm.Normal("y", a + b * x + c * pm.math.maximum(x - place, 0.0), sigma, observed=y)


def change_point(rows, rng, change):
    """Declare a mean that jumps at an unknown time, by some standard deviations of the noise."""
    when = np.arange(rows) / rows
    y = np.where(when > 0.4, change, 0.0) + rng.standard_normal(rows)
    early, late = pm.Normal("early", 0.0, 5.0), pm.Normal("late", 0.0, 5.0)
    tau = pm.Uniform("tau", 0.0, 1.0)
    pm.Normal("y", pm.math.switch(tau > when, early, late), 1.0, observed=y)


def small_change(rows, rng):
    """Declare a jump of a fifth of the noise."""
    change_point(rows, rng, 0.2)


def large_change(rows, rng):
    """Declare a jump as large as the noise."""
    change_point(rows, rng, 1.0)


def line(declare, rows, draws=DRAWS):
    """Return a line of the table."""
    with pm.Model() as model:
        declare(rows, np.random.default_rng(7))
    start = time.process_time()
    step = TunaMH(model=model)
    seconds = time.process_time() - start
    trace = sample(step, draws=draws, tune=TUNE, chains=CHAINS, random_seed=4, progressbar=False)
    stats, ess = trace["sample_stats"], az.ess(trace)
    least = min(float(ess[name].min()) for name in ess.data_vars) / (CHAINS * draws)
    read, accepted = float(stats["n_obs"].mean()), float(stats["accepted_share"].mean())
    total = time.process_time() - start
    return (
        f"{declare.__name__:20} {rows:9,} {read:7.1f} {accepted:11.2f} {least:15.2f} "
        f"{seconds:11.1f} {total:5.1f}"
    )


def main():
    """Print the table."""
    print("model                     rows   drawn  acceptance  ESS per update  preparation   all")
    for rows in (50_000, 1_000_000):
        for declare in (quantile_regression, laplace_errors, hinge):
            print(line(declare, rows), flush=True)
    for declare in (small_change, large_change):
        print(line(declare, 20_000))


if __name__ == "__main__":
    main()
