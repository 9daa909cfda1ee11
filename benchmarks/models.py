"""Models of the benchmarks."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from scipy.special import expit

from benchmarks import peers_problems, tables

Array = NDArray[np.float64]


def logistic(n_rows: int, size: int) -> pm.Model:
    """Return a logistic regression with standard normal columns."""
    data = peers_problems.logistic(n_rows, size)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.5, shape=size)
        pm.Bernoulli("y", logit_p=data["x"] @ beta, observed=data["y"])
    return model


def logistic_groups(x: Array, y: NDArray, group: NDArray) -> pm.Model:
    """Return a logistic regression with an intercept for each group, written centred."""
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.5, shape=x.shape[1])
        mu = pm.Normal("mu_alpha", 0.0, 2.5)
        tau = pm.HalfNormal("tau_alpha", 1.0)
        alpha = pm.Normal("alpha", mu, tau, shape=int(group.max()) + 1)
        pm.Bernoulli("y", logit_p=x @ beta + alpha[group], observed=y)
    return model


def destinations(n_rows: int) -> pm.Model:
    """Return late departures by 7 slopes and 104 destinations."""
    return logistic_groups(*tables.destinations(n_rows))


def small_groups() -> pm.Model:
    """Return 2,000 rows in 100 groups."""
    rng = np.random.default_rng(1)
    x, group = rng.standard_normal((2_000, 3)), rng.integers(0, 100, 2_000)
    logits = x @ [0.5, -0.4, 0.3] - 0.5 + 0.7 * rng.standard_normal(100)[group]
    y = (rng.random(2_000) < expit(logits)).astype(np.int8)
    return logistic_groups(x, y, group)


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
        intercept, varying = _effects("alpha", groups), _effects("slope", groups)
        sigma = pm.HalfNormal("sigma", 2.0)
        nu = pm.Gamma("nu", 2.0, 0.1)
        mu = x[:, :2] @ beta + intercept[group] + varying[group] * x[:, 2]
        pm.StudentT("y", nu=nu, mu=mu, sigma=sigma, observed=y)
    return model


def _effects(name: str, groups: int) -> pt.TensorVariable:
    mu = pm.Normal(f"mu_{name}", 0.0, 2.5)
    return mu + pm.HalfNormal(f"tau_{name}", 1.0) * pm.Normal(f"z_{name}", 0.0, 1.0, shape=groups)
