"""Poisson tests that drop candidates by a copy of whitened rows are exact, mutants are not."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import wide as copies
from law.exactness import law, wide
from law.exactness.compiled import BY_BOUNDS
from law.exactness.enumeration import total_variation
from law.exactness.poisson import transition_matrix
from pymc_minibatch_mh.native.statistics import summed

UPDATES = 60_000


@pytest.mark.parametrize("name", wide.RULES)
def test_stationary_law_is_the_target(name):
    for chain in wide.chains():
        moves = transition_matrix(chain, wide.rule(name))
        assert law.is_one_of_moves(moves)
        assert total_variation(moves, chain.target()) <= 1e-12
        assert law.imbalance(moves, chain.target()) <= 1e-14
        assert law.gap(moves) > 1e-4


def test_chains_have_room_to_be_wrong():
    found = []
    for chain in wide.chains():
        for i in range(wide.STATES):
            for j in range(i):
                shares = chain.shares(i, j, 1.0)
                assert (shares == chain.shares(j, i, 1.0)).all()
                pair = wide.move(chain, wide.RULES["best"], i, j, 0)
                found.append(np.abs(pair.changes) / (pair.bounds * shares))
                assert (found[-1] <= 1.0).all()
    found = np.concatenate(found)
    # Some rows change by as much as they may, which is far less than all might.
    assert found.max() > 0.95
    assert min(chain.shares(0, 2, 1.0).min() for chain in wide.chains()) < 0.2


def ceiling_not_passed_on(rule, move):
    """Thin candidates as if their ceilings were still those that they are drawn by."""
    size = move.bounds.sum()
    rates = rule.rate(size, move.settings) * move.bounds / size * move.shares
    return wide.of_ceilings(rule, move, move.bounds, rates)


def of_one_end(chain, settings, i, j, component):
    """Look at the end that a move comes from alone."""
    found = wide.move(chain, settings, i, j, component)
    ends, size = (chain.places[i], np.zeros(wide.SIZE)), chain.sizes[i, j]
    one = copies.shares(chain.copy, *ends, chain.order, per_size=size)
    return replace(found, shares=one)


def scaled(factor):
    def move(chain, settings, *pair):
        found = wide.move(chain, settings, *pair)
        return replace(found, shares=factor * found.shares)

    return move


MUTANTS = {
    "ceiling not passed on": {"log_products": ceiling_not_passed_on},
    "ceiling of one end": {"move": of_one_end},
    "ceiling x 0.9": {"move": scaled(0.9)},
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_not_exact(name):
    mutant = wide.rule("best", **MUTANTS[name])
    found = [total_variation(transition_matrix(c, mutant), c.target()) for c in wide.chains()]
    assert max(found) > 1e-4


@BY_BOUNDS
def test_candidates_and_rows_are_counted():
    totals = {}
    for name in ("best", "best, factor 2.5"):
        _, counts = wide.loop(name)[0].run(UPDATES, seed=7)
        totals[name] = summed(counts)
        assert 0.0 < totals[name]["n_obs"] < totals[name]["n_candidates"]
        assert 0.5 < counts["bound_ratio"].max() <= 1.0
    few, many = totals.values()
    # What a choice of κ learns from does not depend on κ, but for ceilings that are cut.
    for count in ("n_ratios", "squared_ratios"):
        assert few[count] == pytest.approx(many[count], rel=0.6)
    assert many["n_obs"] > 1.3 * few["n_obs"]
