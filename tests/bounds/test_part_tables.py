"""Bounds by parts: no row changes by more than its ceiling, and candidates are drawn as often."""

import numpy as np
import pytest

from helpers.grouped import FAST, MODELS, step_of
from helpers.tiers import fast
from native.test_parts import candidates, rates_of, shares_of_rows
from pymc_minibatch_mh.native.library import function
from pymc_minibatch_mh.native.parts import Ends
from pymc_minibatch_mh.native.row_sums import differences_of

# On the worker that expands the same models.
pytestmark = pytest.mark.xdist_group("elements")

#: How large moves are, in posterior standard deviations.
SIZES = (0.01, 0.3, 1.0, 2.5)


class Between:
    """A move between two positions within the radii, in elements and border or one of them."""

    def __init__(self, step, rng, size, moved):
        found, tables = step.plan.elements, step.plan.parts
        n, radii = found.border.size, tables.parts.radii[: found.sd.size]
        w = rng.normal(size=(2, n)) * size
        e = np.clip(rng.normal(size=(2, radii.size)) * size * found.sd, -radii, radii)
        if moved == "border":
            e[1] = e[0]
        if moved != "border" and moved != "all":
            w[1] = w[0]
            other = np.ones(radii.size, bool)
            other[found.starts[moved] : found.starts[moved + 1]] = False
            e[1, other] = e[0, other]
        scales, chosen = found.centre[found.scales], tables.parts.radii[found.sd.size :]
        far = np.abs(w @ found.border_factor[found.chosen].T) / chosen
        w /= np.maximum(far.max(axis=1, initial=1.0), 1.0)[:, None] * (1.0 + 1e-12)
        self.positions = [found.position(*x, scales) for x in zip(w, e, strict=True)]
        ends = found.ends(*self.positions)
        # To the last bit, elements that stay do.
        here, there = (np.append(x, y[radii.size :]) for x, y in zip(e, ends, strict=False))
        self.ends = Ends(here, there, ends.border)

    @property
    def back(self):
        one, other, step = self.ends.border
        return Ends(self.ends.there, self.ends.here, (other, one, step))

    def changes(self, step):
        """Return the change of each row's remainder, rounding taken off."""
        target = step.plan.target
        found = np.empty((2, step.plan.n_rows))
        ends = *self.positions, step.plan.reference.centre
        rows = np.arange(step.plan.n_rows)
        differences_of(target.space, ends, rows, *found)
        return np.maximum(np.abs(found[0]) - 1e-14 * found[1], 0.0)


def moves(step, seed):
    rng, n_factors = np.random.default_rng(seed), len(step.plan.elements.starts) - 1
    for size in SIZES:
        for moved in ("border", "all", *range(n_factors)):
            yield Between(step, rng, size, moved)


@pytest.mark.parametrize("name", fast(MODELS, FAST))
def test_no_row_changes_by_more_than_its_ceiling(name):
    step, ratios = step_of(name), []
    for move in moves(step, 1):
        ceilings, changes = step.plan.parts.ceilings(move.ends), move.changes(step)
        assert (changes <= ceilings).all(), (changes / ceilings).max()
        assert np.array_equal(ceilings, step.plan.parts.ceilings(move.back))
        ratios.append((changes[ceilings > 0.0] / ceilings[ceilings > 0.0]).max(initial=0.0))
    # Loose ceilings would hide a part that is missing.
    assert max(ratios) > 0.05


def _rates(step, move):
    """Return the rates of a move, and the share of every row."""
    parts = step.plan.parts.parts
    rates = rates_of(parts, move.ends)
    assert rates.outside[0] == 0
    return rates, shares_of_rows(parts, move.ends, rates)


@pytest.mark.parametrize("name", ["logistic", "slopes", "two_terms", "normal"])
def test_candidates_are_drawn_at_rates_above_all_ceilings(name):
    step = step_of(name)
    for move in moves(step, 2):
        rates, shares = _rates(step, move)
        assert shares.max() <= 1.0
        drawn = shares > 0.0
        own = step.plan.parts.ceilings(move.ends)[drawn] / shares[drawn]
        # Rows of ceiling 0 have rates as well, which their shares do not tell.
        assert own.sum() <= rates.limit * (1.0 + 1e-9)
        if drawn.all():
            assert own.sum() == pytest.approx(rates.limit, rel=1e-9)


@pytest.mark.parametrize("name", ["logistic", "two_terms"])
def test_candidates_come_as_often_as_their_rates_say(name):
    step = step_of(name)
    move = Between(step, np.random.default_rng(3), 1.0, "all")
    rates, shares = _rates(step, move)
    drawn = candidates(step.plan.parts.parts, rates, np.random.default_rng(4), 400_000)
    expected = drawn.size * step.plan.parts.ceilings(move.ends) / shares / rates.limit
    counts = np.bincount(drawn, minlength=expected.size)
    enough = expected > 5.0
    chi = ((counts - expected)[enough] ** 2 / expected[enough]).sum()
    assert abs(chi - enough.sum()) < 5.0 * np.sqrt(2.0 * enough.sum())


def test_elements_beyond_their_radius_have_no_share():
    step = step_of("logistic")
    parts = step.plan.parts.parts
    move = Between(step, np.random.default_rng(5), 1.0, 0)
    for at in (move.ends.here, move.ends.there):
        kept, at[3] = at[3], 1.01 * parts.radii[3]
        rates = rates_of(parts, move.ends)
        assert rates.outside[:2].tolist() == [1, 3]
        assert rates.running[0, 3] == rates.running[0, 2]
        rows = np.flatnonzero(parts.elements[:, 0] == 3)
        first_outside = function("mh_first_outside")
        assert all(first_outside(parts, move.ends, int(row)) == 3 for row in rows)
        at[3] = kept


def test_a_row_without_a_group_has_no_part_of_it():
    step = step_of("two_terms")
    parts, move = step.plan.parts.parts, Between(step, np.random.default_rng(6), 1.0, 0)
    without = parts.elements[:, 0] < 0
    assert without.sum() == 1_200
    assert not step.plan.parts.ceilings(move.ends)[without].any()
