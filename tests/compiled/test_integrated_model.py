"""Densities without effects: the model's own, integrated over each effect on a fine grid."""

import numpy as np
import pymc as pm
import pytest

from helpers.small_groups import placed_at, target_of
from model.evaluation import function_of
from pymc_minibatch_mh.model.constant_data import as_plain_tensor, with_double_constants

N, G = 30, 4
_RNG = np.random.default_rng(4)
GROUP, OTHER = _RNG.integers(0, G, N), _RNG.integers(0, 3, N)
X, Y, COUNTS = _RNG.normal(size=N), _RNG.normal(size=N), _RNG.poisson(1.5, N)


def effects(**settings):
    mean, scale = pm.Normal("mu", 0.0, 1.0), pm.HalfNormal("tau", 1.0)
    return pm.Normal("a", mean, scale, **{"shape": G, **settings})


def bambi():
    offset = pm.Normal("a", 0.0, 1.0, shape=G) * pm.HalfNormal("tau", 1.0)
    u = pm.Normal("Intercept", 0.0, 1.0) + pm.Normal("x", 0.0, 1.0) * X + offset[GROUP]
    pm.Bernoulli("y", logit_p=u, observed=COUNTS > 1)


def two_products():
    """Write two factors in products; the mean belongs to the one that is integrated out."""
    inner = pm.Normal("mu", 0.0, 1.0) + pm.HalfNormal("tau", 1.0) * pm.Normal("a", 0, 0.5, shape=G)
    other = pm.HalfNormal("s", 1.0) * pm.Normal("other", 0.0, 1.0, shape=3)
    pm.Normal("y", inner[GROUP] + other[OTHER], 1.0, observed=Y)


def masked():
    pm.Normal("y", pm.math.where(GROUP > 1, effects()[GROUP], 0.0), 1.0, observed=Y)


def beside_a_constant():
    """Write a first level without an effect; the last effect has no rows."""
    padded = pm.math.concatenate([[0.0], effects()])
    pm.Normal("y", padded[GROUP], 1.0, observed=Y)


def mean_and_noise():
    effect = effects()
    pm.Normal("y", effect[GROUP], pm.math.exp(0.3 * effect[GROUP]), observed=Y)


def times_a_parameter():
    pm.Normal("y", effects()[GROUP] * pm.Normal("b", 1.0, 1.0), 1.0, observed=Y)


def two_likelihoods():
    effect, other = effects(), pm.Normal("other", 0.0, pm.HalfNormal("s"), shape=3)
    mean = pm.math.exp(effect[GROUP] + other[OTHER])
    pm.NegativeBinomial("y", mean, pm.Gamma("alpha", 2.0, 1.0), observed=COUNTS)
    pm.StudentT("w", nu=4, mu=effect[GROUP] * X, sigma=pm.HalfNormal("sigma"), observed=Y)


def scales_of_a_vector():
    scales, means = pm.HalfNormal("tau", 1.0, shape=2), pm.Normal("mu", 0.0, 1.0, shape=2)
    effect = pm.Logistic("a", 0.5 * means[1] - means[0], 1.5 * scales[1], shape=(G, 1))
    pm.Normal("y", means[0] * X + effect[GROUP, 0], scales[0], observed=Y)


MODELS = (
    bambi, two_products, masked, beside_a_constant, mean_and_noise, times_a_parameter,
    two_likelihoods, scales_of_a_vector,
)  # fmt: skip


def integrated_density(model, point, levels):
    """Return the log-density at a point of all but the effects, by sums over a grid of effects."""
    own = model.free_RVs + model.observed_RVs
    logps = dict(zip([v.name for v in own], model.logp(vars=own, sum=False), strict=True))
    observed = [v.name for v in model.observed_RVs]
    graphs = [as_plain_tensor(logps[name]).ravel() for name in ("a", *observed)]
    rest = [as_plain_tensor(x).sum() for k, x in logps.items() if k not in ("a", *observed)]
    function = function_of(
        model.value_vars, [with_double_constants(x) for x in (sum(rest), *graphs)]
    )
    grid = np.linspace(-14.0, 14.0, 421)
    logs = np.zeros((grid.size, G))
    for k, effect in enumerate(grid):
        filled = point | {"a": np.full_like(point["a"], effect)}
        others, prior, *rows = function(*(filled[v.name] for v in model.value_vars))
        logs[k] = prior
        for level, row in zip(levels, rows, strict=True):
            logs[k] += np.bincount(level, row, G)
    integrals = np.logaddexp.reduce(logs) + np.log(grid[1] - grid[0])
    return others + integrals.sum()


@pytest.mark.parametrize("write", MODELS, ids=lambda write: write.__name__)
def test_densities_are_the_models_with_the_effects_integrated_out(write):
    with pm.Model() as model:
        write()
    target, rng = target_of(model), np.random.default_rng(6)
    reduced, levels = target.factorization, target.compiled.layout.groups.levels
    for _ in range(2):
        start = model.initial_point()
        point = {k: v + 0.3 * rng.standard_normal(np.shape(v)) for k, v in start.items()}
        position = reduced.ravel(point)
        placed = placed_at(target, position)
        found = target.log_prior(position) + placed.log_likelihood(position)
        expected = integrated_density(model, point, levels) + reduced.log_jacobian(position)
        assert found == pytest.approx(expected, abs=3e-7)
