"""The bound of the stationary distribution, and the table of the abstracts' claims."""

import numpy as np
import pytest

from papers import abstracts
from papers.korattikara_bound import (
    contraction,
    corollary_1,
    kernel,
    moves,
    sequential_acceptance,
    stationary,
)
from papers.report import Claim, Report

STATES = np.linspace(-3.0, 3.0, 31)


def exact():
    return np.exp(np.minimum(moves(STATES)[0], 0.0))


def test_the_exact_chain_has_the_posterior():
    density = np.exp(-0.5 * STATES**2)
    found = stationary(kernel(exact(), STATES))
    assert found == pytest.approx(density / density.sum(), rel=1e-6)


def test_contraction_is_that_of_two_distributions():
    matrix = np.array([[0.9, 0.1], [0.3, 0.7]])
    assert contraction(matrix) == pytest.approx(0.6)
    # Two states forget where they began by this factor a step.
    apart = np.array([1.0, -1.0]) @ matrix
    assert 0.5 * np.abs(apart).sum() == pytest.approx(0.6)


def test_the_bound_holds_and_says_little():
    acceptance = sequential_acceptance(STATES, 0.1, exact())
    matrix, near = (kernel(each, STATES) for each in (exact(), acceptance))
    distance = 0.5 * np.abs(stationary(near) - stationary(matrix)).sum()
    bound = np.abs(acceptance - exact()).max() / (1.0 - contraction(matrix))
    assert 0.01 < distance < bound
    assert bound > 1.0


def test_corollary_1_is_above_1_at_the_published_batch():
    assert corollary_1(125.4, first=1.0) == pytest.approx(1.09, abs=0.005)
    assert corollary_1(4 * 125.4) == pytest.approx(0.5 * corollary_1(125.4))


def test_figures_of_the_abstracts_are_looked_up(monkeypatch, tmp_path):
    monkeypatch.setattr(abstracts, "RESULTS", tmp_path)
    claims = [Claim("rows a test", "-", None, 1.0, 1234.5), Claim("rows b", "-", None, 1.0, 0.123)]
    Report("", claims, run={}).write(tmp_path / "x.json")
    assert abstracts.rounded(abstracts.claim("x", "rows a").measured) == "1,234"
    assert abstracts.rounded(abstracts.claim("x", "rows b").measured) == ".12"
    with pytest.raises(ValueError, match="too many"):
        abstracts.claim("x", "rows")
    assert abstracts.listed([0.5, 2.0], " %") == ".5 and 2 %"
