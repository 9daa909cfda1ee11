"""What a rare group does to the tests on batches, with its rows read always and without.

A logistic regression of 50,000 rows has a 0/1 column of which 20 rows have a 1, and 19 of these the
same outcome: the posterior of its coefficient is skewed, and all that tells so are 20 rows which
batches of 100 hardly ever contain. The reference is TunaMH, whose draws are exact.

    PYTHONPATH=.:tests python -m benchmarks.rare_group
"""

from contextlib import contextmanager
from time import perf_counter

import arviz as az
import numpy as np
import pymc as pm
from scipy.special import expit

from pymc_minibatch_mh import (
    AustereMH,
    BarkerMinibatchMH,
    BarkerPaperMH,
    PenaltyMH,
    TunaMH,
    sample,
)
from pymc_minibatch_mh.reference import influential as heavy

ROWS, MEMBERS, ALIKE = 50_000, 20, 19
CHAINS, TUNE, DRAWS = 4, 1_000, 10_000
#: Of draws that are exact and cost little.
REFERENCE_DRAWS = 100_000
METHODS = {
    "PenaltyMH()": PenaltyMH,
    "BarkerMinibatchMH()": BarkerMinibatchMH,
    "BarkerPaperMH()": BarkerPaperMH,
    "AustereMH()": AustereMH,
}


def rare_group(rows=ROWS, members=MEMBERS, alike=ALIKE, seed=1):
    """Return the regression: a level, two slopes, and the effect of a group of few rows."""
    rng = np.random.default_rng(seed)
    x, member = rng.standard_normal((rows, 2)), np.zeros(rows, np.int8)
    chosen = rng.choice(rows, members, replace=False)
    member[chosen] = 1
    y = (rng.random(rows) < expit(x @ [0.7, 0.3] - 0.5)).astype(np.int8)
    y[chosen] = np.arange(members) < alike
    with pm.Model() as model:
        level = pm.Normal("level", 0.0, 2.5)
        slopes = pm.Normal("slopes", 0.0, 2.5, shape=2)
        effect = pm.Normal("effect", 0.0, 2.5)
        logit = level + pm.math.dot(x, slopes) + effect * member
        pm.Bernoulli("y", logit_p=logit, observed=y)
    return model


@contextmanager
def none_read_always():
    """Have no row count as heavy, as if all were alike."""
    shipped = heavy.WORTHWHILE
    heavy.WORTHWHILE = -1.0
    try:
        yield
    finally:
        heavy.WORTHWHILE = shipped


def draws_of(step, draws=DRAWS, seed=4):
    """Return the draws of the effect, rows an update, estimated error and seconds."""
    began = perf_counter()
    found = sample(step, draws=draws, tune=TUNE, chains=CHAINS, random_seed=seed, progressbar=False)
    stats = found["sample_stats"]
    effect = found["posterior"]["effect"].to_numpy()
    rows, error = (float(stats[name].mean()) for name in ("n_obs", "error_estimate"))
    return effect, rows, error, perf_counter() - began


def moments(effect):
    """Return mean, standard deviation and skewness of draws, and effective draws of the mean."""
    centred = (effect - effect.mean()) / effect.std()
    return effect.mean(), effect.std(), (centred**3).mean(), float(az.ess(effect))


def distance(draws, reference, cells=20):
    """Return the total variation between two sets of draws, over cells of equal probability."""
    edges = np.quantile(reference, np.linspace(0.0, 1.0, cells + 1)[1:-1])
    shares = [
        np.bincount(np.searchsorted(edges, x.ravel()), minlength=cells) / x.size
        for x in (draws, reference)
    ]
    return 0.5 * float(np.abs(shares[0] - shares[1]).sum())


def cells(name, always, measured, reference):
    """Return a line of the table, cell by cell."""
    effect, rows, error, seconds = measured
    mean, sd, skewness, ess = moments(effect)
    known = moments(reference)
    return (
        *(name, str(always), f"{(mean - known[0]) / known[1]:+.3f}", f"{sd / known[1] - 1.0:+.1%}"),
        *(f"{skewness:+.2f}", f"{distance(effect, reference):.3f}", f"{error:.1e}"),
        *(f"{rows:,.0f}", f"{ess:,.0f}", f"{seconds:.1f}"),
    )


def show(line):
    """Print a line of the table."""
    widths = 36, 5, 6, 5, 8, 8, 14, 5, 6, 5
    first, *others = zip(line, widths, strict=True)
    print(first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others), flush=True)


def main():
    """Print the table."""
    measures = "mean", "sd", "skewness", "distance", "error estimate", "rows", "ESS", "s"
    show(("step", "heavy", *measures))
    model = rare_group()
    exact = TunaMH(model=model)
    reference, *_ = draws_of(exact, REFERENCE_DRAWS, seed=3)
    show(cells("TunaMH()", exact.tables.heavy.size, draws_of(exact), reference))
    for name, method in METHODS.items():
        with none_read_always():
            hidden = method(model=rare_group())
        for step in (hidden, method(model=model)):
            show(cells(name, step.plan.heavy.size, draws_of(step), reference))


if __name__ == "__main__":
    main()
