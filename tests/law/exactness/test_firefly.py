"""Firefly Monte Carlo is exact on small chains, and mutants of it are not."""

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest

from helpers.published import ANEW, BRIGHT, DARK, chance_to_be_bright, log_odds, log_ratio_of_bright
from law.exactness import firefly as enumeration
from law.exactness.compiled import BY_BOUNDS, chance
from law.exactness.enumeration import stationary_law
from law.exactness.firefly import (
    Rule,
    compiled,
    declare_logistic,
    declare_student,
    law_given_positions,
    law_of_brightness,
    quadratic_chain,
    random_chain,
    scaled,
    transition_matrix,
)
from law.statistical.budget import LEVEL

pytestmark = BY_BOUNDS

# 12 chains: β, components of the proposal, states that need all rows.
DESIGN = list(product((1.0, 0.5), (1, 2), (0, 1, 2)))
QS = (0.05, 0.4, 1.0)
UPDATES = 40_000


@cache
def chains():
    rng = np.random.default_rng(20241122)
    names = ("beta", "components", "outside")
    return [random_chain(rng, **dict(zip(names, case, strict=True))) for case in DESIGN]


@cache
def matrices(q):
    return [transition_matrix(chain, Rule(q)) for chain in chains()]


def positions_of(law, chain):
    """Return the law of the position, shape (S,)."""
    return law.reshape(len(chain.positions), -1).sum(axis=1)


def distance(chain, matrix):
    return 0.5 * np.abs(positions_of(stationary_law(matrix), chain) - chain.target()).sum()


def test_chains_have_room_to_be_wrong():
    shares, tables = [], set()
    for chain in chains():
        assert chain.target().min() > 0.005
        laws = law_given_positions(chain)
        inside = np.isfinite(laws).all(axis=1)
        assert inside.sum() == 4
        assert laws[inside].min() >= 0.0
        # That all rows are dark, or bright.
        shares += [laws[inside][:, 0].mean(), laws[inside][:, -1].mean()]
        tables |= {enumeration.place(chain, k, k)[0] for k in np.flatnonzero(inside)}
        for state in np.flatnonzero(inside):
            table, m = enumeration.place(chain, state, state)
            assert enumeration.excess(chain, state, table, m).min() >= 0.0
    assert tables == {0, 1}
    assert np.mean(shares) > 0.1
    assert max(shares) < 0.9


@pytest.mark.parametrize("q", QS)
def test_the_law_of_the_position_is_the_target(q):
    assert max(distance(*pair) for pair in zip(chains(), matrices(q), strict=True)) <= 1e-13


@pytest.mark.parametrize("q", QS)
def test_the_joint_law_is_kept_and_the_only_one(q):
    for chain, matrix in zip(chains(), matrices(q), strict=True):
        laws, stationary = law_given_positions(chain), stationary_law(matrix)
        inside = np.isfinite(laws).all(axis=1)
        if inside.all():
            joint = chain.target()[:, None] * np.column_stack([laws, np.zeros(len(laws))])
            assert np.abs(joint.ravel() @ matrix - joint.ravel()).sum() <= 1e-14
        # Brightness that is known has its law given the position; outside none is known.
        known = stationary.reshape(len(inside), -1)[:, :-1]
        given = known[inside] / known[inside].sum(axis=1, keepdims=True)
        np.testing.assert_allclose(given, laws[inside], atol=1e-12)
        assert np.abs(known[~inside]).max(initial=0.0) <= 1e-14
        reached = stationary > 1e-15
        inner = matrix[np.ix_(reached, reached)]
        assert np.sort(np.abs(np.linalg.eigvals(inner)))[-2] < 1.0 - 1e-4


@pytest.mark.parametrize("declare", [declare_logistic, declare_student])
def test_bounds_that_touch_in_the_centre_keep_the_joint_law(declare):
    rng = np.random.default_rng(20261127)
    for beta, q in product((1.0, 0.5), QS):
        chain = quadratic_chain(rng, declare, beta=beta)
        matrix, laws = transition_matrix(chain, Rule(q)), law_given_positions(chain)
        # Rows are dark and bright: there is room to be wrong.
        assert 0.02 < laws[:, 0].mean() < 0.98
        joint = chain.target()[:, None] * np.column_stack([laws, np.zeros(len(laws))])
        assert np.abs(joint.ravel() @ matrix - joint.ravel()).sum() <= 1e-14
        assert distance(chain, matrix) <= 1e-13


@pytest.mark.parametrize("q", QS)
def test_the_update_of_brightness_balances_every_pair(q):
    chain = chains()[0]
    for state, law in enumerate(law_given_positions(chain)):
        odds = [log_odds(x) for x in enumeration.excess(chain, state, *_place(chain, state))]
        kernel = np.array([law_of_brightness(Rule(q), odds, k) for k in range(len(law))])
        flow = law[:, None] * kernel
        assert np.abs(flow - flow.T).max() <= 1e-15
        anew = law_of_brightness(Rule(q), odds, None)
        np.testing.assert_allclose(anew, law, atol=1e-15)


def _place(chain, state):
    return enumeration.place(chain, state, state)


def test_the_odds_of_a_row_far_above_its_bound_and_on_it():
    assert log_odds(0.0) == log_odds(-1e-9) == -np.inf
    for excess in (1e-12, 0.3, 1.0, 1.5, 30.0):
        assert log_odds(excess) == pytest.approx(np.log(np.expm1(excess)), rel=1e-14)
    assert log_odds(800.0) == 800.0
    for kind in (ANEW, DARK, BRIGHT):
        chances = [chance_to_be_bright(odds, 0.1, kind) for odds in (-np.inf, 800.0)]
        assert chances == [0.0, 1.0]


# Mutants: of the chances ...


def darkened_without_q(odds, q, kind):
    return chance_to_be_bright(odds, 1.0 if kind == BRIGHT else q, kind)


# ... of the bound ...


def table_of_the_pair(chain, state, other):
    tables = [enumeration.place(chain, k, k) for k in (state, other)]
    larger = max(table for table, _ in tables)
    return (-1 if min(table for table, _ in tables) < 0 else larger), tables[0][1]


# ... and of the log ratio.


def bounds_left_out(cheap, sizes, odds):
    return log_ratio_of_bright(cheap, (0.0, 0.0), odds)


MUTANTS = {
    "rows darken without q": {"chance": darkened_without_q},
    "table of the pair": {"place": table_of_the_pair},
    "bounds left out of the ratio": {"log_ratio": bounds_left_out},
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_not_exact(name):
    mutant = Rule(0.4, **MUTANTS[name])
    assert max(distance(c, transition_matrix(c, mutant)) for c in chains()[1::3]) > 1e-3


def test_bounds_that_do_not_hold_are_not_exact():
    found = [
        max(distance(c, transition_matrix(scaled(c, factor), Rule(0.4))) for c in chains()[::3])
        for factor in (0.75, 0.5)
    ]
    assert 1e-3 < 2.0 * found[0] < found[1]


# The compiled loop.


def loop(q):
    """Two components of the proposal, two tables and a state that all rows decide."""
    return compiled(chains()[4], q)


def test_brightness_is_drawn_anew_for_single_decisions():
    shipped = loop(0.4)
    chain, forgetful = shipped.chain, shipped.test._replace(forgets=1)
    found, counts = replace(shipped, test=forgetful).run(UPDATES, seed=53)
    anew = Rule(0.4, law=lambda rule, odds, before: law_of_brightness(rule, odds, None))
    shape = (len(chain.positions), 2**chain.n_rows + 1) * 2
    matrix = transition_matrix(chain, anew).reshape(shape)[:, -1].sum(-1)
    assert chance(found.reshape(shape).sum((1, 3)), matrix) > LEVEL
    assert (counts["full_pass"] == 1.0).all()


def test_rows_that_are_read_are_counted():
    """With q = 1 all rows are read where an update begins, and the bright ones where it ends."""
    inside = compiled(chains()[3], 1.0)
    _, counts = inside.run(500, seed=54)
    np.testing.assert_array_equal(counts["n_obs"], 3 + counts["n_bright"])
    assert counts["full_pass"][0] == 1.0
    assert not counts["full_pass"][1:].any()
    assert sorted(inside.test.brightness.rows) == [0, 1, 2]
    assert np.ptp(counts["n_bright"]) == 3
