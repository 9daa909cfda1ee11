"""The moves and tests of one's own that the examples show."""

import inspect

import pytest

import custom_proposal
import custom_test
from helpers.zoo import drawn
from pymc_minibatch_mh import CustomProposal, CustomTestMH, TunaMH, audit

pytestmark = pytest.mark.filterwarnings("ignore:The number of samples is too small")


@pytest.mark.parametrize("example", [custom_proposal, custom_test])
def test_an_example_is_short(example):
    assert len(inspect.getsource(example).splitlines()) <= 100


def test_the_move_samples_what_the_usual_moves_sample():
    model = custom_proposal.regression(3_000)
    move = CustomProposal(
        custom_proposal.student, state=[custom_proposal.WIDTH], adapt=custom_proposal.widen
    )
    usual, own = (
        drawn(model, TunaMH(model=model, proposal=proposal), 8_000, 500, random_seed=1)
        for proposal in ("auto", move)
    )
    for name in ("level", "slope", "scale"):
        mean, sd = float(usual.posterior[name].mean()), float(usual.posterior[name].std())
        assert abs(float(own.posterior[name].mean()) - mean) < 0.08 * sd
        assert float(own.posterior[name].std()) == pytest.approx(sd, rel=0.06)
    assert own.sample_stats["certified"].all()


def test_the_test_passes_its_audit():
    model = custom_test.regression(4_000)
    numbers = [custom_test.LARGEST_NOISE, custom_test.FEWEST_ROWS]
    step = CustomTestMH(
        custom_test.sample_size,
        custom_test.decide_batch,
        numbers=numbers,
        controls="noise",
        model=model,
    )
    trace = drawn(model, step, 2_000, 500, random_seed=1)
    found = audit(trace, step, pairs=60, random_seed=1, model=model)
    assert found["verdict"].sel(check="bias").item() == "ok", found["message"].to_numpy()
    assert not trace.sample_stats["certified"].any()
    assert found.attrs["guarantee"] == "approximate; it controls the noise"
