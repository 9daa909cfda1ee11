"""A trace has the statistics of its step, and no column of zeros for those of other steps."""

import pickle

import pytest

from helpers import models
from helpers.small_groups import panel
from helpers.zoo import METHODS, RANGED
from pymc_minibatch_mh import FireflyMH, PenaltyMH, TunaMH, sample
from pymc_minibatch_mh.native.statistics import STATS
from pymc_minibatch_mh.steps.base import DECLARED

pytestmark = pytest.mark.filterwarnings("ignore:The number of samples is too small")

QUIET = {"quiet": True, "compute_convergence_checks": False}
#: Every step has these. Zeros are counts or truths: no update that read all rows, or no proof.
ALL = {
    "accept", "accepted_share", "n_obs", "full_pass", "log_ratio", "certified", "invalid",
    "scaling", "temperature", "perf_counter_diff",
}  # fmt: skip
MAY_BE_ZERO = {"full_pass", "invalid", "certified"}
BATCHES = {"n_looks", "log_ratio_std", "error_estimate"}
#: What each method has beside these, on a plain model.
OWN = {
    "TunaMH": {"bound_ratio"},
    "ScalableSubsamplingMH": {"bound_ratio"},
    "FactorizedMH": {"bound_ratio"},
    "FireflyMH": {"bound_ratio", "n_bright"},
    "PoissonMH": {"bound_ratio"},
    "BarkerMinibatchMH": BATCHES,
    "PenaltyMH": BATCHES,
    "AustereMH": BATCHES,
    "ConfidenceMH": {"bound_ratio", *BATCHES},
}


@pytest.mark.parametrize("method", [*METHODS, *RANGED])
def test_a_plain_model_has_the_statistics_of_its_method(prepared, method):
    step = prepared("bounded" if method in RANGED else "logistic", method)
    trace = sample(step, 150, tune=100, chains=1, random_seed=3, **QUIET)
    stats = trace.sample_stats
    assert set(stats.data_vars) == ALL | OWN[method]
    assert {str(name) for name in stats.data_vars if not stats[name].any()} <= MAY_BE_ZERO


def test_effects_that_are_accepted_one_by_one_have_statistics_of_their_own():
    with models.crossed_logistic():
        step = TunaMH(blocks=True)
    stats = sample(step, 200, tune=100, chains=1, random_seed=3, **QUIET).sample_stats
    effects = {"n_groups_in_full", "accept_border", "accept_elements", "n_candidates"}
    assert set(stats.data_vars) - ALL - {"n_prior"} == {
        "bound_ratio", "accept_scales", "accept_directions", *effects,
    }  # fmt: skip
    counted = {"accept_border", "accept_elements", "accept_scales", "accept_directions"}
    assert all(stats[name].any() for name in ("n_candidates", *counted))


@pytest.mark.parametrize("method", [TunaMH, PenaltyMH])
def test_groups_are_counted_with_their_rows_and_nodes(method):
    with panel(300, each=4):
        step = method(blocks="groups")
    stats = sample(step, 200, tune=100, chains=1, random_seed=3, **QUIET).sample_stats
    nodes = step.plan.target.group_rows.nodes.z.shape[2]
    assert stats["n_obs"].any()
    assert (stats["n_rows"] == 4 * stats["n_obs"]).all()
    assert (stats["n_at_nodes"] == nodes * stats["n_rows"]).all()


def test_a_step_in_another_process_and_its_class_declare_the_same(prepared):
    step = prepared("logistic", "FireflyMH")
    again = pickle.loads(pickle.dumps(step))
    for one in (step, again):
        assert set(one.stats_dtypes_shapes) == {*ALL, *OWN["FireflyMH"], "warning"}
        (types,) = one.stats_dtypes
        assert types == {name: DECLARED[name][0] for name in one.stats_dtypes_shapes}
    # PyMC reads the class before there is a step.
    assert set(FireflyMH.stats_dtypes_shapes) == {*STATS, "warning"}
