"""Models of the benchmarks, most of them at the edges of what `TunaMH` reaches.

Hierarchies come in both spellings: group effects drawn around their mean ("centred"), and standard
normal effects that are scaled and shifted ("non-centred").
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from scipy.special import expit

from benchmarks import peers_problems, reach_data

Array = NDArray[np.float64]


def logistic(n_rows: int, size: int) -> pm.Model:
    """Return a logistic regression with standard normal columns."""
    data = peers_problems.logistic(n_rows, size)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.5, shape=size)
        pm.Bernoulli("y", logit_p=data["x"] @ beta, observed=data["y"])
    return model


def effects(name: str, groups: int, *, centred: bool) -> pt.TensorVariable:
    """Return one effect a group, around an unknown mean and with an unknown scale."""
    mu = pm.Normal(f"mu_{name}", 0.0, 2.5)
    tau = pm.HalfNormal(f"tau_{name}", 1.0)
    if centred:
        return pm.Normal(name, mu, tau, shape=groups)
    return mu + tau * pm.Normal(f"z_{name}", 0.0, 1.0, shape=groups)


def logistic_groups(x: Array, y: NDArray, group: NDArray, *, centred: bool) -> pm.Model:
    """Return a logistic regression with an intercept for each group."""
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.5, shape=x.shape[1])
        alpha = effects("alpha", int(group.max()) + 1, centred=centred)
        pm.Bernoulli("y", logit_p=x @ beta + alpha[group], observed=y)
    return model


def destinations(n_rows: int, *, centred: bool) -> pm.Model:
    """Return late departures by 7 slopes and 104 destinations."""
    return logistic_groups(*reach_data.destinations(n_rows), centred=centred)


def small_groups(*, centred: bool) -> pm.Model:
    """Return 2,000 rows in 100 groups."""
    rng = np.random.default_rng(1)
    x, group = rng.standard_normal((2_000, 3)), rng.integers(0, 100, 2_000)
    logits = x @ [0.5, -0.4, 0.3] - 0.5 + 0.7 * rng.standard_normal(100)[group]
    y = (rng.random(2_000) < expit(logits)).astype(np.int8)
    return logistic_groups(x, y, group, centred=centred)


def robust_slopes() -> pm.Model:
    """Return a robust regression with intercepts and slopes of 12 groups, written non-centred."""
    rng = np.random.default_rng(1)
    n_rows, groups = 20_000, 12
    x, group = rng.standard_normal((n_rows, 3)), rng.integers(0, groups, n_rows)
    alpha, slope = 1.0 + 0.7 * rng.standard_normal(groups), 0.4 * rng.standard_normal(groups)
    mean = x[:, :2] @ [0.5, -0.4] + alpha[group] + slope[group] * x[:, 2]
    y = mean + rng.standard_t(5, n_rows)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.5, shape=2)
        intercept = effects("alpha", groups, centred=False)
        varying = effects("slope", groups, centred=False)
        sigma = pm.HalfNormal("sigma", 2.0)
        nu = pm.Gamma("nu", 2.0, 0.1)
        mu = x[:, :2] @ beta + intercept[group] + varying[group] * x[:, 2]
        pm.StudentT("y", nu=nu, mu=mu, sigma=sigma, observed=y)
    return model


def covertype(n_rows: int, *, standardised: bool) -> pm.Model:
    """Return class 2 of Covertype against the rest."""
    design, response = reach_data.covertype(n_rows, standardised=standardised)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.5, shape=design.shape[1])
        pm.Bernoulli("y", logit_p=design @ beta, observed=response)
    return model


def softmax() -> pm.Model:
    """Return 7 classes by 6 columns, the first class being what others are compared with."""
    rng = np.random.default_rng(1)
    n_rows, classes, columns = 30_000, 7, 6
    x = np.column_stack([np.ones(n_rows), rng.standard_normal((n_rows, columns - 1))])
    logits = np.column_stack([np.zeros(n_rows), x @ rng.normal(0, 0.5, (columns, classes - 1))])
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.5, shape=(columns, classes - 1))
        linear = pt.concatenate([pt.zeros((n_rows, 1)), x @ beta], axis=1)
        pm.Categorical("y", p=pm.math.softmax(linear, axis=1), observed=y)
    return model


def counts() -> pm.Model:
    """Return negative binomial regression on counts that are Poisson: α has no finite estimate."""
    rng = np.random.default_rng(1)
    x = np.column_stack([np.ones(50_000), rng.standard_normal((50_000, 3))])
    y = rng.poisson(np.exp(x @ [1.0, 0.3, -0.2, 0.1]))
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.5, shape=4)
        alpha = pm.HalfCauchy("alpha", 10.0)
        pm.NegativeBinomial("y", mu=pt.exp(x @ beta), alpha=alpha, observed=y)
    return model


def normal_data() -> pm.Model:
    """Return robust regression on normal data: ν has no finite estimate."""
    rng = np.random.default_rng(1)
    x = np.column_stack([np.ones(50_000), rng.standard_normal((50_000, 3))])
    y = x @ [1.0, 0.3, -0.2, 0.1] + rng.standard_normal(50_000)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.5, shape=4)
        sigma = pm.HalfNormal("sigma", 2.0)
        nu = pm.Gamma("nu", 2.0, 0.1)
        pm.StudentT("y", nu=nu, mu=x @ beta, sigma=sigma, observed=y)
    return model
