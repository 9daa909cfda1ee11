"""What a step says of itself and of its settings, and its advice where all rows are read."""

import inspect
import pickle
import re
from types import SimpleNamespace

import pytest
import xarray as xr

from helpers.zoo import METHODS
from pymc_minibatch_mh import CustomTestMH, PenaltyMH, TunaMH
from pymc_minibatch_mh.diagnostics import audit as verdicts
from pymc_minibatch_mh.steps import report
from pymc_minibatch_mh.steps.settings import SHARED


def described(docstring):
    """Return the names of the entries of a docstring's parameters, in their order."""
    *_, section = inspect.cleandoc(docstring).partition("Parameters\n----------\n")
    entries = section.partition("\n\n")[0]
    lines = re.findall(r"^(\S.*)$", entries, flags=re.MULTILINE)
    return [name for line in lines for name in line.partition(" : ")[0].split(", ")]


#: Words of a docstring that a user still reads.
MOST_WORDS = 350


@pytest.mark.parametrize("step", [*METHODS.values(), CustomTestMH])
def test_signature_and_docstring_list_every_setting_in_few_words(step):
    parameters = inspect.signature(step).parameters
    assert parameters.keys() >= set(SHARED)
    assert list(inspect.signature(step.__init__).parameters) == ["self", *parameters]
    assert described(step.__doc__) == list(parameters)
    assert len(step.__doc__.split()) <= MOST_WORDS


def test_a_prepared_your_own_shows_what_it_takes():
    class Bold(TunaMH):
        """A step with one setting, and a default of its own for another."""

        def __init__(self, *, chi=2.0, temperature=4.0, **settings):
            super().__init__(chi=chi, temperature=temperature, **settings)

    class Fixed(TunaMH):
        def __init__(self):
            super().__init__(chi=2.0)

    shown = inspect.signature(Bold).parameters
    assert list(shown)[:2] == ["chi", "temperature"]
    assert shown.keys() - {"chi"} == set(SHARED) - {"vars"}
    assert shown["temperature"].default == 4.0
    assert str(inspect.signature(Fixed)) == "()"
    assert inspect.getdoc(Fixed) == TunaMH.__doc__


def test_a_step_says_what_it_is(prepared):
    step = prepared("poisson", "TunaMH")
    line = "TunaMH(2 parameters, 5,000 observations of 'counts', exact given valid bounds, order 2)"
    assert repr(step) == line
    assert repr(pickle.loads(pickle.dumps(step))) == line


def test_a_step_says_what_is_unusual_about_it(model_of):
    model = model_of("two_likelihoods")
    step = PenaltyMH(model=model, vars=[model["slope"]], taylor_order=1, temperature=2.5)
    assert repr(step) == (
        "PenaltyMH(1 parameter, 3,500 observations of 'seen' and 1,500 observations of 'measured', "
        "approximate, order 1, temperature 2.5)"
    )


#: A chain of which nine updates in ten read all rows.
STATE = SimpleNamespace(
    adapting=False, unmoved="", started=True, violation="", n_updates=1_000, n_accepted=500,
    n_full=900, n_draws=1_000,
)  # fmt: skip
STATS = {"invalid": 0.0, "certified": True, "temperature": 1.0, "n_obs": 1.0}


@pytest.mark.parametrize(("name", "has_groups"), [("logistic", False), ("student", True)])
def test_fewer_groups_are_advised_where_there_are_groups(prepared, name, has_groups):
    step = prepared(name, "TunaMH")
    state = SimpleNamespace(**vars(STATE), warned=False)
    warned = report.next_warning(step.name, state, step.program).message
    means = STATS | {"full_pass": float(step.updates_per_draw)}
    stats = xr.Dataset({key: (("chain", "draw"), [[mean] * 4]) for key, mean in means.items()})
    trace = xr.DataTree.from_dict({"/sample_stats": stats, "/posterior": xr.Dataset()})
    judged = verdicts.judge_trace(step, trace).message
    for message in (warned, judged):
        assert "fewer parameters with more" in message
        assert ("such as fewer groups" in message) == has_groups
    assert ("How a hierarchy is written" in warned) == has_groups


def test_a_start_of_equal_effects_is_told_of_once_for_all_chains(monkeypatch):
    class Shared:
        """In the place of a program, which chains share."""

    told, program = [], Shared()
    monkeypatch.setattr(report._log, "info", told.append)
    for begun in ("waits", None, "waits"):
        report.log_start(program, begun)
    assert len(told) == 1
