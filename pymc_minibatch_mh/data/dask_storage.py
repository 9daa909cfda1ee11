"""Rows of Dask arrays: computed block by block, so that only the wanted rows travel."""

import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from importlib import import_module
from itertools import pairwise
from threading import Lock
from time import monotonic
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

import dask
import dask.array as da
import numpy as np

from pymc_minibatch_mh.data.arrays import common_length, native_type, require_names
from pymc_minibatch_mh.data.files import require_rows
from pymc_minibatch_mh.data.storage import Field, Part
from pymc_minibatch_mh.errors import MinibatchError, SettingError, SourceError

#: Seconds for which a cluster may be without workers, or out of reach.
PATIENCE = 60.0
#: Seconds between two looks at a cluster that computes.
POLL = 1.0
_OF_CLUSTERS = (None, "dask.distributed", "distributed")
_AT_IMPORT = os.getpid()
_lock = Lock()
#: Process and address -> the client that this process has opened itself.
_opened: dict[tuple[int, str], Any] = {}
#: Value -> client -> its placeholder there.
_shared: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


class LostClusterError(RuntimeError):
    """A cluster that does not compute any more."""


def address_in_use() -> str | None:
    """Return the address of the cluster that Dask computes on in this process, if there is one."""
    client = _default_client()
    return None if client is None else str(client.scheduler.address)


def client_in_use(address: str | None) -> Any:
    """Return the client of the cluster in use, None where there is no cluster.

    The address is that of the cluster to use in a process that has no client of its own. Raises
    :class:`LostClusterError` where that does not answer.
    """
    client: Any = _default_client()
    # The threads of a client do not live on in a forked process.
    if os.getpid() != _AT_IMPORT and client is not None:
        client, address = None, str(client.scheduler.address)
    if client is None and address is not None:
        client = _client_of(address)
    return client


def computed_by(client: Any, wanted: Sequence[Any]) -> Iterator[Any]:
    """Yield the results of a cluster, in order; nothing goes on where nobody asks for more."""
    futures = client.compute(list(wanted))
    while futures:
        yield _result(client, futures.pop(0))


def shared_with(client: Any, value: Any) -> Any:
    """Return the placeholder of a pickled value on a cluster, which workers have `loaded`.

    The cluster keeps it as long as the value lives, and workers get it from each other.
    """
    known = _shared.setdefault(value, {})
    # Two threads may send it twice; a lock would be held where a process is forked meanwhile.
    if client.id not in known:
        sent = client.submit(_accepted, pickle.dumps(value), pure=False)
        # A worker's own complaint, such as a package that it lacks, is passed on.
        _result(client, sent)
        known[client.id] = sent
    return known[client.id]


@lru_cache(maxsize=32)
def loaded(pickled: bytes) -> Any:
    """Return the pickled value, on a worker: the same object where it comes again.

    A worker forgets values of another when its tasks are done, and would compile anew.
    """
    return pickle.loads(pickled)  # noqa: S301 - it was pickled by the process that asks


def _accepted(pickled: bytes) -> bytes:
    loaded(pickled)
    return pickled


def _default_client() -> Any:
    # Who has a client has imported the library.
    distributed = sys.modules.get("distributed")
    if distributed is None or dask.config.get("scheduler", None) not in _OF_CLUSTERS:
        return None
    try:
        return distributed.default_client()
    except ValueError:
        return None


def _client_of(address: str) -> Any:
    with _lock:
        key = os.getpid(), address
        if key not in _opened or _opened[key].status == "closed":
            try:
                client = import_module("distributed").Client
                _opened[key] = client(address, set_as_default=False, timeout=PATIENCE)
            except (OSError, ValueError, RuntimeError) as error:
                raise LostClusterError(
                    f"the cluster at {address} does not answer this process ({error}); one of "
                    "processes would: LocalCluster(processes=True)"
                ) from error
        return _opened[key]


def _result(client: Any, future: Any) -> Any:
    """Wait for a result, as long as there is somebody who may compute it."""
    alive = monotonic()
    while True:
        try:
            return future.result(timeout=POLL)
        except TimeoutError:
            if future.done():
                return future.result(timeout=PATIENCE)
        if client.status == "running" and client.scheduler_info()["workers"]:
            alive = monotonic()
        elif monotonic() - alive > PATIENCE:
            raise LostClusterError(
                f"the cluster at {client.scheduler.address} is {client.status} and has no workers "
                f"for {PATIENCE:.0f} s"
            )


class DaskStorage:
    """Arrays of Dask, rows on the first axis, computed by the scheduler that Dask has.

    That is the client of `distributed` where there is one. Other processes, such as those of
    chains, connect to the same cluster. Two reads of a row have to give the same numbers.

    Raises
    ------
    SettingError
        If there is no array, or one is not numeric, has no rows or another number of them.
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
        """Compute some rows: a :class:`SourceError` names those that Dask cannot, and why."""
        names = list(names)
        places = None
        if not isinstance(rows, slice):
            # Dask takes sorted rows from every chunk once.
            rows, places = np.unique(rows, return_inverse=True)
            require_rows(rows, self.n_rows)
        wanted = [self._arrays[name][rows] for name in names]
        try:
            client = client_in_use(self._address)
            found = dask.compute(*wanted) if client is None else computed_by(client, wanted)
            arrays = [np.asarray(array) for array in found]
        except Exception as error:
            raise self._failed(names, rows, error) from error
        return {
            name: _Asked.of(asked).checked(name, array)[... if places is None else places]
            for name, asked, array in zip(names, wanted, arrays, strict=True)
        }

    @property
    def has_workers(self) -> bool:
        """Whether a cluster computes, and not this process."""
        return (address_in_use() or self._address) is not None

    @property
    def cuts(self) -> Sequence[int]:
        """Where chunks of the array with the longest rows begin."""
        largest = max(self._arrays, key=lambda name: self.fields[name].itemsize)
        return _ends(self._arrays[largest])[1:-1]

    def computed(self, names: Iterable[str], parts: Sequence[Part], shared: Any) -> Iterator[Any]:
        """Yield the results on parts of the rows, by the workers that hold them.

        A :class:`SourceError` names the rows that Dask cannot compute, and the reason.
        """
        names = list(names)
        results = self._results(names, parts, shared)
        for part in parts:
            try:
                found = next(results)
            except MinibatchError:
                raise
            except Exception as error:
                raise self._failed(names, part.rows, error) from error
            yield found

    def _results(self, names: Sequence[str], parts: Sequence[Part], shared: Any) -> Iterator[Any]:
        client = client_in_use(self._address)
        sent = shared_with(client, shared)
        # Dask hands tasks out in the order of their names, which should be that of the chunks:
        # neighbours tend to lie at different workers.
        run = uuid4().hex
        tasks = [
            self._task(names, part, sent, f"rows-{place:08d}-{run}")
            for place, part in enumerate(parts)
        ]
        yield from computed_by(client, tasks)

    def _task(self, names: Sequence[str], part: Part, shared: Any, key: str) -> Any:
        asked = {name: self._asked(name, part.rows) for name in names}
        called = partial(_on_worker, part.compute, {name: one for name, (one, _) in asked.items()})
        blocks = {name: block for name, (_, block) in asked.items()}
        return dask.delayed(called, traverse=False)(shared, blocks, dask_key_name=key)

    def _asked(self, name: str, rows: slice | np.ndarray) -> tuple["_Asked", Any]:
        """Return some rows of an array as one block, and their metadata."""
        array = self._arrays[name]
        if isinstance(rows, slice):
            block = self._blocks.get(name, {}).get((rows.start, rows.stop))
            if block is not None:
                return _Asked.of(array, rows.stop - rows.start), block
        chosen = array[rows]
        return _Asked.of(chosen), chosen.rechunk(-1).to_delayed().item()

    @cached_property
    def _blocks(self) -> dict[str, dict[tuple[int, int], Any]]:
        """Name -> first row and the one after the last -> the chunk that is all of these rows."""
        return {
            name: dict(zip(pairwise(_ends(array)), array.to_delayed().ravel(), strict=True))
            for name, array in self._arrays.items()
            if all(len(sizes) == 1 for sizes in array.chunks[1:])
        }

    def _failed(
        self, names: Sequence[str], rows: slice | np.ndarray, error: Exception
    ) -> SourceError:
        advice = "Compute the arrays without this package to see where it fails."
        if isinstance(error, ModuleNotFoundError):
            advice = "Workers need the packages that this process has: install it for them."
        return SourceError(
            f"Dask cannot compute {self._span(rows)} of {', '.join(map(repr, names))}: "
            f"{type(error).__name__}: {error}. {advice}"
        )

    def _span(self, rows: slice | np.ndarray) -> str:
        if isinstance(rows, slice):
            first, stop, _ = rows.indices(self.n_rows)
        else:
            first, stop = (int(rows[0]), int(rows[-1]) + 1) if rows.size else (0, 0)
        chunks = (
            f"chunks {_chunk(array, first)} to {_chunk(array, stop - 1)} of {name!r}"
            for name, array in self._arrays.items()
        )
        return f"rows {first:,} to {stop - 1:,} ({', '.join(chunks)})"

    def where(self, row: int) -> str:
        """Return the row, and the chunks that it lies in."""
        chunks = (f"chunk {_chunk(x, row)} of {name!r}" for name, x in self._arrays.items())
        return f"row {row:,}, {' and '.join(chunks)}"

    def __getstate__(self) -> dict:
        state = {name: value for name, value in self.__dict__.items() if name != "_blocks"}
        return state | {"_address": address_in_use() or self._address}


@dataclass(frozen=True)
class _Asked:
    """The metadata of a Dask array before it is computed."""

    dtype: np.dtype
    shape: tuple[int, ...]

    @classmethod
    def of(cls, array: da.Array, n_rows: int | None = None) -> "_Asked":
        """Return the metadata of an array's rows, or of so many of them."""
        length = array.shape[0] if n_rows is None else n_rows
        return cls(array.dtype, (int(length), *map(int, array.shape[1:])))

    def checked(self, name: str, found: np.ndarray) -> np.ndarray:
        """Return computed rows, which have to agree with the metadata of the array."""
        dtype = self.dtype.newbyteorder("=")
        if found.shape != self.shape or found.dtype.newbyteorder("=") != dtype:
            raise SourceError(
                f"{name!r} was computed as {found.dtype} of shape {found.shape}, and Dask takes it "
                f"for {self.dtype} of shape {self.shape}. Give map_blocks(...) the dtype and the "
                "chunks of what it returns."
            )
        # Arrays that have travelled begin at any address.
        return np.require(found, dtype, ["ALIGNED"])


def _on_worker(
    compute: Callable[[Any, Mapping[str, np.ndarray]], Any],
    asked: Mapping[str, "_Asked"],
    pickled: bytes,
    blocks: Mapping[str, Any],
) -> Any:
    """Return the result on rows that Dask has computed."""
    arrays = {name: asked[name].checked(name, np.asarray(x)) for name, x in blocks.items()}
    return compute(loaded(pickled), arrays)


def _ends(array: da.Array) -> list[int]:
    """Return where the chunks of rows begin, and the number of rows."""
    return np.cumsum((0, *array.chunks[0])).tolist()


def _chunk(array: da.Array, row: int) -> int:
    return int(np.searchsorted(_ends(array)[1:], row, side="right"))


def _require_known(name: str, array: Any) -> None:
    if not isinstance(array, da.Array):
        raise SettingError(
            f"from_dask({name}=...) is a {type(array).__name__}. Give an array of Dask; of a data "
            "frame, that is df.to_dask_array(lengths=True)."
        )
    if not array.ndim:
        raise SettingError(f"from_dask({name}=...) is one number. Give an array with rows.")
    if np.isnan(array.shape).any():
        raise SettingError(
            f"from_dask({name}=...) has chunks of unknown length. Call "
            f"{name}.compute_chunk_sizes() before."
        )
