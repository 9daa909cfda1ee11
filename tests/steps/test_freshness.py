"""A step notices whatever changed of what it was built from, and nothing else."""

import copy
import re

import cloudpickle
import numpy as np
import pytest

from helpers.zoo import sample
from pymc_minibatch_mh import PenaltyMH
from pymc_minibatch_mh.diagnostics.bias import frozen_chain
from pymc_minibatch_mh.errors import StaleDataError
from robustness.conformance.harness import run
from steps.editable import EDITS, HARMLESS, Editable, edited


@pytest.fixture(scope="module")
def written():
    return Editable()


@pytest.fixture(scope="module")
def step(written):
    return PenaltyMH(model=written.model, weights=written.weights)


def start(step):
    step.setup_chain(np.random.default_rng(5), 10, 10)


@pytest.mark.parametrize("edit", EDITS)
def test_what_changed_is_noticed_when_a_chain_starts(written, step, edit):
    change, said = EDITS[edit]
    with edited(written, change):
        message = rf"^{re.escape(said)} after this step was built, .* Build PenaltyMH\(\) again\.$"
        with pytest.raises(StaleDataError, match=message):
            start(step)
    start(step)


def warm_up_that_ends(step):
    """Return what ends a warm-up that began before anything changed."""
    chain = copy.copy(step)
    start(chain)
    return chain.stop_tuning


#: What is done with a step -> returns the call, of which all but the last bit is done before.
USES = {
    "sampled": lambda step, model, path: lambda: sample(model, step, 5, 5),
    "pickled": lambda step, model, path: lambda: cloudpickle.dumps(step),
    "copied": lambda step, model, path: lambda: copy.copy(step),
    "saved": lambda step, model, path: lambda: step.save(path / "step.npz"),
    "audited": lambda step, model, path: (
        lambda: frozen_chain(step, None, None, np.random.default_rng(1))
    ),
    "given a state": lambda step, model, path: setter(step),
    "taken out of warm-up": lambda step, model, path: warm_up_that_ends(step),
}


def setter(step):
    state = step.sampling_state
    return lambda: setattr(step, "sampling_state", state)


@pytest.mark.parametrize("use", USES)
def test_changed_data_are_noticed_when_the_step_is(written, step, tmp_path, use):
    call = USES[use](step, written.model, tmp_path)
    change, _ = EDITS["a predictor in place"]
    with (
        edited(written, change),
        pytest.raises(StaleDataError, match="'a data array of y' changed"),
    ):
        call()


@pytest.mark.parametrize("edit", HARMLESS)
def test_what_changes_no_density_goes_unnoticed(written, step, edit):
    def draws():
        start(step)
        return run(step, written.model.initial_point(), 20)[0]

    before = draws()
    with edited(written, HARMLESS[edit]):
        np.testing.assert_array_equal(draws(), before)


def test_a_step_in_another_process_has_data_that_nobody_changes(written, step):
    arrived = cloudpickle.loads(cloudpickle.dumps(step))
    for edit in ("a predictor in place", "a shared variable", "a potential that is added"):
        change, _ = EDITS[edit]
        with edited(written, change):
            start(arrived)
            run(arrived, written.model.initial_point(), 5)
