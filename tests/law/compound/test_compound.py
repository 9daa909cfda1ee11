"""Steps of this package beside PyMC's own: each owns some variables of one model."""

from functools import partial

import arviz as az
import numpy as np
import pymc as pm
import pytest

from law.compound.models import posterior_of_shared, posterior_of_switched, shared, switched
from law.statistical.budget import FAR
from pymc_minibatch_mh import PenaltyMH, TunaMH
from pymc_minibatch_mh.errors import UnsupportedModelError
from pymc_minibatch_mh.native.statistics import STATS
from robustness.conformance.harness import same_draws

METHODS = {"TunaMH": TunaMH, "PenaltyMH": PenaltyMH}
#: Steps of PyMC that move what a step of this package leaves.
OTHERS = {
    "NUTS": pm.NUTS,
    "Slice": pm.Slice,
    "Metropolis": pm.Metropolis,
    # Its default scale has an entry for every variable of the model, also those of other steps.
    "DEMetropolisZ": partial(pm.DEMetropolisZ, S=np.ones(2)),
}


@pytest.fixture(scope="module")
def model():
    return shared()


@pytest.fixture(scope="module")
def reference():
    return posterior_of_shared()


def sample(model, steps, draws=1_000, tune=600, **settings):
    with model:
        return pm.sample(
            draws,
            tune=tune,
            step=steps(model),
            **{
                "chains": 2,
                "cores": 1,
                "random_seed": 71,
                "quiet": True,
                "compute_convergence_checks": False,
                **settings,
            },
        )


def largest_error(trace, reference):
    """Return the largest distance of a mean, in its standard errors, and of the smallest ESS."""
    errors = []
    for name, (mean, sd) in reference.items():
        draws = trace.posterior[name].to_numpy()
        standard_error = sd / np.sqrt(min(float(az.ess(draws)), draws.size))
        errors.append(abs(draws.mean() - mean) / standard_error)
    return max(errors)


def beside(method, other):
    def steps(model):
        rest = OTHERS[other]([model["mean"], model["slope"]])
        return [METHODS[method]([model["level"]]), rest, pm.BinaryGibbsMetropolis([model["wide"]])]

    return steps


@pytest.mark.parametrize(
    ("method", "other"),
    [
        pytest.param("TunaMH", "NUTS", marks=pytest.mark.slow),
        ("TunaMH", "Metropolis"),
        pytest.param("PenaltyMH", "Metropolis", marks=pytest.mark.slow),
        pytest.param("PenaltyMH", "Slice", marks=pytest.mark.slow),
        pytest.param("TunaMH", "Slice", marks=pytest.mark.slow),
        pytest.param("TunaMH", "DEMetropolisZ", marks=pytest.mark.slow),
    ],
)
def test_posterior_beside_steps_of_pymc(model, reference, method, other):
    trace = sample(model, beside(method, other))
    assert largest_error(trace, reference) < FAR
    own = {name for name, one in STATS.items() if one.needs is None}
    assert own <= set(trace.sample_stats.data_vars)
    assert float(trace.sample_stats["full_pass"].mean()) < 0.05


@pytest.mark.parametrize(
    ("stale", "draws"),
    [
        ({"slope": -1.1}, (1_500, 600)),
        # In the prior alone.
        ({"mean": -2.0, "wide": 0}, (300, 200)),
    ],
)
def test_a_step_that_does_not_follow_the_others_is_noticed(model, reference, stale, draws):
    class Deaf(TunaMH):
        def step(self, point):
            moved, stats = super().step(point | {k: np.asarray(v) for k, v in stale.items()})
            return point | {"level": moved["level"]}, stats

    def steps(model):
        rest = [pm.Metropolis([model[name]]) for name in ("mean", "slope")]
        return [Deaf([model["level"]]), *rest, pm.BinaryGibbsMetropolis([model["wide"]])]

    assert largest_error(sample(model, steps, *draws), reference) > 8.0


def test_by_default_a_step_leaves_discrete_variables_to_pymc(model, reference):
    with model:
        step = TunaMH()
    assert [v.name for v in step.vars] == ["mean", "level", "slope"]
    assert step.target.factorization.first == 0
    trace = sample(model, lambda _: step)
    assert largest_error(trace, reference) < FAR


# Forecasts and refusals of the same model are fast.
@pytest.mark.slow
def test_rows_that_depend_on_a_discrete_variable_take_order_zero():
    model = switched()
    with model:
        step = PenaltyMH()
    assert step.target.taylor_order == 0
    trace = sample(model, lambda _: [step], draws=3_000)
    assert largest_error(trace, posterior_of_switched()) < FAR


def test_a_discrete_variable_cannot_be_asked_for(model):
    with model, pytest.raises(UnsupportedModelError, match=r"^'wide' is discrete, .* vars="):
        TunaMH([model["level"], model["wide"]])


@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_chains_in_new_processes_are_those_of_one_process(model, start):
    steps = beside("TunaMH", "Metropolis")
    serial = sample(model, steps, draws=50, tune=50)
    parallel = sample(model, steps, draws=50, tune=50, cores=2, mp_ctx=start)
    same_draws(serial, parallel)


def test_statistics_of_two_steps_lie_in_the_order_of_the_steps(model):
    """As the page on statistics says: PyMC names their dimension, and asks no step."""

    def steps(model):
        tempered = PenaltyMH([model["slope"]], temperature=2.0)
        return [tempered, TunaMH([model["level"]]), pm.Metropolis([model["mean"]])]

    stats = sample(model, steps, draws=5, tune=5).sample_stats
    assert stats["temperature"].dims == ("chain", "draw", "temperature_dim_0")
    np.testing.assert_array_equal(stats["temperature"][..., 0], 2.0)
    np.testing.assert_array_equal(stats["temperature"][..., 1], 1.0)
    own = stats.dataset[["n_obs", "temperature", "certified"]]
    named = own.map(lambda one: one.rename({one.dims[2]: "step"}))
    assert dict(named.sizes) == {"chain": 2, "draw": 5, "step": 2}
