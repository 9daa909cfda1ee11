"""Computing on whatever scheduler Dask has, without waiting for one that is gone."""

import os
import pickle
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from threading import Lock
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary

import dask
import numpy as np

#: Seconds for which a cluster may be without workers, or out of reach.
PATIENCE = 60.0
#: Seconds between two looks at a cluster that computes.
POLL = 1.0
_OF_CLUSTERS = (None, "dask.distributed", "distributed")
_AT_IMPORT = os.getpid()
_lock = Lock()
#: Process and address -> the client that this process has opened itself.
_opened: dict[tuple[int, str], Any] = {}
#: Value -> client -> what stands for it there.
_shared: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


class LostClusterError(RuntimeError):
    """A cluster that does not compute any more."""


def address_in_use() -> str | None:
    """Return the address of the cluster that Dask computes on in this process, if there is one."""
    client = _default_client()
    return None if client is None else str(client.scheduler.address)


def compute(arrays: Sequence[Any], address: str | None) -> list[np.ndarray]:
    """Compute arrays on the cluster in use, or else by the scheduler that is set.

    Parameters
    ----------
    arrays
        Arrays of Dask.
    address
        The cluster to use in a process that has no client of its own.

    Raises
    ------
    LostClusterError
        If the cluster has no workers for a minute, or does not answer.
    """
    client = client_in_use(address)
    if client is None:
        return [np.asarray(found) for found in dask.compute(*arrays)]
    return [np.asarray(found) for found in computed_by(client, arrays)]


def client_in_use(address: str | None) -> Any:
    """Return the client of the cluster in use, None where there is no cluster.

    Parameters
    ----------
    address
        The cluster to use in a process that has no client of its own.

    Raises
    ------
    LostClusterError
        If the cluster does not answer.
    """
    client: Any = _default_client()
    # The threads of a client do not live on in a forked process.
    if os.getpid() != _AT_IMPORT and client is not None:
        client, address = None, str(client.scheduler.address)
    if client is None and address is not None:
        client = _client_of(address)
    return client


def computed_by(client: Any, wanted: Sequence[Any]) -> Iterator[Any]:
    """Yield what a cluster computes, in order; nothing goes on where nobody asks for more.

    Raises
    ------
    LostClusterError
        If the cluster has no workers for a minute, or does not answer.
    """
    futures = client.compute(list(wanted))
    while futures:
        yield _result(client, futures.pop(0))


def shared_with(client: Any, value: Any) -> Any:
    """Return what stands for the pickle of a value on a cluster, which workers have `loaded`.

    The cluster keeps it as long as the value lives, and workers get it from each other.

    Raises
    ------
    LostClusterError
        If the cluster has no workers for a minute, or does not answer.
    """
    known = _shared.setdefault(value, {})
    # Two threads may send it twice; a lock would be held where a process is forked meanwhile.
    if client.id not in known:
        sent = client.submit(_accepted, pickle.dumps(value), pure=False)
        # What a worker has against it, such as a package that it lacks, is told by itself.
        _result(client, sent)
        known[client.id] = sent
    return known[client.id]


@lru_cache(maxsize=32)
def loaded(pickled: bytes) -> Any:
    """Return what was pickled, on a worker: the same value where it comes again.

    A worker forgets what it got from another when its tasks are done, and would compile anew.
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
