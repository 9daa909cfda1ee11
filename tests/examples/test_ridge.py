"""The published table of errors of the correction distribution, all of it."""

import pytest

from every import every
from papers.ridge import correction_errors, ridge_correction
from papers.seita_correction import PUBLISHED, RIDGES

#: The one entry that is off, probably a misprint of 1.9e-2.
OFF = (4000, 1.1, 0.1)
EXPECTED = {
    (n, sigma, ridge): error
    for (n, sigma), errors in PUBLISHED.items()
    for ridge, error in zip(RIDGES, errors, strict=True)
}


@pytest.fixture(scope="module")
def found():
    return {tuple(one[:3]): one for one in correction_errors()}


def test_the_table_has_all_entries(found):
    assert list(found) == list(EXPECTED)
    assert len(found) == 40


@every("entry", EXPECTED)
def test_an_entry_is_the_published_one(found, entry):
    # Two figures were printed.
    tolerance = 0.051 if entry != OFF else 1.0
    assert found[entry].ridge_error == pytest.approx(EXPECTED[entry], rel=tolerance)


@every(("sigma", "ridge", "error"), [(0.9, 1.0, 1.0e-4), (0.8, 0.03, 5.0e-6)])
def test_the_first_version_of_the_paper_has_the_same_table(sigma, ridge, error):
    (found,) = correction_errors([4000], [sigma], [ridge])
    assert found.ridge_error == pytest.approx(error, rel=0.05)


def test_the_linear_programme_is_far_more_accurate(found):
    for one in found.values():
        assert one.minimax_error < 0.01 * one.ridge_error
    assert found[4000, 1.0, 10.0].minimax_error < 6e-8


def test_few_points_stand_for_many():
    for sigma, ridge in ((0.8, 0.01), (1.0, 10.0), (1.1, 0.1)):
        errors = [ridge_correction(sigma, ridge * (n / 4000) ** 2, n).error for n in (200, 400)]
        assert errors[0] == pytest.approx(errors[1], rel=0.02)


def test_masses_of_a_published_table_are_clipped_and_not_negative():
    assert ridge_correction(1.0, 0.1, points=200).masses.min() >= 0.0
