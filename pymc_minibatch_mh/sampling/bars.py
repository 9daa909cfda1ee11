"""How far chains are, shown where somebody watches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from rich import get_console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from pymc_minibatch_mh.chain.chain import Draws
from pymc_minibatch_mh.kernels import counts as entry
from pymc_minibatch_mh.progress import is_watched


@dataclass
class ChainProgress:
    """Counts of one chain, since warm-up began or since it ended.

    Parameters
    ----------
    tuned, drawn
        Draws of warm-up, and after it.
    updates
        Updates of the phase.
    accepted, rows, full
        How many were accepted, rows that were read, and updates that read all.
    seconds
        Time that they took.
    """

    tuned: int = 0
    drawn: int = 0
    updates: int = 0
    accepted: float = 0.0
    rows: float = 0.0
    full: int = 0
    seconds: float = 0.0

    def count(self, block: Draws, updates: int, seconds: float, *, tuning: bool) -> None:
        """Count a block of draws."""
        draws = len(block.positions)
        if not tuning and self.drawn == 0:
            self.updates, self.accepted, self.rows, self.full, self.seconds = 0, 0.0, 0.0, 0, 0.0
        self.tuned += draws if tuning else 0
        self.drawn += 0 if tuning else draws
        self.updates += draws * updates
        self.accepted += block.counts[:, entry.ACCEPTED].sum()
        self.rows += block.counts[:, entry.N_OBS].sum()
        self.full += int(block.counts[:, entry.FULL_PASS].sum())
        self.seconds += seconds


class Bars:
    """A bar for each chain, with running means of what its updates count.

    Parameters
    ----------
    chains
        Number of chains.
    draws
        Draws of each, warm-up included.
    shown
        Whether there is anything to see.
    """

    def __init__(self, chains: int, draws: int, *, shown: bool) -> None:
        self._display = Progress(
            TextColumn("Chain {task.fields[number]}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} draws"),
            TextColumn("{task.fields[rows]:,.0f} rows an update"),
            TextColumn("{task.fields[accepted]:.2f} accepted"),
            TextColumn("{task.fields[full]:,} full passes"),
            TextColumn("{task.fields[speed]:,.0f} updates/s"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=get_console(),
            disable=not (shown and is_watched()),
        )
        nothing: dict[str, Any] = {"rows": 0.0, "accepted": 0.0, "full": 0, "speed": 0.0}
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
        """Show how far chains are."""
        for task, chain in zip(self._tasks, chains, strict=True):
            updates = max(chain.updates, 1)
            self._display.update(
                task,
                completed=chain.tuned + chain.drawn,
                rows=chain.rows / updates,
                accepted=chain.accepted / updates,
                full=chain.full,
                speed=chain.updates / max(chain.seconds, 1e-9),
            )
