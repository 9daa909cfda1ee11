"""Stationarity, detailed balance and spectral gap of every acceptance test, by its matrix."""

import json

import numpy as np
import pytest

from exactness import kernels, law
from exactness.enumeration import transition_matrix
from exactness.poisson import Rule
from exactness.poisson import transition_matrix as matrix_by_counts
from exactness.test_enumeration import matrix
from exactness.test_poisson import RULES, chains, matrices

STORED = json.loads(law.FILE.read_text())
EXACT = json.loads(law.EXACT_FILE.read_text())


def is_a_law_of_moves(moves):
    # The diagonal is what is left of 1.
    return moves.min() >= -1e-14 and np.abs(moves.sum(axis=1) - 1.0).max() <= 1e-14


@pytest.mark.parametrize("name", RULES)
def test_one_step_of_a_poisson_test_keeps_the_target(name):
    for chain, moves in zip(chains(), matrices(name), strict=True):
        assert is_a_law_of_moves(moves)
        assert law.drift(moves, chain.target()) <= 1e-12
        assert law.imbalance(moves, chain.target()) <= 1e-14
        assert law.gap(moves) > 1e-4


@pytest.mark.parametrize("name", RULES)
def test_stored_figures_of_an_exact_test_are_within_rounding(name):
    stored = EXACT[name]
    assert stored["chains"] == len(chains()) >= 50
    assert max(stored["total variation"], stored["drift"]) <= 1e-12
    assert stored["imbalance"] <= 1e-14
    gaps = [law.gap(moves) for moves in matrices(name)]
    assert stored["gap"] == pytest.approx(min(gaps), rel=0, abs=1e-10)


@pytest.mark.parametrize("chain", kernels.CHAINS)
@pytest.mark.parametrize("name", kernels.RULES)
def test_figures_of_an_approximate_test_are_the_stored_ones(name, chain):
    moves = matrix(name, chain)
    assert is_a_law_of_moves(moves)
    found = law.of(moves, kernels.CHAINS[chain].target())
    assert found == pytest.approx(STORED[name][chain], rel=0, abs=1e-10)
    # None of them is exact, though nearly so where a rare row is always read; all are ergodic.
    assert found["drift"] > (1e-10 if kernels.CHAINS[chain].heavy else 1e-5)
    assert found["gap"] > 0.01


@pytest.mark.parametrize("chain", kernels.CHAINS)
@pytest.mark.parametrize("name", kernels.FULL_DATA_RULES)
def test_one_step_with_all_rows_keeps_the_target(name, chain):
    target = kernels.CHAINS[chain].target()
    moves = transition_matrix(kernels.CHAINS[chain], kernels.FULL_DATA_RULES[name])
    assert law.drift(moves, target) <= 1e-12
    assert law.imbalance(moves, target) <= 1e-14


def test_a_move_in_one_direction_only_is_seen():
    """A cycle keeps its uniform law, without detailed balance, and returns every third step."""
    cycle, target = np.roll(np.eye(3), 1, axis=1), np.full(3, 1.0 / 3.0)
    assert law.drift(cycle, target) == 0.0
    assert law.imbalance(cycle, target) > 0.3
    assert law.gap(cycle) == pytest.approx(0.0, abs=1e-12)


def test_a_violated_bound_drifts():
    chain = chains()[3]
    rule = Rule(RULES["best"], thin=lambda change, *rest: (1.0, 0.5 * change))
    assert law.drift(matrix_by_counts(chain, rule), chain.target()) > 1e-4
