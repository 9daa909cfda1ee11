"""What a trace holds of the data, and what memory is needed at ten million rows."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

from pymc_minibatch_mh import PenaltyMH
from zoo import sample

pytestmark = pytest.mark.filterwarnings("ignore:The number of samples is too small")

SCRIPT = Path(__file__).with_name("memory.py")
WITHOUT_DATA = ["observed_data", "constant_data"]
MANY = 10_000_000


def sampled(rows):
    rng = np.random.default_rng(91)
    x = rng.standard_normal(rows)
    with pm.Model() as model:
        slope = pm.Normal("slope")
        pm.Normal("y", slope * pm.Data("x", x), 1.0, observed=x + rng.standard_normal(rows))
    return sample(model, PenaltyMH(model=model), 20, 10, random_seed=1)


@pytest.fixture(scope="module")
def small_and_large():
    return sampled(1_500), sampled(15_000)


def test_a_trace_without_the_data_does_not_grow_with_them(small_and_large, tmp_path):
    sizes = {}
    for drop in (False, True):
        for rows, trace in zip((1_500, 15_000), small_and_large, strict=True):
            kept = trace.drop_nodes(WITHOUT_DATA) if drop else trace
            file = tmp_path / f"{rows}-{drop}.nc"
            kept.to_netcdf(file, engine="h5netcdf")
            sizes[rows, drop] = file.stat().st_size
    assert sizes[1_500, True] == sizes[15_000, True]
    # Observations, a column of pm.Data, and the row numbers of both.
    assert sizes[15_000, False] - sizes[1_500, False] >= 4 * 8 * (15_000 - 1_500)


def test_what_was_sampled_stays_in_a_trace_without_the_data(small_and_large):
    trace = small_and_large[0]
    kept = trace.drop_nodes(WITHOUT_DATA)
    assert set(trace.children) - set(kept.children) == set(WITHOUT_DATA)
    assert kept["posterior"].identical(trace["posterior"])
    assert kept["sample_stats"].identical(trace["sample_stats"])


@pytest.mark.slow
def test_ten_million_rows_need_a_few_numbers_a_row():
    run = subprocess.run(
        [sys.executable, "-W", "ignore", SCRIPT, str(MANY)],
        capture_output=True,
        text=True,
        check=True,
    )
    figures = json.loads(run.stdout)
    number_a_row = 8 * MANY / 2**20
    assert figures["log_likelihood"]["mib"] < 3 * number_a_row
    assert figures["posterior_predictive"]["mib"] < 3 * number_a_row
    assert figures["loo_subsample"]["mib"] < 8 * number_a_row
    assert figures["all_rows_and_draws"] > 100 * figures["loo_subsample"]["mib"]
