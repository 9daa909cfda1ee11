"""Steps on posteriors whose moments others have published: those of posteriordb, drawn by Stan."""

from functools import cache

import pytest

from helpers.zoo import EXACT, METHODS, drawn
from law.statistical.budget import VERY_FAR
from law.statistical.comparison import gaps
from law.statistical.posteriordb import POSTERIORS, named, posterior
from pymc_minibatch_mh import PoissonMH, overdispersed_initvals
from pymc_minibatch_mh.errors import BoundsError

DRAWS, TUNE, SEED = 20_000, 1_000, 83
#: Largest distance of the slow tier in standard errors.
NEAR = 4.5
#: Largest standard error of a mean or an sd, in standard deviations of the posterior.
SEEN = 0.03
#: Width of the starts, in posterior standard deviations. Where many rows are bright, these push
#: the parameters away from the centre, and a chain that begins there stays for 20,000 draws.
WIDTH = {"FireflyMH": 0.5}
#: Exact methods, and an approximate one.
COMPARED = (*EXACT, "PenaltyMH")
#: What every run samples, but for the mixture, whose rows compile for longest; the slow tier has
#: all methods, and accepts less.
QUICK = ("TunaMH", "PenaltyMH")
CASES = [
    *((name, method, VERY_FAR) for method in QUICK for name in POSTERIORS if "mix" not in name),
    *(
        pytest.param(name, method, NEAR, marks=pytest.mark.slow)
        for method in COMPARED
        for name in POSTERIORS
    ),
]


@cache
def distances(name, method):
    """Return how far each mean and sd is, in standard errors."""
    model, reference = posterior(name)
    step = METHODS[method](model=model)
    starts = None
    if method in WIDTH:
        starts = overdispersed_initvals(step, 2, WIDTH[method], random_seed=SEED)
    trace = drawn(model, step, DRAWS, TUNE, random_seed=SEED, quiet=True, initvals=starts)
    assert float(trace.sample_stats["full_pass"].mean()) < 0.05
    assert method not in EXACT or bool(trace.sample_stats["certified"].all())
    draws = {}
    for variable in trace.posterior.data_vars:
        draws |= named(variable, trace.posterior[variable].to_numpy())
    assert set(draws) == set(reference)
    off = {k: gaps(x, reference[k]) for k, x in draws.items()}
    assert all(max(errors) < SEEN * reference[k]["sd"] for k, (_, _, *errors) in off.items())
    return {k: (mean / error, sd / other) for k, (mean, sd, error, other) in off.items()}


@pytest.mark.parametrize(("name", "method", "accepted"), CASES)
def test_moments_are_the_published_ones(name, method, accepted):
    found = distances(name, method)
    assert {k: off for k, off in found.items() if not max(off) < accepted} == {}


def test_a_step_without_bounds_refuses():
    for name in POSTERIORS:
        with pytest.raises(BoundsError, match="'y' has no range: in row 0"):
            PoissonMH(model=posterior(name)[0])
