"""Tests that are handed rows from supplies are exact: their law, and every decision they make.

The law is enumerated over the number of rows and over the rows that come next in a supply, each
by its chance to be drawn, which bounds/test_blocks.py counts. That the compiled loop is that
test, with supplies of the shipped pool, is held against a loop in Python that takes rows from a
plain list, decision by decision.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numba import njit

from chain.supplied import KEY, pool_of, sequence, tables_of
from exactness import poisson as enumeration
from exactness.compiled import Compiled, Elsewhere, nearest
from exactness.poisson import Rule, accept, acceptance, logistic, random_chain
from exactness.test_poisson import RULES
from kernels import chain as loop
from kernels.chain import line
from pymc_minibatch_mh.chain.pool import ROOM
from pymc_minibatch_mh.data.reading import load
from pymc_minibatch_mh.kernels import counts as entry
from pymc_minibatch_mh.kernels.bound_tables import TOTAL, no_tables, table_of_move
from pymc_minibatch_mh.kernels.first_class import address_of
from pymc_minibatch_mh.kernels.moves import GIVEN, Move
from pymc_minibatch_mh.kernels.posterior import Posterior, RowSpace
from pymc_minibatch_mh.kernels.signatures import (
    EVALUATE_SIGNATURE,
    LOGP_SIGNATURE,
    METRIC_SIGNATURE,
)
from pymc_minibatch_mh.methods import poisson

# The law.

#: Rows that are drawn in one move, and whose counts are told apart, at most.
MOST_DRAWN = 22
NAMES = ("best", "paper", "MH-SS", "factorized", "best, delayed", "best, too many rows")


def small_chain(seed):
    """Three states and three rows, of which few are drawn."""
    rng = np.random.default_rng(seed)
    while True:
        chain = random_chain(rng, order=1, family=logistic, beta=0.6, components=1, outside=1)
        if chain.log_likelihood.shape == (3, 3):
            weaker = ("log_likelihood", "expansion", "sizes")
            return replace(chain, **{name: 0.5 * getattr(chain, name) for name in weaker})


def in_order(rule, move, shares=None, again=0.0):
    """Return log products, and their probabilities, over sequences of rows that come next.

    Parameters
    ----------
    rule, move, shares
        As in :func:`exactness.poisson.log_products`.
    again
        Chance that the next row is the last one once more, which is a mistake.
    """
    size = move.bounds.sum()
    shares = move.bounds / size if shares is None else shares
    thinned = [
        rule.thin(*row, size, move.settings) for row in zip(move.changes, move.bounds, strict=True)
    ]
    keep, added = (np.array(part) for part in zip(*thinned, strict=True))
    expected = rule.rate(size, move.settings)
    rows = len(shares)
    # What was kept how often, and which row came last -> probability.
    law, chance = {((0,) * rows, None): 1.0}, np.exp(-expected)
    found = {}
    for drawn in range(1, MOST_DRAWN + 2):
        for (kept, _), weight in law.items():
            found[kept] = found.get(kept, 0.0) + chance * weight
        law, before = {}, law
        for (kept, last), weight in before.items():
            for row in range(rows):
                share = shares[row]
                if again and last is not None:
                    share = (1.0 - again) * share + again * (row == last)
                more = (*kept[:row], kept[row] + 1, *kept[row + 1 :])
                memory = row if again else None
                for then, part in ((more, keep[row]), (kept, 1.0 - keep[row])):
                    key = then, memory
                    law[key] = law.get(key, 0.0) + weight * share * part
        chance *= expected / drawn
    assert chance < 1e-15
    kept = np.array(list(found))
    # A row that favours nothing of a veto is never kept.
    products = np.where(kept > 0, kept * np.where(np.isfinite(added), added, -1e300), 0.0).sum(
        axis=1
    )
    return products, np.array(list(found.values()))


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_come_next_decide_as_rows_that_are_drawn(name):
    for seed in (1, 2):
        chain, flows = small_chain(seed), {}
        drawn, next_ones = Rule(RULES[name]), Rule(RULES[name], log_products=in_order)
        target = chain.target()
        for i, j in product(range(3), range(3)):
            if i == j:
                continue
            move = enumeration.move(chain, RULES[name], i, j, 0)
            found = acceptance(next_ones, move)
            assert found == pytest.approx(acceptance(drawn, move), abs=1e-13)
            flows[i, j] = target[i] * chain.proposals[0, i, j] * found
        for (i, j), flow in flows.items():
            assert abs(flow - flows[j, i]) <= 1e-14


def imbalance(name, log_products):
    worst = 0.0
    for seed in (1, 2):
        chain, flows = small_chain(seed), np.zeros((3, 3))
        for i, j in product(range(3), range(3)):
            if i != j:
                move = enumeration.move(chain, RULES[name], i, j, 0)
                rule = Rule(RULES[name], log_products=log_products)
                flows[i, j] = chain.target()[i] * chain.proposals[0, i, j] * acceptance(rule, move)
        worst = max(worst, np.abs(flows - flows.T).max())
    return worst


#: What a supply could do wrong, and a shipped rule that notices.
WRONG = {
    "a row that comes twice": lambda rule, move: in_order(rule, move, again=0.5),
    "rows of another table": lambda rule, move: in_order(
        rule, move, shares=move.bounds[::-1] / move.bounds.sum()
    ),
    "rows drawn evenly": lambda rule, move: in_order(rule, move, shares=np.full(3, 1.0 / 3.0)),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_supplies_are_not_exact(what):
    assert imbalance("best", WRONG[what]) > 1e-5


# The loop.

STATES = 5
POSITIONS = np.array([-0.8, -0.2, 0.5, 2.0, 9.0])
#: Moves among the first three states are served by one table, those of the fourth by the other.
RADII = np.array([1.0, 3.0])
BETA, ROWS = 0.7, 11
RANDOM = np.random.default_rng(7)
TABLE = RANDOM.normal(size=(STATES, ROWS)) * 0.5
PRIOR = -BETA * TABLE.sum(axis=1) + 0.3 * RANDOM.normal(size=STATES)
#: c_i of both tables, with c_i M above every change of its states; the first is the smaller.
SPREADS = [np.ptp(TABLE[:k], axis=0) * BETA / 2.0 for k in (3, 4)]
C = np.array([1.05 * SPREADS[0], 1.1 * SPREADS[1] + 0.05 * RANDOM.uniform(size=ROWS)], np.float32)
METRIC = 2.0
UPDATES = 6_000


@njit(LOGP_SIGNATURE)
def prior(position, context):
    return PRIOR[nearest(POSITIONS, position)]


@njit(EVALUATE_SIGNATURE)
def evaluate(position, new, centre, rows, ends, context, differences, scales):
    i, j = nearest(POSITIONS, position), nearest(POSITIONS, new)
    for k in range(rows.size):
        row = load(context[0] + 8 * rows[k], np.int64)
        differences[k] = TABLE[j, row] - TABLE[i, row]
        scales[k] = 1.0


@njit(METRIC_SIGNATURE)
def metric(position, new):
    return METRIC


def tables():
    found = tables_of(C, RADII)
    found.heads[:, 1] = GIVEN
    return found


class Ends:
    """The ends of the loop's moves, for a pool that is asked about all rows."""

    def __init__(self):
        self.move = None

    def of(self, *parts):
        self.move = Move(*parts)
        return self.move

    def change(self, here, there):
        i, j = (nearest(POSITIONS, x) for x in (self.move.position, self.move.new))
        return float((TABLE[j] - TABLE[i]).sum())


def compiled(settings):
    """Return states and counts of the compiled loop, by a pool."""
    ends, blocks = Ends(), tables()
    pool = pool_of(blocks, change=ends.change)
    pool.serve(None, None)
    heads = no_tables()._replace(heads=blocks.heads, c=pool.c, supply=pool.supply)
    posterior = Posterior(
        address_of(prior),
        address_of(evaluate),
        RowSpace(pool.space.term_starts, pool.space.context),
        line(BETA),
        heads._replace(metric=address_of(metric)),
    )
    loaded = Compiled(POSITIONS, posterior, Elsewhere(POSITIONS), settings, (prior, evaluate))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "Move", ends.of)
        states, counts = loaded.run(UPDATES, seed=51)
    pool.require_served()
    return states, counts, pool


def reference(settings, posterior):
    """Return the same, by rows of a list: state, rows read and log ratio of every update."""
    rng, blocks = np.random.default_rng(51), tables()
    rows = [sequence(blocks, table, 16).tolist() for table in (0, 1)]
    used, state, found = [0, 0], 0, []
    for _ in range(UPDATES):
        new = (state + rng.integers(1, STATES)) % STATES
        cheap = PRIOR[new] - PRIOR[state]
        before, count = state, 0
        if settings.delayed and not rng.random() < np.exp(min(cheap, 0.0)):
            found.append((before, 0, cheap))
            continue
        ends = POSITIONS[[state]], POSITIONS[[new]]
        table, m = table_of_move(posterior.tables, posterior.surrogate, *ends)
        total = 0.0
        if table < 0:
            total, count = BETA * (TABLE[new] - TABLE[state]).sum(), ROWS
        else:
            size = posterior.tables.heads[table, TOTAL] * m
            left = rng.poisson(poisson.rate(size, settings))
            while left > 0 and total > -np.inf:
                row = rows[table][used[table]]
                used[table] += 1
                bound = float(C[table, row]) * m
                change = -BETA * (TABLE[new, row] - TABLE[state, row])
                kept, added = poisson.thin(change, bound, size, settings)
                total += added if rng.random() < kept else 0.0
                left, count = left - 1, count + 1
        probability = accept(0.0 if settings.delayed else cheap, total, 0.0)
        state = new if rng.random() < probability else state
        found.append((before, count, cheap + total))
    return (np.array(part) for part in zip(*found, strict=True)), used


@pytest.mark.parametrize("name", ["best", "paper", "MH-SS", "factorized", "best, delayed"])
def test_the_loop_decides_by_the_rows_that_come_next(name):
    # Many rows, so that every table needs supplies again and again.
    settings = RULES[name]
    if settings.chi:
        settings = settings._replace(chi=0.4)
    states, counts, pool = compiled(settings)
    heads = no_tables()._replace(heads=tables().heads, metric=address_of(metric))
    own = Posterior(0, 0, pool.space, line(BETA), heads)
    (before, read, log_ratio), used = reference(settings, own)
    np.testing.assert_array_equal(np.abs(states[:, None] - POSITIONS).argmin(axis=1), before)
    np.testing.assert_array_equal(counts[:, entry.N_OBS], read)
    np.testing.assert_allclose(counts[:, entry.LOG_RATIO], log_ratio, rtol=1e-12, atol=1e-12)
    assert (pool.supply.places[:, 2] == -(-np.array(used) // ROOM)).all()
    assert min(used) > (2.5 * ROOM if settings.chi else 100)
    assert 0.05 < counts[:, entry.FULL_PASS].mean() < 0.6
    assert pool._state.supply_key == KEY
