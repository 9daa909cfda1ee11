"""What a chain is at one moment: all that decides how it goes on, besides its generator."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from pymc_minibatch_mh.kernels.counts import N_COUNTS, N_TALLIES
from pymc_minibatch_mh.kernels.surrogate import Surrogate


@dataclass
class ChainState:
    """The state of a chain, a value of numbers and arrays.

    Parameters
    ----------
    surrogate
        Control variates: those that were prepared, or moved at the end of warm-up.
    proposal, test
        Records of the proposal and of the test.
    window, total : ndarray, shape (components, N_TALLIES)
        Tallies of the window of warm-up and of all windows before it.
    warm_up_sum : ndarray, shape (d,)
        Sum of the positions of warm-up, earlier ones with less weight.
    warm_up_weight
        Sum of these weights.
    window_counts, total_counts : ndarray, shape (N_COUNTS,)
        What updates have counted, likewise.
    adapting
        Whether it is in warm-up.
    started
        Whether its start has been looked at.
    settled
        Whether it was seen where the posterior is.
    n_draws
        Draws that were made.
    n_updates, n_full, n_accepted
        Updates after warm-up; those that read all rows; those that were accepted.
    warned
        Whether it has warned.
    violation
        What is known against the bounds; empty for nothing.
    unmoved
        Why the centre was not moved at the end of warm-up, until that has been told.
    supplies : ndarray of int64, shape (T, 3)
        Which of the rows that were drawn ahead are unused; of no tables where rows are in memory.
    supply_key
        What rows are drawn ahead by; -1 before any is.
    waits_at : ndarray, shape (d,)
        The start at which it waits for other steps to move what rows read; NaN if it does not.
    handed_out : ndarray, shape (2, d)
        Value variables of the last point that PyMC was handed, and its position; NaN before any,
        and where the two are the same.
    """

    surrogate: Surrogate
    proposal: Any
    test: Any
    window: np.ndarray
    total: np.ndarray
    warm_up_sum: np.ndarray
    waits_at: np.ndarray
    handed_out: np.ndarray
    adapting: bool
    violation: str
    window_counts: np.ndarray = field(default_factory=lambda: np.zeros(N_COUNTS))
    total_counts: np.ndarray = field(default_factory=lambda: np.zeros(N_COUNTS))
    warm_up_weight: float = 0.0
    started: bool = False
    settled: bool = False
    n_draws: int = 0
    n_updates: int = 0
    n_full: int = 0
    n_accepted: int = 0
    warned: bool = False
    unmoved: str = ""
    supplies: np.ndarray = field(default_factory=lambda: np.zeros((0, 3), np.int64))
    supply_key: int = -1

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ChainState):
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    __hash__ = None  # type: ignore[assignment]

    @property
    def waiting(self) -> bool:
        """Whether it waits for other steps."""
        return not np.isnan(self.waits_at[0])

    def shapes(self) -> dict[str, Any]:
        """Return the shapes of all arrays that every chain of one step has, by name."""
        # Around another centre there may be another number of tables.
        names = [f.name for f in fields(self) if f.name != "supplies"]
        return {name: _shape(getattr(self, name)) for name in names}


def new_state(size: int, n_components: int, **given: Any) -> ChainState:
    """Return the state of a chain that has made no draw yet."""
    return ChainState(
        window=np.zeros((n_components, N_TALLIES)),
        total=np.zeros((n_components, N_TALLIES)),
        warm_up_sum=np.zeros(size),
        waits_at=np.full(size, np.nan),
        handed_out=np.full((2, size), np.nan),
        **given,
    )


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple):
        return type(one) is type(other) and all(map(_same, one, other))
    inexact = isinstance(one, np.ndarray) and one.dtype.kind == "f"
    return bool(np.array_equal(one, other, equal_nan=inexact))


def _shape(part: Any) -> Any:
    if isinstance(part, tuple):
        return type(part).__name__, *(_shape(inner) for inner in part)
    return part.shape if isinstance(part, np.ndarray) else ()
