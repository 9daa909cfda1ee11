"""An interrupt is raised, and leaves nothing that others wait for."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pytest
from numba import njit
from threadpoolctl import threadpool_info, threadpool_limits

from helpers.interrupts import STUCK, answers, handled_by, interrupted_after, interrupted_at_each
from helpers.models import logistic
from pymc_minibatch_mh import ScalableSubsamplingMH, threads
from pymc_minibatch_mh.plan.dense import DensePlan
from pymc_minibatch_mh.proposals.user_functions import address_of
from pymc_minibatch_mh.threads import (
    DelayedInterrupts,
    map_in_threads,
    one_thread_of_blas,
    usable_cores,
    wait_for_result,
)


def test_what_handles_interrupts_is_called_at_the_end():
    came = []
    with handled_by(lambda number, frame: came.append(number)):
        with DelayedInterrupts() as outer:
            with DelayedInterrupts():
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
        with DelayedInterrupts():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_other_threads_hold_nothing_back():
    with ThreadPoolExecutor(1) as pool:

        def handler():
            with DelayedInterrupts():
                return signal.getsignal(signal.SIGINT)

        assert pool.submit(handler).result() is signal.getsignal(signal.SIGINT)


def test_who_waits_for_a_thread_is_interrupted():
    end = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(end.wait)
        try:
            with interrupted_after(0.2), pytest.raises(KeyboardInterrupt):
                wait_for_result(waiting)
        finally:
            end.set()
        assert wait_for_result(waiting)


@pytest.mark.parametrize(
    "place", ["locks", "waits", pytest.param("futures", marks=pytest.mark.slow), "ours"]
)
def test_an_interrupt_at_any_instruction_leaves_no_thread_waiting(place):
    with ThreadPoolExecutor(1) as pool:

        def work(_):
            with DelayedInterrupts():
                begun = pool.submit(int)
            wait_for_result(begun)

        for _ in interrupted_at_each(place, "work", lambda: None, work):
            assert answers(pool)


def test_an_interrupt_at_any_instruction_leaves_llvm_to_others():
    add = njit("int64(int64)")(lambda x: x + 1)
    asked = add, add.nopython_signatures[0]

    def find(_):
        address_of(*asked)

    with ThreadPoolExecutor(1) as pool:
        for _ in interrupted_at_each("llvm", "address_of", lambda: None, find):
            assert pool.submit(address_of, *asked).result(STUCK) == address_of(*asked)


@pytest.mark.parametrize("place", ["locks", "ours"])
def test_parts_that_are_interrupted_end(place):
    def work(_):
        assert list(map_in_threads(str, [3, 4])) == ["3", "4"]

    before = set(threading.enumerate())
    for _ in interrupted_at_each(place, "work", lambda: None, work):
        for thread in set(threading.enumerate()) - before:
            thread.join(STUCK)
            assert not thread.is_alive()


def test_results_come_in_the_order_of_the_parts():
    assert list(map_in_threads(lambda k: k * k, range(50))) == [k * k for k in range(50)]


def test_parts_that_nobody_asks_for_are_left(monkeypatch):
    asked = []

    def work(part):
        asked.append(part)
        time.sleep(0.01)

    monkeypatch.setattr(threads, "usable_cores", lambda: 2)
    found = map_in_threads(work, range(1_000))
    next(found)
    found.close()
    # All of them would take five seconds.
    assert len(asked) < 1_000


def test_what_a_part_raises_comes_in_its_place():
    found = map_in_threads([1, 2, None, 4].__getitem__, [0, 1, 9])
    assert list(islice(found, 2)) == [1, 2]
    with pytest.raises(IndexError):
        next(found)


def test_threads_are_no_more_than_the_cores_that_may_be_used():
    def thread(_):
        time.sleep(0.001)
        return threading.current_thread()

    with pytest.MonkeyPatch.context() as patch:
        # A number of cores that no machine has.
        patch.setattr(os, "sched_getaffinity", lambda _: set(range(9_973)), raising=False)
        assert usable_cores() == 9_973
        patch.setattr(os, "sched_getaffinity", lambda _: {5}, raising=False)
        assert len(set(map_in_threads(thread, range(12)))) == 1


def test_cores_are_those_of_the_machine_where_nothing_else_is_known(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    for count, usable in (5, 5), (None, 1):
        monkeypatch.setattr(os, "cpu_count", lambda count=count: count)
        assert usable_cores() == usable


def of_blas():
    """Return the threads that linear algebra has, the most of all libraries that are loaded."""
    return max(info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas")


def test_blas_has_one_thread_until_the_last_caller_is_out():
    with threadpool_limits(limits=2, user_api="blas"):
        one = one_thread_of_blas(of_blas)
        assert (of_blas(), one(), of_blas()) == (2, 1, 2)
        with one_thread_of_blas:
            assert (one(), of_blas()) == (1, 1)
        with pytest.raises(ZeroDivisionError):
            one_thread_of_blas(lambda: 1 // 0)()
        assert of_blas() == 2


def test_models_are_prepared_with_one_thread_of_blas(monkeypatch):
    found, completed = [], DensePlan.completed
    monkeypatch.setattr(
        DensePlan, "completed", lambda plan: found.append(of_blas()) or completed(plan)
    )
    with threadpool_limits(limits=2, user_api="blas"):
        step = ScalableSubsamplingMH(model=logistic())
        step.plan.around(step.plan.reference.centre)
    assert set(found) == {1}
