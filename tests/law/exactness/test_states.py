"""Poisson tests on rows that sum over states are exact for the posterior summed by SciPy."""

import numpy as np
import pytest

from helpers.tiers import fast
from law.exactness.enumeration import total_variation
from law.exactness.groups import move, rule
from law.exactness.poisson import RULES, transition_matrix
from law.exactness.states import SIZE, chain_of
from law.exactness.test_groups import (
    PAIRS,
    altered,
    assert_accepts_as_enumerated,
    assert_stationary,
    narrow,
)

every_chain = pytest.mark.parametrize("case", SIZE, ids=lambda case: f"{case[0]}, {case[1]}")


@every_chain
def test_chains_have_room_to_be_wrong(case):
    """Moves evaluate some rows, or all, and changes come near their bounds."""
    chain, settings = chain_of(*case), rule("best").settings
    moves = [move(chain, settings, *pair, 0) for pair in PAIRS]
    some = [x for x in moves if not x.by_all_rows]
    assert len(some) > 3
    assert all(chain.table_of(*pair)[0] < 0 for pair in PAIRS if 4 in pair) or case[1] == 0
    assert chain.target()[:3].min() > 0.02
    ratios = [(np.abs(x.changes) / x.bounds).max() for x in some]
    assert 0.01 < max(ratios) <= 1.0
    assert any(x.bounds.sum() > 0.05 for x in some)


@pytest.mark.parametrize("name", RULES)
@every_chain
def test_stationary_law_is_the_sum_over_states(case, name):
    assert_stationary(chain_of(*case), name)


@pytest.mark.parametrize("name", fast(RULES, ("best", "paper")))
@every_chain
def test_the_compiled_test_accepts_as_enumerated(case, name):
    assert_accepts_as_enumerated(chain_of(*case), name)


def test_bounds_that_are_too_small_are_not_exact():
    chain = chain_of("animals", 1)
    matrix = transition_matrix(chain, rule("best", **altered(narrow)))
    assert total_variation(matrix, chain.target()) > 1e-6
