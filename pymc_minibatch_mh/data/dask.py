"""Rows of Dask arrays, computed block by block, so that only requested rows are transferred.

With a client of ``distributed`` in use, its workers also evaluate functions of blocks of rows.
"""

import os
import pickle
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from importlib import import_module
from itertools import pairwise
from threading import Lock
from time import monotonic
from typing import Any, Self
from uuid import uuid4
from weakref import WeakKeyDictionary

import dask
import dask.array as da
import numpy as np

from pymc_minibatch_mh.data.arrays import common_length, native_type, require_names
from pymc_minibatch_mh.data.files import require_rows
from pymc_minibatch_mh.data.source import Block, Field
from pymc_minibatch_mh.errors import MinibatchError, SettingError, SourceError

#: Maximum seconds for which a cluster may lack workers or be unreachable.
MAX_SILENT_SECONDS = 60.0
#: Seconds between two checks of a computing cluster.
POLL_SECONDS = 1.0
_OF_CLUSTERS = (None, "dask.distributed", "distributed")
_AT_IMPORT = os.getpid()
_lock = Lock()
#: Clients opened by this package, by process and address.
_opened: dict[tuple[int, str], Any] = {}
#: Futures of work that was sent to clusters, by work and client.
_sent: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


class LostClusterError(RuntimeError):
    """A cluster that stopped computing."""


def address_in_use() -> str | None:
    """Address of the cluster that Dask uses in this process; None without a cluster."""
    client = _default_client()
    return None if client is None else str(client.scheduler.address)


def client_in_use(address: str | None) -> Any:
    """Client of the cluster in use, or None.

    A process without a client opens one at `address`; LostClusterError if it does not answer.
    """
    client: Any = _default_client()
    # Threads of a client do not survive in a forked process: open a new client.
    if client is not None and os.getpid() != _AT_IMPORT:
        client, address = None, str(client.scheduler.address)
    if client is not None or address is None:
        return client
    with _lock:
        key = os.getpid(), address
        if key not in _opened or _opened[key].status == "closed":
            try:
                opened = import_module("distributed").Client
                _opened[key] = opened(address, set_as_default=False, timeout=MAX_SILENT_SECONDS)
            except (OSError, ValueError, RuntimeError) as error:
                raise LostClusterError(
                    f"the cluster at {address} does not answer this process ({error}); a cluster "
                    "of processes would: LocalCluster(processes=True)"
                ) from error
        return _opened[key]


def compute_on(client: Any, wanted: Sequence[Any]) -> Iterator[Any]:
    """Yield results of a cluster in order; cancel pending ones if the iteration stops early."""
    futures = client.compute(list(wanted))
    while futures:
        yield _wait_for_future(client, futures.pop(0))


def _default_client() -> Any:
    # A process that has a client has imported the library: do not import it here.
    distributed = sys.modules.get("distributed")
    if distributed is None or dask.config.get("scheduler", None) not in _OF_CLUSTERS:
        return None
    try:
        return distributed.default_client()
    except ValueError:
        return None


def _wait_for_future(client: Any, future: Any) -> Any:
    """Wait for a result, as long as the cluster has workers."""
    alive = monotonic()
    while True:
        try:
            return future.result(timeout=POLL_SECONDS)
        except TimeoutError:
            if future.done():
                return future.result(timeout=MAX_SILENT_SECONDS)
        if client.status == "running" and client.scheduler_info()["workers"]:
            alive = monotonic()
        elif monotonic() - alive > MAX_SILENT_SECONDS:
            raise LostClusterError(
                f"the cluster at {client.scheduler.address} is {client.status} and has no workers "
                f"for {MAX_SILENT_SECONDS:.0f} s"
            )


class DaskStorage:
    """Arrays of Dask, with rows on the first axis: see :meth:`Rows.from_dask`.

    The client of `distributed` computes them, or else Dask's own scheduler. Other processes
    connect to the same cluster.
    """

    def __init__(self, arrays: Mapping[str, da.Array]) -> None:
        require_names("from_dask()", arrays)
        for name, array in arrays.items():
            _require_known(name, array)
        self._arrays = dict(arrays)
        self.fields = {
            name: Field(native_type(repr(name), np.dtype(x.dtype)), tuple(map(int, x.shape[1:])))
            for name, x in arrays.items()
        }
        self.n_rows = common_length({repr(name): int(x.shape[0]) for name, x in arrays.items()})
        self.stamp = "; ".join(f"{name}: {array.name}" for name, array in arrays.items())
        self._address = address_in_use()

    def read(self, names: Iterable[str], rows: slice | np.ndarray) -> dict[str, np.ndarray]:
        """Compute selected rows; SourceError if Dask fails."""
        names = list(names)
        places = None
        if not isinstance(rows, slice):
            # Dask computes each chunk once for sorted rows.
            rows, places = np.unique(rows, return_inverse=True)
            require_rows(rows, self.n_rows)
        wanted = [self._arrays[name][rows] for name in names]
        try:
            client = client_in_use(self._address)
            found = dask.compute(*wanted) if client is None else compute_on(client, wanted)
            arrays = [np.asarray(array) for array in found]
        except Exception as error:
            raise self._computation_error(names, rows, error) from error
        return {
            name: _check_rows(name, array, x.dtype, x.shape)[... if places is None else places]
            for name, x, array in zip(names, wanted, arrays, strict=True)
        }

    @property
    def workers(self) -> Self | None:
        """The storage itself if a cluster computes on its rows, else None."""
        return None if (address_in_use() or self._address) is None else self

    @property
    def cuts(self) -> Sequence[int]:
        """First rows of the chunks of the array with the largest rows."""
        largest = max(self._arrays, key=lambda name: self.fields[name].itemsize)
        return _chunk_edges(self._arrays[largest])[1:-1]

    def map_blocks(
        self, names: Iterable[str], work: Any, blocks: Sequence[Block]
    ) -> Generator[Any]:
        """Yield the result of each block's function on its rows; SourceError if Dask fails."""
        names = list(names)
        results = self._run_work(names, work, blocks)
        for rows, _ in blocks:
            try:
                found = next(results)
            except MinibatchError:
                raise
            except Exception as error:
                raise self._computation_error(names, rows, error) from error
            yield found

    def _run_work(self, names: Sequence[str], work: Any, blocks: Sequence[Block]) -> Iterator[Any]:
        client = client_in_use(self._address)
        sent = _send_work(client, work)
        # Dask schedules tasks in the order of their names, which should follow the chunks:
        # neighbouring chunks tend to lie at different workers.
        run = uuid4().hex
        tasks = []
        for number, (rows, call) in enumerate(blocks):
            chosen = {name: self._rows_of(name, rows) for name in names}
            expected = {name: (dtype, shape) for name, (dtype, shape, _) in chosen.items()}
            task = dask.delayed(partial(_call_on_worker, call, expected), traverse=False)
            arrays = {name: array for name, (*_, array) in chosen.items()}
            tasks.append(task(sent, arrays, dask_key_name=f"rows-{number:08d}-{run}"))
        yield from compute_on(client, tasks)

    def _rows_of(self, name: str, rows: slice | np.ndarray) -> tuple[np.dtype, Sequence[int], Any]:
        """Type and shape of some rows of an array, and the rows as one delayed array."""
        array = self._arrays[name]
        if isinstance(rows, slice):
            chunk = self._chunks_by_rows.get(name, {}).get((rows.start, rows.stop))
            if chunk is not None:
                return array.dtype, (rows.stop - rows.start, *array.shape[1:]), chunk
        chosen = array[rows]
        return chosen.dtype, chosen.shape, chosen.rechunk(-1).to_delayed().item()

    @cached_property
    def _chunks_by_rows(self) -> dict[str, dict[tuple[int, int], Any]]:
        """Chunks of each array that is cut along rows only, by (first row, end)."""
        return {
            name: dict(zip(pairwise(_chunk_edges(x)), x.to_delayed().ravel(), strict=True))
            for name, x in self._arrays.items()
            if all(len(sizes) == 1 for sizes in x.chunks[1:])
        }

    def _computation_error(
        self, names: Sequence[str], rows: slice | np.ndarray, error: Exception
    ) -> SourceError:
        advice = "Compute the arrays without this package to see where it fails."
        if isinstance(error, ModuleNotFoundError):
            advice = "Workers lack a package that this process has: install it there as well."
        return SourceError(
            f"Dask cannot compute {self._describe_rows(rows)} of {', '.join(map(repr, names))}: "
            f"{type(error).__name__}: {error}. {advice}"
        )

    def _describe_rows(self, rows: slice | np.ndarray) -> str:
        if isinstance(rows, slice):
            first, stop, _ = rows.indices(self.n_rows)
        else:
            first, stop = (int(rows[0]), int(rows[-1]) + 1) if rows.size else (0, 0)
        chunks = (
            f"chunks {_chunk_name(array, first)} to {_chunk_name(array, stop - 1)} of {name!r}"
            for name, array in self._arrays.items()
        )
        return f"rows {first:,} to {stop - 1:,} ({', '.join(chunks)})"

    def where(self, row: int) -> str:
        """Row number and its chunks."""
        chunks = (f"chunk {_chunk_name(x, row)} of {name!r}" for name, x in self._arrays.items())
        return f"row {row:,}, {' and '.join(chunks)}"

    def __getstate__(self) -> dict:
        state = {name: value for name, value in self.__dict__.items() if name != "_chunks_by_rows"}
        return state | {"_address": address_in_use() or self._address}


def _send_work(client: Any, work: Any) -> Any:
    """Future of pickled work; the cluster stores it as long as `work` exists in this process."""
    known = _sent.setdefault(work, {})
    # No lock, because a fork would copy a locked one; sending the work twice is harmless.
    if client.id not in known:
        sent = client.submit(_accept_work, pickle.dumps(work), pure=False)
        # Exceptions of a worker itself, such as a missing package, are passed on.
        _wait_for_future(client, sent)
        known[client.id] = sent
    return known[client.id]


@lru_cache(maxsize=32)
def _load_work(pickled: bytes) -> Any:
    """Unpickled work, cached by a worker to avoid repeated compilation."""
    return pickle.loads(pickled)  # noqa: S301 - it was pickled by the process that asks


def _accept_work(pickled: bytes) -> bytes:
    _load_work(pickled)
    return pickled


def _call_on_worker(
    call: Any,
    expected: Mapping[str, tuple[np.dtype, Sequence[int]]],
    pickled: bytes,
    blocks: Mapping[str, Any],
) -> Any:
    """Result of a call on rows that Dask has computed."""
    arrays = {name: _check_rows(name, np.asarray(x), *expected[name]) for name, x in blocks.items()}
    return call(_load_work(pickled), arrays)


def _chunk_edges(array: da.Array) -> list[int]:
    """First row of each chunk, and the number of rows."""
    return np.cumsum((0, *array.chunks[0])).tolist()


def _check_rows(name: str, found: np.ndarray, dtype: np.dtype, shape: Sequence[int]) -> np.ndarray:
    """Computed rows in native byte order; SourceError if their type or shape is unexpected."""
    native, shape = dtype.newbyteorder("="), tuple(map(int, shape))
    if found.shape != shape or found.dtype.newbyteorder("=") != native:
        raise SourceError(
            f"{name!r} was computed as {found.dtype} of shape {found.shape}, but Dask expects "
            f"{dtype} of shape {shape}. Give map_blocks(...) the dtype and chunks of its result."
        )
    # Received arrays may be unaligned, but compiled code needs aligned numbers.
    return np.require(found, native, ["ALIGNED"])


def _chunk_name(array: da.Array, row: int) -> int:
    return int(np.searchsorted(_chunk_edges(array)[1:], row, side="right"))


def _require_known(name: str, array: Any) -> None:
    if not isinstance(array, da.Array):
        raise SettingError(
            f"from_dask({name}=...) is a {type(array).__name__}. Give a Dask array; for a data "
            "frame, use df.to_dask_array(lengths=True)."
        )
    if not array.ndim:
        raise SettingError(f"from_dask({name}=...) is a single number. Give an array with rows.")
    if np.isnan(array.shape).any():
        raise SettingError(
            f"from_dask({name}=...) has chunks of unknown length. Call "
            f"{name}.compute_chunk_sizes() first."
        )
