"""Bounds measure moves in the coordinates that rows depend on, of all or of each group."""

import numpy as np
import pytest

from pymc_minibatch_mh.native.bound_tables import no_tables, table_of_move
from pymc_minibatch_mh.native.moves import DIRECTIONAL, JOINT, SHARP
from pymc_minibatch_mh.native.posterior import Reference

#: Coordinates of which rows depend on the first two alone, and of which the others are turned into
#: the first by whitening.
SIZE, READ = 4, 2
RADII = (1.0, 3.0)


def around(order, kept=range(SIZE)):
    """Return control variates whose whitening mixes all coordinates, or what some have of it."""
    rng = np.random.default_rng(4)
    whitener = np.tril(rng.normal(0.0, 0.4, (SIZE, SIZE))) + np.diag([1.5, 1.0, 0.8, 2.0])
    factor = np.linalg.inv(whitener)
    if len(kept) < SIZE:
        # What is left of a normal law in some of its coordinates.
        factor = np.linalg.cholesky((factor @ factor.T)[np.ix_(kept, kept)])
        whitener = np.linalg.inv(factor)
    nothing = np.zeros(len(kept)), np.zeros((len(kept), len(kept)))
    return Reference(np.zeros(len(kept)), factor, whitener, *nothing, order, 1.0)


def tables(kind, unread):
    """Return tables of one kind over two regions."""
    headers = np.array([[radius, kind, 2.0 * radius] for radius in RADII])
    return no_tables()._replace(headers=headers, c=np.ones((2, 1), np.float32), unread=unread)


@pytest.mark.parametrize("kind", [SHARP, JOINT, DIRECTIONAL])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_bounds_are_those_in_the_coordinates_that_rows_depend_on(order, kind):
    whole, read = around(order), around(order, range(READ))
    basis, _ = np.linalg.qr(whole.whitener[:, READ:])
    projected, own = tables(kind, np.ascontiguousarray(basis.T)), tables(kind, np.empty((0, READ)))
    rng, served = np.random.default_rng(2), set()
    for scale in (0.3, 0.8, 2.0) * 10:
        here, there = rng.normal(0.0, scale, (2, SIZE))
        here[READ:] *= 20.0
        table, m = table_of_move(projected, whole, here, there)
        expected, m_of_read = table_of_move(own, read, here[:READ].copy(), there[:READ].copy())
        assert table == expected
        assert m == pytest.approx(m_of_read, rel=1e-9)
        assert table_of_move(projected, whole, there, here) == (table, m)
        served.add(table)
    assert served == {-1, 0, 1}


@pytest.mark.parametrize("kind", [SHARP, JOINT, DIRECTIONAL])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_bounds_of_groups_are_those_of_the_group_that_moves_most(order, kind):
    """Rows of three groups read the first coordinate and one of their own."""
    whole, alone = around(order), tables(kind, np.empty((0, READ)))
    forms = np.eye(SIZE) @ whole.factor
    bases = [np.linalg.qr(forms[[0, k]].T)[0].T for k in range(1, SIZE)]
    own = np.concatenate([[np.zeros(SIZE), line] for _, line in bases])
    shared = bases[0][:1].copy()
    grouped = tables(kind, np.empty((0, SIZE)))._replace(shared=shared, own=own, each=2)
    rng, served, deciding = np.random.default_rng(2), set(), set()
    for scale in (0.3, 0.8, 2.0) * 40:
        here, there = rng.normal(0.0, scale, (2, SIZE))
        table, m = table_of_move(grouped, whole, here, there)
        found = [
            table_of_move(alone, around(order, [0, k]), here[[0, k]], there[[0, k]])
            for k in range(1, SIZE)
        ]
        served.add(table)
        if min(found)[0] == -1:
            assert table == -1
            continue
        sizes = [m_of_group for _, m_of_group in found]
        deciding.add(int(np.argmax(sizes)))
        assert table == max(found)[0]
        assert m == pytest.approx(max(sizes), rel=1e-9)
        assert table_of_move(grouped, whole, there, here) == (table, m)
    assert served == {-1, 0, 1}
    assert deciding == {0, 1, 2}


def test_of_tables_that_hold_the_one_with_the_smallest_bound_serves():
    whole, kinds = around(2), (JOINT, SHARP, DIRECTIONAL, JOINT)
    headers = np.array([[np.inf, kind, 1.0] for kind in kinds])
    rng, served = np.random.default_rng(6), set()
    for _ in range(60):
        here, there = rng.normal(size=(2, SIZE))
        headers[:, 2] = rng.uniform(1.0, 2.0, len(kinds))
        alone = [no_tables()._replace(headers=headers[k : k + 1]) for k in range(len(kinds))]
        sizes = [table_of_move(one, whole, here, there)[1] for one in alone]
        best = int(np.argmin(headers[:, 2] * sizes))
        served.add(best)
        colder, together = whole._replace(relative=0.25), no_tables()._replace(headers=headers)
        assert table_of_move(together, colder, here, there) == (best, 0.25 * sizes[best])
    assert served == {0, 1, 2, 3}
