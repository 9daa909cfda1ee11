"""Blocks of numbers are read as they are stored, of every type and in every layout."""

import numpy as np

from every import every
from pymc_minibatch_mh.data.arrays import STORED, read_block

ROWS, ENTRIES = 7, 5
LAYOUTS = {
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


@every("layout", LAYOUTS)
@every("code", range(len(STORED)), ids=[dtype.name for dtype in STORED])
def test_numbers_are_read_as_they_are_stored(code, layout):
    stored = LAYOUTS[layout](table(STORED[code]))
    rows = np.array([4, 0, 6, 4])
    out = np.full((rows.size, ENTRIES + 2), np.nan)
    row_stride, entry_stride = stored.strides
    where = stored.ctypes.data, row_stride, entry_stride, code
    read_block(rows, *where, out, 1, ENTRIES)
    np.testing.assert_array_equal(out[:, 1:-1], stored[rows].astype(np.float64))
    # What stands beside the columns stays.
    assert np.isnan(out[:, [0, -1]]).all()
