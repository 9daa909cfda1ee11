"""The compiled side of a prepared model, bound once per process.

Chains without control variates may go through temperatures in warm-up. The plan belongs to the last
one, and is scaled to those before it (`Reference.relative`).
"""

import sys
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from pymc_minibatch_mh.chain.prefetch import Prefetcher
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.native.bound_tables import no_tables
from pymc_minibatch_mh.native.forms import RowSpace
from pymc_minibatch_mh.native.posterior import Posterior, Reference
from pymc_minibatch_mh.native.slices import NO_SLICES, Slices
from pymc_minibatch_mh.native.statistics import STATS, Feature, Statistic
from pymc_minibatch_mh.plan.method import Method
from pymc_minibatch_mh.plan.plan import Plan
from pymc_minibatch_mh.plan.violations import whitened_directions
from pymc_minibatch_mh.proposals.base import Proposal

#: Pairs (draw, K): temperature K from that draw on; the first draw is 0.
Schedule = tuple[tuple[int, float], ...]


class Stage(NamedTuple):
    """Draws `begin` to `end` - 1 at one temperature of the log-likelihood, None for the plan's."""

    begin: int
    end: int
    temperature: float | None


def stage_of(schedule: Schedule, n_draws: int, adapting: bool) -> Stage:
    """Return the stage of a chain's next draw: after warm-up, the last temperature holds."""
    begun = [k for k, (draw, _) in enumerate(schedule) if draw <= n_draws]
    if not begun:
        return Stage(0, sys.maxsize, None)
    begin, temperature = schedule[begun[-1]]
    if len(begun) == len(schedule) or not adapting:
        return Stage(begin, sys.maxsize, None)
    return Stage(begin, schedule[len(begun)][0], temperature)


def tempered(reference: Reference, temperature: float | None) -> Reference:
    """Return control variates of order 0 at another temperature than they were prepared for."""
    if temperature is None:
        return reference
    beta = 1.0 / temperature
    relative = beta / reference.inverse_temperature
    return reference._replace(inverse_temperature=beta, relative=relative)


#: Moves after each update at most, where their number is not set: each of them evaluates the prior
#: part some five times.
MOST_MOVES = 10
#: Width of a step, in conditional standard deviations along a direction: about that of a
#: normal density above a level.
WIDTH = 2.5


def possible_slices(plan: Plan) -> Slices:
    """Return the directions along which no row changes, and as many moves as have a choice."""
    if plan.elements is not None:
        directions, lengths = plan.elements.unread_steps()
    else:
        directions = plan.target.compiled.unread
        lengths = np.linalg.norm(directions @ plan.reference.whitener.T, axis=1)
    if not len(directions):
        return NO_SLICES
    steps = np.ascontiguousarray(WIDTH * directions / lengths[:, None])
    ends = [(inside[0], inside[-1] + 1) for inside in map(np.flatnonzero, steps)]
    return Slices(steps, np.array(ends, dtype=np.int64), min(len(steps), MOST_MOVES))


def features_of(plan: Plan, method: Method, slices: Slices) -> dict[Feature, bool]:
    """Return which features that statistics need a step has."""
    effects = plan.elements
    return {
        "batches": not method.guarantee.is_exact,
        "bounds": plan.bounds is not None or plan.lower_bounds is not None,
        "bright rows": method.has_bright_rows,
        "ceilings": effects is not None or (method.draws_by_bounds and plan.bytes_of_copy > 0),
        "slices": slices.moves > 0,
        "effects": effects is not None,
        "scales": effects is not None and bool((effects.scale_factor >= 0).any()),
        "directions": effects is not None and len(effects.along) > 0,
    }


@dataclass(frozen=True, eq=False)
class Program:
    """A plan, a method and a proposal: all that chains share, in any threads.

    After each update are `moves_without_rows` moves of coordinates that no row depends on; None has
    their number chosen. SettingError if the proposal draws rows, and these are stored.
    """

    plan: Plan
    method: Method
    proposal: Proposal
    updates_per_draw: int = 1
    schedule: Schedule = ()
    moves_without_rows: int | None = None

    def __post_init__(self) -> None:
        """Refuse moves that draw stored rows, and compile functions."""
        if self.proposal.draws_rows and not self.plan.target.source.in_memory:
            # Of those in memory, the next ones are kept for the test: it has to draw them apart.
            raise SettingError(
                f"proposal={type(self.proposal).__name__}(...) draws its own batch, but data of "
                "Rows(...) are fetched ahead for the test only. Use batch_size=0, use another "
                "proposal such as the default, or give the model arrays in memory."
            )
        _ = self._compiled

    def __reduce__(self) -> tuple:
        """Leave the addresses of this process behind."""
        return Program, tuple(getattr(self, own.name) for own in fields(self))

    @cached_property
    def _compiled(self) -> tuple[Any, RowSpace]:
        """Prior and rows, compiled."""
        target = self.plan.target
        return target.prior, (self.plan.lower_bounds or target).space

    def rebased(self, plan: Plan) -> Self:
        """Return the same method and proposal on a model prepared around another centre."""
        return self if plan is self.plan else replace(self, plan=plan)

    @cached_property
    def slices(self) -> Slices:
        """Directions of slice moves between updates, which leave the likelihood unchanged."""
        asked, suits = self.moves_without_rows, self.proposal.moves_without_rows
        asked_for = suits if asked is None else asked > 0
        if not (asked_for and self.method.moves_without_rows):
            return NO_SLICES
        found = possible_slices(self.plan)
        return found if asked is None or not len(found.steps) else found._replace(moves=asked)

    @cached_property
    def statistics(self) -> dict[str, Statistic]:
        """The statistics of a draw: those of all steps, and those of what this one has."""
        has = features_of(self.plan, self.method, self.slices)
        return {name: one for name, one in STATS.items() if one.needs is None or has[one.needs]}

    @cached_property
    def rounds_points(self) -> bool:
        """Whether a position may change by rounding where it becomes a point of the model."""
        factorization = self.plan.target.factorization
        single = any(block.variable.dtype != "float64" for block in factorization.blocks)
        return single or bool(factorization.maps)

    def posterior(
        self, others: np.ndarray, temperature: float | None = None, pool: Prefetcher | None = None
    ) -> Posterior:
        """Return the posterior of a chain, given `others`, which may change between updates.

        The temperature is one of a schedule, or None; `pool` has the rows that were drawn ahead.
        """
        prior, rows = self._compiled
        plan, rows = self.plan, rows if pool is None else pool.space
        context = rows.context.copy()
        context[plan.target.OTHERS_SLOT] = others.ctypes.data
        reference, tables = plan.reference, plan.tables
        if tables is None:
            arrays = no_tables()
        else:
            arrays = tables.arrays if self.method.draws_by_bounds else tables.undrawn
            if tables.verified:
                arrays = arrays._replace(unread=whitened_directions(plan.target, reference))
        if plan.heavy is not None and not self.method.draws_by_bounds:
            arrays = arrays._replace(heavy=plan.heavy)
        if pool is not None:
            arrays = arrays._replace(c=pool.c, supply=pool.supply, heavy=pool.heavy)
        if plan.lower_bounds is not None:
            reference, arrays = plan.lower_bounds.reference, plan.lower_bounds.tables
        return Posterior(
            prior,
            rows._replace(context=context),
            tempered(reference, temperature),
            arrays,
            float(self.method.most_drawn(plan)),
        )
