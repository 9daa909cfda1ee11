"""Advice where most updates read all rows."""

import logging
import re
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.diagnostics import audit as verdicts
from pymc_minibatch_mh.steps import report

#: A chain of which nine updates in ten read all rows.
STATE = SimpleNamespace(
    adapting=False, unmoved="", started=True, violation="", n_updates=1_000, n_accepted=500,
    n_full=900, n_draws=1_000,
)  # fmt: skip
STATS = {"invalid": 0.0, "certified": True, "temperature": 1.0, "n_obs": 1.0}


@pytest.mark.parametrize(("name", "has_groups"), [("logistic", False), ("student", True)])
def test_fewer_groups_are_advised_where_there_are_groups(step_of, name, has_groups):
    step = step_of(name, "TunaMH")
    state = SimpleNamespace(**vars(STATE), warned=False)
    warned = report.warning_of(step.name, state, step.program).message
    means = STATS | {"full_pass": float(step.updates_per_draw)}
    stats = xr.Dataset({key: (("chain", "draw"), [[mean] * 4]) for key, mean in means.items()})
    trace = xr.DataTree.from_dict({"/sample_stats": stats, "/posterior": xr.Dataset()})
    judged = verdicts.on_trace(step, trace).message
    for message in (warned, judged):
        assert "fewer parameters with more rows each" in message
        assert ("such as fewer groups" in message) == has_groups
    assert ("How a hierarchy is written" in warned) == has_groups


def test_preparation_and_starts_are_told_of_once_for_all_chains(model_of, caplog):
    model = model_of("student_fixed")
    start = model.initial_point()
    with caplog.at_level(logging.INFO, logger="pymc"):
        step = TunaMH(model=model)
        for seed in (1, 2):
            step.setup_chain(np.random.default_rng(seed), 10, 10)
            step.step(dict(start))
    begin, end, starts = (text for text in caplog.messages if not text.startswith("Compiling"))
    assert begin == f"TunaMH: preparing {step.plan.n_rows:,} rows of 'y'."
    assert re.fullmatch(r"TunaMH: prepared in [\d.]+ (milli)?seconds, with bounds\.", end)
    assert starts.startswith("TunaMH: chains start from draws around the posterior mode")


def test_short_times_are_told_in_milliseconds():
    assert report.in_words(0.038) == "38 milliseconds"
    assert report.in_words(2.53) == "2.5 seconds"
