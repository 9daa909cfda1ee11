"""What one run of a sampler is given and gives back, for the cells of ``peers.py``."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers_problems import Data, Problem


class OutOfTimeError(Exception):
    """The budget was spent before there was a draw after warm-up."""


class Clock:
    """Seconds since it was made, those of imports and compilation, and those that are left.

    Parameters
    ----------
    budget
        Seconds that a run may take, besides those of imports and compilation.
    """

    def __init__(self, budget: float) -> None:
        self.budget = budget
        self.began = time.perf_counter()
        self.importing = self.compiling = 0.0
        self._depth = 0

    @property
    def seconds(self) -> float:
        """Seconds since it was made."""
        return time.perf_counter() - self.began

    @property
    def left(self) -> float:
        """Seconds that are left of the budget, which imports and compilation do not use up."""
        return self.budget - (self.seconds - self.importing - self.compiling)

    @contextmanager
    def compilation(self) -> Iterator[None]:
        """Count the seconds within as compilation, those of nested ones once."""
        self._depth += 1
        began = time.perf_counter()
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self.compiling += time.perf_counter() - began

    def told(self, seconds: float) -> None:
        """Count a compilation that somebody else timed, unless it is being counted."""
        if self._depth == 0:
            self.compiling += seconds


@dataclass(frozen=True)
class Task:
    """What a sampler is to do: draw from the posterior of a problem."""

    problem: Problem
    data: Data
    clock: Clock
    seed: int


@dataclass
class Run:
    """What a sampler did."""

    #: Unknown -> its draws after warm-up, the first axis along the draws.
    draws: dict[str, NDArray[np.float64]]
    #: Draws of warm-up, or steps of an optimiser.
    warm_up: int
    #: Seconds of warm-up and after it.
    tune: float
    sampling: float
    #: Whether all draws were made that were asked for.
    finished: bool = True
    #: What else is to be known, such as settings.
    note: dict[str, Any] = field(default_factory=dict)
