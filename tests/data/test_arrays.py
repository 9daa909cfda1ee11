"""Arrays: their addresses, their blocks, and digests that tell all that can happen to them."""

import ctypes
import zlib

import numpy as np
import pytest

from pymc_minibatch_mh.data import Column, Contents, array_digest
from pymc_minibatch_mh.data.arrays import STORED_TYPES
from pymc_minibatch_mh.native.library import function

RNG = np.random.default_rng(2)
TABLE = RNG.normal(size=(10_000, 3))

LAYOUTS = {
    "contiguous": lambda: (TABLE, 0),
    "fortran": lambda: (np.asfortranarray(TABLE), 0),
    "strided": lambda: (np.repeat(TABLE, 2, axis=0)[::2], 0),
    "reversed": lambda: (TABLE[::-1, ::-1], 0),
    "rows on the last axis": lambda: (np.ascontiguousarray(TABLE.T), 1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_addresses_and_strides_find_every_entry(layout):
    values, axis = LAYOUTS[layout]()
    column = Column("x", values, axis)
    start, row_stride, column_stride = (int(number) for number in column.address)
    for i, j in [(0, 0), (17, 2), (9_999, 1)]:
        found = ctypes.c_double.from_address(start + i * row_stride + j * column_stride).value
        assert found == column.rows_first[i, j]
    assert np.shares_memory(column.rows_first, values)


TALL_RNG = np.random.default_rng(4)
#: More than one block, and its last block is cut short.
TALL = TALL_RNG.normal(size=(70_001, 3))
#: Numbers that a cyclic redundancy check cannot tell from 0 where they are added without carry.
UNSEEN_BY_THE_CHECK = np.uint64(0xEDB88320 << 1 | 1)


def changed(array, place, value):
    other = array.copy()
    other[place] = value
    return other


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int16", "int8", "bool"])
@pytest.mark.parametrize("row", [0, 1, 131_071, 131_072, 140_000, 210_002])
def test_a_single_number_that_changed_is_told(dtype, row):
    values = (TALL.ravel() > 0.0).astype(dtype)
    assert array_digest(changed(values, row, 1 - int(values[row]))) != array_digest(values)


def test_a_number_that_the_check_alone_would_miss_is_told():
    values = TALL[:100, 0].copy()
    other = values.copy()
    other.view(np.uint64)[17] ^= UNSEEN_BY_THE_CHECK
    assert zlib.crc32(other) == zlib.crc32(values)
    assert array_digest(other) != array_digest(values)


@pytest.mark.parametrize(
    "edit",
    [
        lambda x: -x,
        lambda x: 0.5 * x,
        lambda x: x[::-1],
        lambda x: np.roll(x, 1, axis=0),
        lambda x: np.roll(x, 50_000, axis=0),
        lambda x: x[np.r_[1, 0, 2 : len(x)]],
        lambda x: x[:, [1, 0, 2]],
        lambda x: np.where(np.arange(len(x))[:, None] < 2, -x, x),
    ],
    ids=[
        "sign", "scale", "reversed", "moved", "moved by blocks", "two rows", "two columns",
        "two signs",
    ],
)  # fmt: skip
def test_all_numbers_that_changed_are_told(edit):
    assert array_digest(edit(TALL)) != array_digest(TALL)


@pytest.mark.parametrize(
    "layout",
    [
        np.asfortranarray,
        lambda x: np.repeat(x, 2, axis=0)[::2],
        lambda x: np.repeat(x, 2, axis=1)[:, ::2],
        lambda x: np.ascontiguousarray(x[::-1])[::-1],
        lambda x: np.frombuffer(b"\0" + x.tobytes(), offset=1).reshape(x.shape),
    ],
    ids=["fortran", "rows apart", "columns apart", "reversed", "not aligned"],
)
def test_the_layout_makes_no_difference(layout):
    assert array_digest(layout(TALL)) == array_digest(TALL)
    wide = TALL.reshape(1, -1)
    assert array_digest(layout(wide)) == array_digest(wide)


def test_shapes_and_types_are_told():
    zeros = np.zeros(6)
    alike = [
        zeros, zeros.reshape(6, 1), zeros.reshape(3, 2), zeros.astype("int64"), zeros[:5],
        zeros[:1], zeros[:1].reshape(()), zeros[:0], zeros[:0].reshape(0, 3), zeros.astype(">f8"),
    ]  # fmt: skip
    assert len({array_digest(values) for values in alike}) == len(alike)


def test_digests_are_the_same_in_every_process_and_version():
    numbers = np.arange(300_001, dtype="int32")
    assert array_digest(np.arange(7.0)) == "ce8bd962bbb59416c5cb84dabc39117f"
    assert array_digest(numbers.reshape(-1, 1)) == "b85e131c24786310b2306b795b64a591"


@pytest.mark.parametrize(
    ("arrays", "name"),
    [
        ({"x": TALL, "y": TALL[:3]}, "y"),
        ({"x": -TALL, "y": TALL[:2]}, "x"),
        ({"x": TALL}, "y"),
        ({"x": TALL, "y": TALL[:2], "z": TALL}, "z"),
    ],
)
def test_contents_name_the_first_array_that_differs(arrays, name):
    own, other = Contents.of([("x", TALL), ("y", TALL[:2])]), Contents.of(arrays.items())
    assert own != other
    assert own.difference(other) == name


ROWS, ENTRIES = 7, 5
BLOCK_LAYOUTS = {
    "in order": lambda values: np.ascontiguousarray(values),
    "by columns": lambda values: np.asfortranarray(values),
    "every other entry": lambda values: np.repeat(values, 2, axis=1)[:, ::2],
    "backwards": lambda values: np.ascontiguousarray(values[:, ::-1])[:, ::-1],
}


def table(dtype):
    """Return numbers that the type holds, no two of a row alike where it has that many."""
    values = np.arange(ROWS * ENTRIES).reshape(ROWS, ENTRIES) % 120
    if np.dtype(dtype).kind == "f":
        return (values / 3.0 - 9.0).astype(dtype)
    return values.astype(dtype)


@pytest.mark.parametrize("layout", BLOCK_LAYOUTS)
@pytest.mark.parametrize(
    "code", range(len(STORED_TYPES)), ids=[dtype.name for dtype in STORED_TYPES]
)
def test_numbers_are_read_as_they_are_stored(code, layout):
    stored = BLOCK_LAYOUTS[layout](table(STORED_TYPES[code]))
    rows = np.array([4, 0, 6, 4])
    out = np.full((rows.size, ENTRIES + 2), np.nan)
    row_stride, entry_stride = stored.strides
    where = stored.ctypes.data, row_stride, entry_stride, code
    columns = out.ravel()[1:]
    function("mh_read_numbers")(*where, rows, rows.size, ENTRIES, columns, ENTRIES + 2)
    np.testing.assert_array_equal(out[:, 1:-1], stored[rows].astype(np.float64))
    # What stands beside the columns stays.
    assert np.isnan(out[:, [0, -1]]).all()
