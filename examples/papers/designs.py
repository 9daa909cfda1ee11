"""Designs of a sequential test: rows per look and level, chosen for an error that is tolerated.

Among the pairs (batch size, epsilon) of a grid whose error is at most `tolerance`, a design is the
one that reads the fewest rows. Two errors can be held to a tolerance: that of a decision at the
threshold itself, where it is largest (*worst*), and the mean over moves of the error of their
acceptance probability (*average*). For a move with log ratio Δ all rows accept iff Δ > log u, with
u the uniform number of the update. The test errs with probability E(μ_std(u)), μ_std(u) =
(Δ - log u)/sd, so that its acceptance probability is off by

    ∫ over u > P_a of E(μ_std(u)) du - ∫ over u < P_a of E(μ_std(u)) du,    P_a = min(1, exp Δ),

in which errors on the two sides cancel. E is the error of :func:`sequential_error`.

References
----------
Korattikara, Chen, Welling (2014), "Austerity in MCMC land: cutting the Metropolis-Hastings
budget", ICML, doi:10.48550/arXiv.1304.5299, equation 6 and section 5.2.
Seita, Pan, Chen, Canny (2017), "An efficient minibatch acceptance test for Metropolis-Hastings",
UAI, doi:10.48550/arXiv.1610.06848, section 6 and appendix C.2.1 (the grid).
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from papers.sequential import (
    PUBLISHED_ALL_ROWS_FROM,
    ErrorAndUse,
    error_and_use,
    looks_of,
)
from pymc_minibatch_mh.chain.kernel_probe import Probe
from pymc_minibatch_mh.diagnostics.forecast import first_point, fresh_chain
from pymc_minibatch_mh.model.inputs import as_generator
from pymc_minibatch_mh.steps.base import MinibatchStep, model_behind

Floats = NDArray[np.float64]

#: Distances |μ_std| at which a table has error and use, besides 0.
_DISTANCES = 240
#: Where they begin, relative to what a late look can tell apart, and where first looks decide.
_SMALLEST, _LARGEST = 0.02, 12.0
#: -log u beyond which hardly any uniform number lies.
_END = 40.0


@dataclass(frozen=True, eq=False)
class TriedMoves:
    """Moves that a chain tries, as all rows see them.

    Parameters
    ----------
    n_rows
        Number of rows.
    log_ratio : ndarray, shape (P,)
        Exact log Metropolis–Hastings ratios.
    sd : ndarray, shape (P,)
        √n_rows times the standard deviation of what a row adds to the log-likelihood's change, so
        that μ_std = (log_ratio - log u)/sd.
    """

    n_rows: int
    log_ratio: Floats
    sd: Floats

    def __post_init__(self) -> None:
        for name in ("log_ratio", "sd"):
            object.__setattr__(self, name, np.array(getattr(self, name), dtype=np.float64))

    def error_and_use_of(
        self,
        batch_size: int,
        epsilon: float,
        *,
        boundary: float = 0.5,
        all_rows_from: float = PUBLISHED_ALL_ROWS_FROM,
    ) -> ErrorAndUse:
        """Return what a sequential test makes of every move.

        Parameters
        ----------
        batch_size, epsilon, boundary, all_rows_from
            The test, as in :func:`sequential_error`.

        Returns
        -------
        ErrorAndUse
            The error of the acceptance probability, signed, positive where the test accepts too
            often, and the expected share of the rows that are read, each of shape (P,).
        """
        looks = looks_of(batch_size, epsilon, self.n_rows, boundary, all_rows_from)
        distances = distances_of(self.n_rows, batch_size)
        table = error_and_use(distances, looks)
        t, weights = _uniforms(np.maximum(0.0, -self.log_ratio))
        gaps = self.log_ratio[:, None] + t
        with np.errstate(divide="ignore", invalid="ignore"):
            places = np.nan_to_num(np.abs(gaps) / self.sd[:, None], nan=math.inf)
        error = np.interp(places, distances, table.error)
        # Right decisions accept where the gap is positive, so that errors there reject.
        signed = -np.sign(gaps) * error
        use = np.interp(places, distances, table.use)
        return ErrorAndUse((weights * signed).sum(axis=1), (weights * use).sum(axis=1))


def distances_of(n_rows: int, batch_size: int) -> Floats:
    """Return distances |μ_std| from 0 to where every test stops at its first look."""
    looks = math.sqrt(max(n_rows / batch_size, 2.0))
    return np.append(0.0, np.geomspace(_SMALLEST / looks, _LARGEST * looks, _DISTANCES))


@cache
def _graded() -> tuple[Floats, Floats]:
    """Return points in (0, 1) that crowd towards 0, and the weights of a rule on them."""
    ends = np.append(0.0, 2.0 ** np.arange(-30.0, 1.0))
    points, weights = np.polynomial.legendre.leggauss(6)
    lengths = np.diff(ends)[:, None]
    places = ends[:-1, None] + 0.5 * lengths * (1.0 + points)
    return places.ravel(), (0.5 * lengths * weights).ravel()


def _uniforms(crossings: Floats) -> tuple[Floats, Floats]:
    """Return t = -log u and weights, for means over u of what varies quickly around crossings.

    Parameters
    ----------
    crossings : ndarray, shape (P,)
        Where t crosses over from right to wrong sides, 0 or more.

    Returns
    -------
    tuple of ndarray, each of shape (P, T)
    """
    points, weights = _graded()
    crossing = crossings[:, None]
    half, rest = 0.5 * crossing, np.full(crossing.shape, _END)
    t = np.hstack([half * points, crossing - half * points, crossing + rest * points])
    lengths = np.hstack([half * weights, half * weights, rest * weights])
    return t, lengths * np.exp(-t)


#: The grid that published designs were found on.
BATCH_SIZES = (50, 100, 150, 200, 250, 300, 350, 400, 450, 500)
EPSILONS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.2)


@dataclass(frozen=True)
class SequentialDesign:
    """A sequential test that was chosen: the settings of an :class:`AustereMH`.

    Parameters
    ----------
    batch_size
        Rows that each look adds.
    epsilon
        Tail probability below which a look decides.
    error
        The error that was held to the tolerance.
    use
        Expected share of the rows that are read: at the threshold itself for a worst-case design,
        the mean over moves for an average one.
    boundary
        α in the limits G_0 π^(0.5 - α) of the looks.
    """

    batch_size: int
    epsilon: float
    error: float
    use: float
    boundary: float = 0.5


class Grid(NamedTuple):
    """The tests that a design is chosen from: all combinations."""

    batch_sizes: tuple[int, ...] = BATCH_SIZES
    epsilons: tuple[float, ...] = EPSILONS
    boundaries: tuple[float, ...] = (0.5,)

    def tests(self) -> Iterator[tuple[int, float, float]]:
        """Yield batch size, epsilon and boundary of every test."""
        for boundary in self.boundaries:
            for batch_size in self.batch_sizes:
                for epsilon in self.epsilons:
                    yield batch_size, epsilon, boundary


def best_design(designs: Iterable[SequentialDesign], tolerance: float) -> SequentialDesign:
    """Return the design that reads the fewest rows of those with an error that is tolerated.

    Raises
    ------
    ValueError
        If there is none; names the smallest error.
    """
    tried = list(designs)
    tolerated = [design for design in tried if design.error <= tolerance]
    if not tolerated:
        least = min(design.error for design in tried)
        raise ValueError(
            f"tolerance={tolerance:g} is below {least:.3g}, the least error of a test."
        )
    return min(tolerated, key=lambda design: (design.use, -design.batch_size))


def worst_case_designs(n_rows: int, grid: Grid, all_rows_from: float) -> Iterator[SequentialDesign]:
    """Yield the tests of a grid, with error and use at the threshold itself."""
    at_threshold = np.zeros(1)
    for batch_size, epsilon, boundary in grid.tests():
        looks = looks_of(batch_size, epsilon, n_rows, boundary, all_rows_from)
        (error,), (use,) = error_and_use(at_threshold, looks)
        yield SequentialDesign(batch_size, epsilon, float(error), float(use), boundary)


def average_designs(
    moves: TriedMoves, grid: Grid, all_rows_from: float
) -> Iterator[SequentialDesign]:
    """Yield the tests of a grid, with mean absolute error and mean use over moves."""
    for batch_size, epsilon, boundary in grid.tests():
        found = moves.error_and_use_of(
            batch_size, epsilon, boundary=boundary, all_rows_from=all_rows_from
        )
        error, use = float(np.abs(found.error).mean()), float(found.use.mean())
        yield SequentialDesign(batch_size, epsilon, error, use, boundary)


#: Draws of warm-up before moves are looked at, draws from move to move, and moves of a design.
TUNE, GAP, MOVES = 500, 5, 100


def design_sequential_test(
    given: TriedMoves | int,
    tolerance: float,
    kind: str = "worst",
    *,
    batch_sizes: Sequence[int] = BATCH_SIZES,
    epsilons: Sequence[float] = EPSILONS,
    boundaries: Sequence[float] = (0.5,),
    all_rows_from: float = PUBLISHED_ALL_ROWS_FROM,
) -> SequentialDesign:
    """Choose the sequential test that reads the fewest rows at a tolerated error.

    All combinations of `batch_sizes`, `epsilons` and `boundaries` are tried. The figures are those
    of :func:`sequential_error` and :func:`sequential_use`: they take sums over batches for normal.

    Parameters
    ----------
    given
        Moves of a chain; or, for the worst case, the number of rows.
    tolerance
        Largest error.
    kind
        "worst": the error of a decision at the threshold itself; rows are those that such a
        decision reads. "average": the mean over moves of the error of their acceptance
        probability, and the mean of the rows.
    batch_sizes, epsilons, boundaries
        The tests that are tried, by default those that published designs were chosen from.
    all_rows_from
        Share of the rows from which a look reads all of them: 1 as published, 0.5 as
        :class:`AustereMH` does by default.

    Raises
    ------
    ValueError
        If no test has an error that is tolerated.
    """
    grid = Grid(tuple(batch_sizes), tuple(epsilons), tuple(boundaries))
    if kind == "average":
        assert isinstance(given, TriedMoves)
        return best_design(average_designs(given, grid, all_rows_from), tolerance)
    n_rows = given.n_rows if isinstance(given, TriedMoves) else given
    return best_design(worst_case_designs(n_rows, grid, all_rows_from), tolerance)


def tried_moves(step: MinibatchStep, moves: int = MOVES, random_seed: Any = None) -> TriedMoves:
    """Measure moves that a chain of a step tries, each with all rows.

    A chain of its own is adapted on 500 draws; every fifth draw after that proposes a move.
    Proposals to where the density is zero before a row is read are left out. Variables of other
    steps stay where the chain starts, as in :func:`explain`.

    Parameters
    ----------
    step
        The step; its own chain goes on as if no move had been tried.
    moves
        Number of moves. All rows are read once for each.
    random_seed
        Seed of the chain.
    """
    model, rng = model_behind(step), as_generator("random_seed", random_seed)
    factorization, others = step.target.factorization, step.target.source.others
    before = others.copy()
    try:
        copied = fresh_chain(step, rng, TUNE)
        point = first_point(step, model, rng)
        for _ in range(TUNE):
            point, _ = copied.step(point)
        copied.stop_tuning()
        probe = Probe(copied.chain, rng.spawn(1)[0])
        probe.fix_others(factorization.ravel_others(point))
        found = []
        for _ in range(moves):
            for _ in range(GAP):
                point, _ = copied.step(point)
            move = probe.propose(copied.chain.position.copy())
            if np.isfinite(move.cheap):
                found.append(probe.rows(move))
    finally:
        others[:] = before
    beta, n_rows = copied.reference.inverse_temperature, copied.chain.plan.n_drawn
    finite = [rows for rows in found if np.isfinite(rows.log_ratio)]
    return TriedMoves(
        n_rows,
        np.array([rows.log_ratio for rows in finite]),
        beta * np.sqrt(n_rows * np.array([rows.variance for rows in finite])),
    )
