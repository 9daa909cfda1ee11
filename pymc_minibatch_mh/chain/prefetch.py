"""Prefetching of a chain's stored rows.

If a whitened copy in memory determines the needed rows of a proposal, they are fetched on request.
Otherwise rows are drawn in blocks, the supplies. The generator of a supply is keyed by the chain's
key, the table of bounds and the number of the supply, so its rows do not depend on the progress of
the chain. While one supply is in use the next is fetched. Each table has two supplies in memory,
because a batch may begin in one and end in the next. Uniform sampling uses a single table. The
buffer ends with the influential observations, which every update evaluates.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from weakref import WeakMethod

import numpy as np

from pymc_minibatch_mh.chain.state import ChainState
from pymc_minibatch_mh.errors import MinibatchError
from pymc_minibatch_mh.native.bound_tables import ALL, NO_SUPPLY, NUMBER, Supply
from pymc_minibatch_mh.native.library import ffi
from pymc_minibatch_mh.plan.plan import Plan
from pymc_minibatch_mh.threads import DelayedInterrupts, wait_for_result

#: Number of rows in one supply.
SUPPLY_ROWS = 4096
#: Return values of the callback for compiled code.
NOT_ANSWERED, ANSWERED = range(2)


def empty_supplies(plan: Plan, before: np.ndarray = NO_SUPPLY.places) -> np.ndarray:
    """Empty supplies of T tables, shape (T, 3), numbered after the supplies `before`."""
    drawn_from = plan.drawn_from
    if drawn_from is None:
        return NO_SUPPLY.places
    places = np.zeros((drawn_from.n_tables, 3), dtype=np.int64)
    places[:, NUMBER] = before[:, NUMBER].max(initial=0)
    return places


class Prefetcher:
    """Buffer with the drawn rows of every table, and the source of further rows.

    The chain's `state` stores the supplies in use, and is updated; `others` are the values of the
    other steps' variables.
    """

    def __init__(self, plan: Plan, others: np.ndarray, state: ChainState) -> None:
        self.plan = plan
        self._state = state
        drawn_from: Any = plan.drawn_from
        self._drawn_from = drawn_from
        self._move: tuple[np.ndarray, np.ndarray] | None = None
        n_tables, always = drawn_from.n_tables, drawn_from.heavy
        slots = 2 * SUPPLY_ROWS * n_tables
        #: Row number of each slot, and the slots of the influential observations.
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
        # A weak reference: the callback must not keep the prefetcher and its thread alive.
        fetch_next, note = WeakMethod(self._answer_request), WeakMethod(self._store_error)
        self._called = ffi.callback(
            "int64_t(int64_t)",
            lambda what: fetch_next()(what),  # type: ignore[misc]
            error=NOT_ANSWERED,
            onerror=lambda _, error, __: note()(error),  # type: ignore[misc]
        )
        n_rows, places = drawn_from.n_rows, state.supplies
        self.supply = Supply(places, self._called, np.zeros(1), SUPPLY_ROWS, n_rows, self.rows)
        self._restore_supplies()

    def set_current_move(self, position: np.ndarray, new: np.ndarray) -> None:
        """Set both positions of the proposal for which full-data evaluations are requested."""
        self._move = position, new

    def error(self) -> BaseException:
        """Return and clear the error that ended a request of compiled code."""
        error, self._error = self._error, None
        return error or MinibatchError("Stored observations could not be fetched.")

    def _store_error(self, error: BaseException) -> None:
        """Store an error raised before fetching began, such as an interrupt."""
        self._error = error

    def _restore_supplies(self) -> None:
        """Redraw the unused rows of a resumed chain."""
        for table, (upto, end, number) in enumerate(self.supply.places):
            if upto < end:
                self._put_supply(table, int(number) - 1)

    def _answer_request(self, table: int) -> int:
        """Answer a request of compiled code (``mh_refill``); return ANSWERED or NOT_ANSWERED."""
        # Compiled code cannot pass on exceptions, so they are stored.
        try:
            if table == ALL:
                assert self._move is not None
                ends = (*self._move, self.plan.reference.centre)
                target = self.plan.target
                self.supply.change[0] = target.full_data.change(target.taylor_order, ends)
            elif table < ALL:
                self._fetch_rows(ALL - table)
            else:
                self._next_supply(table)
        except BaseException as error:
            self._error = error
            return NOT_ANSWERED
        return ANSWERED

    def _fetch_rows(self, count: int) -> None:
        """Fetch the `count` rows whose numbers compiled code wrote to the first slots."""
        rows = self.rows[:count]
        order = np.argsort(rows, kind="stable")
        self.c[:, :count] = self._drawn_from.c[:, rows]
        self._placed.write(order, self._drawn_from.read(rows[order]))

    def _next_supply(self, table: int) -> None:
        places = self.supply.places
        number = int(places[table, NUMBER])
        first = self._put_supply(table, number)
        places[table] = first, first + SUPPLY_ROWS, number + 1
        self._draw_ahead(table, number + 1)

    def _put_supply(self, table: int, number: int) -> int:
        """Replace the older of a table's two supplies by supply `number`; return its first slot."""
        draw = self._draw_ahead(table, number)
        # A failed supply is drawn again at the next request.
        del self._fetching[table, number]
        drawn = wait_for_result(draw)
        first = SUPPLY_ROWS * (2 * table + number % 2)
        slots = slice(first, first + SUPPLY_ROWS)
        self.rows[slots] = drawn.rows
        self.c[table, slots] = drawn.c
        self._placed.write(slots, drawn.columns)
        return first

    def _draw_ahead(self, table: int, number: int) -> Future[Any]:
        with DelayedInterrupts():
            if (table, number) not in self._fetching:
                rng = np.random.default_rng([self._state.supply_key, table, number])
                draw = self._fetcher.submit(self._drawn_from.draw, table, rng, SUPPLY_ROWS)
                self._fetching[table, number] = draw
            return self._fetching[table, number]
