"""Every claim of the pages stands in them word by word, and names tests that exist."""

import pytest

from docs.claims.claims import CLAIMS, DEFINITIONS, SECTIONS
from docs.claims.sentences import sentences
from helpers.nodes import exists


def test_claims_are_made_in_these_words():
    for page, claims in CLAIMS.items():
        said = sentences(page)
        assert [claim for claim in [*claims, *DEFINITIONS[page]] if claim not in said] == []


@pytest.mark.parametrize(
    ("page", "heading"), [(p, h) for p, found in SECTIONS.items() for h in found]
)
def test_every_sentence_is_a_claim_or_a_definition(page, heading):
    said = sentences(page, heading)
    known = {*CLAIMS[page], *DEFINITIONS[page]}
    assert said
    assert [sentence for sentence in said if sentence not in known] == []


def test_no_sentence_is_both():
    for page, claims in CLAIMS.items():
        assert not set(claims) & set(DEFINITIONS[page])


def test_every_claim_has_tests():
    tests = {test for claims in CLAIMS.values() for found in claims.values() for test in found}
    assert all(found for claims in CLAIMS.values() for found in claims.values())
    assert [test for test in sorted(tests) if not exists(test)] == []


def test_a_test_that_is_not_there_is_noticed():
    assert not exists("docs/claims/test_claims.py::test_of_another_name")
    assert not exists("native/test_alias.py::test_chances_are_the_weights[of another name]")
