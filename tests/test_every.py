"""Tables of cases that are one test each."""

import pytest

from every import every
from helpers.tiers import fast
from nodes import cases, resolve


def test_every_case_that_fails_is_named():
    @every("power", [1, 2])
    @every(("x", "positive"), [(-1.0, False), (2.0, True), (-3.0, True)])
    def signs(x, positive, power):
        assert (x**power > 0.0) == positive

    with pytest.raises(AssertionError) as failure:
        signs()
    said = str(failure.value)
    assert said.startswith("2 of 2 cases:\n0, 1: AssertionError: 1 of 3 cases:\n2, -3.0-True: ")
    assert "0, -1.0-False: " in said.split("\n1, 2: ")[1]
    assert list(cases(signs))[1] == "-1.0-False-2"


def test_a_case_that_is_not_refused_fails():
    @every("text", ["one", "1"])
    def refused(text):
        with pytest.raises(ValueError, match="one"):
            int(text)

    with pytest.raises(AssertionError, match=r"1 of 2 cases:\n1, 1: Failed: DID NOT RAISE"):
        refused()


@every("settings", [{}, {"a": 1}], ids=["none", "one"])
def test_cases_may_be_dictionaries(settings):
    assert settings in ({}, {"a": 1})


def test_patches_of_a_case_end_with_it(monkeypatch):
    known = {}

    @every("number", [1, 2])
    def patched(number, monkeypatch):
        assert known == {}
        monkeypatch.setitem(known, "number", number)

    patched()
    assert known == {}


@every("number", [3, 4])
def test_a_single_case_is_found_by_its_id(number):
    assert number in (3, 4)
    test, parameters = resolve("test_every.py::test_a_single_case_is_found_by_its_id[4]")
    assert parameters == {"number": 4}
    assert not hasattr(test, "tables")


def test_slow_cases_are_left_to_the_slow_tier():
    seen = []

    @every("sign", [1, -1])
    @every("number", fast([1, 2, 3], kept=[1, 3]))
    def signed(number, sign):
        seen.append(number * sign)

    signed()
    assert seen == [1, 3, -1, -3]
    signed(tier="slow")
    assert seen[4:] == [2, -2]
    assert list(cases(signed)) == ["1-1", "1--1", "2-1", "2--1", "3-1", "3--1"]
    (mark,) = signed.pytestmark
    assert [getattr(tier, "marks", ()) != () for tier in mark.args[1]] == [False, True]


def test_no_cases_are_no_test():
    with pytest.raises(AssertionError, match="no cases"):
        every("number", [])


@pytest.mark.parametrize("name", ["rng", "caplog", "capsys"])
def test_fixtures_that_accumulate_are_refused(name):
    scope = {}
    exec(f"def test(case, {name}): ...", scope)  # noqa: S102 - a test by the name of its fixture
    with pytest.raises(AssertionError, match=f"cases would share .*{name}"):
        every("case", [1, 2])(scope["test"])
    every(name, [1, 2])(scope["test"])
