"""Threads that an interrupt cannot leave in a broken state.

Python raises KeyboardInterrupt between any two instructions of the main thread. The standard
library may by then have acquired a lock without a record of it. Threads that need this lock then
wait forever.
"""

import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ContextDecorator
from threading import Lock, current_thread, main_thread
from typing import Any, Self

from threadpoolctl import ThreadpoolController

#: Seconds between two checks by the main thread for results and interrupts.
SECONDS_BETWEEN_CHECKS = 0.1


def usable_cores() -> int:
    """Number of cores for this process, possibly fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class DelayedInterrupts:
    """Context of the main thread that delays interrupts; handlers are called at its end."""

    def __init__(self) -> None:
        self._handler: Any = None
        self._came: tuple | None = None

    def __enter__(self) -> Self:
        """Install a handler that records interrupts."""
        if current_thread() is main_thread() and callable(signal.getsignal(signal.SIGINT)):
            self._handler = signal.signal(signal.SIGINT, self._note_interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the handlers, and deliver pending interrupts."""
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
            self.let_through()

    def let_through(self) -> None:
        """Call the handler of a pending interrupt; Python's handler raises KeyboardInterrupt."""
        if self._came is not None:
            came, self._came = self._came, None
            self._handler(*came)

    def _note_interrupt(self, *came: Any) -> None:
        self._came = came


def wait_for_result(future: Future[Any]) -> Any:
    """Wait for the result or the exception of a thread."""
    with DelayedInterrupts() as interrupt:
        while not wait([future], SECONDS_BETWEEN_CHECKS).done:
            interrupt.let_through()
        return future.result()


class _OneThreadOfBLAS(ContextDecorator):
    """Context that limits BLAS to one thread, because observations are evaluated on all cores.

    Threads of BLAS wait by spinning: beside other work, a product of two milliseconds can take
    seconds.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._limits: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limits = ThreadpoolController().limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limits.restore_original_limits()


one_thread_of_blas = _OneThreadOfBLAS()


def map_in_threads(work: Callable[[Any], Any], parts: Sequence[Any]) -> Generator[Any, None, None]:
    """Yield the results of `work` on parts, in order, from a thread for each usable core.

    Unstarted parts are cancelled when the iteration stops early; a single part needs no thread.
    """
    if len(parts) == 1:
        yield work(parts[0])
        return
    pool = ThreadPoolExecutor(usable_cores())
    try:
        with DelayedInterrupts():
            begun = deque(pool.submit(work, part) for part in parts)
        while begun:
            yield wait_for_result(begun.popleft())
    finally:
        with DelayedInterrupts():
            pool.shutdown(cancel_futures=True)
