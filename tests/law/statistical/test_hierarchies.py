"""Hierarchies in the spellings that people use, against NUTS: means and variances."""

import json
from functools import partial
from pathlib import Path

import arviz as az
import numpy as np
import pytest

from law.statistical.budget import VERY_FAR
from law.statistical.hierarchies import HIERARCHIES, coordinates
from pymc_minibatch_mh import PenaltyMH, TunaMH, overdispersed_initvals, sample
from pymc_minibatch_mh.reparametrize.non_centred import NonCentred

# Said by PyTensor where no BLAS is installed, of correlated effects.
pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
DRAWS, TUNE, SEED = 40_000, 2_000, 47
#: Updates of a draw, of what mixes slowly.
UPDATES = {"gaussian_process": 20}
#: Least effective samples, of NUTS and of a run here. Chains here are cheap, and run longer.
ENOUGH_OF_NUTS, ENOUGH = 1_000, 2_000
#: Largest share of updates that may read all rows: more would be the result of those.
MOST_FULL = 0.2
#: Hierarchies whose effects move each by itself.
APART = (
    "heavy_tailed", "heavy_tailed_centred", "correlated", "correlated_last", "crossed", "precision",
    "bambi", "two_likelihoods", "softmax",
)  # fmt: skip
by_elements = partial(TunaMH, blocks=True)
CASES = [
    *((name, TunaMH) for name in HIERARCHIES),
    ("heavy_tailed", PenaltyMH),
    *((name, by_elements) for name in APART),
]


@pytest.fixture(scope="module")
def references():
    """Figures of runs of NUTS: posterior -> coordinate -> figures."""
    file = Path(__file__).with_name("hierarchy_references.json")
    return json.loads(file.read_text())["models"]


def run(name, method):
    with HIERARCHIES[name].build() as model:
        step = method(model=model, updates_per_draw=UPDATES.get(name, 1))
        return sample(
            step, DRAWS, tune=TUNE, chains=2, random_seed=SEED,
            initvals=overdispersed_initvals(step, 2, random_seed=SEED), progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip


def distances(trace, reference):
    """Return how far means and variances are from those of NUTS, in standard errors."""
    draws = coordinates(trace)
    assert set(draws) == set(reference)
    found = {}
    for name, own in draws.items():
        figures, squares = reference[name], (own - own.mean()) ** 2
        assert min(figures["ess"], figures["ess_square"]) >= ENOUGH_OF_NUTS
        assert min(az.ess(own), az.ess(squares)) >= ENOUGH, name
        noise = np.hypot(az.mcse(own, method="mean"), figures["mcse_mean"])
        found[f"mean of {name}"] = abs(own.mean() - figures["mean"]) / noise
        noise = np.hypot(az.mcse(squares, method="mean"), figures["mcse_variance"])
        found[f"variance of {name}"] = abs(squares.mean() - figures["sd"] ** 2) / noise
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method"), CASES)
def test_posterior_is_that_of_nuts(references, name, method):
    trace = run(name, method)
    updates = trace.posterior.attrs["updates_per_draw"]
    assert float(trace.sample_stats["full_pass"].mean()) / updates <= MOST_FULL
    found = distances(trace, references[HIERARCHIES[name].posterior])
    print(name, {what: float(x) for what, x in found.items() if x > 3.0}, max(found.values()))
    assert {what: x for what, x in found.items() if x >= VERY_FAR} == {}


@pytest.mark.slow
def test_without_the_jacobian_it_is_not(monkeypatch, references):
    """The comparison sees the density that a forgotten Jacobian leads to."""
    monkeypatch.setattr(NonCentred, "log_jacobian", lambda self, position: 0.0)
    found = distances(run("two_likelihoods", TunaMH), references["two_likelihoods"])
    assert max(found.values()) > VERY_FAR
