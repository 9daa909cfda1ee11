"""Every mutant is killed by the test that is named for it."""

import ast
import copy

import numpy as np
import pytest

from helpers.nodes import exists, resolve
from helpers.prepared import Steps
from mutants.catalogue import EDITED
from mutants.edit import applied, changed, place_of
from mutants.held import HELD
from mutants.pattern import Replace, drop, never
from pymc_minibatch_mh import MinibatchError
from pymc_minibatch_mh.bounds import remainder, user_bounds
from pymc_minibatch_mh.structure.random_effects import NotSeparableError

#: How a check fails: by an assertion, or by an error that the package raises on purpose.
FAILURES = (AssertionError, pytest.fail.Exception, MinibatchError, NotSeparableError)
SEED = 21
MUTANTS = [pytest.param(m, id=m.name, marks=[pytest.mark.slow] * m.slow) for m in EDITED]
SUM = "def total(self, rows):\n    share = 2.0 * rows.weights[0]\n    return self.prior + share\n"


#: What killers are handed, by name.
HANDED = {"tmp_path", "model_of", "prepared", "monkeypatch"}


def arguments_of(function):
    """Return the names of the arguments of a test."""
    return function.__code__.co_varnames[: function.__code__.co_argcount]


def names_handed(arguments):
    """Return the names of what is handed to a killer; a step comes with its start."""
    return {"step", "start"} if "step" in arguments else HANDED.intersection(arguments)


@pytest.fixture
def given(prepared, model_of, tmp_path, tmp_path_factory, monkeypatch):
    """What killers are handed, by name; a step is that of robustness/conformance."""
    # What is built under a mistake is of no use to other tests, nor is theirs to it.
    prepared = Steps(tmp_path_factory.mktemp("steps"), model_of, prepared.methods)

    def build(arguments):
        if "step" not in arguments:
            known = {
                "tmp_path": tmp_path, "model_of": model_of, "prepared": prepared,
                "monkeypatch": monkeypatch,
            }  # fmt: skip
            return {name: value for name, value in known.items() if name in arguments}
        step = copy.copy(prepared("two_likelihoods", "PenaltyMH"))
        step.setup_chain(np.random.default_rng(SEED), 300, 300)
        return {"step": step, "start": model_of("two_likelihoods").initial_point()}

    return build


def check(target, changes, killer, given):
    with applied(target, changes):
        function, cases = resolve(killer)
        for parameters in cases:
            # A case may name its step, which is given.
            function(**parameters | given(arguments_of(function)))


# What the module of a killer ignores is not ignored here.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutant_is_killed(mutant, given):
    with pytest.raises(FAILURES):
        check(mutant.target, mutant.changes, mutant.killer, given)


def test_a_change_that_changes_nothing_survives(given):
    (mutant,) = [one for one in EDITED if one.name == "c_i rounded inward"]
    check(mutant.target, [Replace("A < B", "A < B")], mutant.killer, given)


def test_a_mutant_leaves_no_trace():
    shipped = remainder.rounded_up
    with applied("remainder.rounded_up", [Replace("np.inf", "-np.inf")]):
        assert remainder.rounded_up is not shipped
        assert user_bounds.rounded_up is remainder.rounded_up
    assert remainder.rounded_up is shipped is user_bounds.rounded_up


def offence(mutant):
    """Say why a mutant cannot be applied or killed, if so."""
    try:
        place = place_of(mutant.target)
        same = ast.dump(changed(place, mutant.changes)) == ast.dump(place.tree())
        function, cases = resolve(mutant.killer)
    except LookupError as reason:
        return f"{mutant.name}: {reason}"
    arguments = set(arguments_of(function))
    if any(arguments != names_handed(arguments) | parameters.keys() for parameters in cases):
        return f"{mutant.name}: its test has fixtures that it is not handed"
    return f"{mutant.name} changes nothing" if same else None


def test_all_mutants_can_be_applied():
    assert len(EDITED) >= 273
    assert len({mutant.name for mutant in [*EDITED, *HELD]}) == len(EDITED) + len(HELD)
    assert [*filter(None, map(offence, EDITED))] == []


def test_mutants_that_others_apply_are_there():
    assert [mutant.name for mutant in HELD if not exists(mutant.test)] == []


@pytest.mark.parametrize(
    ("old", "new", "changed_to"),
    [
        ("2.0 * A", "A", "    share = rows.weights[0]"),
        ("own + part", "own - part", "    return self.prior - share"),
        ("a = B * c[0]; return _", "return B", "    return 2.0"),
        ("share + _", "-share", "    return -self.prior"),
    ],
)
def test_names_of_a_pattern_stand_for_any_name(old, new, changed_to):
    tree = ast.parse(SUM)
    Replace(old, new).apply(tree)
    assert changed_to in ast.unparse(tree).splitlines()


@pytest.mark.parametrize("change", [drop("other = 3.0"), never("other"), never("np.pi")])
def test_a_pattern_of_no_node_or_several_is_told(change):
    with pytest.raises(LookupError, match="matches"):
        change.apply(ast.parse(SUM))
