"""Published tables: errors of the correction, the bound of the stationary law, and claims."""

import numpy as np
import pytest
from scipy.special import expit

from helpers.in_library import barker_probability
from papers.korattikara_bound import (
    contraction,
    kernel,
    moves,
    sequential_acceptance,
    stationary,
)
from papers.ridge import correction_errors, ridge_test
from papers.seita_correction import PUBLISHED, RIDGES
from pymc_minibatch_mh.steps.barker import barker_test

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


@pytest.mark.parametrize("entry", EXPECTED)
def test_an_entry_is_the_published_one(found, entry):
    # Two figures were printed.
    tolerance = 0.051 if entry != OFF else 1.0
    assert found[entry].ridge_error == pytest.approx(EXPECTED[entry], rel=tolerance)


def test_the_linear_programme_is_far_more_accurate(found):
    for one in found.values():
        assert one.minimax_error < 0.01 * one.ridge_error
    assert found[4000, 1.0, 10.0].minimax_error < 6e-8


def test_a_test_errs_as_much_as_its_correction():
    test, ratios = ridge_test(10.0, 4_000, 1.0), np.linspace(-8.0, 8.0, 161)
    assert test.masses.sum() == pytest.approx(1.0)
    # A batch without noise of its own, to which all of the normal part is added.
    errors = [
        np.abs([barker_probability(x, 0.0, each) - expit(x) for x in ratios]).max()
        for each in (test, barker_test(1.0))
    ]
    # Masses that sum to 1 err a little less than those of the table.
    assert 5e-4 < errors[0] < EXPECTED[4000, 1.0, 10.0]
    assert errors[1] < 6e-8


STATES = np.linspace(-3.0, 3.0, 31)


def exact():
    return np.exp(np.minimum(moves(STATES)[0], 0.0))


def test_the_exact_chain_has_the_posterior():
    density = np.exp(-0.5 * STATES**2)
    found = stationary(kernel(exact(), STATES))
    assert found == pytest.approx(density / density.sum(), rel=1e-6)


def test_the_bound_holds_and_says_little():
    acceptance = sequential_acceptance(STATES, 0.1, exact())
    matrix, near = (kernel(each, STATES) for each in (exact(), acceptance))
    distance = 0.5 * np.abs(stationary(near) - stationary(matrix)).sum()
    bound = np.abs(acceptance - exact()).max() / (1.0 - contraction(matrix))
    assert 0.01 < distance < bound
    assert bound > 1.0
