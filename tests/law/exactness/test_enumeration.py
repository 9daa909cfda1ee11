"""The stationary laws of the shipped tests on small chains, and mutants that move them."""

import json
from functools import cache

import numpy as np
import pytest
from scipy.special import expit

from law.exactness import law
from law.exactness.enumeration import children, subsets, total_variation, transition_matrix
from law.exactness.kernels import CHAINS, FULL_DATA_RULES, RULES
from law.exactness.mutants import FULL_DATA_MUTANTS, MUTANTS

STORED = json.loads(law.FILE.read_text())
#: Distances of stationary laws to their targets.
FIGURES = {
    name: {data: row["total variation"] for data, row in found.items()}
    for name, found in STORED.items()
}


@cache
def matrix(name, chain):
    return transition_matrix(CHAINS[chain], RULES[name])


def distance(name, chain):
    return total_variation(matrix(name, chain), CHAINS[chain].target())


def distance_of(rule, chain):
    return total_variation(transition_matrix(CHAINS[chain], rule), CHAINS[chain].target())


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("name", RULES)
def test_bias_is_the_stored_figure(name, chain):
    """And so are the figures of one step."""
    moves = matrix(name, chain)
    assert law.is_one_of_moves(moves)
    found = law.of(moves, CHAINS[chain].target())
    assert found == pytest.approx(STORED[name][chain], rel=0, abs=1e-10)
    # None of them is exact, though nearly so where a rare row is always read; all are ergodic.
    assert found["drift"] > (1e-10 if CHAINS[chain].heavy else 1e-5)
    assert found["gap"] > (0.05 if chain == "clean" else 0.01)


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("name", FULL_DATA_RULES)
def test_every_test_is_exact_once_it_reads_all_rows(name, chain):
    target, moves = CHAINS[chain].target(), transition_matrix(CHAINS[chain], FULL_DATA_RULES[name])
    assert law.total_variation(moves, target) <= 1e-12
    assert law.drift(moves, target) <= 1e-12
    assert law.imbalance(moves, target) <= 1e-14


def test_a_move_in_one_direction_only_is_seen():
    """A cycle keeps its uniform law, without detailed balance, and returns every third step."""
    cycle, target = np.roll(np.eye(3), 1, axis=1), np.full(3, 1.0 / 3.0)
    assert law.drift(cycle, target) == 0.0
    assert law.imbalance(cycle, target) > 0.3
    assert law.gap(cycle) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", FULL_DATA_MUTANTS)
def test_full_data_mutant_is_not_exact(name):
    assert distance_of(FULL_DATA_MUTANTS[name], "clean") > 1e-8


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_moves_the_figure(name):
    rule, chain, mutant = MUTANTS[name]
    assert abs(distance_of(mutant, chain) - FIGURES[rule][chain]) > 1e-6


def test_growth_until_the_variance_fits_is_fooled_by_an_outlier():
    assert distance("barker, grow", "outlier") > 3.0 * distance("barker", "outlier")


def test_a_smaller_epsilon_does_not_save_the_rare_event():
    assert distance("austere, eps=.01", "rare event") > 0.05
    assert distance("austere, eps=.01", "clean") < 1e-3


def test_barker_accepts_as_often_as_the_logistic_function_says_on_clean_data():
    chain = CHAINS["clean"]
    log_target = np.log(chain.target())
    exact = expit(log_target[None, :] - log_target[:, None]) / (len(log_target) - 1)
    off_diagonal = ~np.eye(len(log_target), dtype=bool)
    gap = np.abs(matrix("barker", "clean") - exact)[off_diagonal]
    assert gap.max() < 5e-3


def test_enumeration_visits_every_batch_equally_often():
    visits = np.bincount(children(6, 2, 4).ravel(), minlength=len(subsets(6, 4)))
    assert len(subsets(6, 2)) == 15
    assert np.all(visits == 6)
