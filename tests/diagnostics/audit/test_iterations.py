"""Audits of steps that move effects each by itself."""

from functools import cache

import numpy as np

from helpers.models import slopes
from helpers.zoo import drawn
from pymc_minibatch_mh import TunaMH, audit
from pymc_minibatch_mh.bounds.part_tables import PartTables
from pymc_minibatch_mh.chain.chain import Chain, Draws


@cache
def sampled():
    model = slopes()
    step = TunaMH(model=model, blocks=True, rng=1)
    return model, step, drawn(model, step, 2_000, 500, cores=1, random_seed=2, quiet=True)


def verdicts(trace):
    model, step, _ = sampled()
    found = audit(trace, step, pairs=60, random_seed=1, model=model)
    return found, dict(zip(found["check"].values, found["verdict"].values, strict=True))


def test_iterations_of_a_right_trace_pass():
    found, judged = verdicts(sampled()[2])
    assert judged == dict.fromkeys(("bounds", "drift", "acceptance", "trace"), "ok")
    assert found.attrs["rows"] == 1_500
    assert 0.0 < found["pairs"]["bound_ratio"].max() <= 1.0
    assert (found["pairs"]["bound_term"] == "y").all()
    assert found["pairs"].sizes["pair"] == 60


def test_draws_that_are_shifted_drift():
    shifted = sampled()[2].copy(deep=True)
    shifted.posterior["a"][:] += 0.3
    found, judged = verdicts(shifted)
    assert judged["drift"] == "fail"
    assert "'a[" in str(found["message"].sel(check="drift").values)


def test_draws_that_do_not_move_fail(monkeypatch):
    """From far out no move is accepted, and nothing drifts."""
    monkeypatch.setattr(Chain, "advance", lambda self, _: Draws(self.position[None].copy(), None))
    assert verdicts(sampled()[2])[1]["acceptance"] == "fail"


def test_a_row_beyond_its_ceiling_fails(monkeypatch):
    monkeypatch.setattr(
        PartTables, "row_ceilings", lambda self, _: 1e-9 * np.ones(self.parts.border.size)
    )
    _, judged = verdicts(sampled()[2])
    assert judged["bounds"] == "fail"
