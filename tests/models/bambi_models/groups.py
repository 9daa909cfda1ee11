"""Models of Bambi with effects of groups, written as Bambi writes them: a scale times z."""

from dataclasses import dataclass
from functools import cache

import arviz as az
import bambi
import numpy as np
import pandas as pd
import pytensor
from scipy.special import expit

from helpers.zoo import drawn as sampled
from models.adversary.subject import STABLE
from pymc_minibatch_mh import TunaMH

GROUPS = 30
LEVEL, SLOPE = 0.3, 0.6
#: Standard deviations of the groups' levels and slopes.
SPREADS = 0.5, 0.3
#: Effects of groups, in Bambi's formulas.
EFFECTS = {"levels": "(1|group)", "slopes": "(x|group)"}
RESPONSES = {
    "bernoulli": "event",
    "binomial": "p(successes, trials)",
    "gaussian": "real",
    "t": "heavy",
    "poisson": "count",
    "negativebinomial": "spread",
    "gamma": "size",
    "beta": "share",
    "cumulative": "grade",
}
#: Largest accepted distance of a mean from zero in standard errors: a chance of 2e-9 each.
FARTHEST = 6.0
#: Largest accepted Monte Carlo error, in standard deviations.
NOISE = 0.2
#: Every how many draws the gradient of all rows is evaluated.
EVERY = 10


def responses(rng, eta):
    """Return a response of every family for linear predictors, and numbers of trials."""
    mean, chance = np.exp(eta), expit(eta)
    trials = rng.integers(1, 13, eta.size)
    grade = np.digitize(eta - LEVEL + rng.logistic(size=eta.size), [-1.0, 0.2, 1.3])
    return {
        "trials": trials,
        "event": (rng.random(eta.size) < chance).astype(int),
        "successes": rng.binomial(trials, chance),
        "real": eta + 1.2 * rng.standard_normal(eta.size),
        "heavy": eta + 1.2 * rng.standard_t(4, eta.size),
        "count": rng.poisson(mean),
        "spread": rng.poisson(mean * rng.gamma(2.0, 0.5, eta.size)),
        "size": rng.gamma(3.0, mean / 3.0),
        "share": np.clip(rng.beta(8.0 * chance, 8.0 * (1.0 - chance)), 1e-9, 1.0 - 1e-9),
        "grade": pd.Categorical(grade, ordered=True),
    }


@cache
def table(rows):
    """Return a predictor, groups, and a response for every family."""
    rng = np.random.default_rng(311)
    x, group = rng.uniform(-1.0, 1.0, rows), rng.integers(0, GROUPS, rows)
    level, slope = np.array(SPREADS)[:, None] * rng.standard_normal((2, GROUPS))
    eta = LEVEL + level[group] + (SLOPE + slope[group]) * x
    return pd.DataFrame({"x": x, "group": group.astype(str), **responses(rng, eta)})


def built(family, predictors, data, **settings):
    """Return a model with Bambi's default priors, not sampled."""
    # Thresholds of grades take the place of an intercept; the inverse link of gamma, its default,
    # allows means that are negative.
    intercept = "0 + " if family == "cumulative" else ""
    link = {"link": "log"} if family == "gamma" else {}
    formula = f"{RESPONSES[family]} ~ {intercept}{predictors}"
    model = bambi.Model(formula, data, family=family, **link, **settings)
    model.build()
    return model


@dataclass(frozen=True)
class Run:
    """A step and what it drew."""

    model: object
    step: TunaMH
    trace: object

    @property
    def rows_per_update(self):
        return float(self.trace.sample_stats["n_obs"].mean())

    @property
    def acceptance(self):
        return float(self.trace.sample_stats["accept"].mean())

    @property
    def full_passes(self):
        return float(self.trace.sample_stats["full_pass"].mean())

    @property
    def worst_rhat(self):
        found = az.rhat(self.trace.posterior)
        return max(float(found[name].max()) for name in found.data_vars)


def drawn(family, effect, rows, draws, tune):
    """Sample a model as Bambi has built it."""
    model = built(family, f"x + {EFFECTS[effect]}", table(rows)).backend.model
    step = TunaMH(model=model)
    names = [rv.name for rv in model.free_RVs]
    trace = sampled(model, step, draws, tune, random_seed=311, var_names=names)
    return Run(model, step, trace)


def gradients(run, posterior=None):
    """Return the gradient of PyMC's log-density at some draws, shape (chains, draws, d).

    Its mean over the posterior is zero in every coordinate, whatever the posterior's shape, and
    nothing of it comes from the steps: as many evaluations of all rows say whether draws are from
    the model that PyMC has.
    """
    model, posterior = run.model, run.trace.posterior if posterior is None else posterior
    gradient = model.compile_dlogp(mode=STABLE)
    unconstrained = _unconstrained(model)
    draws = [posterior[rv.name].to_numpy()[:, ::EVERY] for rv in model.free_RVs]
    chains, n_draws = draws[0].shape[:2]
    found = [
        [gradient(unconstrained(*(x[c, k] for x in draws))) for k in range(n_draws)]
        for c in range(chains)
    ]
    return np.array(found)


def _unconstrained(model):
    """Return what takes the values of all variables to those that the density is of."""
    transforms = model.rvs_to_transforms
    values = [
        rv if transforms[rv] is None else transforms[rv].forward(rv, *rv.owner.inputs)
        for rv in model.free_RVs
    ]
    names = [model.rvs_to_values[rv].name for rv in model.free_RVs]
    evaluate = pytensor.function(model.free_RVs, values, mode=STABLE, on_unused_input="ignore")
    return lambda *draw: dict(zip(names, evaluate(*draw), strict=True))


def distances_from_zero(values):
    """Return means in Monte Carlo errors, and these in standard deviations."""
    sds = values.std(axis=(0, 1), ddof=1)
    errors = np.array([float(az.mcse(values[..., k], method="mean")) for k in range(sds.size)])
    return np.abs(values.mean(axis=(0, 1))) / errors, errors / sds
