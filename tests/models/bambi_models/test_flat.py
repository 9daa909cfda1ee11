"""Models that Bambi builds, with its default priors, are sampled as they stand."""

import logging
from functools import cache

import arviz as az
import numpy as np
import pandas as pd
import pytest
from scipy import optimize

from helpers.tiers import fast
from helpers.zoo import drawn
from law.statistical.budget import FAR
from models.adversary.subject import STABLE
from models.bambi_models import groups
from models.bambi_models.groups import LEVEL, RESPONSES, built, responses
from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.steps.deterministics import large_deterministics, names_without_large

# Said by pandas of what Bambi asks it.
pytestmark = pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes")
#: Enough for what is a large deterministic, and little else.
ROWS = 5_000
SLOPES = 0.6, -0.4
#: How far a mean may be from the mode besides Monte Carlo error, in posterior sds: skewness.
SKEWNESS = 0.1


#: Family -> the deterministic with one value per row; of the four categories Bambi stores three.
BY_ROW = dict.fromkeys(RESPONSES, "'mu', 5,000 values")
BY_ROW |= dict.fromkeys(("bernoulli", "binomial"), "'p', 5,000 values")
BY_ROW["cumulative"] = "'p', 5,000 × 3 values"


@cache
def table():
    """Return two predictors and a response for every family."""
    rng = np.random.default_rng(301)
    x, z = rng.uniform(-1.0, 1.0, (2, ROWS))
    return pd.DataFrame({"x": x, "z": z, **responses(rng, LEVEL + SLOPES[0] * x + SLOPES[1] * z)})


def flat(family):
    return built(family, "x + z", table())


def laplace(model):
    """Return the mode and the sds there, on the unconstrained scale and PyMC's densities alone."""
    density = model.compile_logp(mode=STABLE)
    gradient = model.compile_dlogp(mode=STABLE)
    start = model.initial_point()
    sizes = np.cumsum([np.size(value) for value in start.values()])[:-1]

    def point(position):
        parts = np.split(position, sizes)
        return {
            name: p.reshape(np.shape(first))
            for (name, first), p in zip(start.items(), parts, strict=True)
        }

    def slope(position):
        return -gradient(point(position))

    ravelled = np.concatenate([np.ravel(value) for value in start.values()])
    mode = optimize.minimize(lambda u: -density(point(u)), ravelled, jac=slope, method="BFGS").x
    steps = 1e-4 * np.eye(mode.size)
    hessian = np.array([(slope(mode + s) - slope(mode - s)) / 2e-4 for s in steps])
    return point, mode, np.sqrt(np.diag(np.linalg.inv(0.5 * (hessian + hessian.T))))


def errors_of_means(model, trace):
    """Return how far means are from the mode, and what is accepted, in posterior sds."""
    point, mode, _ = laplace(model)
    names = [rv.name for rv in model.free_RVs]
    natural = model.compile_fn(model.replace_rvs_by_values(model.free_RVs), mode=STABLE)
    rows = []
    for name, at_mode in zip(names, natural(point(mode)), strict=True):
        draws = trace.posterior[name].to_numpy()
        cells = draws.reshape(*draws.shape[:2], -1)
        for k, place in enumerate(np.ravel(at_mode)):
            sd = cells[..., k].std(ddof=1)
            noise = float(az.mcse(cells[..., k], method="mean")) / sd
            rows.append((abs(cells[..., k].mean() - place) / sd, SKEWNESS + FAR * noise))
    return np.transpose(rows)


def names_of(model):
    return [rv.name for rv in model.free_RVs]


@pytest.mark.parametrize("family", fast(BY_ROW, ("bernoulli", "poisson")))
def test_a_flat_model_is_sampled_as_it_is_built(family, caplog):
    model = flat(family).backend.model
    with caplog.at_level(logging.WARNING, logger="pymc_minibatch_mh"):
        step = TunaMH(model=model)
    assert BY_ROW[family] in caplog.text
    large = large_deterministics(model, model.initial_point())
    assert list(names_without_large(model, large)) == names_of(model)
    trace = drawn(model, step, 1_500, 500, random_seed=301, var_names=names_of(model))
    stats = trace.sample_stats
    assert bool(stats["certified"].all())
    assert float(stats["n_obs"].mean()) < 0.05 * ROWS
    errors, accepted = errors_of_means(model, trace)
    assert (errors <= accepted).all()
    # The noise is small enough for an error of one sd to be seen.
    assert (accepted < 0.5).all()


def test_fit_takes_a_step():
    model = flat("bernoulli")
    step = TunaMH(model=model.backend.model)
    trace = model.fit(
        draws=300, tune=200, chains=2, cores=1, step=step, random_seed=302, quiet=True,
        compute_convergence_checks=False,
    )  # fmt: skip
    assert set(trace.posterior.data_vars) == {"Intercept", "x", "z"}
    assert bool(trace.sample_stats["certified"].all())
    model.predict(trace, kind="response_params")
    assert trace.posterior["p"].shape == (2, 300, ROWS)


def test_effects_of_groups_are_bounded():
    data = groups.table(ROWS)
    model = built("bernoulli", "x + (1|group)", data, noncentered=False).backend.model
    step = TunaMH(model=model)
    assert np.isfinite(step.tables.c).all()


def test_a_mean_that_is_off_is_noticed():
    model = flat("poisson").backend.model
    _, mode, sds = laplace(model)
    draws = mode + sds * np.random.default_rng(303).standard_normal((2, 1_500, mode.size))
    names = names_of(model)
    for shift, seen in ((0.0, False), (0.6, True)):
        values = {n: draws[..., k] + shift * sds[k] for k, n in enumerate(names)}
        errors, accepted = errors_of_means(model, az.from_dict({"posterior": values}))
        assert (errors > accepted).any() == seen
