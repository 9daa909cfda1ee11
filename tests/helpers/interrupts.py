"""Interrupts that tests send to themselves: after a while, or at an instruction."""

import signal
import sys
import threading
from concurrent.futures import wait
from contextlib import contextmanager
from pathlib import Path

#: Seconds after which a thread that has nothing else to do is taken to be stuck.
STUCK = 20.0
LOCKED = ("__enter__", "__exit__")
#: Where an interrupt comes -> whether a function of a file is there.
PLACES = {
    "locks": lambda file, name: file == "threading.py" and name in LOCKED,
    "waits": lambda file, name: file == "threading.py" and name not in LOCKED,
    "futures": lambda file, name: file in ("_base.py", "thread.py"),
    "ours": lambda file, name: file in ("prefetch.py", "threads.py"),
    "llvm": lambda file, name: file in ("ffi.py", "user_functions.py"),
}


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


class AtInstruction:
    """Interrupts before the k-th instruction in a place, while a function of some name runs."""

    def __init__(self, place, name, k):
        self.is_there, self.name, self.left = PLACES[place], name, k
        self.outermost = None

    def __call__(self, frame, event, _):
        """Count, as what Python calls in a trace."""
        code = frame.f_code
        if event == "call" and code.co_name == self.name and self.outermost is None:
            self.outermost = frame
        elif event == "return" and frame is self.outermost:
            self.outermost = None
        elif self._is_counted(frame):
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            self.left -= event == "opcode"
            if self.left == 0:
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return self if self.left > 0 else None

    def _is_counted(self, frame):
        if self.outermost in (None, frame):
            return False
        return self.is_there(Path(frame.f_code.co_filename).name, frame.f_code.co_name)


def interrupted_at_each(place, name, begin, run):
    """Interrupt what runs at each instruction in turn; yield what `run` was called with.

    Parameters
    ----------
    place
        Key of :data:`PLACES`.
    name
        Function below which instructions are counted.
    begin
        Returns what `run` is called with, each time anew.
    run
        What is interrupted.
    """
    with handled_by(signal.default_int_handler):
        # Python counts instructions from the second time on.
        _raised(run, begin(), AtInstruction(place, name, sys.maxsize))
        for k in range(1, sys.maxsize):
            given, interrupt = begin(), AtInstruction(place, name, k)
            told = _raised(run, given, interrupt)
            if interrupt.left > 0:
                assert told is None
                assert k > 20
                return
            assert isinstance(told, KeyboardInterrupt), k
            # It holds on to all that its traceback has seen.
            del told
            yield given


def _raised(run, given, interrupt):
    sys.settrace(interrupt)
    try:
        run(given)
    except BaseException as error:
        return error
    finally:
        sys.settrace(None)
    return None


def answers(executor):
    """Return whether a thread still does what it is asked for."""
    return bool(wait([executor.submit(int)], STUCK).done)
