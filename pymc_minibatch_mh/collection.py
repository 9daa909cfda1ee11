"""Python's search for objects that only refer to each other, put off."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused() -> Iterator[None]:
    """Put the search off while kernels are compiled.

    Numba makes so many objects that last that searching them takes a sixth of the time. Not for
    building a step, whose cycles hold arrays of all rows.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
