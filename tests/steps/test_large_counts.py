"""Counts of up to a billion, whose log-likelihoods have no digits left for their differences."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from helpers.tiers import fast
from helpers.zoo import drawn
from pymc_minibatch_mh import BarkerMinibatchMH, TunaMH
from pymc_minibatch_mh.compiled import differences, form_rows
from pymc_minibatch_mh.errors import BoundViolationError

pytestmark = pytest.mark.filterwarnings("ignore:The number of samples is too small")

ROWS, DRAWS = 2_000, 200
X = np.random.default_rng(0).normal(size=ROWS)
SLOPE = 0.1


def poisson(mean, link):
    """Counts of a mean, by `link`: (logarithm of the mean at x = 0, x times slope) -> mean."""
    y = np.random.default_rng(1).poisson(mean * np.exp(SLOPE * X))
    with pm.Model() as model:
        a, b = pm.Normal("a", np.log(mean), 1.0), pm.Normal("b")
        pm.Poisson("y", link(a, b * X), observed=y)
    return model


def with_exposure(mean):
    exposure = np.full(ROWS, mean)

    def link(a, slope):
        return pm.Data("exposure", exposure) * pt.exp(a - np.log(mean) + slope)

    return poisson(mean, link)


def with_offset(mean):
    offset = np.full(ROWS, 0.5 * np.log(mean))
    return poisson(mean, lambda a, slope: pm.math.exp(offset + (a - 0.5 * np.log(mean)) + slope))


def binomial(n, link):
    y = np.random.default_rng(2).binomial(n, 1.0 / (1.0 + np.exp(-0.2 - SLOPE * X)))
    with pm.Model() as model:
        a, b = pm.Normal("a"), pm.Normal("b")
        pm.Binomial("y", n, p=link(a + b * X), observed=y)
    return model


def negative_binomial(mean):
    rng = np.random.default_rng(3)
    y = rng.poisson(rng.gamma(3.0, mean * np.exp(SLOPE * X) / 3.0))
    with pm.Model() as model:
        a, b = pm.Normal("a", np.log(mean), 1.0), pm.Normal("b")
        pm.NegativeBinomial("y", mu=pt.exp(a + b * X), alpha=pm.HalfNormal("s", 5.0), observed=y)
    return model


def beta_binomial(n):
    rng = np.random.default_rng(5)
    y = rng.binomial(n, rng.beta(20.0, 30.0, ROWS))
    with pm.Model() as model:
        a, b = pm.HalfNormal("a", 30.0), pm.HalfNormal("b", 30.0)
        pm.BetaBinomial("y", n=n, alpha=a, beta=b, observed=y)
    return model


MODELS = {
    "Poisson, 1e5": lambda: poisson(1e5, lambda a, slope: pt.exp(a + slope)),
    "Poisson, 1e6 with an offset": lambda: with_offset(1e6),
    "Poisson, 1e8 with exposure": lambda: with_exposure(1e8),
    "Poisson, 1e9": lambda: poisson(1e9, lambda a, slope: pt.exp(a + slope)),
    "binomial, 1e6": lambda: binomial(10**6, pm.math.sigmoid),
    "binomial, 1e9": lambda: binomial(10**9, pm.math.sigmoid),
    "binomial, 1e9 by its formula": lambda: binomial(10**9, lambda eta: 1 / (1 + pt.exp(-eta))),
    "negative binomial, 1e8": lambda: negative_binomial(1e8),
    "beta-binomial, 1e9": lambda: beta_binomial(10**9),
}
#: One of each kind of argument and of likelihood.
LARGEST = ("Poisson, 1e9", "binomial, 1e9 by its formula", "negative binomial, 1e8")
#: Control variates of lower order leave remainders that have to be read, and so can be violated.
STEPS = {
    "TunaMH": TunaMH,
    "TunaMH of order 1": lambda: TunaMH(taylor_order=1),
    "TunaMH of order 0": lambda: TunaMH(taylor_order=0),
    "Barker": BarkerMinibatchMH,
}


@pytest.mark.parametrize("step", fast(STEPS, ["TunaMH of order 1"]))
@pytest.mark.parametrize("name", fast(MODELS, LARGEST))
def test_large_counts_are_sampled_to_the_end(name, step):
    model = MODELS[name]()
    with model:
        method = STEPS[step]()
    trace = drawn(model, method, DRAWS, DRAWS, chains=1, random_seed=4)
    if step.startswith("TunaMH"):
        assert trace.sample_stats["bound_ratio"].max() <= 1.0
    draws = trace.posterior["b"]
    truth = 30.0 if name.startswith("beta") else SLOPE
    assert abs(draws.mean() - truth) < 6.0 * draws.std()
    assert draws.std() > 0.0


def test_mutant_that_subtracts_values_is_caught(monkeypatch):
    honest = form_rows.remainder_difference
    monkeypatch.setattr(differences, "CHANGES", {})
    monkeypatch.setattr(
        form_rows, "remainder_difference", lambda f, order: (honest(f, order)[0], f.exprs.zero)
    )
    with pytest.raises(BoundViolationError):
        test_large_counts_are_sampled_to_the_end("Poisson, 1e9", "TunaMH")
