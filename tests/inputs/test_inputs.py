"""Every input of the table is refused with its message, and every message helps."""

import re
from pathlib import Path

import pytest

from inputs.case import FOLDER, Case, Shared
from inputs.catalogue import BY_NAME, CASES
from inputs.table import PAGE, between, table
from pymc_minibatch_mh import MinibatchError, SettingError

# PyMC's own call, for a pm.MatrixNormal.
pytestmark = pytest.mark.filterwarnings("ignore:pytensor.tensor.linalg.trace:FutureWarning")

REFUSED = {name: case for name, case in BY_NAME.items() if case.error is not None}
#: What a fix begins with.
DOING = {
    "Build", "Choose", "Compute", "Correct", "Declare", "Drop", "Enlarge", "Fill", "Give", "Leave",
    "Marginalise", "Name", "Pass", "Put", "Raise", "Return", "Sample", "Store", "Use", "Write",
}  # fmt: skip


@pytest.fixture(scope="module")
def shared(model_of, step_of, tmp_path_factory):
    step = lambda: step_of("poisson", "TunaMH")  # noqa: E731
    return Shared(model_of("poisson"), step, tmp_path_factory.mktemp("inputs"))


def assert_outcome(case, shared):
    """Give the input to the package, and compare what becomes of it with the table."""
    if case.error is None:
        case.call(shared)
        return
    with pytest.raises(case.error) as refusal:
        case.call(shared)
    assert type(refusal.value) is case.error
    said = str(refusal.value).replace(str(shared.folder), FOLDER)
    assert case.matches(said), f"{said}\nis not\n{case.message}"


def well_formed(case):
    """Return whether a message names the variable, the cause and the fix, in that order."""
    names = r"'[^']+'(, '[^']+')*:?|\w+=.*|\w+\(.*\)|the (file|column) .+|file://.+"
    variable = re.fullmatch(names, case.variable)
    cause = re.fullmatch(r"[a-z'].*\.", case.cause, re.DOTALL)
    return bool(variable and cause and case.fix.split()[0] in DOING and case.fix.endswith("."))


@pytest.mark.parametrize("name", BY_NAME)
def test_an_input_is_refused_with_its_message(name, shared):
    case = BY_NAME[name]
    assert_outcome(case, shared)
    assert case.error is None or well_formed(case)


def test_a_message_in_another_order_is_noticed():
    parts = {"variable": "'y'", "cause": "has missing values.", "fix": "Drop them."}
    assert well_formed(Case("", "", print, SettingError, **parts))
    for name, wrong in (
        ("variable", "This model"),
        ("cause", "Use another one."),
        ("cause", ""),
        ("fix", "It cannot be sampled."),
    ):
        assert not well_formed(Case("", "", print, SettingError, **parts | {name: wrong}))


def test_another_message_is_noticed(shared):
    case = BY_NAME["Settings of every step: TunaMH(tune='yes')"]
    for changed in ({"cause": "is not a flag."}, {"error": ValueError}, {"error": None}):
        mutant = Case(**{**vars(case), **changed})
        with pytest.raises((AssertionError, SettingError)):
            assert_outcome(mutant, shared)


def test_the_table_is_broad():
    assert len(BY_NAME) == len(CASES) >= 100
    sections = [case.section for case in CASES]
    assert sections.count("Dependent or unsplittable models") >= 25
    assert sections.count("Independent models beside them") >= 25


def test_errors_are_the_package_s_own():
    own = {case.error for case in REFUSED.values()} - {FileNotFoundError}
    assert all(issubclass(error, MinibatchError) for error in own)


def test_the_page_says_what_the_tests_hold():
    assert between(Path(PAGE).read_text(encoding="utf-8")) == table()
