"""Base class of samplers."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.native.bound_tables import BoundTables, no_tables
from pymc_minibatch_mh.native.forms import RowSpace
from pymc_minibatch_mh.native.library import LaidOut
from pymc_minibatch_mh.native.moves import Move
from pymc_minibatch_mh.native.posterior import Posterior, Reference
from pymc_minibatch_mh.native.run import Slices
from pymc_minibatch_mh.native.statistics import TALLY, Feature
from pymc_minibatch_mh.plan.method import Method, WarmUpCounts
from pymc_minibatch_mh.plan.plan import Plan
from pymc_minibatch_mh.reference.target import whitened_directions


class Records(NamedTuple):
    """Records of a sampler in a chain: tuples of floats, ints and arrays, or None if not needed."""

    proposal: Any
    test: Any


class Tallies(NamedTuple):
    """Efficiency of each component in the last window of warm-up, and in all windows."""

    window: np.ndarray
    total: np.ndarray


class Likelihood(NamedTuple):
    """Observations as compiled updates evaluate them: rows, control variates and bounds."""

    rows: RowSpace
    reference: Reference
    tables: BoundTables
    #: Owner of the memory and functions whose addresses are in `rows`.
    owner: Any = None


class Scratch(NamedTuple):
    """Arrays that updates write: proposal, tallies, positions of the worst violation, (2, d)."""

    move: Move
    tallies: np.ndarray
    worst_move: np.ndarray


class Sampler[P: Plan](ABC):
    """The update of a chain: its records, its kernel in C, and its adaptation in warm-up.

    A sampler is frozen and shared by all chains. The state of a chain is in its
    :class:`Records`.
    """

    #: Test of the update, with its guarantee.
    method: Method
    #: Name of the C function that makes draws in a loop, with the arguments of ``mh_run``.
    loop: str = "mh_run"
    #: C record with efficiency counts of each component.
    tally: np.dtype = TALLY

    @property
    @abstractmethod
    def n_components(self) -> int:
        """Number of components with separate tallies."""

    @property
    def n_decisions(self) -> int:
        """Number of accept–reject decisions per update."""
        return 1

    @property
    @abstractmethod
    def key(self) -> dict[str, str]:
        """Settings that a saved chain state has to match, the same in every process."""

    @property
    def rests_on(self) -> str:
        """Unverified claim of the user that exactness requires as well; empty for none."""
        return ""

    @property
    def is_independent(self) -> bool:
        """Whether proposals of all coordinates are mostly independent of the position."""
        return False

    @property
    def moves_without_rows(self) -> bool:
        """Whether slice updates in the likelihood's null space follow each update by default."""
        return True

    def require_possible(self, plan: Plan) -> None:
        """Raise SettingError if updates cannot run on a plan."""
        return

    @abstractmethod
    def initial_records(self, plan: Plan) -> Records:
        """Records of a chain that has not adapted yet."""

    @abstractmethod
    def recentred(self, records: Records, counts: WarmUpCounts, plan: Plan) -> Records:
        """Records around the centre of another plan."""

    @abstractmethod
    def adapted(
        self, records: Records, tallies: Tallies, counts: WarmUpCounts, plan: Plan
    ) -> Records:
        """Records after a window of warm-up."""

    @abstractmethod
    def scaling(self, records: Records) -> float:
        """Scale of the local proposal, for the sampler statistics."""

    def with_independent_tests(self, records: Records) -> Records:
        """Records whose tests do not depend on earlier ones, to measure single decisions."""
        return records

    @abstractmethod
    def linked(self, records: Records, plan: P) -> Records:
        """Records for compiled updates, with the addresses of their functions."""

    @abstractmethod
    def kernel_state(
        self,
        linked: Records,
        posterior: Posterior,
        rng: np.random.Generator,
        scratch: Scratch,
        slices: Slices,
    ) -> LaidOut:
        """C record for the loop; `linked` are the records from :meth:`linked`."""

    def likelihood(self, plan: Plan) -> Likelihood:
        """Observations of a plan as updates evaluate them; computed once per plan."""
        tables, by_bounds = plan.tables, self.method.draws_by_bounds
        if tables is None:
            arrays = no_tables()
        else:
            arrays = tables.arrays if by_bounds else tables.without_sampling_tables
            if tables.verified:
                unread = whitened_directions(plan.target, plan.reference)
                arrays = arrays._replace(unread=unread)
        if plan.heavy is not None and not by_bounds:
            arrays = arrays._replace(heavy=plan.heavy)
        elif tables is not None and not by_bounds:
            arrays = arrays._replace(heavy=tables.unbounded)
        return Likelihood(plan.target.space, plan.reference, arrays)

    def features(self, plan: P) -> set[Feature]:
        """Features of the step, which select the statistics that a draw records."""
        method = self.method
        has: dict[Feature, bool] = {
            "batches": not method.guarantee.is_exact,
            "bounds": plan.bounds is not None,
            "nodes": bool(plan.integrated),
            "ceilings": method.draws_by_bounds and plan.bytes_of_copy > 0,
        }
        return {name for name, value in has.items() if value}

    def rows_read(self, n_rows: int) -> int:
        """Number of observations, out of `n_rows`, that a proposal evaluates."""
        return 0

    def scales(self, plan: Plan) -> tuple[int, ...]:
        """Coordinates proposed first; all others are proposed given these. Default: none."""
        return ()

    def skewness(self, plan: Plan) -> float | None:
        """Size of the third order that proposals follow; None if they are normal."""
        return None

    def require_proposed(self, kernel_state: LaidOut, status: int) -> None:
        """Raise the exception of a custom proposal that ended a run with `status`."""
        return
