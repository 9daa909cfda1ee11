"""Rows with kinks and jumps: no change exceeds its bound, nor its share in the whitened copy."""

import numpy as np
import pytest

from bounds.kinks import CURVED, KINKED, ROWS, kinked, remainders
from helpers.tiers import fast
from helpers.wide import Ends, move_of
from pymc_minibatch_mh.expressions.kinks import kinks_of
from pymc_minibatch_mh.native.bound_tables import KIND, RADIUS, table_of_move
from pymc_minibatch_mh.native.library import LaidOut, load_library
from pymc_minibatch_mh.native.moves import KINKED as KIND_OF_KINKS

RNG = np.random.default_rng(8)
#: A kink, a jump, and one of each with further parameters.
FEW = (
    "asymmetric Laplace", "Laplace", "place of a jump", "hinge by a switch", "jump in the scale",
    "kink that is no plane", "two kinks",
)  # fmt: skip
#: Rounding errors of a remainder.
ROUNDING = 1e-12


def proposals(radius, count=60):
    """Yield pairs of whitened positions, of which many are far out or near the centre."""
    for k in range(count):
        ends = RNG.standard_normal((2, 2))
        ends *= radius / np.linalg.norm(ends, axis=1, keepdims=True)
        sizes = RNG.random((2, 1)) if k % 3 else np.array([[1.0], [0.0]])
        yield ends * sizes * (1.0 - 1e-9)


def changes_and_bounds(name, order=2):
    """Return |changes| of all rows, c_i M and what the copy leaves of it, for many proposals."""
    function, reference, tables, log_likelihood = kinked(name, order)
    arrays, found = tables.arrays, []
    for radius in tables.headers[:, RADIUS]:
        for here, there in proposals(min(radius, 8.0)):
            ends = [reference.centre + reference.factor @ end for end in (here, there)]
            before, after = (remainders(function, reference, log_likelihood, x) for x in ends)
            table, m = table_of_move(arrays, reference, *ends)
            bound = tables.c[table] * m
            left = (
                bound * shares(arrays, table, m, here, there) if tables.copy.lines.size else bound
            )
            found.append((np.abs(after - before), bound, left))
    return map(np.array, zip(*found, strict=True))


def shares(arrays, table, m, here, there):
    """Return the share of each row's bound that its direction to a kink leaves."""
    ends, library = Ends(arrays.copy, move_of(here, there), 2, 1.0 / m), load_library()
    laid_out = LaidOut("mh_bounds", arrays)
    ends.at.table, ends.at.number = laid_out.at.tables + table, table
    found = [library.mh_own_share(ends.copy, ends.at, k) for k in range(ROWS)]
    # Rows without a bound are never drawn.
    return np.nan_to_num(found)


@pytest.mark.parametrize("name", fast(KINKED, FEW))
def test_no_row_changes_by_more_than_its_bound(name):
    change, bound, left = changes_and_bounds(name)
    assert (change <= bound * (1.0 + 1e-9) + ROUNDING).all()
    assert (change <= left * (1.0 + 1e-9) + ROUNDING).all()
    # A search that stays away from bounds would not find one that is too small.
    met = bound > 1e-6
    assert (change[met] / bound[met]).max() > (0.3 if name in CURVED else 0.5)


@pytest.mark.parametrize("name", fast(sorted(set(KINKED) - CURVED), FEW))
def test_most_of_a_bound_is_left_out(name):
    _, _, tables, _ = kinked(name)
    assert tables.copy.kinked
    _, bound, left = changes_and_bounds(name)
    assert left.sum() < 0.8 * bound.sum()


@pytest.mark.parametrize("name", ["Laplace", "place of a jump"])
def test_lower_orders_have_bounds_as_well(name):
    change, bound, _ = changes_and_bounds(name, 1)
    assert (change <= bound * (1.0 + 1e-9) + ROUNDING).all()


@pytest.mark.parametrize("name", fast(KINKED, FEW))
def test_rows_meet_their_kinks_or_jumps(name):
    function, _, tables, _ = kinked(name)
    kinks = kinks_of(function.exprs, function.root)
    assert len(kinks) == {"clipped mean": 2, "two kinks": 3}.get(name, 1)
    jumps = [not function.exprs.kinks[kink] for kink in kinks]
    assert any(jumps) == ("jump" in name)
    assert (tables.headers[:, KIND] == KIND_OF_KINKS).all()
