"""What `help`, `inspect.signature` and `repr` say of a step is all that it takes and what it is."""

import inspect
import pickle
import pydoc
import re

from every import every
from pymc_minibatch_mh import OwnTestMH, PenaltyMH, TunaMH
from pymc_minibatch_mh.steps.settings import DEFAULTS, SharedSettings
from zoo import METHODS


def described(docstring):
    """Return the names of the entries of a docstring's parameters, in their order."""
    *_, section = inspect.cleandoc(docstring).partition("Parameters\n----------\n")
    entries = section.partition("\n\n")[0]
    lines = re.findall(r"^(\S.*)$", entries, flags=re.MULTILINE)
    return [name for line in lines for name in line.partition(" : ")[0].split(", ")]


#: Words of a docstring that a user still reads.
MOST_WORDS = 350


@every("step", [*METHODS.values(), OwnTestMH])
def test_signature_and_docstring_list_every_setting_in_few_words(step):
    parameters = inspect.signature(step).parameters
    own = inspect.signature(step.__init__).parameters
    assert parameters.keys() == own.keys() - {"self", "settings"} | DEFAULTS.keys()
    assert described(step.__doc__) == list(parameters)
    assert len(step.__doc__.split()) <= MOST_WORDS


def test_help_shows_settings_that_all_steps_share():
    text = pydoc.plain(pydoc.render_doc(TunaMH))
    step = "pymc.step_methods.compound.BlockedStep"
    assert f"prepared: str | os.PathLike | {step} | None = None, updates_per_draw: int = 1" in text
    assert "updates between two draws." in text


def test_shared_settings_have_a_type_a_default_and_a_description():
    assert (
        list(SharedSettings.__annotations__) == list(DEFAULTS) == described(SharedSettings.__doc__)
    )


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
    assert shown.keys() - {"chi"} == DEFAULTS.keys()
    assert shown["temperature"].default == 4.0
    assert str(inspect.signature(Fixed)) == "()"
    assert inspect.getdoc(Fixed) == TunaMH.__doc__


def test_a_step_says_what_it_is(prepared):
    step = prepared("poisson", "TunaMH")
    line = "TunaMH(2 parameters, 5,000 rows of 'counts', exact given valid bounds, order 2)"
    assert repr(step) == line
    assert repr(pickle.loads(pickle.dumps(step))) == line


def test_a_step_says_what_is_unusual_about_it(model_of):
    model = model_of("two_likelihoods")
    step = PenaltyMH(model=model, vars=[model["slope"]], taylor_order=1, temperature=2.5)
    assert repr(step) == (
        "PenaltyMH(1 parameter, 3,500 rows of 'seen' and 1,500 rows of 'measured', approximate, "
        "order 1, temperature 2.5)"
    )


def test_a_step_keeps_little_of_its_own(prepared):
    assert len(vars(prepared("poisson", "TunaMH"))) <= 15
