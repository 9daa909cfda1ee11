"""A model of one parameter with rare rows that say most, and its posterior by quadrature."""

import arviz as az
import numpy as np
import pymc as pm
from scipy.special import expit, log_expit

ROWS, RARE, USUAL, FAR = 2_000, 20, 0.3, 8.0
RNG = np.random.default_rng(5)
X = np.where(np.arange(ROWS) < RARE, FAR, USUAL)
Y = (RNG.random(ROWS) < expit(0.3 * X)).astype(np.int8)


def rare_rows():
    """Few rows that carry most of what the data say."""
    with pm.Model() as model:
        slope = pm.Normal("slope", 0.0, 1.0)
        pm.Bernoulli("y", logit_p=slope * X, observed=Y)
    return model


def exact_moments():
    """Return mean and variance of the posterior."""
    grid = np.linspace(-0.5, 1.5, 2_001)
    log = np.array([log_expit((2.0 * Y - 1.0) * b * X).sum() - 0.5 * b * b for b in grid])
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    mean = weights @ grid
    return mean, weights @ (grid - mean) ** 2


def measured_bias(trace):
    """Return the bias of mean and standard deviation in sd of the draws, and their errors."""
    draws = trace["posterior"]["slope"].to_numpy()
    mean, variance = exact_moments()
    bias = [(draws.mean() - mean) / draws.std(), 0.5 * (1.0 - variance / draws.var())]
    errors = [float(az.mcse(draws, method=m)) / draws.std() for m in ("mean", "sd")]
    return np.array(bias), np.array(errors)
