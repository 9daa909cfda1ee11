"""Every input is refused with the message of the page, and every message helps."""

import re
from dataclasses import replace

import pytest

from docs.inputs.case import INTERNALS, Shared
from docs.inputs.catalogue import CASES
from docs.tools.inputs_page import ACCEPTED, PAGE, agrees, between, on_the_page, outcome, table
from pymc_minibatch_mh import MinibatchError

# PyMC's own call, for a pm.MatrixNormal.
pytestmark = pytest.mark.filterwarnings("ignore:pytensor.tensor.linalg.trace:FutureWarning")

SAID = on_the_page(PAGE.read_text(encoding="utf-8"))
#: What a message begins with, and what its last part does: what to do.
NAMED = r"('[^']+'(, '[^']+')*:?|\w+=.*|\w+\(.*\)|the (file|column) .+|file://.+)"
DOING = (
    "Build|Choose|Compute|Correct|Declare|Drop|Enlarge|Fill|Give|Leave|Marginalise|Name|Pass|Put|"
    "Raise|Return|Sample|Select|Store|Use|Write"
)


@pytest.fixture(scope="module")
def shared(model_of, prepared, tmp_path_factory):
    step = lambda: prepared("poisson", "TunaMH")  # noqa: E731
    return Shared(model_of("poisson"), step, tmp_path_factory.mktemp("inputs"))


def well_formed(message):
    """Return whether a message names the variable, the cause and the fix, in that order."""
    parts = rf"{NAMED} [a-z'].*[.?] ({DOING})\b.*\."
    return re.fullmatch(parts, message, re.DOTALL) is not None


def assert_outcome(case, said, shared):
    """Give the input to the package, and compare what becomes of it with the page."""
    found = outcome(case, shared)
    assert agrees(found, said), f"{found} is not {said}"
    assert said == ACCEPTED or well_formed(said[1])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_inputs_are_refused_with_the_messages_of_the_page(case, shared):
    assert_outcome(case, SAID[case.name], shared)


@pytest.mark.parametrize(
    "message",
    [
        "This model has missing values. Drop them.",
        "'y' Use another one. Drop them.",
        "'y'  Drop them.",
        "'y' has missing values. It cannot be sampled.",
    ],
)
def test_a_message_in_another_order_is_noticed(message):
    assert well_formed("'y' has missing values. Drop them.")
    assert not well_formed(message)


def test_another_message_is_noticed(shared):
    (case,) = (case for case in CASES if case.written == "TunaMH(rng=-1)")
    error, message = SAID[case.name]
    assert_outcome(case, (error, message), shared)
    for mutant in ((error, message.replace("is no", "is a")), ("ValueError", message), ACCEPTED):
        with pytest.raises(AssertionError):
            assert_outcome(case, mutant, shared)
    with pytest.raises(AssertionError):
        assert_outcome(replace(case, call=lambda shared: None), (error, message), shared)


def test_messages_are_in_words_of_users():
    told = [message for _, message in SAID.values() if re.search(INTERNALS, message)]
    # A setting is shown as it was given.
    assert all("=[(" in message or "=((" in message for message in told), told
    for wrong in (
        "(('pullback', <class 'Grad2F1Loop'>, 'Grad2F1Loop'))",
        "SplineWrapper{spline=<scipy.interpolate.Spline object at 0x7f14460171d0>}",
    ):
        assert re.search(INTERNALS, wrong)


def test_the_table_is_broad():
    assert len(SAID) == len(CASES) >= 300


def names_below(error):
    """Return the names of an error's class and of all below it."""
    return {error.__name__}.union(*map(names_below, error.__subclasses__()))


def test_errors_are_the_package_s_own():
    errors = {error for error, _ in SAID.values()} - {"accepted", "FileNotFoundError"}
    assert errors <= names_below(MinibatchError)


def test_the_page_has_these_inputs_and_no_others():
    page = PAGE.read_text(encoding="utf-8")
    assert between(page) == table(lambda case: SAID[case.name])
