"""Exact methods on every certified family, and shifted shapes, against NUTS and quadrature."""

from dataclasses import dataclass

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy import stats

from helpers.altered import with_tables
from helpers.models import FAMILIES
from helpers.zoo import coordinates, drawn
from law.statistical.budget import FAR, VERY_FAR
from law.statistical.comparison import gaps
from pymc_minibatch_mh import Laplace, TunaMH, overdispersed_initvals

DRAWS, TUNE, SEED = 16_000, 1_000, 47
#: Without control variates only small moves are decided by less than all rows.
#: At two thousand rows the χ of warm-up reads all of them about as gladly as some.
SETTINGS = {"laplace": {"taylor_order": 0, "proposal": Laplace(rho=(0.9,)), "chi": 0.2}}
#: Families that every run samples, beside the models of the zoo: one of each kind of row and of
#: hierarchy. The others only take longer to compile; their bounds, too, are proven in every run.
QUICK = ("student_fixed", "exponential", "grouped", "shared_level")
EVERY_FAMILY = [
    name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in FAMILIES
]
#: Least effective sample of a reference.
ENOUGH = 26_000
#: Discrepancy of a mean, in posterior standard deviations, that a comparison has to notice. Without
#: control variates chains of small moves mix slowly.
USUALLY_SEEN, SEEN = 0.05, {"laplace": 0.25}
#: Largest share of updates that may read all rows: more would be the result of those.
MOST_FULL = 0.2


@dataclass(frozen=True)
class Comparison:
    """Largest distances of means and standard deviations, in standard errors.

    `seen` is the smallest discrepancy of every mean that would fail, in posterior standard
    deviations.
    """

    mean: float
    sd: float
    seen: float


def compare(trace, reference):
    """Compare a trace with figures of a reference, coordinate by coordinate."""
    draws = coordinates(trace)
    assert set(draws) == set(reference)
    assert min(figures["ess"] for figures in reference.values()) >= ENOUGH
    mean, sd, mean_error, sd_error = np.transpose([gaps(x, reference[k]) for k, x in draws.items()])
    seen = FAR * mean_error / [reference[name]["sd"] for name in draws]
    return Comparison(max(mean / mean_error), max(sd / sd_error), max(seen))


def run(model_of, prepared, family, method, **settings):
    step = prepared(family, method, **SETTINGS.get(family, {}), **settings)
    starts = overdispersed_initvals(step, 2, random_seed=SEED)
    trace = drawn(model_of(family), step, DRAWS, TUNE, random_seed=SEED, initvals=starts)
    stats = trace.sample_stats
    rows, full = float(stats["n_obs"].mean()), float(stats["full_pass"].mean())
    print(f"{family}, {method}: {rows:.1f} rows and {full:.4f} full passes per update")
    assert full <= MOST_FULL
    assert float(stats["bound_ratio"].max()) <= 1.0
    return trace


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_posterior_is_that_of_nuts(model_of, prepared, references, family):
    trace = run(model_of, prepared, family, "TunaMH")
    distance = compare(trace, references[family])
    assert distance.seen < SEEN.get(family, USUALLY_SEEN)
    assert distance.mean < FAR
    assert distance.sd < FAR


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("ScalableSubsamplingMH", {}),
        ("FactorizedMH", {}),
        ("TunaMH", {"delayed_acceptance": True}),
        pytest.param("TunaPaperMH", {"chi": 1.0}, marks=pytest.mark.slow),
        pytest.param("TunaMH", {"taylor_order": 1}, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(
    "family", [pytest.param("bernoulli_logit", marks=pytest.mark.slow), "student_fixed"]
)
def test_the_other_ways_are_as_exact(model_of, prepared, references, family, method, settings):
    trace = run(model_of, prepared, family, method, **settings)
    distance = compare(trace, references[family])
    assert distance.mean < FAR
    assert distance.sd < FAR


def test_a_wrong_bound_is_seen_by_the_comparison(model_of, prepared, references):
    """Clip every change to a twentieth of its bound: the moments must give it away."""
    step = prepared("grouped", "TunaMH", taylor_order=1, on_violation="warn")
    narrow = with_tables(step, 0.05, [1.0, 1.0, 0.05])
    trace = drawn(model_of("grouped"), narrow, DRAWS, TUNE, random_seed=SEED)
    assert float(trace.sample_stats["bound_ratio"].max()) > 1.0
    distance = compare(trace, references["grouped"])
    assert max(distance.mean, distance.sd) > FAR


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


@pytest.mark.slow
@pytest.mark.parametrize("name", PRIORS)
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
