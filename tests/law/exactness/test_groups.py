"""Poisson tests whose rows are groups are exact for the posterior summed over frozen nodes."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from helpers.tiers import fast
from law.exactness import groups, law
from law.exactness.enumeration import total_variation
from law.exactness.groups import CASES, HEAVY, STATES, chain_of, chance, rule
from law.exactness.poisson import RULES, transition_matrix
from law.statistical.budget import VERY_FAR
from pymc_minibatch_mh.reference.node_rule import effect_moments

PAIRS = [*permutations(range(len(STATES)), 2)]
REPETITIONS = 4_000
every_chain = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}, {case[1]}")


def assert_stationary(chain, name):
    """Require the target of a chain to be the stationary law of its moves by a test."""
    matrix = transition_matrix(chain, rule(name))
    assert law.is_one_of_moves(matrix)
    assert total_variation(matrix, chain.target()) <= 1e-12
    assert law.imbalance(matrix, chain.target()) <= 1e-14
    assert law.gap(matrix) > 1e-2


def assert_accepts_as_enumerated(chain, name):
    """Require compiled decisions of a test between all states to have enumerated frequencies."""
    for seed, pair in enumerate(PAIRS):
        mean, sd = chance(chain, name, *pair)
        found = chain.accepted(rule(name).settings, *pair, REPETITIONS, seed)
        assert abs(found - mean) <= VERY_FAR * sd / np.sqrt(REPETITIONS) + 1e-12, pair


def moves(case):
    chain, settings = chain_of(*case), rule("best").settings
    return {pair: groups.move(chain, settings, *pair, 0) for pair in PAIRS}


def test_chains_have_room_to_be_wrong():
    sizes = chain_of(*CASES[0]).posterior.compiled.layout.starts
    assert np.diff(sizes[0]).tolist() == [2, 3, 0, 1]
    ratios, kinds = [], set()
    for case in CASES:
        chain = chain_of(*case)
        assert chain.target()[:4].min() > 0.05
        for pair, move in moves(case).items():
            back = groups.move(chain, move.settings, *pair[::-1], 0)
            kinds.add((chain.table_of(*pair)[0], move.by_all_rows))
            assert move.by_all_rows == back.by_all_rows
            np.testing.assert_array_equal(move.bounds, back.bounds)
            # The second of the light groups has no rows, and never changes.
            assert move.changes[1] == 0.0
            if chain.table_of(*pair)[0] >= 0:
                assert (np.abs(move.changes) <= move.bounds).all()
                ratios.append((np.abs(move.changes) / move.bounds.clip(1e-300)).max())
            assert abs(move.known) > 1e-4 * np.abs(move.changes).max()
    assert max(ratios) > 0.1
    # Tables of several regions, none at all, and moves that all groups decide within a region.
    assert (-1, True) in kinds
    assert len({table for table, whole in kinds if not whole}) > 3
    assert any(whole for table, whole in kinds if table >= 0)


@pytest.mark.parametrize("name", RULES)
@every_chain
def test_stationary_law_is_the_sum_over_nodes(case, name):
    assert_stationary(chain_of(*case), name)


@pytest.mark.parametrize("name", fast(RULES, ("best", "paper", "factorized")))
@every_chain
def test_the_compiled_test_accepts_as_enumerated(case, name):
    assert_accepts_as_enumerated(chain_of(*case), name)


@pytest.mark.parametrize("case", [case for case in CASES if case[1] == 2])
def test_moves_have_the_smallest_region_with_both_ends(case):
    """Regions lie between two squares of the scale, and in a ball of what is independent of it."""
    chain = chain_of(*case)
    moves = chain.positions - chain.reference.centre
    z = moves[:, 2] / np.linalg.norm(chain.reference.factor[2])
    w = moves @ chain.reference.whitener.T
    lengths, headers = np.sqrt((w**2).sum(axis=1) - z**2), chain.tables.headers
    low, high = chain.tables.intervals.T[:, :, None]
    holds = (low <= z) & (z <= high) & (lengths <= headers[:, :1])
    for i, j in PAIRS:
        both = np.flatnonzero(holds[:, i] & holds[:, j])
        table, m = chain.table_of(i, j)
        assert (table < 0) == (both.size == 0)
        if table >= 0:
            assert table == both[np.argmin(chain.tables.heads_of_drawn[both, 2])]
            assert m == 1.0


# Mutants: of the groups that are drawn ...


def altered(change):
    """Alter a move, given the chain and the pair."""

    def move(chain, settings, *pair):
        shipped = groups.move(chain, settings, *pair)
        return replace(shipped, **change(shipped, chain, *pair[:2]))

    return {"move": move}


def heavy_twice(move, chain, i, j):
    """Draw the heavy group as well."""
    table, m = chain.table_of(i, j)
    if table < 0:
        return {}
    changes = np.append(move.changes, chain.changes(i, j)[HEAVY])
    return {"changes": changes, "bounds": np.append(move.bounds, chain.tables.c[table, HEAVY] * m)}


def narrow(move, *_):
    return {"bounds": 0.02 * move.bounds}


# ... and of the nodes.


def nodes_of_the_state(move, chain, i, j):
    """Place the nodes where the effects are given the position that a move begins at."""
    posterior, here = chain.posterior, chain.positions[i]
    law_of_effects = posterior.compiled.layout.groups.law
    moments = effect_moments(posterior.group_rows, here)
    nodes = moments.nodes(law_of_effects, posterior.group_rows.nodes.z.shape[2])
    changes = replace(chain, posterior=posterior.at_nodes(nodes)).changes(i, j)
    return {"changes": np.delete(changes, HEAVY), "known": -changes[HEAVY]}


#: Name -> what is altered.
MUTANTS = {
    "heavy groups drawn as well": heavy_twice,
    "bounds x 0.02": narrow,
    "nodes placed at every state": nodes_of_the_state,
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_not_exact(name):
    mutant = rule("best", **altered(MUTANTS[name]))
    found = [
        total_variation(transition_matrix(chain_of(*case), mutant), chain_of(*case).target())
        for case in CASES
    ]
    assert max(found) > 1e-4
