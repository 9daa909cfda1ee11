"""A method: a test, its guarantee, the facts that it needs, and its adaptation."""

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

    #: The posterior, whatever else holds.
    EXACT = "exact"
    #: The posterior, if no observation changes by more than its bound.
    EXACT_GIVEN_BOUNDS = "exact given valid bounds"
    #: Something near the posterior.
    APPROXIMATE = "approximate"


@dataclass(frozen=True)
class Guarantee:
    """The guarantee of a method, and the error that it controls if it is approximate."""

    promise: Promise
    controls: str = ""

    def __post_init__(self) -> None:
        """Refuse an approximate method that does not say which error it controls."""
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
        """Whether draws are exact, with no known violation and without a user's word for bounds."""
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
    """Counts of updates in the last window of warm-up and in all, old ones with less weight."""

    window: np.ndarray
    total: np.ndarray
    #: Updates of the window, and of a draw.
    n_updates: int
    updates_per_draw: int


#: Stored rows that are drawn ahead in any case.
MIN_STORED = 4096.0


@dataclass(frozen=True, eq=False)
class Method(ABC):
    """A test and everything about it that a chain must know.

    A method is frozen and serves all chains. All that changes in a chain lies in a record: a named
    tuple of floats, ints and arrays. Its class names the record in C, ``LAYOUT``, and the functions
    that take it: ``decide``, or ``sample_size`` and ``decide_batch`` for a test on batches.
    """

    #: Acceptance that a random walk aims at: that of exact Metropolis–Hastings.
    walk_target = 0.234
    #: Whether a chain goes on after a row exceeded its bound.
    tolerates_violations = False
    #: Rows above which a move is decided by all of them; None for a share that is as quick.
    full_pass_above: float | None = field(default=None, kw_only=True, repr=False)
    #: Whether the mean over batches of the probability that the test returns is that of accepting.
    #: In a test that stops by its uniform number, the verdicts alone tell it.
    returns_probability = True
    #: Whether rows are drawn by their bounds, and those that would be drawn nearly always are read
    #: at every update instead.
    draws_by_bounds = False
    #: Whether every update reads all rows, because the user asked for that.
    reads_all_rows = False
    #: Cause and advice where most moves are decided by all rows that were not asked for; None for
    #: those of control variates that leave too much noise.
    all_rows_words: ClassVar[tuple[str, str] | None] = None

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """Promise of the draws: declared, never inferred."""

    @property
    @abstractmethod
    def requirements(self) -> Requirements:
        """Facts that full-data evaluations have to find."""

    def most_drawn(self, plan: Plan) -> float:
        """Number of drawn rows above which the full data decide."""
        if self.full_pass_above is not None:
            return self.full_pass_above
        # From here on, one pass in order is as quick as as many random reads.
        most = costs.OBSERVATION_IN_ORDER / costs.OBSERVATION * plan.n_rows
        if plan.target.source.in_memory:
            return most
        share = costs.OBSERVATION_IN_ORDER / costs.FETCHED_OBSERVATION
        return min(most, max(share * plan.n_rows, MIN_STORED))

    @property
    def refuses_elements(self) -> str:
        """Objection to effects that are accepted one at a time; empty without one."""
        return "its test does not draw a Poisson number of rows"

    @property
    def learns_rates(self) -> bool:
        """Whether warm-up may raise the rates at which a Poisson test draws rows."""
        return False

    @abstractmethod
    def record(self, plan: Plan) -> Any:
        """Initial record of a chain around a centre."""

    def linked(self, record: Any) -> Any:
        """Record of compiled updates: the same, unless they need addresses."""
        return record

    def require_subsampling(self, plan: Plan) -> None:
        """SettingError if typical moves would read all stored rows."""
        plan.require_few_full_passes(self.most_drawn(plan))

    def adapted(self, record: Any, counts: WarmUpCounts, plan: Plan) -> Any:
        """Record of a chain after a window of warm-up."""
        return record
