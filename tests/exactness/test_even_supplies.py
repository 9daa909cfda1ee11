"""Batches of stored rows are drawn evenly, without replacement, and each apart from the others.

The law is counted over all sequences of rows that can come next in a supply, on the shipped code:
all are equally probable, so that whole numbers have to agree. That the compiled loop hands such
batches to the tests is held against a loop in Python that takes rows from a plain list, decision
by decision.
"""

from collections import Counter
from itertools import permutations, product
from types import SimpleNamespace

import numpy as np
import pytest
from numba import njit

from chain.supplied import KEY, Own, pool_of
from exactness.compiled import Compiled, Elsewhere, nearest
from exactness.test_supplies import Ends
from kernels import chain as loop
from kernels.chain import line
from pymc_minibatch_mh.chain.pool import ROOM
from pymc_minibatch_mh.data.drawn import EvenRows
from pymc_minibatch_mh.data.reading import load
from pymc_minibatch_mh.data.stored import StoredRows
from pymc_minibatch_mh.kernels import counts as entry
from pymc_minibatch_mh.kernels.bound_tables import no_tables
from pymc_minibatch_mh.kernels.draw import reserve
from pymc_minibatch_mh.kernels.even import take_new
from pymc_minibatch_mh.kernels.first_class import address_of
from pymc_minibatch_mh.kernels.looks import unit_noise
from pymc_minibatch_mh.kernels.moments import add_moments, skewness
from pymc_minibatch_mh.kernels.posterior import Posterior
from pymc_minibatch_mh.kernels.signatures import EVALUATE_SIGNATURE, LOGP_SIGNATURE
from pymc_minibatch_mh.kernels.supply import NEXT, NO_SUPPLY, NUMBER
from pymc_minibatch_mh.methods import austere, barker, penalty

# The law.

NOTHING = np.empty(0, np.int64)


def supply_of(rows):
    """Return a supply whose next rows are these, and which has no others."""
    places = np.array([[0, len(rows), 1]])
    answers = {"unanswered": np.ones(1, np.int64), "room": len(rows)}
    return NO_SUPPLY._replace(places=places, rows=np.array(rows), **answers)


def batch_of(supply, looks, at_a_time=64):
    """Return a batch that grows look by look, as the loop takes it; None if rows run out."""
    batch, seen, n, used = NOTHING, NOTHING, 0, []
    for target in looks:
        batch, seen = reserve(batch, seen, n, target)
        while n < target:
            places = np.empty(min(at_a_time, target - n), np.int64)
            upto = take_new(supply, batch, seen, n, target, places)
            if upto < 0:
                return None
            used += places[: upto - n].tolist()
            n = upto
    # Where rows are read is where they lie.
    np.testing.assert_array_equal(supply.rows[used], batch[:n])
    return tuple(batch[:n].tolist())


def batches(length, rows, *looks):
    """Count what successive batches are over all sequences of some rows, complete ones alone."""
    found = Counter()
    for sequence in product(range(rows), repeat=length):
        supply = supply_of(sequence)
        drawn = tuple(batch_of(supply, each) for each in looks)
        if None not in drawn:
            found[drawn] += 1
    return found


@pytest.mark.parametrize("looks", [(3,), (1, 3), (2, 3), (1, 2, 3)])
def test_a_batch_is_every_ordered_choice_equally_often(looks):
    found = batches(6, 4, looks)
    assert set(found) == {(order,) for order in permutations(range(4), 3)}
    assert len(set(found.values())) == 1


def test_batches_of_two_updates_are_drawn_apart():
    found = batches(7, 3, (2,), (1, 2))
    assert set(found) == set(product(permutations(range(3), 2), repeat=2))
    assert len(set(found.values())) == 1


def test_rows_of_all_sequences_are_used_in_order():
    for sequence in product(range(3), repeat=6):
        supply = supply_of(sequence)
        one, other = batch_of(supply, (2,)), batch_of(supply, (2,))
        if other is None:
            continue
        rest = list(sequence)
        for batch in (one, other):
            expected = []
            while len(expected) < 2:
                row = rest.pop(0)
                expected += [row] if row not in expected else []
            assert batch == tuple(expected)
        assert supply.places[0, NEXT] == len(sequence) - len(rest)


@pytest.mark.parametrize("at_a_time", [1, 2, 5])
def test_how_many_rows_are_read_at_a_time_changes_no_batch(at_a_time):
    rows = np.random.default_rng(1).integers(0, 40, 200)
    whole, parts = supply_of(rows), supply_of(rows)
    for looks in ((10, 20, 35), (30,), (7, 8)):
        assert batch_of(whole, looks) == batch_of(parts, looks, at_a_time)
    np.testing.assert_array_equal(whole.places, parts.places)


class InOrder:
    """A generator that draws every number once."""

    def integers(self, low, high, count):
        return np.arange(low, high)[:count]


HEAVY = np.array([0, 3, 4, 10])


@pytest.mark.parametrize("heavy", [NOTHING, HEAVY], ids=["none", "some"])
def test_every_other_row_is_drawn_as_often(heavy):
    source = even_rows(heavy)
    drawn = source.draw(0, InOrder(), ROWS - heavy.size)
    np.testing.assert_array_equal(drawn.rows, np.delete(np.arange(ROWS), heavy))
    drawn = source.draw(0, np.random.default_rng(2), 500)
    assert not np.isin(drawn.rows, heavy).any()
    assert (np.diff(drawn.rows) < 0).any()
    np.testing.assert_array_equal(drawn.columns[1].values, drawn.rows)
    np.testing.assert_array_equal(source.read_heavy()[1].values, heavy)


# The loop.

STATES, ROWS, BETA = 5, 13, 0.7
POSITIONS = np.array([-0.8, -0.2, 0.5, 2.0, 9.0])
RANDOM = np.random.default_rng(7)
TABLE = RANDOM.normal(size=(STATES, ROWS)) * 0.5
PRIOR = -BETA * TABLE.sum(axis=1) + 0.3 * RANDOM.normal(size=STATES)
#: Rows from which on a look reads all of them.
MOST, UPDATES = 11, 3_000
KAPPA = 0.8
TESTS = {
    "penalty": (penalty, penalty.settings(batch_size=3)),
    "barker": (barker, barker.settings(batch_size=2)),
    "barker, grow": (barker, barker.settings(batch_size=2, batch_rule="grow")),
    "austere": (austere, austere.settings(0.2, batch_size=2)),
}


def even_rows(heavy):
    columns = Own(np.zeros((1, ROWS))).function.columns
    return EvenRows(StoredRows(columns), heavy)


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


class OfPositions(Ends):
    """The ends of the loop's moves on the states above."""

    def change(self, here, there):
        i, j = (nearest(POSITIONS, x) for x in (self.move.position, self.move.new))
        return float((TABLE[j] - TABLE[i]).sum())


def compiled(settings, heavy):
    """Return states and counts of the compiled loop, by a pool."""
    ends, source = OfPositions(), even_rows(heavy)
    state = SimpleNamespace(supplies=np.zeros((1, 3), np.int64), supply_key=KEY)
    pool = pool_of(source, state, ends.change)
    pool.serve(None, None)
    tables = no_tables()._replace(supply=pool.supply, heavy=pool.heavy)
    posterior = Posterior(
        address_of(prior), address_of(evaluate), pool.space, line(BETA), tables, float(MOST)
    )
    loaded = Compiled(POSITIONS, posterior, Elsewhere(POSITIONS), settings, (prior, evaluate))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "Move", ends.of)
        states, counts = loaded.run(UPDATES, seed=51)
    pool.require_served()
    return states, counts, pool


def reference(module, settings, heavy):
    """Return the same, by rows of a list: state, rows read and log ratio of every update."""
    rng, source = np.random.default_rng(51), even_rows(heavy)
    rngs = (np.random.default_rng([KEY, 0, number]) for number in range(16))
    rows = np.concatenate([source.draw(0, own, ROOM).rows for own in rngs]).tolist()
    total, used, state, found = ROWS - heavy.size, 0, 0, []
    for _ in range(UPDATES):
        new = (state + rng.integers(1, STATES)) % STATES
        change, cheap, before = TABLE[new] - TABLE[state], PRIOR[new] - PRIOR[state], state
        noise = settings.kappa * unit_noise(line(BETA), POSITIONS[[state]], POSITIONS[[new]])
        uniform, batch, moments, verdict = rng.random(), [], (0, 0.0, 0.0, 0.0), -1.0
        while verdict < 0.0:
            target = module.plan(noise, len(batch), total, settings)
            if target >= min(MOST - heavy.size, total):
                n, log_ratio, variance, skew = total, cheap + BETA * change.sum(), 0.0, 0.0
            else:
                n = len(batch)
                while len(batch) < target:
                    batch += [rows[used]] if rows[used] not in batch else []
                    used += 1
                new_ones = change[batch[n:]]
                moments = add_moments(n, *moments[1:], new_ones, new_ones.size)
                n, mean, second, third = moments
                log_ratio = cheap + BETA * (total * mean + change[heavy].sum())
                variance = (BETA * total) ** 2 * second / (n - 1.0) / n * (1.0 - n / total)
                skew = skewness(n, second, third)
            verdict = module.judge(log_ratio, variance, skew, n, total, uniform, settings)[0]
        state = new if verdict > 0.0 else state
        found.append((before, n + heavy.size, log_ratio))
    return (np.array(part) for part in zip(*found, strict=True)), used


@pytest.mark.parametrize("heavy", [NOTHING, HEAVY[:2]], ids=["none", "some read always"])
@pytest.mark.parametrize("name", TESTS)
def test_the_loop_decides_by_the_rows_that_come_next(name, heavy):
    module, settings = TESTS[name]
    settings = settings._replace(kappa=KAPPA)
    states, counts, pool = compiled(settings, heavy)
    (before, read, log_ratio), used = reference(module, settings, heavy)
    np.testing.assert_array_equal(np.abs(states[:, None] - POSITIONS).argmin(axis=1), before)
    np.testing.assert_array_equal(counts[:, entry.N_OBS], read)
    np.testing.assert_allclose(counts[:, entry.LOG_RATIO], log_ratio, rtol=1e-11, atol=1e-11)
    assert pool.supply.places[0, NUMBER] == -(-used // ROOM)
    assert used > 1.1 * ROOM
    assert len(np.unique(before)) == STATES
    # No batch of the published rule has to grow that far.
    assert 0.02 < counts[:, entry.FULL_PASS].mean() < 0.8 or name == "barker, grow"
