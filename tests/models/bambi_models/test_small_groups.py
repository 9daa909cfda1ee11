"""Effects of many groups that Bambi writes: from the formula to what ArviZ says."""

import arviz as az
import bambi
import numpy as np
import pandas as pd
import pymc as pm
import pytest

from pymc_minibatch_mh import TunaMH, sample
from pymc_minibatch_mh.plan.groups import GroupsPlan
from pymc_minibatch_mh.sampling.trace import bambi_trace

# Said by pandas of what Bambi asks it, and by ArviZ of few draws.
pytestmark = [
    pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes"),
    pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto"),
]
GROUPS, EACH = 400, 4


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(322)
    g, x = np.repeat(np.arange(GROUPS), EACH), rng.standard_normal(GROUPS * EACH)
    eta = 0.3 + 0.6 * x + 0.8 * rng.standard_normal(GROUPS)[g]
    data = pd.DataFrame(
        {"x": x, "g": g.astype(str), "event": rng.binomial(1, 1.0 / (1.0 + np.exp(-eta)))}
    )
    built = bambi.Model("event ~ x + (1|g)", data, family="bernoulli")
    built.build()
    return built


@pytest.fixture(scope="module")
def trace(model):
    step = TunaMH(model=model.backend.model)
    assert isinstance(step.plan, GroupsPlan)
    return sample(step, 500, tune=300, chains=2, random_seed=3, quiet=True)


@pytest.mark.slow
def test_summary_has_all_effects_under_bambis_names(model, trace):
    told = bambi_trace(model, trace)
    assert told.posterior["1|g"].sizes["g__factor_dim"] == GROUPS
    summary = az.summary(told)
    assert len(summary) == 3 + GROUPS
    assert summary.loc["x", "mean"] == pytest.approx(0.6, abs=0.3)
    assert summary.loc["1|g_sigma", "mean"] == pytest.approx(0.8, abs=0.4)
    assert summary["ess_bulk"].astype(float).min() > 100


@pytest.mark.slow
def test_leave_one_out_sees_the_effects(model, trace):
    whole = trace.copy()
    with model.backend.model:
        pm.compute_log_likelihood(whole, progressbar=False)
    found, rows = az.loo(whole), GROUPS * EACH
    assert found.n_data_points == rows
    # Better than a coin, and with more parameters in effect than the three that groups share.
    assert found.elpd > rows * np.log(0.5)
    assert 10.0 < found.p < GROUPS


@pytest.mark.slow
def test_intercepts_and_slopes_are_integrated_out_together():
    groups, each = 250, 8
    rng = np.random.default_rng(5)
    g, x = np.repeat(np.arange(groups), each), rng.standard_normal(groups * each)
    level, slope = np.array([[0.8], [0.5]]) * rng.standard_normal((2, groups))
    y = 0.3 + level[g] + (0.6 + slope[g]) * x + 0.7 * rng.standard_normal(g.size)
    data = pd.DataFrame({"x": x, "g": g.astype(str), "y": y})
    built = bambi.Model("y ~ x + (x|g)", data)
    built.build()
    step = TunaMH(model=built.backend.model)
    assert isinstance(step.plan, GroupsPlan)
    trace = sample(step, 150, tune=100, chains=1, random_seed=3, quiet=True)
    told = bambi_trace(built, trace).posterior
    assert told["1|g"].sizes["g__factor_dim"] == told["x|g"].sizes["g__factor_dim"] == groups
    expected = {"x": 0.6, "1|g_sigma": 0.8, "x|g_sigma": 0.5, "sigma": 0.7}
    for name, value in expected.items():
        draws = told[name].to_numpy()
        assert abs(draws.mean() - value) < 5.0 * draws.std(), name
    # Effects are those of their groups: nearer to the truth than their prior is.
    for name, effect in (("1|g", level), ("x|g", slope)):
        drawn = told[name].mean(("chain", "draw"))
        mine = effect[drawn["g__factor_dim"].to_numpy().astype(int)]
        assert np.corrcoef(drawn, mine)[0, 1] > 0.7, name
