"""An interrupt while a chain is handed rows is raised, and leaves nothing that others wait for."""

import signal
import sys
from concurrent.futures import wait
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from chain.supplied import pool_of, sequence, tables_of, take_on, taken
from interrupts import handled_by
from pymc_minibatch_mh.chain import pool
from pymc_minibatch_mh.chain.interrupts import HeldBack

C = np.array([[0.3, 0.0, 0.25, 0.2, 0.3, 0.15, 0.5]], np.float32)
#: Seconds after which a thread that has nothing else to do is taken for stuck.
STUCK = 20.0
ROOM = 8


LOCKED = ("__enter__", "__exit__")
#: Where an interrupt comes -> whether a function of a file is there.
PLACES = {
    "locks": lambda file, name: file == "threading.py" and name in LOCKED,
    "waits": lambda file, name: file == "threading.py" and name not in LOCKED,
    "futures": lambda file, name: file in ("_base.py", "thread.py"),
    "rows": lambda file, name: file in ("pool.py", "interrupts.py"),
}


class Interrupting:
    """Sends an interrupt before the k-th instruction of some below what compiled code asks."""

    def __init__(self, place, k):
        self.is_there, self.left, self.asked = PLACES[place], k, None

    def __call__(self, frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_name == "_refill":
            self.asked = frame
        elif event == "return" and frame is self.asked:
            self.asked = None
        elif self.asked not in (None, frame) and self.is_there(
            Path(code.co_filename).name, code.co_name
        ):
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            self.left -= event == "opcode"
            if self.left == 0:
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return self if self.left > 0 else None


def interrupted(own, interrupting):
    """Use a supply; return what is raised, and how many rows were used."""
    sys.settrace(interrupting)
    try:
        _, count = take_on(own.supply, ROOM)
        own.require_served()
    except BaseException as error:
        return error, count
    finally:
        sys.settrace(None)
    return None, count


@pytest.mark.parametrize("place", PLACES)
def test_an_interrupt_at_any_instruction_is_raised_and_rows_go_on(place):
    tables, k = tables_of(C), 0
    with pytest.MonkeyPatch.context() as patch, handled_by(signal.default_int_handler):
        patch.setattr(sys, "unraisablehook", lambda _: None)
        patch.setattr(pool, "ROOM", ROOM)
        expected = sequence(tables, 0, 3)
        # Python counts instructions from the second time on, and has them compiled by then.
        first = pool_of(tables)
        interrupted(first, Interrupting(place, 10**9))
        while True:
            k += 1
            own, interrupting = pool_of(tables), Interrupting(place, k)
            told, count = interrupted(own, interrupting)
            if interrupting.left > 0:
                break
            assert isinstance(told, KeyboardInterrupt), k
            assert wait([own._fetcher.submit(int)], STUCK).done, k
            rows = next(taken(own, 0, [ROOM]))
            np.testing.assert_array_equal(rows, expected[count : count + ROOM])
    assert told is None
    assert k > 40


def test_what_handles_interrupts_is_called_at_the_end():
    came = []
    with handled_by(lambda number, frame: came.append(number)):
        with HeldBack() as outer:
            with HeldBack():
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)
                assert came == []
            assert came == []
            outer.let_through()
            assert came == [signal.SIGINT]
        assert came == [signal.SIGINT]
        signal.raise_signal(signal.SIGINT)
        assert came == [signal.SIGINT] * 2


def test_interrupts_that_are_ignored_stay_so():
    with handled_by(signal.SIG_IGN):
        with HeldBack():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_other_threads_hold_nothing_back():
    handlers = []

    def hold():
        with HeldBack():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = Thread(target=hold)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGINT)]
