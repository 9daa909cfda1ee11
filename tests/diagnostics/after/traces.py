"""Traces that are drawn instead of sampled, and small tall models to go with them."""

import numpy as np
import pymc as pm
import xarray as xr

ROWS = 2_000


def trace_of(draws):
    """Make a trace of arrays of shape (chain, draw, ...)."""
    posterior = {
        name: (("chain", "draw", *(f"{name}_dim_{k}" for k in range(values.ndim - 2))), values)
        for name, values in draws.items()
    }
    chains, count = next(iter(draws.values())).shape[:2]
    coords = {"chain": np.arange(chains), "draw": np.arange(count)}
    return xr.DataTree.from_dict({"/posterior": xr.Dataset(posterior, coords)})


def regression(rows=ROWS, seed=71):
    """Heavy residuals, a transformed scale, groups; data as arrays and in pm.Data.

    A literal `nu=5` would have PyMC itself compute its constants in single precision.
    """
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(rows)
    group = rng.integers(0, 4, rows).astype(np.int8)
    y = 0.3 * x + rng.standard_t(5, rows)
    with pm.Model(coords={"level": list("abcd")}) as model:
        sigma = pm.HalfNormal("sigma", 2.0)
        slope = pm.Normal("slope", 0.0, 1.0)
        effect = pm.Normal("effect", 0.0, 1.0, dims="level")
        mu = effect[group] + slope * pm.Data("x", x)
        pm.StudentT("y", nu=np.float64(5.0), mu=mu, sigma=sigma, observed=y)
    return model


def regression_trace(chains=2, draws=250, seed=72):
    """Draw from about the posterior of the regression."""
    rng = np.random.default_rng(seed)
    shape = chains, draws
    return trace_of(
        {
            "sigma": np.exp(0.025 * rng.standard_normal(shape)),
            "slope": 0.3 + 0.03 * rng.standard_normal(shape),
            "effect": 0.06 * rng.standard_normal((*shape, 4)),
        }
    )
