"""Interrupts that tests send to themselves."""

import signal
import threading
from contextlib import contextmanager


@contextmanager
def handled_by(handler):
    """Have interrupts handled so inside, whatever the tests were started by."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def interrupted_after(seconds):
    """Have what is inside interrupted; it must last until then."""
    main = threading.main_thread().ident
    timer = threading.Timer(seconds, signal.pthread_kill, (main, signal.SIGINT))
    with handled_by(signal.default_int_handler):
        timer.start()
        try:
            yield
        finally:
            timer.join()
