"""The 8-bit copy of whitened rows: its shares are never too small, whatever rows and moves are."""

import numpy as np
import pytest

from helpers import wide
from pymc_minibatch_mh.native.bound_tables import EVERYWHERE, Table
from pymc_minibatch_mh.native.library import GeneratorRecord, LaidOut, ffi, function, load_library
from pymc_minibatch_mh.native.moves import SHARP

D = 70
RNG = np.random.default_rng(31)
MOVES = 400


def adversarial_rows():
    """Return rows that are hard to round, shape (rows, d), by what is hard about them."""
    plain = RNG.normal(size=(40, D))
    huge = plain[:8].copy()
    huge[:, 3] = 1e12
    lines = [
        plain,
        huge,
        # Of numbers that float32 cannot keep, and of the smallest and the largest ones.
        1e-60 * plain[:4], 5e-324 * np.rint(1e3 * plain[:4]), 1e150 * plain[:4],
        # Halfway between integers of 8 bits.
        np.where(np.arange(D) == 0, 127.0, 0.5 + np.rint(50 * plain[:8])),
        # Sums that cancel: products of float32 are off by far more than what is left.
        np.ones((4, D)), np.where(np.arange(D) % 2, 1.0, -1.0) * np.ones((4, D)),
        np.eye(D)[:5], np.zeros((2, D)),
    ]  # fmt: skip
    return np.concatenate(lines)


def adversarial_moves():
    """Yield pairs of ends: at random, across each other, short ones, and such that cancel."""
    for k in range(MOVES):
        here, there = RNG.normal(size=(2, D)) * 10.0 ** RNG.integers(-3, 4)
        if k % 4 == 1:
            there = -here
        if k % 4 == 2:
            there = here + 1e-6 * there
        if k % 4 == 3:
            # Next to orthogonal to rows of ones.
            here = 1e3 * (here - here.mean()) / np.linalg.norm(here) + 1e-5
            there = -here
        yield here, there


def exact_changes(whitened, here, there, order):
    """Return how much rows of any derivative up to 1 can change, in units of their c_i."""
    norms = np.linalg.norm(whitened.astype(np.longdouble), axis=1)
    unit = whitened.astype(np.longdouble) / np.where(norms > 0.0, norms, 1.0)[:, None]
    x, y = unit @ here.astype(np.longdouble), unit @ there.astype(np.longdouble)
    return np.abs(wide.largest_remainder(y, order) - wide.largest_remainder(x, order))


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_no_change_exceeds_its_ceiling(order):
    rows = adversarial_rows()
    copy = wide.copy_of(rows[:, None])
    tightest = np.inf
    for here, there in adversarial_moves():
        size = wide.size(here, there, order)
        shares = wide.shares(copy, here, there, order)
        changes = exact_changes(rows, here, there, order)
        cut = shares == 1.0
        assert (changes[~cut] <= (shares * size)[~cut]).all()
        assert (changes <= size * (1.0 + 1e-9)).all()
        tightest = min(tightest, np.min((shares * size / np.fmax(changes, 1e-300))[:40]))
    assert tightest < 1.2


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_several_directions_have_a_joint_length(order):
    rows, shared = RNG.normal(size=(50, 2, D)), np.linalg.qr(RNG.normal(size=(D, 1)))[0].T
    copy = wide.copy_of(rows, shared)
    reach = np.concatenate([rows, np.broadcast_to(shared, (50, 1, D))], axis=1)
    for here, there in adversarial_moves():
        size, shares = wide.size(here, there, order), wide.shares(copy, here, there, order)
        for weights in RNG.normal(size=(5, 3)):
            changes = exact_changes(weights @ reach, here, there, order)
            cut = shares == 1.0
            assert (changes[~cut] <= (shares * size)[~cut]).all()


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_shares_are_symmetric_to_the_last_bit(order):
    copy = wide.copy_of(adversarial_rows()[:, None])
    for here, there in adversarial_moves():
        forth, back = (wide.shares(copy, *ends, order) for ends in ((here, there), (there, here)))
        assert (forth == back).all()


@pytest.mark.parametrize(("factor", "order"), [(1.0, 2), (7.0, 2), (1.0, 3)])
def test_a_share_by_both_ends_is_never_below_the_own_one(factor, order):
    copy = wide.copy_of(adversarial_rows()[:, None])
    for here, there in adversarial_moves():
        own, by_ends = wide.both_shares(copy, here, there, order, factor)
        # Where it is no number, the row is kept.
        assert not (by_ends < own).any()
    several = wide.both_shares(wide.copy_of(RNG.normal(size=(3, 2, D))), here, there, 2)
    assert np.isinf(several[1]).all()


def test_rows_of_zeros_never_change_and_unknown_ones_are_kept():
    rows = np.zeros((3, 2, D))
    rows[1, :, 0] = 1.0, 1.0 + 1e-12
    rows[2, :, 0] = np.inf, 1.0
    copy = wide.copy_of(rows)
    here, there = RNG.normal(size=(2, D))
    shares = wide.shares(copy, here, there, 2)
    assert shares[0] < 1e-12
    # Directions that rounding cannot tell from each other may point anywhere.
    assert shares[1] == 1.0
    assert shares[2] == 1.0


def test_residuals_are_rounded_up():
    rows = RNG.normal(size=(500, 1, D))
    copy = wide.copy_of(rows)
    unit = rows[:, 0] / np.linalg.norm(rows[:, 0], axis=1, keepdims=True)
    heads = copy.lines[:, :8].copy().view(np.float32).astype(np.longdouble)
    whole = copy.lines[:, 8 : 8 + D].astype(np.longdouble)
    left = np.linalg.norm(unit.astype(np.longdouble) - heads[:, :1] * whole, axis=1)
    assert (left <= heads[:, 1]).all()
    assert np.allclose(left.astype(float), heads[:, 1].astype(float), rtol=1e-6)


def test_candidates_are_kept_in_proportion_to_their_ceilings():
    n = 40
    copy, c = wide.copy_of(RNG.normal(size=(n, 1, 35))), RNG.uniform(0.1, 1.0, n)
    c = c.astype(np.float32)
    thresholds, aliases = np.empty(n), np.empty(n, np.int32)
    function("mh_build_alias")(n, c, thresholds, aliases)
    here, there = RNG.normal(size=(2, 35))
    ends = wide.Ends(copy, wide.move_of(here, there), 2, 4.0 / wide.size(here, there, 2))
    table = Table(np.inf, *EVERYWHERE, SHARP, float(c.sum()), c, thresholds, aliases, None)
    table = LaidOut("mh_table", table)
    generator = LaidOut("mh_generator", GeneratorRecord(np.random.default_rng(3)))
    rows = np.empty(400_000, np.int64)
    out = ffi.from_buffer("int64_t[]", rows)
    count = load_library().mh_keep_candidates(
        ends.copy, ends.at, table.at, n, generator.at, rows.size, out
    )
    found = np.bincount(rows[:count], minlength=n)
    expected = rows.size * c / c.sum() * wide.shares(copy, here, there, 2, 4.0)
    assert 0.0 < count < 0.9 * rows.size
    assert (np.abs(found - expected) < 5.0 * np.sqrt(expected + 1.0)).all()
