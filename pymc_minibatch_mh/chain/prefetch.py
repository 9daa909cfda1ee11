"""Rows that a chain uses, drawn ahead from where they are stored.

Where a copy in memory tells which rows a move needs, these are fetched when they are asked for.

A generator is keyed by the chain's key, the table of bounds and the number of the supply, so that
the rows of a supply depend on nothing that the chain does. While one is used the next is fetched;
of each table two are in memory, so that a batch may begin in one and end in the next. Rows that are
drawn evenly are those of a single table. Behind all supplies lie the rows that every update reads.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from weakref import WeakMethod

import numpy as np

from pymc_minibatch_mh.chain.state import ChainState
from pymc_minibatch_mh.errors import MinibatchError
from pymc_minibatch_mh.native.draw import ALL, NO_SUPPLY, NUMBER, Supply
from pymc_minibatch_mh.native.library import ffi
from pymc_minibatch_mh.plan.plan import Plan
from pymc_minibatch_mh.threads import HeldBack, result_of

#: Rows of one supply.
ROOM = 4096
#: What compiled code is told.
NOT_ANSWERED, ANSWERED = range(2)


def no_supplies(plan: Plan, before: np.ndarray = NO_SUPPLY.places) -> np.ndarray:
    """Return places without rows, shape (T, 3), numbered on from those of `before`."""
    drawn_from = plan.drawn_from
    if drawn_from is None:
        return NO_SUPPLY.places
    places = np.zeros((drawn_from.n_tables, 3), dtype=np.int64)
    places[:, NUMBER] = before[:, NUMBER].max(initial=0)
    return places


class Prefetcher:
    """Rows of every table in memory, and the source of more.

    The `state` of the chain, which is written, has the supplies in use; `others` are the values of
    the variables that it does not move.
    """

    def __init__(self, plan: Plan, others: np.ndarray, state: ChainState) -> None:
        self.plan = plan
        self._state = state
        drawn_from: Any = plan.drawn_from
        self._drawn_from = drawn_from
        self._move: tuple[np.ndarray, np.ndarray] | None = None
        n_tables, always = drawn_from.n_tables, drawn_from.heavy
        slots = 2 * ROOM * n_tables
        #: Row number of every slot, and the slots of the rows that every update reads.
        self.rows = np.concatenate([np.zeros(slots, dtype=np.int64), always])
        self.heavy = np.arange(slots, self.rows.size)
        self.c = np.zeros((n_tables, self.rows.size), dtype=np.float32)
        rows: Any = plan.target.rows
        self._placed = rows.room_for(self.rows.size, others)
        if always.size:
            self._placed.write(slice(slots, self.rows.size), drawn_from.read_heavy())
        self.space = self._placed.space(plan.target.taylor_order)
        self._fetching: dict[tuple[int, int], Future[Any]] = {}
        self._fetcher = ThreadPoolExecutor(1, "rows drawn ahead")
        self._error: BaseException | None = None
        # Not held by its callback, a pool and its thread end with the chain.
        fetch_next, note = WeakMethod(self._refill), WeakMethod(self._note)
        self._called = ffi.callback(
            "int64_t(int64_t)",
            lambda what: fetch_next()(what),  # type: ignore[misc]
            error=NOT_ANSWERED,
            onerror=lambda _, error, __: note()(error),  # type: ignore[misc]
        )
        n_rows, places = drawn_from.n_rows, state.supplies
        self.supply = Supply(places, self._called, np.zeros(1), ROOM, n_rows, self.rows)
        self._restore()

    def set_current_move(self, position: np.ndarray, new: np.ndarray) -> None:
        """Name the ends of the move that all rows are asked about."""
        self._move = position, new

    def error(self) -> BaseException:
        """Return the error that came up while compiled code waited, and forget it."""
        error, self._error = self._error, None
        return error or MinibatchError("Stored observations could not be fetched.")

    def _note(self, error: BaseException) -> None:
        """Keep an error that came up before Python began to fetch, as an interrupt can."""
        self._error = error

    def _restore(self) -> None:
        """Draw again the rows that a chain which goes on has not used yet."""
        for table, (upto, end, number) in enumerate(self.supply.places):
            if upto < end:
                self._put(table, int(number) - 1)

    def _refill(self, table: int) -> int:
        """Do what compiled code asks for (``mh_refill``); return whether it was done."""
        # An exception cannot pass through compiled code.
        try:
            if table == ALL:
                assert self._move is not None
                ends = (*self._move, self.plan.reference.centre)
                target = self.plan.target
                self.supply.change[0] = target.full_data.change(target.taylor_order, ends)
            elif table < ALL:
                self._fetch(ALL - table)
            else:
                self._next(table)
        except BaseException as error:
            self._error = error
            return NOT_ANSWERED
        return ANSWERED

    def _fetch(self, count: int) -> None:
        """Put the rows whose numbers lie in the first slots there."""
        rows = self.rows[:count]
        order = np.argsort(rows, kind="stable")
        self.c[:, :count] = self._drawn_from.c[:, rows]
        self._placed.write(order, self._drawn_from.read(rows[order]))

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
