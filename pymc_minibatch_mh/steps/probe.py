"""A step's update in its parts, as the step runs them, for measurements after sampling."""

import math
from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh.expansion.parallel import on_all_cores
from pymc_minibatch_mh.kernels import probe
from pymc_minibatch_mh.kernels.first_class import address_of
from pymc_minibatch_mh.kernels.generator import generator_addresses
from pymc_minibatch_mh.kernels.moments import add_moments, merge_moments
from pymc_minibatch_mh.kernels.poisson import table_of_move
from pymc_minibatch_mh.steps.base import MinibatchStep

#: Rows that are read at a time.
CHUNK = 65_536
#: Share of all rows that counts as the largest ones, and the most of them.
TOP_SHARE, MOST_TOP_ROWS = 1e-3, 1_000
#: Repetitions of a test: those that tell what one costs, the least and the most after them.
PILOT, FEWEST_REPETITIONS, MOST_REPETITIONS = 2, 2, 100
#: Rows that the repetitions for one move may read, however few rows there are.
LEAST_BUDGET = 30_000


class Move(NamedTuple):
    """A proposed move.

    Parameters
    ----------
    position, new : ndarray, shape (d,)
        The position and the proposal.
    cheap
        The part of the log ratio that needs no row; with the other sign, that of the way back.
    """

    position: np.ndarray
    new: np.ndarray
    cheap: float

    @property
    def back(self) -> "Move":
        """The move from the proposal to the position, drawn by the same component."""
        return Move(self.new, self.position, -self.cheap)


class Acceptance(NamedTuple):
    """How often a test accepts one move, over fresh rows.

    Parameters
    ----------
    mean, mcse
        Probability of accepting and its Monte Carlo standard error; NaN where a row exceeded its
        bound, which ends a chain.
    rows, fewest_rows
        Mean and smallest number of rows that were read.
    """

    mean: float
    mcse: float
    rows: float
    fewest_rows: float


class Rows(NamedTuple):
    """What all rows say of a move.

    Parameters
    ----------
    log_ratio
        The exact log ratio; -inf where a row's is not finite.
    variance, skewness
        Of the rows' differences.
    largest_share, top_share
        Share of the row with the largest deviation, and of `n_top` rows, in the variance.
    bound_ratio, bound_row
        Largest |dU_i|/(c_i M), and its row; NaN and -1 for a move that no bounds are there for.
    """

    log_ratio: float
    variance: float
    skewness: float
    largest_share: float
    top_share: float
    bound_ratio: float
    bound_row: int


class Probe:
    """The update of a step, in its parts.

    Parameters
    ----------
    step
        A step, which must not change while it is probed.
    rng
        Generator of proposals and batches.

    Raises
    ------
    StaleDataError
        If the model's data changed after the step was built.
    """

    def __init__(self, step: MinibatchStep, rng: np.random.Generator) -> None:
        step.require_unchanged()
        self._step = step
        # Tests have a stream of their own, so that pairs do not depend on what they read.
        (self._rows_rng,) = rng.spawn(1)
        self._moves_rng = rng
        self._of_moves = generator_addresses(self._moves_rng)
        self._of_rows = generator_addresses(self._rows_rng)
        target = step.target
        self.n_rows = target.source.n_rows
        self.n_top = min(math.ceil(TOP_SHARE * self.n_rows), MOST_TOP_ROWS)
        self._evaluate = address_of(target.evaluate)
        self._beta = float(step.surrogate.inverse_temperature)

    def propose(self, position: np.ndarray) -> Move:
        """Draw a move from a position."""
        step, new = self._step, np.empty_like(position)
        cheap = probe.propose(
            position,
            new,
            self._of_moves,
            step._addresses,
            step.numbers,
            *step._packed,
            step.target.source.context,
        )
        return Move(position, new, float(cheap))

    def acceptance(self, move: Move) -> Acceptance:
        """Measure how often the step's own test accepts a move."""
        pilot = self._repeated(move, PILOT)
        if pilot[probe.VIOLATED] > 0.0:
            return Acceptance(math.nan, math.nan, math.nan, math.nan)
        # The pilot only sets their number: a mean that stops by what it has seen is biased.
        affordable = max(self.n_rows, LEAST_BUDGET) * PILOT / max(pilot[probe.ROWS], 1.0)
        repetitions = int(np.clip(affordable, FEWEST_REPETITIONS, MOST_REPETITIONS))
        outcomes = self._repeated(move, repetitions)
        if outcomes[probe.VIOLATED] > 0.0:
            return Acceptance(math.nan, math.nan, math.nan, math.nan)
        mean = outcomes[probe.TOTAL] / repetitions
        variance = max(outcomes[probe.SQUARES] / repetitions - mean**2, 0.0)
        return Acceptance(
            mean,
            math.sqrt(variance / (repetitions - 1)),
            outcomes[probe.ROWS] / repetitions,
            outcomes[probe.FEWEST],
        )

    def rows(self, move: Move) -> Rows:
        """Read all rows for a move, in blocks."""
        step, n_top = self._step, self.n_top
        centre, space = step.surrogate.centre, step.target.passes.space
        c, m = self._bounds_of(move)

        def part(ends: tuple[int, int]) -> tuple:
            first, last = ends
            differences, scales = np.empty((2, last - first))
            ends_of_move = move.position, move.new, centre
            probe.differences_of(
                self._evaluate, *ends_of_move, space, first, last, differences, scales
            )
            worst = math.nan, -1
            if c is not None:
                ratio, place = probe.largest_of(differences, scales, c[first:last], m, self._beta)
                worst = ratio, first + place
            moments = add_moments(0, 0.0, 0.0, 0.0, differences, last - first)
            return moments, _extremes(differences, n_top), worst

        starts = range(0, self.n_rows, CHUNK)
        chunks = [(first, min(first + CHUNK, self.n_rows)) for first in starts]
        moments, top = (0, 0.0, 0.0, 0.0), np.empty(0)
        worst = (math.nan if c is None else -1.0), -1
        for own_moments, own_top, own_worst in on_all_cores(part, chunks):
            moments = merge_moments(*moments, *own_moments)
            top = _extremes(np.concatenate([top, own_top]), n_top)
            if own_worst[0] > worst[0]:
                worst = own_worst
        return self._summary(move, moments, top, worst)

    def _summary(
        self, move: Move, moments: tuple, top: np.ndarray, worst: tuple[float, int]
    ) -> Rows:
        n, mean, second, third = moments
        log_ratio = move.cheap + self._beta * n * mean
        if not np.isfinite(log_ratio):
            return Rows(-math.inf, math.nan, math.nan, math.nan, math.nan, *worst)
        if not second > 0.0:
            return Rows(log_ratio, 0.0, 0.0, 0.0, 0.0, *worst)
        squares = np.sort((top - mean) ** 2)[::-1][: self.n_top]
        return Rows(
            log_ratio,
            second / max(n - 1, 1),
            math.sqrt(n) * third / second**1.5,
            float(squares[0] / second),
            float(squares.sum() / second),
            *worst,
        )

    def _bounds_of(self, move: Move) -> tuple[np.ndarray | None, float]:
        step = self._step
        tables, bounds = step._chain_tables, step._bounds
        if tables is None:
            return None, math.nan
        metric = address_of(tables.compiled_metric)
        best, m = table_of_move(move.position, move.new, metric, *step._packed, bounds.heads)
        return (None, math.nan) if best < 0 else (bounds.c[best], m)

    def _repeated(self, move: Move, repetitions: int) -> np.ndarray:
        step, outcomes = self._step, np.zeros(probe.N_OUTCOMES)
        outcomes[probe.FEWEST] = math.inf
        probe.repeat_test(
            *move,
            repetitions,
            not step.decision.returns_probability,
            self._of_rows,
            step._addresses,
            step.test_settings,
            *step._packed,
            *step._space,
            *step._bounds,
            outcomes,
        )
        return outcomes


def _extremes(values: np.ndarray, count: int) -> np.ndarray:
    """Return the `count` smallest and the `count` largest values."""
    if values.size <= 2 * count:
        return values
    parted = np.partition(values, (count - 1, values.size - count))
    return np.concatenate([parted[:count], parted[-count:]])
