import ctypes

import numpy as np

from every import every
from pymc_minibatch_mh.compiled.graphs import OTHERS_SLOT
from pymc_minibatch_mh.data import ArrayRows, Column, digest

RNG = np.random.default_rng(2)
TABLE = RNG.normal(size=(10_000, 3))

LAYOUTS = {
    "contiguous": lambda: (TABLE, 0),
    "fortran": lambda: (np.asfortranarray(TABLE), 0),
    "strided": lambda: (np.repeat(TABLE, 2, axis=0)[::2], 0),
    "reversed": lambda: (TABLE[::-1, ::-1], 0),
    "rows on the last axis": lambda: (np.ascontiguousarray(TABLE.T), 1),
}


@every("layout", LAYOUTS)
def test_addresses_and_strides_find_every_entry(layout):
    values, axis = LAYOUTS[layout]()
    column = Column("x", values, axis)
    start, row_stride, column_stride = (int(number) for number in column.address)
    for i, j in [(0, 0), (17, 2), (9_999, 1)]:
        found = ctypes.c_double.from_address(start + i * row_stride + j * column_stride).value
        assert found == column.rows_first[i, j]
    assert np.shares_memory(column.rows_first, values)


def test_slots_point_at_the_addresses():
    columns = [Column("x", TABLE, 0), Column("y", TABLE[:, 0], 0), Column("z", TABLE.T, 1)]
    source = ArrayRows(columns, [10_000, 7])
    for slot, column in zip(source.slots, columns, strict=True):
        address = column.address
        np.testing.assert_array_equal(source.context[slot : slot + address.size], address)
    assert source.context.dtype == np.int64
    assert source.n_rows == 10_007
    np.testing.assert_array_equal(source.term_starts, [0, 10_000, 10_007])
    assert source.nbytes == 2 * TABLE.nbytes + TABLE[:, 0].nbytes


def test_values_that_all_rows_share_are_read_where_they_lie():
    source = ArrayRows([], [5], n_others=3)
    address, _, stride = source.context[OTHERS_SLOT : OTHERS_SLOT + 3]
    assert (address, stride) == (source.others.ctypes.data, 8)


@every("axis", [0, 1])
def test_a_column_has_the_digest_of_its_rows(axis):
    values = np.array(TABLE if axis == 0 else TABLE.T)
    column = Column("x", values, axis)
    assert column.digest() == digest(TABLE)
    column.rows_first[0, 1] += 1e-12
    assert column.digest() != digest(TABLE)
