"""What a trace holds of the data, and what memory is needed at ten million rows."""

import json
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

from helpers.another_process import printed
from helpers.zoo import sample
from pymc_minibatch_mh import PenaltyMH

pytestmark = pytest.mark.filterwarnings("ignore:The number of samples is too small")

SCRIPT = Path(__file__).with_name("memory.py")
MANY = 10_000_000


def traced(rows):
    rng = np.random.default_rng(91)
    x = rng.standard_normal(rows)
    with pm.Model() as model:
        slope = pm.Normal("slope")
        pm.Normal("y", slope * pm.Data("x", x), 1.0, observed=x + rng.standard_normal(rows))
    return sample(model, PenaltyMH(model=model), 20, 10, random_seed=1)


def test_no_group_of_a_trace_but_those_of_the_data_grows_with_them():
    trace, larger = traced(1_500), traced(15_000)
    grown = {name for name, group in trace.children.items() if 1_500 in group.sizes.values()}
    assert grown == {"observed_data", "constant_data"}
    for name, group in trace.children.items():
        one, other = (len(json.dumps(of.attrs, default=repr)) for of in (group, larger[name]))
        # Times have as many digits as they have.
        assert abs(one - other) < 100, name


@pytest.mark.slow
def test_ten_million_rows_need_a_few_numbers_a_row():
    figures = printed(SCRIPT, MANY)
    number_a_row = 8 * MANY / 2**20
    assert figures["log_likelihood"]["mib"] < 3 * number_a_row
    assert figures["posterior_predictive"]["mib"] < 3 * number_a_row
    assert figures["loo_subsample"]["mib"] < 8 * number_a_row
    assert figures["all_rows_and_draws"] > 100 * figures["loo_subsample"]["mib"]
