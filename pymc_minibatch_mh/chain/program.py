"""Everything that chains share: plan, sampler and their compiled functions.

Chains without control variates may follow a temperature schedule in warm-up. The plan belongs to
the last temperature, and is scaled for earlier ones (`Reference.relative`).
"""

import sys
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from pymc_minibatch_mh.chain.prefetch import Prefetcher
from pymc_minibatch_mh.native.posterior import Posterior, Reference
from pymc_minibatch_mh.native.run import NO_SLICES, Slices
from pymc_minibatch_mh.native.statistics import STATS, Statistic
from pymc_minibatch_mh.plan.method import Method
from pymc_minibatch_mh.plan.plan import Plan
from pymc_minibatch_mh.samplers.base import Likelihood, Sampler

#: Pairs (draw, K): temperature K starts at that draw; the first draw is 0.
Schedule = tuple[tuple[int, float], ...]


class Stage(NamedTuple):
    """Draws from `begin` to `end` - 1 at one temperature; None is the plan's temperature."""

    begin: int
    end: int
    temperature: float | None


def stage_of(schedule: Schedule, n_draws: int, adapting: bool) -> Stage:
    """Stage of a chain's next draw; after warm-up the last temperature applies."""
    begun = [k for k, (draw, _) in enumerate(schedule) if draw <= n_draws]
    if not begun:
        return Stage(0, sys.maxsize, None)
    begin, temperature = schedule[begun[-1]]
    if len(begun) == len(schedule) or not adapting:
        return Stage(begin, sys.maxsize, None)
    return Stage(begin, schedule[len(begun)][0], temperature)


def at_temperature(reference: Reference, temperature: float | None) -> Reference:
    """Control variates of order 0, scaled to another temperature."""
    if temperature is None:
        return reference
    beta = 1.0 / temperature
    relative = beta / reference.inverse_temperature
    return reference._replace(inverse_temperature=beta, relative=relative)


#: Maximum automatic number of slice proposals per update; each takes about 5 prior evaluations.
MAX_MOVES = 10
#: Initial slice width in conditional standard deviations: about the width of a normal slice.
WIDTH = 2.5


def possible_slices(plan: Plan) -> Slices:
    """Slice steps in the null space of the likelihood, with the automatic number of proposals."""
    directions, lengths = plan.unread_steps()
    if not len(directions):
        return NO_SLICES
    steps = np.ascontiguousarray(WIDTH * directions / lengths[:, None])
    ends = [(inside[0], inside[-1] + 1) for inside in map(np.flatnonzero, steps)]
    return Slices(steps, np.array(ends, dtype=np.int64), min(len(steps), MAX_MOVES))


@dataclass(frozen=True, eq=False)
class SamplerSpec:
    """Everything that chains share, in any thread: plan, sampler and compiled functions.

    Each update is followed by `moves_without_rows` slice proposals in the null space of the
    likelihood; None selects their number automatically. SettingError if the sampler cannot run on
    the plan.
    """

    plan: Plan
    sampler: Sampler
    updates_per_draw: int = 1
    schedule: Schedule = ()
    moves_without_rows: int | None = None

    def __post_init__(self) -> None:
        """Raise SettingError if the sampler cannot run on the plan; compile functions."""
        self.sampler.require_possible(self.plan)
        _ = self._compiled_functions

    @property
    def method(self) -> Method:
        """Method of the updates, with their test."""
        return self.sampler.method

    def __reduce__(self) -> tuple:
        """Pickle without the addresses of this process."""
        return SamplerSpec, tuple(getattr(self, own.name) for own in fields(self))

    @cached_property
    def _compiled_functions(self) -> tuple[Any, Likelihood]:
        """Compiled prior, and observations as compiled updates evaluate them."""
        return self.plan.target.full_data.log_prior, self.sampler.likelihood(self.plan)

    def with_plan(self, plan: Plan) -> Self:
        """Same sampler with a model prepared around another centre."""
        return self if plan is self.plan else replace(self, plan=plan)

    @cached_property
    def slices(self) -> Slices:
        """Directions of slice proposals between updates, which leave the likelihood unchanged."""
        moves = self.moves_without_rows
        if not (self.sampler.moves_without_rows if moves is None else moves > 0):
            return NO_SLICES
        slices = possible_slices(self.plan)
        return slices if moves is None or not len(slices.steps) else slices._replace(moves=moves)

    @cached_property
    def statistics(self) -> dict[str, Statistic]:
        """Statistics of a draw that all steps have, or that this step's features add."""
        has = self.sampler.features(self.plan)
        if self.slices.moves:
            has.add("slices")
        return {name: one for name, one in STATS.items() if one.needs is None or one.needs in has}

    @cached_property
    def rounds_points(self) -> bool:
        """Whether conversion of a position to a point of the model may round."""
        factorization = self.plan.target.factorization
        single = any(block.variable.dtype != "float64" for block in factorization.blocks)
        return single or bool(factorization.maps)

    def posterior(
        self, others: np.ndarray, temperature: float | None = None, pool: Prefetcher | None = None
    ) -> Posterior:
        """Posterior of a chain given `others`, which may change between updates.

        `temperature` is from a schedule, or None for the plan's; `pool` has the prefetched rows.
        """
        prior, (rows, reference, tables, _) = self._compiled_functions
        if pool is not None:
            rows = pool.space
            tables = tables._replace(c=pool.c, supply=pool.supply, heavy=pool.heavy)
        context = rows.context.copy()
        context[self.plan.target.OTHERS_SLOT] = others.ctypes.data
        return Posterior(
            prior,
            rows._replace(context=context),
            at_temperature(reference, temperature),
            tables,
            float(self.method.most_drawn(self.plan)),
            np.zeros(1),
        )
