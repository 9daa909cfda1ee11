"""Advice where most updates read all rows."""

from types import SimpleNamespace

import pytest
import xarray as xr

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
