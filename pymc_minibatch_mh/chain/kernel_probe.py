"""Single parts of a chain's compiled update, for measurements after sampling."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.native.bound_tables import table_of_move
from pymc_minibatch_mh.native.library import Status, function
from pymc_minibatch_mh.native.run import FEWEST, ROWS, SQUARES, TOTAL
from pymc_minibatch_mh.reference.full_data import (
    BoundedMove,
    Spread,
    SpreadIn,
    chunks_of,
    on_all_cores,
)

#: Number of observations per evaluated block.
ROWS_PER_BLOCK = 65_536
#: Fraction of observations whose deviations count as the largest, and their maximum number.
TOP_SHARE, MAX_TOP_ROWS = 1e-3, 1_000
#: Number of pilot repetitions that measure a test's cost, and limits on the later repetitions.
PILOT_REPETITIONS, MIN_REPETITIONS, MAX_REPETITIONS = 2, 2, 100
#: Minimum budget of evaluated observations for the repeated decisions on one proposal.
MIN_BUDGET = 30_000


class ProposedMove(NamedTuple):
    """Both positions, shape (d,), and `cheap`: the log ratio without the observations."""

    position: np.ndarray
    new: np.ndarray
    cheap: float

    @property
    def reverse_move(self) -> "ProposedMove":
        """Reverse of a proposal, attributed to the same component."""
        return ProposedMove(self.new, self.position, -self.cheap)


class Acceptance(NamedTuple):
    """Mean and standard error of repeated decisions; mean and minimum of evaluated rows.

    All are NaN after a violated bound.
    """

    mean: float
    mcse: float
    rows: float
    fewest_rows: float


class MoveSummary(NamedTuple):
    """Summary of the differences of all observations in a proposal.

    The exact log ratio is -inf if a difference is not finite. Variance, skewness, and the variance
    shares of the largest deviation and of the `n_top` largest leave out influential observations.
    The largest |dU_i|/(c_i M) and its row are NaN and -1 without bounds.
    """

    log_ratio: float
    variance: float
    skewness: float
    largest_share: float
    top_share: float
    bound_ratio: float
    bound_row: int


class Probe:
    """Parts of the update of a copied chain; `rng` draws proposals and batches."""

    def __init__(self, chain: Chain, rng: np.random.Generator) -> None:
        self._chain = chain.copy()
        sampler, records = chain.program.sampler, self._chain.state.records
        self._chain.change(records=sampler.with_independent_tests(records))
        # Tests have a separate stream, so that proposals do not depend on evaluated observations.
        (rows_rng,) = rng.spawn(1)
        self._chain.seed_prefetch(rows_rng)
        self._chain.rng = rng
        self._moves = self._chain.kernel_state()
        self._chain.rng = rows_rng
        self._tests = self._chain.kernel_state()
        self._posterior = self._tests.record.posterior
        drawn_from = self._chain.plan.drawn_from
        #: Row numbers of the influential observations, which every update evaluates.
        self._heavy_rows = (drawn_from or self._posterior.bounds).heavy
        self.n_rows = self._chain.plan.n_rows
        self.n_top = min(math.ceil(TOP_SHARE * self.n_rows), MAX_TOP_ROWS)
        self._beta = float(self._posterior.reference.inverse_temperature)

    def fix_others(self, others: np.ndarray) -> None:
        """Fix the values of the other steps' variables."""
        self._chain.others[:] = others

    def propose(self, position: np.ndarray) -> ProposedMove:
        """Draw a proposal from a position."""
        new, cheap = np.empty_like(position), np.empty(1)
        status = function("mh_propose_once")(self._moves, position, new, cheap)
        self._chain.require_decided(self._moves, status)
        return ProposedMove(position, new, float(cheap[0]))

    def acceptance(self, move: ProposedMove) -> Acceptance:
        """Measured acceptance probability of a proposal under the step's own test."""
        outcomes, repetitions = self._repeat_decisions(move, PILOT_REPETITIONS), PILOT_REPETITIONS
        if outcomes is not None:
            # The pilot only sets the number of repetitions: stopping by its own draws would bias
            # the mean.
            affordable = max(self.n_rows, MIN_BUDGET) * PILOT_REPETITIONS / max(outcomes[ROWS], 1.0)
            repetitions = int(np.clip(affordable, MIN_REPETITIONS, MAX_REPETITIONS))
            outcomes = self._repeat_decisions(move, repetitions)
        if outcomes is None:
            return Acceptance(math.nan, math.nan, math.nan, math.nan)
        mean = outcomes[TOTAL] / repetitions
        variance = max(outcomes[SQUARES] / repetitions - mean**2, 0.0)
        return Acceptance(
            mean,
            math.sqrt(variance / (repetitions - 1)),
            outcomes[ROWS] / repetitions,
            outcomes[FEWEST],
        )

    def rows(self, move: ProposedMove) -> MoveSummary:
        """Summary of the differences of all observations in a proposal, evaluated in blocks."""
        table, m = self._bounds_of(move)
        chunks = chunks_of(self.n_rows, ROWS_PER_BLOCK)
        ends = move.position, move.new, self._posterior.reference.centre
        order = self._chain.plan.target.taylor_order
        bounded = BoundedMove(order, ends, table, m, self._beta)
        asked = [SpreadIn(bounded, chunk.start, self._heavy_rows, self.n_top) for chunk in chunks]
        whole = Spread(0.0, (0, 0.0, 0.0, 0.0), np.empty(0), math.nan if table < 0 else -1.0, -1)
        for part in self._measure_spread(list(zip(chunks, asked, strict=True))):
            whole = whole.merged_with(part, self.n_top)
        return self._summarize_move(move, whole)

    def _measure_spread(self, asked: list[tuple[slice, SpreadIn]]) -> Iterator[Spread]:
        plan, posterior = self._chain.plan, self._posterior
        if not plan.target.source.in_memory:
            return plan.bound_check.block_spreads(plan.target.source, plan.tables, asked)

        def measure_chunk(one: tuple[slice, SpreadIn]) -> Spread:
            chunk, table = one[0], one[1].move.table
            rows = np.arange(chunk.start, chunk.stop)
            c = posterior.bounds.c[table, chunk] if table >= 0 else None
            return one[1].of(posterior.rows, rows, c)

        return on_all_cores(measure_chunk, asked)

    def _summarize_move(self, move: ProposedMove, spread: Spread) -> MoveSummary:
        (n, mean, second, third), worst = spread.moments, (spread.ratio, spread.row)
        log_ratio = move.cheap + self._beta * (n * mean + spread.known)
        if not np.isfinite(log_ratio):
            return MoveSummary(-math.inf, math.nan, math.nan, math.nan, math.nan, *worst)
        if not second > 0.0:
            return MoveSummary(log_ratio, 0.0, 0.0, 0.0, 0.0, *worst)
        squares = np.sort((spread.top - mean) ** 2)[::-1][: self.n_top]
        return MoveSummary(
            log_ratio,
            second / max(n - 1, 1),
            math.sqrt(n) * third / second**1.5,
            float(squares[0] / second),
            float(squares.sum() / second),
            *worst,
        )

    def _bounds_of(self, move: ProposedMove) -> tuple[int, float]:
        """Index of the table that covers a proposal, and its M; -1 and NaN without a table."""
        if self._chain.plan.tables is None:
            return -1, math.nan
        tables, reference = self._posterior.bounds, self._posterior.reference
        best, m = table_of_move(tables, reference, move.position, move.new)
        return (-1, math.nan) if best < 0 else (best, m)

    def _repeat_decisions(self, move: ProposedMove, repetitions: int) -> np.ndarray | None:
        """Sums of p, p² and n, and minimum n, over tests of n rows; None after a violated bound."""
        by_verdict = not self._chain.program.method.returns_probability
        self._chain.set_current_move(move.position, move.new)
        outcomes = np.array([0.0, 0.0, 0.0, np.inf])
        repeat = function("mh_repeat_test")
        status = repeat(self._tests, *move, repetitions, by_verdict, outcomes)
        if status == Status.BOUND_VIOLATED:
            return None
        self._chain.require_decided(self._tests, status)
        return outcomes
