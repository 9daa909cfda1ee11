"""Every mutant of the catalogue is killed by the test that is named for it."""

import copy

import numpy as np
import pytest

from mutants.catalogue import EDITED
from mutants.edit import applied
from mutants.held import HELD
from nodes import exists, resolve
from pymc_minibatch_mh import MinibatchError
from pymc_minibatch_mh.kernels import alias, bound_tables

#: How a check fails: by an assertion, or by an error that the package raises on purpose.
FAILURES = (AssertionError, pytest.fail.Exception, MinibatchError)
SEED = 21
MUTANTS = [
    pytest.param(mutant, id=mutant.name, marks=[pytest.mark.slow] if mutant.slow else [])
    for mutant in EDITED
]


@pytest.fixture
def given(step_of, model_of):
    """What the killers that need a step are handed, as conformance/test_state.py makes it."""

    def build():
        step = copy.copy(step_of("two_likelihoods", "PenaltyMH"))
        step.setup_chain(np.random.default_rng(SEED), 300, 300)
        return {"step": step, "start": model_of("two_likelihoods").initial_point()}

    return build


def check(edit, killer, given):
    with applied(edit):
        function, parameters = resolve(killer)
        arguments = function.__code__.co_varnames[: function.__code__.co_argcount]
        fixtures = given() if "step" in arguments else {}
        function(**fixtures, **parameters)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutant_is_killed(mutant, given):
    check(mutant.edit.unchanged, mutant.killer, given)
    with pytest.raises(FAILURES):
        check(mutant.edit, mutant.killer, given)


def test_an_edit_that_changes_nothing_survives(given):
    mutant = EDITED[0]
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"), pytest.raises(FAILURES):
        check(mutant.edit.unchanged, mutant.killer, given)


def test_an_edit_leaves_no_trace():
    shipped = alias.draw_alias
    with applied(EDITED[0].edit):
        assert alias.draw_alias is not shipped
        assert bound_tables.draw_alias is alias.draw_alias
    assert alias.draw_alias is shipped is bound_tables.draw_alias


def test_the_catalogue_is_broad():
    assert len(EDITED) >= 25
    assert len({mutant.name for mutant in [*EDITED, *HELD]}) == len(EDITED) + len(HELD)


@pytest.mark.parametrize("mutant", EDITED, ids=lambda mutant: mutant.name)
def test_mutants_can_be_applied(mutant):
    mutant.edit.require_there()
    assert exists(mutant.killer)


@pytest.mark.parametrize("held", HELD, ids=lambda held: held.name)
def test_mutants_that_others_apply_are_there(held):
    assert exists(held.test)
