"""Chains as threads: each makes blocks of draws and writes them into shared records.

Threads never compile: compilation changes PyTensor's configuration, which belongs to the process.
All functions of an update are compiled before the threads begin. The search for a new centre may
compile more and runs in the main thread.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Event
from typing import Any, Self

import numpy as np
from rich import get_console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from pymc_minibatch_mh.chain.chain import Chain, Draws, draws_until_adaptation
from pymc_minibatch_mh.native.statistics import Statistic
from pymc_minibatch_mh.progress import is_watched
from pymc_minibatch_mh.sampling.trace import Draws as Kept
from pymc_minibatch_mh.steps.report import write_stats
from pymc_minibatch_mh.threads import SECONDS_BETWEEN_CHECKS, DelayedInterrupts


@dataclass
class ChainProgress:
    """Counts of one chain: draws; updates, which are counted anew after warm-up."""

    tuned: int = 0
    drawn: int = 0
    updates: int = 0
    accepted: float = 0.0
    rows: float = 0.0
    seconds: float = 0.0

    def count(self, block: Draws, updates: int, seconds: float, *, tuning: bool) -> None:
        """Add a block of draws to the counts."""
        draws = len(block.positions)
        if not tuning and self.drawn == 0:
            self.updates, self.accepted, self.rows, self.seconds = 0, 0.0, 0.0, 0.0
        self.tuned += draws if tuning else 0
        self.drawn += 0 if tuning else draws
        self.updates += draws * updates
        self.accepted += block.counts["accepted"].sum()
        self.rows += block.counts["n_obs"].sum()
        self.seconds += seconds


class Bars:
    """Progress bar for each chain, with running means over its updates."""

    def __init__(self, chains: int, draws: int, *, shown: bool) -> None:
        self._display = Progress(
            TextColumn("Chain {task.fields[number]}"),
            BarColumn(bar_width=None),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
            TextColumn("{task.fields[rows]:,.0f} rows/update"),
            TextColumn("{task.fields[accepted]:.0%} accepted"),
            TextColumn("{task.fields[speed]:,.0f}/s"),
            TimeRemainingColumn(elapsed_when_finished=True),
            expand=True,
            console=get_console(),
            disable=not (shown and is_watched()),
        )
        nothing: dict[str, Any] = {"rows": 0.0, "accepted": 0.0, "speed": 0.0}
        self._tasks = [
            self._display.add_task("", total=draws, number=number, **nothing)
            for number in range(chains)
        ]

    def __enter__(self) -> Self:
        self._display.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self._display.stop()

    def show(self, chains: Sequence[ChainProgress]) -> None:
        """Update all bars."""
        for task, chain in zip(self._tasks, chains, strict=True):
            updates = max(chain.updates, 1)
            self._display.update(
                task,
                completed=chain.tuned + chain.drawn,
                rows=chain.rows / updates,
                accepted=chain.accepted / updates,
                speed=chain.updates / max(chain.seconds, 1e-9),
            )


#: Block of draws: target time in seconds, short enough for interrupts; draws of the first block;
#: maximum growth factor from block to block; maximum number of draws.
BLOCK_SECONDS, FIRST_BLOCK, GROWTH, MAX_DRAWS = 0.1, 5, 20, 20_000


@dataclass(frozen=True)
class RunSettings:
    """Draws per chain after and during warm-up, number of chains, and maximum parallel chains."""

    draws: int
    tune: int
    chains: int
    cores: int


@dataclass(frozen=True, eq=False)
class Record:
    """Positions, shape (chains, draws, d), and stats, (chains, draws), of all chains in a phase."""

    positions: np.ndarray
    stats: Mapping[str, np.ndarray]

    @classmethod
    def allocate_record(
        cls, chains: int, draws: int, size: int, statistics: Mapping[str, Statistic]
    ) -> "Record":
        """Record with allocated but empty arrays."""
        shape = chains, draws
        stats = {name: np.empty(shape, np.dtype(one.dtype)) for name, one in statistics.items()}
        return cls(np.empty((chains, draws, size)), stats)

    def write(self, where: tuple[int, slice], block: Draws, updates: int, **shared: float) -> None:
        """Write the statistics of a block; the chain has already written its positions."""
        write_stats(self.stats, where, block.counts, updates)
        for name, value in shared.items():
            self.stats[name][where] = value
        # After a violated bound the draws of a chain no longer have proved bounds.
        sound = np.logical_and.accumulate(block.counts["bound_ratio"] <= 1.0)
        self.stats["certified"][where] &= sound

    def of(self, chains: Sequence[int], draws: int) -> Kept:
        """First draws of selected chains; views instead of copies if all chains are selected."""
        every = len(chains) == len(self.positions)
        which = slice(None) if every else list(chains)
        stats = {name: values[which, :draws] for name, values in self.stats.items()}
        coords: dict = {"chain": np.array(chains), "draw": np.arange(draws)}
        return Kept(self.positions[which, :draws], stats, coords)


def _stop_adapting(chain: Chain, ended: Future[None]) -> None:
    """End the warm-up of a chain, and pass the result or the error to its thread."""
    try:
        chain.stop_adapting()
    except Exception as error:
        ended.set_exception(error)
    else:
        ended.set_result(None)


@dataclass(eq=False)
class Workers:
    """Chains that run at the same time, and their records.

    `keep` is called after each block with the number of the chain and whether it has ended.
    """

    settings: RunSettings
    chains: list[Chain]
    keeps_warm_up: bool
    #: Recorded statistics of the step.
    statistics: Mapping[str, Statistic]
    keep: Callable[[int, bool], None] | None = None
    progress: list[ChainProgress] = field(init=False)
    warm_up: Record | None = field(init=False, default=None)
    kept: Record = field(init=False)

    def __post_init__(self) -> None:
        """Allocate the records, and compile all functions for the threads."""
        settings, room = self.settings, (self.chains[0].position.size, self.statistics)
        self.progress = [ChainProgress() for _ in self.chains]
        self.kept = Record.allocate_record(settings.chains, settings.draws, *room)
        if self.keeps_warm_up:
            self.warm_up = Record.allocate_record(settings.chains, settings.tune, *room)
        self._stop = Event()
        #: Chains at the end of their warm-up, with futures for their adapted centres; None for an
        #: ended chain.
        self._tuned = SimpleQueue[tuple[Chain, Future[None]] | None]()
        for chain in self.chains:
            chain.kernel_state()

    def run(self, bars: Bars) -> bool:
        """Make all draws; return whether an interrupt stopped them."""
        interrupted, running = False, set[Future[None]]()
        with bars, ThreadPoolExecutor(min(self.settings.cores, self.settings.chains)) as pool:
            try:
                with DelayedInterrupts() as interrupt:
                    running.update(
                        pool.submit(self._sample_chain, k) for k in range(self.settings.chains)
                    )
                    for job in running:
                        job.add_done_callback(lambda _: self._tuned.put(None))
                    self._watch(running, bars, interrupt)
            except KeyboardInterrupt:
                interrupted = True
            finally:
                # Threads check for interrupts after each block.
                self._stop.set()
        for job in running:
            # An error in a block takes precedence over the interrupt that waited for it.
            job.result()
        return interrupted

    def _watch(self, running: set[Future[None]], bars: Bars, interrupt: DelayedInterrupts) -> None:
        ended: list[Future[None]] = []
        while len(ended) < len(running) and all(job.exception() is None for job in ended):
            with suppress(Empty):
                if (tuned := self._tuned.get(timeout=SECONDS_BETWEEN_CHECKS)) is not None:
                    _stop_adapting(*tuned)
            interrupt.let_through()
            bars.show(self.progress)
            ended = [job for job in running if job.done()]

    def _sample_chain(self, number: int) -> None:
        self._make_draws(number)
        if self.keep is not None:
            self.keep(number, True)

    def _make_draws(self, number: int) -> None:
        settings, chain, progress = self.settings, self.chains[number], self.progress[number]
        most = float(FIRST_BLOCK)
        while progress.tuned < settings.tune and not self._stop.is_set():
            window = min(settings.tune - progress.tuned, draws_until_adaptation(chain))
            most = self._advance_block(number, min(int(most), window), self.warm_up)
        ended = Future[None]()
        self._tuned.put((chain, ended))
        while not wait([ended], SECONDS_BETWEEN_CHECKS).done:
            if self._stop.is_set():
                return
        ended.result()
        while progress.drawn < settings.draws and not self._stop.is_set():
            draws = min(int(most), settings.draws - progress.drawn)
            most = self._advance_block(number, draws, self.kept)

    def _advance_block(self, number: int, draws: int, record: Record | None) -> float:
        """Make a block of draws; return the maximum length of the next block."""
        chain, progress = self.chains[number], self.progress[number]
        shared = {name: getattr(chain, name) for name in ("certified", "scaling", "temperature")}
        began = time.perf_counter()
        first = progress.drawn if record is self.kept else progress.tuned
        where = number, slice(first, first + draws)
        block = chain.advance(draws, None if record is None else record.positions[where])
        seconds = time.perf_counter() - began
        updates = chain.program.updates_per_draw
        if record is not None:
            record.write(where, block, updates, perf_counter_diff=seconds / draws, **shared)
            # The scale is adapted at the end of a block: the last draw records the adapted scale.
            record.stats["scaling"][number, first + draws - 1] = chain.scaling
        progress.count(block, updates, seconds, tuning=record is not self.kept)
        if self.keep is not None:
            self.keep(number, False)
        enough = draws * BLOCK_SECONDS / max(seconds, 1e-9)
        return float(np.clip(enough, 1, min(MAX_DRAWS, GROWTH * draws)))

    def complete(self) -> tuple[list[int], int]:
        """Chains and common number of draws that maximise the total number of draws."""
        drawn = np.array([progress.drawn for progress in self.progress])
        lengths = np.unique(drawn[drawn > 0])
        if lengths.size == 0:
            return [], 0
        most = max(lengths, key=lambda length: int(length) * int((drawn >= length).sum()))
        return [int(k) for k in np.flatnonzero(drawn >= most)], int(most)
