"""Interrupts that wait until nothing can be left half done.

Python raises KeyboardInterrupt between any two instructions of the main thread. In the standard
library one of them can have acquired a lock that the next would have noted: who needs it then
waits for ever.
"""

import signal
from threading import current_thread, main_thread
from typing import Any, Self


class HeldBack:
    """Holds interrupts back in a block; what handles them is called at its end.

    Other threads than the main one are never interrupted: there, this does nothing.
    """

    def __init__(self) -> None:
        self._handler: Any = None
        self._came: tuple | None = None

    def __enter__(self) -> Self:
        """Begin to hold back."""
        if current_thread() is main_thread() and callable(signal.getsignal(signal.SIGINT)):
            self._handler = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        """Let through what has come."""
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
            self.let_through()

    def let_through(self) -> None:
        """Call what handles interrupts, if one has come.

        Raises
        ------
        KeyboardInterrupt
            If Python's own handler is in use.
        """
        if self._came is not None:
            came, self._came = self._came, None
            self._handler(*came)

    def _note(self, *came: Any) -> None:
        self._came = came
