"""Posteriors of shapes with a shift or an interval, near infinity, against quadrature."""

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy import stats

from pymc_minibatch_mh import TunaMH
from statistical.budget import VERY_FAR
from tiers import fast
from zoo import drawn

ROWS = 1_500
Y = 0.2 + np.random.default_rng(77).standard_normal(ROWS)
#: Priors of ν, their log-densities, and where 1/ν lies, as far as it has a density to speak of.
PRIORS = {
    "shift": (
        lambda: 1.0 + pm.Exponential("more", 1.0 / 29.0),
        lambda nu: stats.expon.logpdf(nu - 1.0, scale=29.0),
        (0.0, 0.3),
    ),
    "interval": (
        lambda: pm.Uniform("more", 2.0, 60.0),
        lambda nu: np.zeros_like(nu),
        (1.0 / 60.0, 0.3),
    ),
}


def moments(log_prior, ends):
    """Return the means of 1/ν, its square, the level and its square, by Gauss's rule."""
    (x, of_x), (z, of_z) = (np.polynomial.legendre.leggauss(n) for n in (80, 30))
    x = ends[0] + (ends[1] - ends[0]) * 0.5 * (1.0 + x)
    level = Y.mean() + 7.0 * z / np.sqrt(ROWS)
    rows = stats.t.logpdf(Y, 1.0 / x[:, None, None], level[:, None]).sum(axis=2)
    log_density = rows + (log_prior(1.0 / x) - 2.0 * np.log(x))[:, None] - 0.5 * level**2
    weights = np.exp(log_density - log_density.max()) * of_x[:, None] * of_z
    weights /= weights.sum()
    of_shape, of_level = weights.sum(axis=1), weights.sum(axis=0)
    return [of_shape @ x, of_shape @ x**2, of_level @ level, of_level @ level**2]


@pytest.mark.parametrize("name", fast(list(PRIORS), ["shift"]))
def test_posterior_is_that_of_quadrature(name):
    prior, log_prior, ends = PRIORS[name]
    with pm.Model() as model:
        nu = pm.Deterministic("nu", prior())
        pm.StudentT("y", nu=nu, mu=pm.Normal("level"), sigma=1.0, observed=Y)
        step = TunaMH()
    assert [one.name.split("_")[0] for one in step.target.factorization.maps] == ["more"]
    trace = drawn(model, step, 4_000, 500, random_seed=5)
    # In logarithms, nearly all of the updates read all rows.
    assert float(trace.sample_stats["full_pass"].mean()) / step.updates_per_draw < 0.05
    x, level = 1.0 / trace.posterior["nu"].to_numpy(), trace.posterior["level"].to_numpy()
    for draws, mean in zip((x, x**2, level, level**2), moments(log_prior, ends), strict=True):
        error = float(az.mcse(draws, method="mean"))
        assert error < 0.05 * draws.std()
        assert abs(draws.mean() - mean) < VERY_FAR * error
