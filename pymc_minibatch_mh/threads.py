"""Work in threads that an interrupt does not leave half done.

Python raises KeyboardInterrupt between any two instructions of the main thread. In the standard
library the first can have acquired a lock that the second would have noted: a thread that needs it
then waits for ever.
"""

import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import current_thread, main_thread
from typing import Any, Self

#: Seconds between two looks of the main thread at the others, and for an interrupt.
LOOK = 0.1


def usable_cores() -> int:
    """Return how many cores this process may use, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class HeldBack:
    """Holds interrupts back in a block of the main thread; handlers are called at its end."""

    def __init__(self) -> None:
        self._handler: Any = None
        self._came: tuple | None = None

    def __enter__(self) -> Self:
        """Begin to hold back."""
        if current_thread() is main_thread() and callable(signal.getsignal(signal.SIGINT)):
            self._handler = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        """Let pending interrupts through."""
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
            self.let_through()

    def let_through(self) -> None:
        """Call the handler of interrupts, if one has come: Python's raises KeyboardInterrupt."""
        if self._came is not None:
            came, self._came = self._came, None
            self._handler(*came)

    def _note(self, *came: Any) -> None:
        self._came = came


def result_of(future: Future[Any]) -> Any:
    """Wait for the result or the exception of a thread."""
    with HeldBack() as interrupt:
        while not wait([future], LOOK).done:
            interrupt.let_through()
        return future.result()


def in_threads(work: Callable[[Any], Any], parts: Sequence[Any]) -> Generator[Any, None, None]:
    """Yield the results of `work` on parts, in their order, from a thread for each usable core.

    Parts that have not begun are dropped where nobody asks for them.
    """
    pool = ThreadPoolExecutor(usable_cores())
    try:
        with HeldBack():
            begun = deque(pool.submit(work, part) for part in parts)
        while begun:
            yield result_of(begun.popleft())
    finally:
        with HeldBack():
            pool.shutdown(cancel_futures=True)
