"""Models whose posterior is known in closed form: counts of two groups, and a linear regression."""

from dataclasses import dataclass

import numpy as np
import pymc as pm
from scipy.stats import gamma

SHAPE, RATE = 2.0, 1.0
RATES = np.array([0.6, 1.7])


@dataclass(frozen=True, eq=False)
class Rows:
    """Exposure, membership of the second group and count of every row, of any type and layout."""

    exposure: np.ndarray
    second: np.ndarray
    counts: np.ndarray

    def at(self, rows):
        """Return some of the rows, in their order."""
        return Rows(self.exposure[rows], self.second[rows], self.counts[rows])


def drawn(n_rows, seed=95):
    """Draw rows, in no order."""
    rng = np.random.default_rng(seed)
    exposure = rng.uniform(0.5, 2.0, n_rows)
    second = rng.random(n_rows) < 0.4
    counts = rng.poisson(exposure * RATES[second.astype(int)]).astype(np.int8)
    return Rows(exposure, second, counts)


def model_of(rows):
    """Return the model; `lam` has one entry a group."""
    with pm.Model() as model:
        lam = pm.Gamma("lam", SHAPE, RATE, shape=2)
        rate = pm.math.switch(rows.second, lam[1], lam[0])
        pm.Poisson("y", rows.exposure * rate, observed=rows.counts)
    return model


def posterior(rows, times=1.0):
    """Return mean and sd of the coordinates, with every row counted `times` times."""
    figures = {}
    for group in range(2):
        own = np.asarray(rows.second).astype(int) == group
        events = times * rows.counts[own].sum(dtype=float)
        law = gamma(SHAPE + events, scale=1 / (RATE + times * rows.exposure[own].sum(dtype=float)))
        exact = {"mean": law.mean(), "sd": law.std(), "mcse_mean": 0.0, "mcse_sd": 0.0}
        figures[f"lam[{group}]"] = exact
    return figures


def regression_of(X, y):
    """Return a linear regression with a known residual sd of 1 and a wide prior."""
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 10.0, shape=X.shape[1])
        pm.Normal("y", X @ beta, 1.0, observed=y)
    return model


def regression_posterior(X, y):
    """Return mean and sd of its coefficients."""
    X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    covariance = np.linalg.inv(X.T @ X + np.eye(X.shape[1]) / 100.0)
    mean, sd = covariance @ (X.T @ y), np.sqrt(np.diag(covariance))
    return {
        f"beta[{k}]": {"mean": mean[k], "sd": sd[k], "mcse_mean": 0.0, "mcse_sd": 0.0}
        for k in range(X.shape[1])
    }
