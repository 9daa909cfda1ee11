"""Cache of decoded chunks, or row groups, of stored arrays."""

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from threading import Lock

import numpy as np

from pymc_minibatch_mh.data.files import require_rows
from pymc_minibatch_mh.data.source import Field

#: Minimum capacity of a cache in bytes.
MIN_CACHE_BYTES = 2**28
#: Function from the number of a chunk to its rows.
Part = Callable[[int], np.ndarray]


class ChunkCache:
    """Cache of recently used decoded chunks, up to `room` bytes; threads share pending chunks."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._forget_chunks()

    def __reduce__(self) -> tuple:
        """Pickle without the cached chunks."""
        return ChunkCache, (self.room,)

    def _forget_chunks(self) -> None:
        self._process = os.getpid()
        self._lock = Lock()
        self._parts: OrderedDict[Hashable, Future[np.ndarray]] = OrderedDict()
        #: Bytes of the cached chunks.
        self.nbytes = 0

    def hold_all(self, fields: Mapping[str, Field], n_rows: int) -> bool:
        """Whether the cache can contain all rows of some arrays."""
        return n_rows * sum(field.itemsize for field in fields.values()) <= self.room

    def get(self, key: Hashable, decode: Callable[[], np.ndarray]) -> np.ndarray:
        """Read-only decoded chunk; all threads that wait for it receive exceptions of `decode`."""
        # A process forked during a read has no thread to finish pending chunks: forget them.
        if self._process != os.getpid():
            self._forget_chunks()
        own: Future[np.ndarray] = Future()
        with self._lock:
            part = self._parts.setdefault(key, own)
            self._parts.move_to_end(key)
        if part is not own:
            return part.result()
        try:
            array = decode()
        except BaseException as error:
            with self._lock:
                del self._parts[key]
            own.set_exception(error)
            raise
        array.flags.writeable = False
        own.set_result(array)
        with self._lock:
            self.nbytes += array.nbytes
            self._leave_room()
        return array

    def _leave_room(self) -> None:
        """Drop the least recently used chunks; chunks still being decoded are not counted."""
        for key in [key for key, part in self._parts.items() if part.done()]:
            if self.nbytes <= self.room:
                return
            self.nbytes -= self._parts.pop(key).result().nbytes


def gather_rows(
    rows: slice | np.ndarray,
    edges: np.ndarray,
    empty: np.ndarray,
    part: Callable[[int], np.ndarray],
) -> np.ndarray:
    """Selected rows, decoded once per chunk; a view if they are a slice within one chunk.

    `edges` has the first row of every chunk and the total number of rows; `empty`, shape (0, ...),
    has the type and the shape of rows. IndexError for row numbers out of range.
    """
    if isinstance(rows, slice):
        first, stop, step = rows.indices(int(edges[-1]))
        if step != 1:
            return gather_rows(np.arange(first, stop, step), edges, empty, part)
        return _consecutive_rows(first, max(first, stop), edges, empty, part)
    found = np.empty((rows.size, *empty.shape[1:]), dtype=empty.dtype)
    require_rows(rows, int(edges[-1]))
    owners = np.searchsorted(edges, rows, side="right") - 1
    order = np.argsort(owners, kind="stable")
    changes = np.flatnonzero(np.diff(owners[order])) + 1
    for places in np.split(order, changes) if rows.size else ():
        number = int(owners[places[0]])
        found[places] = part(number)[rows[places] - edges[number]]
    return found


def _consecutive_rows(
    first: int, stop: int, edges: np.ndarray, empty: np.ndarray, part: Part
) -> np.ndarray:
    if first == stop:
        return empty
    begin = int(np.searchsorted(edges, first, side="right")) - 1
    end = int(np.searchsorted(edges, stop, side="left"))
    if end == begin + 1:
        return part(begin)[first - edges[begin] : stop - edges[begin]]
    found = np.empty((stop - first, *empty.shape[1:]), dtype=empty.dtype)
    for number in range(begin, end):
        low, high = max(first, edges[number]), min(stop, edges[number + 1])
        found[low - first : high - first] = part(number)[low - edges[number] : high - edges[number]]
    return found
