"""Bounds measure moves without what lies along directions that change no row."""

import numpy as np
import pytest

from kernels.chain import line
from pymc_minibatch_mh.kernels.bound_tables import no_tables, table_of_move
from pymc_minibatch_mh.kernels.moves import DIRECTIONAL, JOINT, SHARP

#: Coordinates of which rows depend on the first two alone, and of which the others are turned into
#: the first by whitening.
SIZE, READ = 4, 2
RADII = (1.0, 3.0)


def around(order, size=SIZE):
    """Return control variates whose whitening mixes all coordinates."""
    rng = np.random.default_rng(4)
    whitener = np.tril(rng.normal(0.0, 0.4, (SIZE, SIZE))) + np.diag([1.5, 1.0, 0.8, 2.0])
    factor = np.linalg.inv(whitener)
    if size < SIZE:
        # What is left of a normal law in some of its coordinates.
        factor = np.linalg.cholesky((factor @ factor.T)[:size, :size])
        whitener = np.linalg.inv(factor)
    parts = {"centre": np.zeros(size), "factor": factor, "whitener": whitener, "order": order}
    return line(1.0)._replace(**parts)


def tables(kind, unread):
    """Return tables of one kind over two regions."""
    heads = np.array([[radius, kind, 2.0 * radius] for radius in RADII])
    return no_tables()._replace(heads=heads, c=np.ones((2, 1), np.float32), unread=unread)


@pytest.mark.parametrize("kind", [SHARP, JOINT, DIRECTIONAL])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_bounds_are_those_in_the_coordinates_that_rows_depend_on(order, kind):
    whole, read = around(order), around(order, READ)
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
