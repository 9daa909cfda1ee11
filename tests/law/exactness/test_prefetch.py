"""Tests that are handed rows from supplies are exact: their law, and every decision they make.

The law is enumerated over the number of rows and over the rows that come next in a supply, each
by its chance to be drawn, which bounds/test_blocks.py counts; that of batches by
test_even_supplies.py. That the compiled loop is these tests, with supplies of the shipped pool, is
held against a loop in Python that takes rows from a plain list, decision by decision.
"""

from dataclasses import replace
from functools import cache, partial
from itertools import permutations, product
from types import SimpleNamespace

import numpy as np
import pytest

from chain.prefetched import KEY, pool_of, sequence, tables_of
from helpers.in_library import decide_batch, rate, sample_size, skewness, thin
from law.exactness import poisson as enumeration
from law.exactness.compiled import grouped, posterior_of
from law.exactness.poisson import RULES, Rule, accept, acceptance, logistic, random_chain
from law.exactness.test_even_prefetch import even_rows
from law.exactness.toys import METRIC, jump, metric, rows_of
from native.chain import Loop, line, visited
from pymc_minibatch_mh.chain.prefetch import SUPPLY_ROWS
from pymc_minibatch_mh.native.bound_tables import NUMBER, TOTAL, no_tables, table_of_move
from pymc_minibatch_mh.native.library import load_library
from pymc_minibatch_mh.native.looks import merge_moments, moments_of, unit_noise
from pymc_minibatch_mh.native.moves import GIVEN
from pymc_minibatch_mh.published.barker_paper import growing
from pymc_minibatch_mh.steps import austere, barker, penalty

# The law.

#: Rows that are drawn in one move, and whose counts are told apart, at most.
MOST_DRAWN = 22
NAMES = ("best", "paper", "MH-SS", "factorized", "best, delayed", "best, too many rows")


@cache
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

    `again` is the chance that the next row is the last one once more, which is a mistake.
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


def flows(name, log_products):
    """Return the flows between states of two chains, and what they are of drawn rows."""
    found = []
    for seed, (i, j) in product((1, 2), permutations(range(3), 2)):
        chain = small_chain(seed)
        move = enumeration.move(chain, RULES[name], i, j, 0)
        share = chain.target()[i] * chain.proposals[0, i, j]
        rules = Rule(RULES[name], log_products=log_products), Rule(RULES[name])
        found.append([(seed, i, j), *(share * acceptance(rule, move) for rule in rules)])
    return found


def imbalance(found):
    there = {pair: flow for pair, flow, _ in found}
    return max(abs(flow - there[seed, j, i]) for (seed, i, j), flow in there.items())


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_come_next_decide_as_rows_that_are_drawn(name):
    found = flows(name, in_order)
    _, next_ones, drawn = zip(*found, strict=True)
    np.testing.assert_allclose(next_ones, drawn, rtol=0.0, atol=1e-13)
    assert imbalance(found) <= 1e-14


#: What a supply could do wrong, and a shipped rule that notices.
WRONG = {
    "a row that comes twice": {"again": 0.5},
    "rows drawn evenly": {"shares": np.full(3, 1.0 / 3.0)},
}


@pytest.mark.parametrize("mistake", WRONG.values(), ids=WRONG)
def test_wrong_supplies_are_not_exact(mistake):
    assert imbalance(flows("best", partial(in_order, **mistake))) > 1e-5


# The loop.

BETA, UPDATES, SEED, NUMBER_OF_ROWS = 0.7, 6_000, 51, 13
POSITIONS = np.array([-0.8, -0.2, 0.5, 2.0, 9.0])
#: Moves among the first three states are served by one table, those of the fourth by the other.
RADII = np.array([1.0, 3.0])
RANDOM = np.random.default_rng(7)
TABLE = RANDOM.normal(size=(POSITIONS.size, NUMBER_OF_ROWS)) * 0.5
PRIOR = -BETA * TABLE.sum(axis=1) + 0.3 * RANDOM.normal(size=POSITIONS.size)
#: c_i of both tables, with c_i M above every change of its states; the first is the smaller.
SPREADS = [np.ptp(TABLE[:k], axis=0) * BETA / METRIC for k in (3, 4)]
SLACK = 0.05 * RANDOM.uniform(size=NUMBER_OF_ROWS)
C = np.array([1.05 * SPREADS[0], 1.1 * SPREADS[1] + SLACK], np.float32)
#: Rows from which on a look reads all of them.
MOST = 11


def state_at(position):
    return int(np.abs(POSITIONS - position).argmin())


class ByBounds:
    """Poisson tests, which draw rows by the bounds of a table."""

    #: Supplies that are used, at least, and how often all rows decide.
    full_passes = (0.05, 0.6)

    def __init__(self, name):
        settings = RULES[name]
        # Many rows, so that every table needs supplies again and again.
        self.settings = settings._replace(chi=0.4) if settings.chi else settings
        self.source, self.heavy = tables_of(C, RADII), np.empty(0, np.int64)
        self.source.headers[:, 1] = GIVEN
        self.tables = no_tables()._replace(headers=self.source.headers, metric=metric)
        self.fewest = 2.5 * SUPPLY_ROWS if settings.chi else 100

    def decide(self, i, j, cheap, rng, take):
        """Return whether a move is accepted, the rows that were read, and the log ratio."""
        settings, total, count = self.settings, 0.0, 0
        if settings.delayed and not rng.random() < np.exp(min(cheap, 0.0)):
            return False, 0, cheap
        ends = POSITIONS[[i]], POSITIONS[[j]]
        table, m = table_of_move(self.tables, line(BETA), *ends)
        if table < 0:
            total, count = BETA * (TABLE[j] - TABLE[i]).sum(), NUMBER_OF_ROWS
        else:
            size = self.tables.headers[table, TOTAL] * m
            left = rng.poisson(rate(size, settings))
            while left > 0 and total > -np.inf:
                row = take(table)
                change = -BETA * (TABLE[j, row] - TABLE[i, row])
                kept, added = thin(change, float(C[table, row]) * m, size, settings)
                total += added if rng.random() < kept else 0.0
                left, count = left - 1, count + 1
        probability = accept(0.0 if settings.delayed else cheap, total, 0.0)
        return rng.random() < probability, count, cheap + total


class ByLooks:
    """Tests on batches, which draw rows evenly."""

    def __init__(self, name, heavy=()):
        self.settings = TESTS[name]._replace(kappa=0.8)
        self.heavy = np.array(heavy, np.int64)
        self.source = even_rows(NUMBER_OF_ROWS, self.heavy)
        self.tables, self.fewest = no_tables(), 1.1 * SUPPLY_ROWS
        # No batch of the published rule has to grow as far as all rows.
        self.full_passes = (0.0 if name == "barker, grow" else 0.02, 0.8)

    def decide(self, i, j, cheap, rng, take):
        """Return whether a move is accepted, the rows that were read, and the log ratio."""
        settings, change = self.settings, TABLE[j] - TABLE[i]
        total = NUMBER_OF_ROWS - self.heavy.size
        noise = settings.kappa * unit_noise(line(BETA), POSITIONS[[i]], POSITIONS[[j]])
        uniform, batch, moments, verdict = rng.random(), [], (0, 0.0, 0.0, 0.0), -1.0
        read = 0
        while verdict < 0.0:
            n = len(batch)
            target = sample_size(noise, n, total, settings)
            if target >= min(MOST - self.heavy.size, total):
                # Stored rows are all read anew, those of earlier looks as well.
                read += NUMBER_OF_ROWS
                n, log_ratio, variance, skew = total, cheap + BETA * change.sum(), 0.0, 0.0
            else:
                while len(batch) < target:
                    row = take(0)
                    batch += [row] if row not in batch else []
                moments = merge_moments(moments, moments_of(change[batch[n:]]))
                n, mean, second, third = moments
                read = n + self.heavy.size
                log_ratio = cheap + BETA * (total * mean + change[self.heavy].sum())
                variance = (BETA * total) ** 2 * second / (n - 1.0) / n * (1.0 - n / total)
                skew = skewness(n, second, third)
            verdict = decide_batch(log_ratio, variance, skew, n, total, uniform, settings)[0]
        return verdict > 0.0, read, log_ratio


TESTS = {
    "penalty": penalty.penalty_test(batch_size=3),
    "barker": barker.barker_test(batch_size=2),
    "barker, grow": growing(barker.barker_test(batch_size=2)),
    "austere": austere.austere_test(0.2, batch_size=2),
}


def compiled(test):
    """Return states and counts of the compiled loop, by a pool."""
    loop = None

    def change(here, there):
        i, j = (state_at(x) for x in (loop.move.position, loop.move.new))
        return float((TABLE[j] - TABLE[i]).sum())

    places = np.zeros((test.source.n_tables, 3), np.int64)
    state = SimpleNamespace(supplies=places, supply_key=KEY)
    pool = pool_of(test.source, state, change)
    pool.set_current_move(None, None)
    tables = test.tables._replace(supply=pool.supply, heavy=pool.heavy)
    if len(test.tables.headers):
        tables = tables._replace(c=pool.c)
    rows = rows_of(TABLE, PRIOR, POSITIONS, places=pool._placed.numbers.ctypes.data)
    # Numbers of rows are places in the supplies, all of one term.
    rows = rows._replace(term_starts=np.array([0, pool.rows.size]))
    posterior = posterior_of(rows, BETA, tables, MOST)
    loop = Loop(posterior, jump(POSITIONS), test.settings, POSITIONS[0], SEED)
    states, counts = visited(loop, POSITIONS[0], UPDATES)
    assert loop.status == load_library().MH_OK
    return states, counts, pool


def reference(test):
    """Return the same by rows of lists, and how many of each list were used."""
    rng, used, found = np.random.default_rng(SEED), [0, 0], []
    rows = [sequence(test.source, k, 32).tolist() for k in range(test.source.n_tables)]
    i, sums = 0, jump(POSITIONS).sums[0]

    def take(table):
        used[table] += 1
        return rows[table][used[table] - 1]

    for _ in range(UPDATES):
        rng.random()  # of the only component
        j = int(np.searchsorted(sums[i, :-1], rng.random(), side="right"))
        accepted, *read = test.decide(i, j, PRIOR[j] - PRIOR[i], rng, take)
        found.append((POSITIONS[i], *read))
        i = j if accepted else i
    return np.array(found).T, np.array(used[: len(rows)])


SUPPLIED_BY_BOUNDS = {
    name: partial(ByBounds, name)
    for name in ("best", "paper", "MH-SS", "factorized", "best, delayed")
}
SUPPLIED_EVENLY = {name: partial(ByLooks, name) for name in TESTS} | {
    f"{name}, some read always": partial(ByLooks, name, (0, 3)) for name in TESTS
}
SUPPLIED = SUPPLIED_BY_BOUNDS | SUPPLIED_EVENLY


@pytest.mark.parametrize("name", grouped(SUPPLIED_BY_BOUNDS, SUPPLIED_EVENLY))
def test_the_loop_decides_by_the_rows_that_come_next(name):
    test = SUPPLIED[name]()
    states, counts, pool = compiled(test)
    (before, read, log_ratio), used = reference(test)
    np.testing.assert_array_equal(states, before)
    np.testing.assert_array_equal(counts["n_obs"], read)
    np.testing.assert_allclose(counts["log_ratio"], log_ratio, rtol=1e-11, atol=1e-11)
    assert (pool.supply.places[:, NUMBER] == -(-used // SUPPLY_ROWS)).all()
    assert used.min() > test.fewest
    assert np.unique(before).size == POSITIONS.size
    low, high = test.full_passes
    assert low <= counts["full_pass"].mean() < high
    assert pool._state.supply_key == KEY
