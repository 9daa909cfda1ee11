"""A pool of rows that were drawn ahead, of a few rows whose bounds are data of theirs."""

import ctypes
from types import SimpleNamespace

import numpy as np
from numba import njit

from pymc_minibatch_mh.bounds.block_tables import BlockTables
from pymc_minibatch_mh.chain import prefetch
from pymc_minibatch_mh.data import Column
from pymc_minibatch_mh.data.source import ArrayStorage, StoredArray
from pymc_minibatch_mh.native.library import LaidOut, ffi, function, load_library
from pymc_minibatch_mh.structure.row_function import RowData, RowFunction

LENGTH = 3
KEY = 12_345


class Own:
    """Bounds that are data of the rows: c has shape (tables, N)."""

    def __init__(self, c):
        number = np.arange(c.shape[1], dtype=np.int64)
        self.storage = ArrayStorage({"c": np.ascontiguousarray(c.T), "number": number})
        columns = tuple(Column(x, StoredArray(self.storage, x), 0) for x in ("c", "number"))
        self.function = RowFunction("y", c.shape[1], columns, None, (), None)

    def of(self, table, data):
        return data.function.columns[0].values[data.rows, table]

    def found(self, asked, rows):
        return asked(self, RowData(self.function, rows))


def tables_of(c, radii=None):
    """Return tables of blocks with some slack; smaller radii come first."""
    c = np.asarray(c, dtype=np.float32)
    radii = np.full(len(c), np.inf) if radii is None else radii
    headers = np.array([[r, 0.0, x.sum(dtype=float)] for r, x in zip(radii, c, strict=True)])
    largest = np.maximum.reduceat(c, np.arange(0, c.shape[1], LENGTH), axis=1).astype(float)
    largest *= 1.0 + 0.5 * (np.arange(largest.shape[1]) % 2)
    return BlockTables(headers, largest, Own(c), c.shape[1], LENGTH)


class Room:
    """Numbers of the rows that lie in every slot."""

    def __init__(self, count, others):
        self.numbers = np.full(count, -1)

    def space(self, order):
        return self.numbers

    def write(self, places, columns):
        self.numbers[places] = columns[1].values


def state_of(tables, key=KEY):
    return SimpleNamespace(supplies=np.zeros((len(tables.headers), 3), np.int64), supply_key=key)


def pool_of(tables, state=None, change=None):
    """Return a pool of a chain in some state; `change` is what a full pass finds."""
    target = SimpleNamespace(
        rows=SimpleNamespace(room_for=Room),
        full_data=SimpleNamespace(change=lambda _, ends: change(*ends[:2])),
        taylor_order=2,
    )
    prepared = SimpleNamespace(
        drawn_from=tables, target=target, reference=SimpleNamespace(centre=np.zeros(1))
    )
    return prefetch.Prefetcher(prepared, np.zeros(0), state or state_of(tables))


def sequence(tables, table, supplies, key=KEY):
    """Return the rows of the first supplies of a table, in order."""
    rngs = (np.random.default_rng([key, table, number]) for number in range(supplies))
    return np.concatenate([tables.draw(table, rng, prefetch.SUPPLY_ROWS).rows for rng in rngs])


def take_some(supply, table, slots):
    """Take slots of a table, as the tests do; return whether they could be had."""
    return function("mh_take_rows")(supply, table, slots.size, slots) == load_library().MH_OK


_POINTER, _WHOLE = ctypes.c_void_p, ctypes.c_int64
_take_rows = ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, _WHOLE, _WHOLE, _POINTER)(
    int(ffi.cast("intptr_t", load_library().mh_take_rows))
)


@njit(nogil=True)
def _take_on(supply, batches):
    slots, largest = np.empty(1, np.int64), 0
    for k in range(batches):
        if _take_rows(supply, 0, 1, slots.ctypes) != 0:
            return largest, k
        largest = max(largest, slots[0])
    return largest, batches


def take_on(supply, batches):
    """Take single slots for as long as there are any; return the largest, and how many."""
    laid_out = LaidOut("mh_supply", supply)
    return _take_on(int(ffi.cast("intptr_t", laid_out.at)), batches)


def ask_for_all(supply):
    """Return the change of all rows, None where that could not be had."""
    change = np.empty(1)
    status = function("mh_ask_for_change")(supply, change)
    return change[0] if status == load_library().MH_OK else None


def taken(own, table, sizes):
    """Return row, number by the data, and c of what batches of some sizes take."""
    found = []
    for size in sizes:
        slots = np.empty(size, np.int64)
        assert take_some(own.supply, table, slots)
        # Read when the whole batch is there, as the tests do.
        numbers = own._placed.numbers[slots]
        found.append((own.rows[slots], numbers, own.c[table, slots].astype(float)))
    return (np.concatenate(part) for part in zip(*found, strict=True))
