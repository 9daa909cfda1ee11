"""Small tall models that the tests share; each is compiled once per session."""

import numpy as np
import pymc as pm
import pytensor
import pytest
from scipy.special import expit

from pymc_minibatch_mh import (
    AustereMH,
    BarkerMinibatchMH,
    BarkerPaperMH,
    ConfidenceMH,
    ConfidenceScanMH,
    FactorizedMH,
    FireflyMH,
    PenaltyMH,
    PoissonMH,
    ScalableSubsamplingMH,
    TunaMH,
    TunaPaperMH,
)
from pymc_minibatch_mh import sample as sample_in_blocks

APPROXIMATE = {cls.__name__: cls for cls in (AustereMH, BarkerMinibatchMH, ConfidenceMH, PenaltyMH)}
EXACT = {cls.__name__: cls for cls in (FactorizedMH, FireflyMH, ScalableSubsamplingMH, TunaMH)}
METHODS = APPROXIMATE | EXACT
#: One method of either kind at once, and the others where there is time.
SOME_METHODS = [
    pytest.param(name, marks=[] if name in ("TunaMH", "BarkerMinibatchMH") else [pytest.mark.slow])
    for name in METHODS
]
#: What needs the ranges of log-likelihoods, which only `bounded` has of these models.
RANGED = {"PoissonMH": PoissonMH}
#: Other rules for methods above, as published.
PAPERS = {step.__name__: step for step in (BarkerPaperMH, ConfidenceScanMH, TunaPaperMH)}


def logistic(rows=5_000):
    """A design in pm.Data, an int8 response, and a prior that hardly counts."""
    rng = np.random.default_rng(11)
    X = np.column_stack([np.ones(rows), rng.standard_normal((rows, 2))])
    y = (rng.random(rows) < expit(X @ [-0.5, 1.0, 0.3])).astype(np.int8)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 10.0, shape=3)
        pm.Bernoulli("y", logit_p=pm.Data("X", X) @ beta, observed=y)
    return model


def student(rows=5_000, groups=8):
    """Heavy tails, an unknown scale, and a hierarchy of few groups, whose Jacobian counts."""
    rng = np.random.default_rng(12)
    group = rng.integers(0, groups, rows)
    y = 0.5 * rng.standard_normal(groups)[group] + 1.5 * rng.standard_t(4, rows)
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", 5.0)
        tau = pm.HalfNormal("tau", 1.0)
        effect = pm.Normal("effect", 0.0, tau, shape=groups)
        pm.StudentT("y", nu=4, mu=effect[group], sigma=sigma, observed=y)
    return model


def two_likelihoods(rows=3_500, more_rows=1_500):
    """Two likelihoods of different length, and a prior that says as much as both."""
    rng = np.random.default_rng(13)
    x = rng.standard_normal(rows)
    seen = (rng.random(rows) < expit(0.1 + 0.05 * x)).astype(np.int8)
    measured = 0.1 + 1.2 * rng.standard_normal(more_rows)
    with pm.Model() as model:
        level = pm.Normal("level", 0.0, 0.02)
        slope = pm.Normal("slope", 0.0, 0.03)
        pm.Bernoulli("seen", logit_p=level + slope * x, observed=seen)
        pm.Normal("measured", level, 1.2, observed=measured)
    return model


def poisson(rows=5_000):
    """Counts, with a log link."""
    rng = np.random.default_rng(14)
    x = rng.uniform(-1.0, 1.0, rows)
    counts = rng.poisson(np.exp(0.4 + 0.6 * x))
    with pm.Model() as model:
        level = pm.Normal("level", 0.0, 2.0)
        slope = pm.Normal("slope", 0.0, 2.0)
        pm.Poisson("counts", mu=pm.math.exp(level + slope * x), observed=counts)
    return model


def bounded(rows=5_000):
    """Parameters between two numbers, so that every log-likelihood has a range, a narrow one."""
    rng = np.random.default_rng(17)
    X = np.column_stack([np.ones(rows), rng.uniform(-1.0, 1.0, (rows, 2))])
    y = (rng.random(rows) < 0.5 + 0.02 * (X @ [0.4, -0.5, 0.6])).astype(np.int8)
    with pm.Model() as model:
        beta = pm.Uniform("beta", -1.0, 1.0, shape=3)
        pm.Bernoulli("y", p=0.5 + 0.02 * (pm.Data("X", X) @ beta), observed=y)
    return model


MODELS = {f.__name__: f for f in (logistic, student, two_likelihoods, poisson)}

#: Variables that are compared on the log scale, on which they are about normal.
POSITIVE = ("sigma", "scale", "alpha", "nu", "phi", "tau")


def coordinates(trace):
    """Return the draws of every coordinate: name -> array of shape (chains, draws)."""
    draws = {}
    for name, values in trace.posterior.data_vars.items():
        cells = values.to_numpy().reshape(*values.shape[:2], -1)
        cells = np.log(cells) if name in POSITIVE else cells
        draws |= {f"{name}[{k}]": cells[..., k] for k in range(cells.shape[2])}
    return draws


#: Draws of a chain that are sooner computed in Python than what computes them is compiled.
FEW_DRAWS = 600


def sample(model, step, draws, tune, chains=2, **settings):
    """Sample without messages and without checks."""
    # PyMC would have what a trace is computed by compiled, for few draws.
    few = {"linker": "py", "cxx": ""} if draws + tune <= FEW_DRAWS else {}
    with pytensor.config.change_flags(**few), model:
        return pm.sample(
            draws,
            tune=tune,
            chains=chains,
            step=step,
            **{"cores": 1, "quiet": True, "compute_convergence_checks": False, **settings},
        )


def drawn(model, step, draws, tune, chains=2, **settings):
    """Draw the same, without PyMC's loop around every draw, which takes ten times an update."""
    with model:
        return sample_in_blocks(
            step,
            draws,
            tune=tune,
            chains=chains,
            **{"progressbar": False, "compute_convergence_checks": False, **settings},
        )
