"""Rows that a chain uses, drawn ahead from where they are stored.

Rows are drawn by generators of their own, keyed by the chain's key, the table of bounds and the
number of the supply: which rows a supply holds depends on nothing that the chain does. While one
is used the next is fetched. Of each table there are two supplies in memory, so that what is read at
a time may begin in one and end in the next. Rows that are drawn evenly, for tests that know no
bounds, are those of a single table. Behind all supplies lie the rows that every update reads.
"""

from __future__ import annotations

import ctypes
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from weakref import WeakMethod

import numpy as np

from pymc_minibatch_mh.chain.state import ChainState
from pymc_minibatch_mh.kernels.posterior import RowSpace
from pymc_minibatch_mh.kernels.supply import ALL, NO_SUPPLY, NUMBER, Supply
from pymc_minibatch_mh.preparation.prepared import Prepared
from pymc_minibatch_mh.threads import HeldBack, result_of

#: Rows of one supply.
ROOM = 4096
_CALLED = ctypes.CFUNCTYPE(None, ctypes.c_int64)


def no_supplies(prepared: Prepared, before: np.ndarray = NO_SUPPLY.places) -> np.ndarray:
    """Return places of which none is in use, shape (T, 3); later supplies have other numbers.

    Parameters
    ----------
    prepared
        What a chain runs on; it needs none where rows are in memory.
    before
        The places that the chain leaves.
    """
    drawn_from = prepared.drawn_from
    if drawn_from is None:
        return NO_SUPPLY.places
    places = np.zeros((drawn_from.n_tables, 3), dtype=np.int64)
    places[:, NUMBER] = before[:, NUMBER].max(initial=0)
    return places


class Pool:
    """Rows of every table in memory, and where more come from.

    Parameters
    ----------
    prepared
        What the chain runs on.
    others : ndarray
        Values of the variables that it does not move.
    state
        State of the chain: which supplies are in use and how far is read there, and written.
    """

    def __init__(self, prepared: Prepared, others: np.ndarray, state: ChainState) -> None:
        self.prepared = prepared
        self._state = state
        drawn_from: Any = prepared.drawn_from
        self._drawn_from = drawn_from
        self._move: tuple[np.ndarray, np.ndarray] | None = None
        n_tables, always = drawn_from.n_tables, drawn_from.heavy
        slots = 2 * ROOM * n_tables
        #: Row number of every slot, and the slots of the rows that every update reads.
        self.rows = np.concatenate([np.zeros(slots, dtype=np.int64), always])
        self.heavy = np.arange(slots, self.rows.size)
        self.c = np.zeros((n_tables, slots), dtype=np.float32)
        rows: Any = prepared.target.rows
        self._placed = rows.room_for(self.rows.size, others)
        if always.size:
            self._placed.write(slice(slots, self.rows.size), drawn_from.read_heavy())
        self.space = RowSpace(np.array([0, self.rows.size]), self._placed.context)
        self._fetching: dict[tuple[int, int], Future[Any]] = {}
        self._fetcher = ThreadPoolExecutor(1, "rows drawn ahead")
        self._error: BaseException | None = None
        # Not held by what it calls, a pool and its thread end with the chain.
        refill = WeakMethod(self._refill)
        self._called = _CALLED(lambda what: refill()(what))  # type: ignore[misc]
        address = ctypes.cast(self._called, ctypes.c_void_p).value
        assert address is not None
        unanswered = np.zeros(1, dtype=np.int64)
        answers, n_rows = (np.zeros(1), unanswered), drawn_from.n_rows
        self.supply = Supply(state.supplies, address, *answers, ROOM, n_rows, self.rows)
        self._restore()

    def serve(self, position: np.ndarray, new: np.ndarray) -> None:
        """Name where the ends of the move lie that all rows are asked about."""
        self._move = position, new

    def require_served(self) -> None:
        """Raise what went wrong while compiled code waited, and forget it.

        Raises
        ------
        BaseException
            What the storage has raised, or an interrupt.
        """
        if self.supply.unanswered[0]:
            # Nothing but a signal's handler raises where Python has not begun yet.
            error, self._error = self._error or KeyboardInterrupt(), None
            self.supply.unanswered[0] = 0
            raise error

    def _restore(self) -> None:
        """Draw again what a chain that goes on has not used yet."""
        for table, (upto, end, number) in enumerate(self.supply.places):
            if upto < end:
                self._put(table, int(number) - 1)

    def _refill(self, table: int) -> None:
        # An exception cannot pass through compiled code.
        try:
            if table == ALL:
                assert self._move is not None
                ends = (*self._move, self.prepared.surrogate.centre)
                target = self.prepared.target
                self.supply.change[0] = target.passes.change(target.taylor_order, ends)
            else:
                self._next(table)
            self.supply.unanswered[0] = 0
        except BaseException as error:
            self._error = error

    def _next(self, table: int) -> None:
        places = self.supply.places
        number = int(places[table, NUMBER])
        first = self._put(table, number)
        places[table] = first, first + ROOM, number + 1
        self._ahead(table, number + 1)

    def _put(self, table: int, number: int) -> int:
        """Put a supply where the last but one was; return its first slot."""
        draw = self._ahead(table, number)
        # One that failed is drawn again, if anybody asks again.
        del self._fetching[table, number]
        drawn = result_of(draw)
        first = ROOM * (2 * table + number % 2)
        slots = slice(first, first + ROOM)
        self.rows[slots] = drawn.rows
        self.c[table, slots] = drawn.c
        self._placed.write(slots, drawn.columns)
        return first

    def _ahead(self, table: int, number: int) -> Future[Any]:
        with HeldBack():
            if (table, number) not in self._fetching:
                rng = np.random.default_rng([self._state.supply_key, table, number])
                draw = self._fetcher.submit(self._drawn_from.draw, table, rng, ROOM)
                self._fetching[table, number] = draw
            return self._fetching[table, number]
