"""State of a chain: numbers and arrays that determine its continuation."""

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from pymc_minibatch_mh.native.statistics import COUNTS, numbers
from pymc_minibatch_mh.plan.plan import Expansion
from pymc_minibatch_mh.samplers.base import Records


@dataclass
class ChainState:
    """State of a chain: numbers and arrays, compared by value.

    Tallies of the `window` of warm-up and of all earlier windows have shape (components,); their
    counts are COUNTS of shape (). `warm_up_sum`, shape (d,), is the discounted sum of positions,
    and `warm_up_weight` the sum of the weights. `near_mode`: the chain was near the posterior;
    `started`: its start was checked; `unmoved`: why the centre did not move, until it is logged.
    Updates are counted after warm-up; the last `n_stayed` draws accepted none. `supplies`, shape
    (T, 3), are the unused prefetched rows, keyed by `supply_key`, -1 before the first. `waits_at`,
    shape (d,), is the start at which the chain waits for other steps; `handed_out`, shape (2, d),
    is the last point for PyMC and its position. Both are NaN if there is none.
    """

    reference: Expansion
    records: Records
    window: np.ndarray
    total: np.ndarray
    warm_up_sum: np.ndarray
    waits_at: np.ndarray
    handed_out: np.ndarray
    adapting: bool
    violation: str
    window_counts: np.ndarray = field(default_factory=lambda: np.zeros((), COUNTS))
    total_counts: np.ndarray = field(default_factory=lambda: np.zeros((), COUNTS))
    warm_up_weight: float = 0.0
    started: bool = False
    near_mode: bool = False
    n_draws: int = 0
    n_updates: int = 0
    n_full: int = 0
    n_accepted: int = 0
    n_stayed: int = 0
    warned: bool = False
    unmoved: str = ""
    supplies: np.ndarray = field(default_factory=lambda: np.zeros((0, 3), np.int64))
    supply_key: int = -1

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ChainState):
            return NotImplemented
        return all(
            _equal_values(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def is_waiting(self) -> bool:
        """Whether the chain waits for other steps."""
        return not np.isnan(self.waits_at[0])

    def shapes(self) -> dict[str, Any]:
        """Shapes of the arrays by name, which all chains of a step share."""
        parts = {f.name: getattr(self, f.name) for f in fields(self)}
        # These shapes differ between chains: their centres may have other numbers of tables.
        for name in ("supplies", "reference", "records"):
            del parts[name]
        return {name: _array_shape(part) for name, part in (parts | self.records._asdict()).items()}


def _equal_values(one: Any, other: Any) -> bool:
    if isinstance(one, tuple):
        return type(one) is type(other) and all(map(_equal_values, one, other))
    if not isinstance(one, np.ndarray):
        return bool(np.array_equal(one, other))
    if one.dtype != other.dtype:
        return False
    if one.dtype.names:
        one, other = numbers(one), numbers(other)
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))


def _array_shape(part: Any) -> Any:
    if isinstance(part, tuple):
        return type(part).__name__, *(_array_shape(inner) for inner in part)
    return part.shape if isinstance(part, np.ndarray) else ()
