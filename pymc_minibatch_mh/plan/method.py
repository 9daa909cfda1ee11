"""A method: an acceptance test with its guarantee, requirements and adaptation."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pymc_minibatch_mh import costs
from pymc_minibatch_mh.bounds.block_tables import AnyTables
from pymc_minibatch_mh.bounds.part_tables import PartTables
from pymc_minibatch_mh.plan.plan import Plan, Requirements


class Promise(StrEnum):
    """Distribution that a chain converges to."""

    #: The posterior, without conditions.
    EXACT = "exact"
    #: The posterior, if no observation changes by more than its bound.
    EXACT_GIVEN_BOUNDS = "exact given valid bounds"
    #: A distribution near the posterior.
    APPROXIMATE = "approximate"


@dataclass(frozen=True)
class Guarantee:
    """The guarantee of a method, and the error that it controls if it is approximate."""

    promise: Promise
    controls: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError unless approximate methods, and only these, set `controls`."""
        approximate = self.promise is Promise.APPROXIMATE
        if approximate != bool(self.controls):
            raise ValueError(
                f"controls={self.controls!r} does not go with {self.promise.value!r}: name the "
                "error that an approximate method controls, and none for an exact one."
            )

    def __str__(self) -> str:
        """Promise, and the error that an approximate method controls."""
        controlled = f"; it controls the {self.controls}" if self.controls else ""
        return f"{self.promise.value}{controlled}"

    @property
    def is_exact(self) -> bool:
        """Whether the method converges to the posterior, given valid bounds if it needs any."""
        return self.promise is not Promise.APPROXIMATE

    def is_certified(self, tables: AnyTables | PartTables | None, violation: str) -> bool:
        """Whether draws are exact: no bound is known to be violated, and none is unverified."""
        if self.promise is not Promise.EXACT_GIVEN_BOUNDS:
            return self.is_exact
        return tables is not None and tables.verified and not violation

    def of_draws(self, tables: AnyTables | PartTables | None, violation: str) -> str:
        """Guarantee for the draws of a chain, in words."""
        if self.promise is not Promise.EXACT_GIVEN_BOUNDS:
            return str(self)
        if violation:
            return "not exact: a row exceeded its bound"
        if self.is_certified(tables, violation):
            return f"{self}, which were derived from the model"
        return "exact if the custom bounds hold, which are unverified"


class WarmUpCounts(NamedTuple):
    """Counts of updates in the last window of warm-up, and discounted sums over all windows."""

    window: np.ndarray
    total: np.ndarray
    #: Number of updates in the window, and per draw.
    n_updates: int
    updates_per_draw: int


#: Minimum of :meth:`Method.most_drawn` for stored rows: the number prefetched at a time.
MIN_STORED = 4096.0


@dataclass(frozen=True, eq=False)
class Method(ABC):
    """An acceptance test, with its guarantee, its requirements and its adaptation.

    A method is frozen and shared by all chains. The state of a chain is a record: a named tuple of
    floats, ints and arrays. Its class names the C record, ``LAYOUT``, and the C functions of the
    test: ``decide``, or ``sample_size`` and ``decide_batch`` for a test on batches.
    """

    #: Target acceptance rate of a random walk; the default is for exact Metropolis–Hastings.
    walk_target = 0.234
    #: Whether a chain continues after a row exceeded its bound.
    tolerates_violations = False
    #: Number of drawn rows above which an update evaluates all instead; None: chosen by speed.
    full_pass_above: float | None = field(default=None, kw_only=True, repr=False)
    #: Whether the average over batches of the probability that the test returns is its acceptance
    #: probability; otherwise the frequency of acceptance estimates it.
    returns_probability = True
    #: Whether rows are drawn with probabilities proportional to their bounds, and influential rows
    #: are evaluated at every update instead.
    draws_by_bounds = False
    #: Whether batches are as large as the noise of their rows requires.
    follows_noise: ClassVar[bool] = False
    #: Whether groups whose effects are integrated out can be its observations.
    takes_groups: ClassVar[bool] = True
    #: Whether every update evaluates the full data, because a setting requests it.
    reads_all_rows = False
    #: Cause and advice in the warning about frequent full-data evaluations; None for the default
    #: text, about control variates that leave too much noise.
    all_rows_words: ClassVar[tuple[str, str] | None] = None

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """Guarantee for the draws, declared by each method."""

    @property
    @abstractmethod
    def requirements(self) -> Requirements:
        """Quantities that the method needs from full-data evaluations."""

    def most_drawn(self, plan: Plan) -> float:
        """Number of drawn rows above which an update evaluates the full data instead."""
        if self.full_pass_above is not None:
            return self.full_pass_above
        # Above this number, all rows in sequence are evaluated faster than the drawn ones.
        most = costs.OBSERVATION_IN_ORDER / costs.OBSERVATION * plan.n_rows
        if plan.target.source.in_memory:
            return most
        share = costs.OBSERVATION_IN_ORDER / costs.FETCHED_OBSERVATION
        return min(most, max(share * plan.n_rows, MIN_STORED))

    @property
    def refuses_elements(self) -> str:
        """Reason why effects cannot be accepted one at a time; empty if they can."""
        return "its test does not draw a Poisson number of rows"

    @property
    def learns_rates(self) -> bool:
        """Whether warm-up may raise the rates at which a Poisson test draws rows."""
        return False

    @abstractmethod
    def record(self, plan: Plan) -> Any:
        """Initial record of a chain around a centre."""

    def linked(self, record: Any) -> Any:
        """Record for compiled updates, by default the same record."""
        return record

    def require_subsampling(self, plan: Plan) -> None:
        """Raise SettingError if typical proposals would evaluate all stored rows."""
        plan.require_few_full_passes(self.most_drawn(plan))

    def adapted(self, record: Any, counts: WarmUpCounts, plan: Plan) -> Any:
        """Record of a chain after a window of warm-up."""
        return record
