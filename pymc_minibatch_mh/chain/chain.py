"""Chains that can be copied, pickled, resumed and run in any thread."""

import sys
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np

from pymc_minibatch_mh.bounds.bound_check import PREPARATION_SEED
from pymc_minibatch_mh.chain.prefetch import Prefetcher, empty_supplies
from pymc_minibatch_mh.chain.program import SamplerSpec, Stage, stage_of
from pymc_minibatch_mh.chain.state import ChainState
from pymc_minibatch_mh.errors import BoundsError, BoundViolationError, MinibatchError, ModeError
from pymc_minibatch_mh.native.library import LaidOut, Status
from pymc_minibatch_mh.native.moves import Move
from pymc_minibatch_mh.native.run import run
from pymc_minibatch_mh.native.statistics import COUNTS, numbers, summed
from pymc_minibatch_mh.plan.method import WarmUpCounts
from pymc_minibatch_mh.plan.plan import Plan
from pymc_minibatch_mh.samplers.base import Records, Scratch, Tallies

#: Number of draws between two adaptations.
WINDOW = 50
#: Weight of earlier windows relative to the last one.
WINDOW_WEIGHT = 0.97
#: Weight of earlier windows in the mean position, smaller because chains may not have converged.
POSITION_WEIGHT = 0.9
#: Maximum excess over the usual distance from the centre at which the next window is tallied.
MAX_EXCESS = 4.0
#: Minimum rms distance of the warm-up mean from the centre, in posterior sd, that moves the centre.
MIN_SHIFT = 1.0


class Draws(NamedTuple):
    """Positions, shape (draws, d), and counts of each draw's updates, COUNTS of shape (draws,)."""

    positions: np.ndarray
    counts: np.ndarray


class Chain:
    """State, generator and scratch of one chain; chains share no mutable data.

    The generator is the only source of randomness, so a copy continues exactly as the original
    does.
    """

    def __init__(self, program: SamplerSpec, rng: np.random.Generator, adapting: bool) -> None:
        self.program = program
        self._rng = rng
        plan, sampler = program.plan, program.sampler
        size = plan.reference.centre.size
        self._position = plan.reference.centre.copy()
        self._others = np.zeros(plan.target.source.others.size)
        self._state = ChainState(
            reference=plan.expansion,
            records=sampler.initial_records(plan),
            window=np.zeros(sampler.n_components, sampler.tally),
            total=np.zeros(sampler.n_components, sampler.tally),
            warm_up_sum=np.zeros(size),
            waits_at=np.full(size, np.nan),
            handed_out=np.full((2, size), np.nan),
            adapting=adapting,
            violation=plan.violation or "",
            supplies=empty_supplies(plan),
        )
        self._linked: LaidOut | None = None
        self._pool: Prefetcher | None = None

    def __getstate__(self) -> dict[str, Any]:
        """State for a pickle: without scratch memory and objects bound to this process."""
        kept = ("program", "_rng", "_position", "_others", "_state")
        return {name: self.__dict__[name] for name in kept}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.__dict__.update(kept)
        self._linked = self._pool = None

    def copy(self) -> Self:
        """Copy with the same program, which continues exactly as this chain does."""
        other = object.__new__(type(self))
        own = self.__getstate__()
        program = own.pop("program")
        other.__setstate__({"program": program, **deepcopy(own)})
        return other

    @property
    def position(self) -> np.ndarray:
        """Position, shape (d,): memory that compiled code writes in place."""
        return self._position

    @property
    def others(self) -> np.ndarray:
        """Values of the other steps' variables, in memory at a constant address."""
        return self._others

    @property
    def rng(self) -> np.random.Generator:
        """Random generator."""
        return self._rng

    @rng.setter
    def rng(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._linked = None

    @property
    def state(self) -> ChainState:
        """State apart from position and generator, changed through :meth:`change`."""
        return self._state

    @state.setter
    def state(self, state: ChainState) -> None:
        plan = self.program.plan.at(state.reference)
        self.program = self.program.with_plan(plan)
        self._state = state
        self._linked = self._pool = None

    @property
    def plan(self) -> Plan:
        """Prepared model around the chain's centre."""
        return self.program.plan

    def change(self, **fields: Any) -> None:
        """Replace fields of the state, or the record of the proposal or of the test."""
        records = {name: fields.pop(name) for name in Records._fields if name in fields}
        self._state.records = self._state.records._replace(**records)
        for name, value in fields.items():
            setattr(self._state, name, value)
        self._linked = None

    def move_centre(self, plan: Plan) -> None:
        """Continue with control variates around another centre."""
        self.program = self.program.with_plan(plan)
        # An empty window: no counts belong to the new centre.
        counts = warm_up_counts(self)._replace(window=np.zeros((), COUNTS))
        records = self.program.sampler.recentred(self._state.records, counts, plan)
        self.change(reference=plan.expansion, records=records)
        self._state.supplies = empty_supplies(plan, self._state.supplies)
        self.handle_violation(plan.violation or "")

    def place(self, position: np.ndarray, others: np.ndarray) -> None:
        """Set the position, and the values of the other steps' variables."""
        self.position[:] = position
        self.others[:] = others

    @property
    def certified(self) -> bool:
        """Whether draws are exact: no bound is known to be violated, and none is unverified."""
        guarantee = self.program.method.guarantee
        return guarantee.is_certified(self.plan.bounds, self._state.violation)

    @property
    def exactness(self) -> str:
        """Guarantee for the draws, in words."""
        guarantee, own = self.program.method.guarantee, self.program.sampler.rests_on
        found = guarantee.of_draws(self.plan.bounds, self._state.violation)
        return f"{found}; and only if {own}" if own else found

    @property
    def stage(self) -> Stage:
        """Stage of the temperature schedule for the next draw."""
        return stage_of(self.program.schedule, self._state.n_draws, self._state.adapting)

    @property
    def temperature(self) -> float:
        """Temperature K of the log-likelihood in the next draw."""
        found = self.stage.temperature
        return 1.0 / self.plan.reference.inverse_temperature if found is None else found

    @property
    def scaling(self) -> float:
        """Scale of the local proposal."""
        return self.program.sampler.scaling(self._state.records)

    def advance(self, draws: int, positions: np.ndarray | None = None) -> Draws:
        """Make draws, and adapt to them in warm-up.

        Draws are written to `positions`, contiguous of shape (draws, d), or to a new array.
        BoundViolationError if an observation exceeds its bound, unless the method tolerates that.
        """
        if positions is None:
            positions = np.empty((draws, self.position.size))
        counts = np.zeros(draws, COUNTS)
        updates, made = self.program.updates_per_draw, 0
        proposed_by = self.program.sampler.rows_read(self.plan.n_rows) + self.plan.rows_in_prior
        while made < draws:
            until = min(draws, made + draws_until_adaptation(self))
            block = Draws(positions[made:until], counts[made:until])
            self._run_kernel(updates, *block)
            block.counts["n_obs"] += updates * proposed_by
            accumulate_statistics(self, updates, *block)
            made = until
        return Draws(positions, counts)

    def repeat_draw(self) -> Draws:
        """Current position of a waiting chain as one draw, with zero counts."""
        return Draws(self.position[None].copy(), np.zeros(1, COUNTS))

    def adapt_on(self, places: Iterable[tuple[np.ndarray, np.ndarray]]) -> None:
        """Warm up on posterior draws instead of the chain's own, and freeze the adaptation.

        `places` are pairs of a position and values of the other steps' variables.
        """
        self._state.started = True
        # Posterior draws contain no information about proposals at other temperatures.
        self.program, self._linked = replace(self.program, schedule=()), None
        for place in places:
            self.place(*place)
            self.advance(1)
        if self._state.adapting:
            self._state.adapting = False
            recentre_chain(self)

    def stop_adapting(self) -> None:
        """End warm-up: freeze the proposal, the test and the centre."""
        if not self._state.adapting:
            return
        self._state.adapting = False
        # Link functions again: the linked ones may belong to an earlier temperature.
        self._linked = None
        recentre_chain(self)
        if not self.certified:
            self.handle_violation(self.plan.objection_of(PREPARATION_SEED + self._state.n_draws))
        self._state.n_updates = self._state.n_full = self._state.n_accepted = 0
        self._state.n_stayed = 0

    def handle_violation(self, message: str) -> None:
        """Mark the chain, or raise BoundViolationError if the method tolerates no violation."""
        if not message:
            return
        if not self.program.method.tolerates_violations:
            raise BoundViolationError(message)
        self._state.violation = message

    def kernel_state(self) -> LaidOut:
        """C record of this chain's updates."""
        if self._linked is None:
            state, size, sampler = self._state, self.position.size, self.program.sampler
            # Linking comes first: it may compile functions that the posterior's observations use.
            linked = sampler.linked(state.records, self.plan)
            pool = self._drawn_ahead()
            posterior = self.program.posterior(self.others, self.stage.temperature, pool)
            move = Move(self.position, *(np.zeros(size) for _ in Move._fields[1:]))
            scratch = Scratch(move, state.window, np.zeros((2, size)))
            self._linked = sampler.kernel_state(
                linked, posterior, self._rng, scratch, self.program.slices
            )
            if pool is not None:
                pool.set_current_move(self.position, move.new)
        return self._linked

    def _drawn_ahead(self) -> Prefetcher | None:
        """Buffer of prefetched rows; None if all rows are in memory."""
        if self.plan.target.source.in_memory:
            return None
        if self._pool is None or self._pool.plan is not self.plan:
            self._pool = Prefetcher(self.plan, self.others, self._state)
        return self._pool

    def seed_prefetch(self, rng: np.random.Generator) -> None:
        """Choose the key of the generators that prefetch stored rows, before the first use."""
        if self._state.supply_key < 0 and self.plan.draws_ahead:
            self._state.supply_key = int(rng.integers(2**62))

    def set_current_move(self, position: np.ndarray, new: np.ndarray) -> None:
        """Set the proposed move for which full-data evaluations of stored rows are requested."""
        if self._pool is not None:
            self._pool.set_current_move(position, new)

    def require_decided(self, kernel_state: LaidOut, status: int) -> None:
        """Raise the error that ended updates before their decisions, except for a violated bound.

        MemoryError; the error of stored observations or of a custom proposal; or MinibatchError if
        a custom test returned no decision.
        """
        if status == Status.NO_MEMORY:
            raise MemoryError("there is no memory for an update of a chain")
        if status == Status.NO_ROWS:
            rows: Any = self._pool or self.plan.target.rows
            raise rows.error()
        if status == Status.TEST_FAILED:
            raise MinibatchError(
                "the custom test raised an exception, or returned a verdict or a probability "
                "that is not a number. Call it outside of numba, with the arguments in its "
                "docstring, to find the cause, and return floats in all cases."
            )
        self.program.sampler.require_proposed(kernel_state, status)

    def _run_kernel(self, updates: int, positions: np.ndarray, counts: np.ndarray) -> None:
        self.seed_prefetch(self._rng)
        kernel_state = self.kernel_state()
        loop = self.program.sampler.loop
        status, made = run(kernel_state, updates, positions, counts, loop)
        if status not in (Status.OK, Status.BOUND_VIOLATED):
            self.require_decided(kernel_state, status)
        ratios = counts["bound_ratio"][:made]
        if (ratios[0] if made == 1 else ratios.max()) <= 1.0:
            return
        # If violations are tolerated, the last draw with a violation is reported.
        last = counts[int(np.flatnonzero(~(ratios <= 1.0))[-1])]
        row, ratio = int(last["bound_row"]), float(last["bound_ratio"])
        here, there = kernel_state.record.worst_move
        self.handle_violation(self.plan.violation_by(row, ratio, here, there))


def draws_until_adaptation(chain: Chain) -> int:
    """Number of draws until a chain adapts, or changes temperature."""
    state = chain.state
    if not state.adapting:
        return sys.maxsize
    stage = chain.stage
    made = state.n_draws - stage.begin
    return min(WINDOW - made % WINDOW, stage.end - state.n_draws)


def accumulate_statistics(
    chain: Chain, updates: int, positions: np.ndarray, counts: np.ndarray
) -> None:
    """Count draws of `updates` updates each; in warm-up, adapt after each window."""
    state, stage = chain.state, chain.stage
    state.n_draws += len(positions)
    state.n_updates += len(positions) * updates
    # Shortcut for PyMC's loop of single draws, where a sum would take as long as the draw.
    made = counts[0] if len(counts) == 1 else summed(counts)
    state.n_full += int(made["full_pass"])
    state.n_accepted += int(made["accepted"])
    state.n_stayed += len(counts)
    if made["accepted"]:
        state.n_stayed = len(counts) - 1 - int(np.flatnonzero(counts["accepted"])[-1])
    if not state.adapting:
        return
    # Add draws one by one: rounding must not depend on the number of draws per call.
    window = numbers(state.window_counts)
    for position, of_draw in zip(positions, numbers(counts), strict=True):
        window += of_draw
        state.warm_up_sum += position
    if (state.n_draws - stage.begin) % WINDOW == 0:
        _adapt_records(chain)
        away = chain.plan.distance(chain.position)
        state.near_mode = away < chain.plan.usual_distance + MAX_EXCESS
    if state.n_draws == stage.end:
        _reset_counts(chain)


def _reset_counts(chain: Chain) -> None:
    """Reset the counts at another temperature; the proposal keeps its adaptation."""
    state = chain.state
    for sums in (state.window, state.total, state.window_counts, state.total_counts):
        sums[...] = 0.0
    state.warm_up_sum[:] = 0.0
    state.warm_up_weight, state.near_mode = 0.0, False
    records = chain.program.sampler.recentred(state.records, warm_up_counts(chain), chain.plan)
    chain.change(records=records)


def _add_window(window: np.ndarray, total: np.ndarray) -> None:
    """Add a window's records to the discounted sums of earlier windows."""
    numbers(total)[...] = WINDOW_WEIGHT * numbers(total) + numbers(window)


def warm_up_counts(chain: Chain) -> WarmUpCounts:
    """Counts of the last window of warm-up, and of all windows."""
    state, updates = chain.state, chain.program.updates_per_draw
    return WarmUpCounts(state.window_counts, state.total_counts, WINDOW * updates, updates)


def _adapt_records(chain: Chain) -> None:
    state = chain.state
    if state.near_mode:
        _add_window(state.window, state.total)
    _add_window(state.window_counts, state.total_counts)
    tallies = Tallies(state.window, state.total)
    counts = warm_up_counts(chain)
    chain.change(records=chain.program.sampler.adapted(state.records, tallies, counts, chain.plan))
    state.window[...] = 0.0
    state.window_counts[...] = 0.0
    state.warm_up_sum *= POSITION_WEIGHT
    state.warm_up_weight = POSITION_WEIGHT * (state.warm_up_weight + WINDOW)


def recentre_chain(chain: Chain) -> None:
    """Search the mode from the mean of warm-up and centre there, if that mean is far away."""
    state = chain.state
    made = state.n_draws - chain.stage.begin
    if made < 2 * WINDOW or chain.plan.target.covariance is not None:
        return
    mean = state.warm_up_sum / (state.warm_up_weight + made % WINDOW)
    if chain.plan.distance(mean) < MIN_SHIFT * np.sqrt(mean.size):
        return
    target = chain.plan.target
    target.source.others[:] = chain.others
    try:
        plan = chain.plan.around(mean)
    except (ModeError, BoundsError) as reason:
        # Keep the old centre, which has served all of warm-up: draws have the same distribution
        # for any centre.
        state.unmoved = str(reason)
        return
    chain.move_centre(plan)


def set_to_point(chain: Chain, point: Mapping[str, np.ndarray]) -> None:
    """Set a chain to a point, or keep its position if PyMC returns the last point unchanged.

    Reparametrised or single-precision positions come back with rounding errors, which would look
    like updates by other steps. So a chain stores its position with the last returned point.
    """
    factorization, (handed, position) = chain.plan.target.factorization, chain.state.handed_out
    values = factorization.ravel_values(point)
    # Compare bytes: exact for NaN and signed zero, and faster.
    if values.tobytes() != handed.tobytes():
        position = factorization.positions(values)
    chain.place(position, factorization.ravel_others(point))


def point_at(chain: Chain, point: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Point with a chain's values of its variables; the chain stores it if conversion rounds."""
    factorization = chain.plan.target.factorization
    number = chain.state.n_updates // chain.program.updates_per_draw - 1
    moved = chain.plan.unravel(chain.position.copy(), point, max(number, 0))
    if chain.program.rounds_points:
        handed, position = chain.state.handed_out
        handed[:], position[:] = factorization.ravel_values(moved), chain.position
    return moved
