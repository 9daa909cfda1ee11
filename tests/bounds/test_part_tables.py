"""Bounds by parts: no row changes by more than its ceiling, and candidates are drawn as often."""

import numpy as np
import pytest

from helpers.grouped import step_of
from helpers.models import GROUPED
from helpers.tiers import fast
from pymc_minibatch_mh.native.elements import Ends
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
    def reverse_move(self):
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


@pytest.mark.parametrize("name", fast(GROUPED, ("at_grounds",)))
def test_no_row_changes_by_more_than_its_ceiling(name):
    step, ratios = step_of(name), []
    for move in moves(step, 1):
        ceilings, changes = step.plan.parts.row_ceilings(move.ends), move.changes(step)
        assert (changes <= ceilings).all(), (changes / ceilings).max()
        assert np.array_equal(ceilings, step.plan.parts.row_ceilings(move.reverse_move))
        ratios.append((changes[ceilings > 0.0] / ceilings[ceilings > 0.0]).max(initial=0.0))
    # Loose ceilings would hide a part that is missing.
    assert max(ratios) > 0.05
