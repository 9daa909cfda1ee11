"""Metropolis–Hastings: a proposal for all coordinates, and a test that accepts or rejects it."""

from dataclasses import dataclass

import numpy as np

from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.native.library import LaidOut
from pymc_minibatch_mh.native.posterior import Posterior
from pymc_minibatch_mh.native.run import Slices
from pymc_minibatch_mh.native.run import linked as linked_chain
from pymc_minibatch_mh.plan.method import Method, WarmUpCounts
from pymc_minibatch_mh.plan.plan import Plan
from pymc_minibatch_mh.proposals.base import Proposal
from pymc_minibatch_mh.samplers.base import Records, Sampler, Scratch, Tallies


@dataclass(frozen=True, eq=False)
class Metropolis(Sampler[Plan]):
    """Updates of all coordinates at once, with any combination of proposal and test."""

    method: Method
    proposal: Proposal

    @property
    def n_components(self) -> int:
        """Number of components of the proposal."""
        return self.proposal.n_components

    @property
    def key(self) -> dict[str, str]:
        """Settings of the proposal."""
        return {"its proposal": repr(self.proposal)}

    @property
    def rests_on(self) -> str:
        """User's claim about a custom proposal; empty if the proposal rests on no claim."""
        return self.proposal.rests_on

    @property
    def is_independent(self) -> bool:
        """Whether the proposal is mostly independent of the position."""
        return self.proposal.is_independent

    @property
    def moves_without_rows(self) -> bool:
        """Whether the proposal allows slice updates between proposals by default."""
        return self.proposal.moves_without_rows

    def require_possible(self, plan: Plan) -> None:
        """Raise SettingError for a proposal that draws stored rows."""
        if self.proposal.draws_rows and not plan.target.source.in_memory:
            # Prefetched rows are for the test, which has to draw its rows independently.
            raise SettingError(
                f"proposal={type(self.proposal).__name__}(...) draws its own batch, but data of "
                "Rows(...) are fetched ahead for the test only. Use batch_size=0, use another "
                "proposal such as the default, or give the model arrays in memory."
            )

    def initial_records(self, plan: Plan) -> Records:
        """Records of the proposal and of the test."""
        return Records(self.proposal.record(plan.reference.centre.size), self.method.record(plan))

    def recentred(self, records: Records, counts: WarmUpCounts, plan: Plan) -> Records:
        """Records with the test of the new centre, adapted by the counts of warm-up."""
        return records._replace(test=self.method.adapted(self.method.record(plan), counts, plan))

    def adapted(
        self, records: Records, tallies: Tallies, counts: WarmUpCounts, plan: Plan
    ) -> Records:
        """Records of proposal and test, adapted by their tallies and counts."""
        size, target = plan.reference.centre.size, self.method.walk_target
        proposal = self.proposal.adapted(records.proposal, *tallies, target, size)
        return Records(proposal, self.method.adapted(records.test, counts, plan))

    def scaling(self, records: Records) -> float:
        """Scale of the local proposal."""
        return self.proposal.scaling(records.proposal)

    def linked(self, records: Records, plan: Plan) -> Records:
        """Records with the addresses of compiled functions."""
        return Records(
            self.proposal.linked(records.proposal, plan), self.method.linked(records.test)
        )

    def kernel_state(
        self,
        linked: Records,
        posterior: Posterior,
        rng: np.random.Generator,
        scratch: Scratch,
        slices: Slices,
    ) -> LaidOut:
        """C record ``mh_chain``."""
        move, tallies, worst_move = scratch
        return linked_chain(posterior, *linked, rng, move, tallies, worst_move, slices)

    def rows_read(self, n_rows: int) -> int:
        """Number of observations that a proposal evaluates."""
        return self.proposal.rows_read(n_rows)

    def scales(self, plan: Plan) -> tuple[int, ...]:
        """Coordinates that the proposal draws first; all others are drawn given these."""
        return self.proposal.scales(plan)

    def skewness(self, plan: Plan) -> float | None:
        """Size of the third order that the proposal follows."""
        return self.proposal.skewness_of(plan)

    def require_proposed(self, kernel_state: LaidOut, status: int) -> None:
        """Raise the exception of a custom proposal that ended a run."""
        self.proposal.require_proposed(kernel_state.record.proposal.record, status)
