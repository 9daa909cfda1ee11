"""Designs of a sequential test: rows per look and level, chosen for an error that is tolerated.

Among the pairs (batch size, epsilon) of a grid whose error is at most `tolerance`, a design is the
one that reads the fewest rows. Three errors can be held to a tolerance:

- *worst*: that of a decision at the threshold itself, where it is largest;
- *average*: the mean over moves of the error of the acceptance probability,
  |∫ over u > P_a of E(μ_std(u)) du - ∫ over u < P_a of E(μ_std(u)) du|, in which errors on the two
  sides of P_a = min(1, exp(log ratio)) cancel, u being the uniform number of the update;
- *per update*: that of the update itself, whose μ_std takes a scan of all rows to know.

E is the error of :func:`~pymc_minibatch_mh.steps.sequential.sequential_error`.

References
----------
Korattikara, Chen, Welling (2014), "Austerity in MCMC land: cutting the Metropolis-Hastings
budget", ICML, doi:10.48550/arXiv.1304.5299, section 5.2 (worst and average).
Seita, Pan, Chen, Canny (2017), "An efficient minibatch acceptance test for Metropolis-Hastings",
UAI, doi:10.48550/arXiv.1610.06848, section 6 and appendix C.2.1 (the grid; per update).

What a sequential test makes of the moves that a chain tries.

For a move with log ratio Δ, all rows decide rightly: accept iff Δ > log u, with u the uniform
number of the update. The test errs with probability E(μ_std(u)), μ_std(u) = (Δ - log u)/sd, so that
its acceptance probability is off by

    ∫ over u > P_a of E(μ_std(u)) du - ∫ over u < P_a of E(μ_std(u)) du,    P_a = min(1, exp Δ).

References
----------
Korattikara, Chen, Welling (2014), "Austerity in MCMC land: cutting the Metropolis-Hastings
budget", ICML, doi:10.48550/arXiv.1304.5299, equation 6.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.steps.sequential import (
    PUBLISHED_ALL_ROWS_FROM,
    SHIPPED_ALL_ROWS_FROM,
    ErrorAndUse,
    boundary_of,
    error_and_use,
    looks_of,
    tail_probability,
    whole,
)

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

    Raises
    ------
    SettingError
        If one of them is out of range.
    """

    n_rows: int
    log_ratio: Floats
    sd: Floats

    def __post_init__(self) -> None:
        whole("n_rows", self.n_rows, 2)
        for name in ("log_ratio", "sd"):
            values = np.array(getattr(self, name), dtype=np.float64)
            least = 0.0 if name == "sd" else -math.inf
            if values.ndim != 1 or not values.size or not np.isfinite(values).all():
                raise SettingError(
                    f"{name}= is not an array of finite numbers, one for each move. Give one."
                )
            if values.min() < least:
                raise SettingError(f"{name}= has negative entries. Give standard deviations.")
            values.setflags(write=False)
            object.__setattr__(self, name, values)
        if self.log_ratio.size != self.sd.size:
            raise SettingError(
                f"sd= has {self.sd.size} entries and log_ratio= has {self.log_ratio.size}. Give "
                "one of each for every move."
            )

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
    """A sequential test that was chosen: `design=` of :class:`AustereMH` takes it.

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

    def __str__(self) -> str:
        """Return the test, its error and the rows that it reads."""
        limits = "" if self.boundary == 0.5 else f", boundary={self.boundary:g}"
        return (
            f"batch_size={self.batch_size}, epsilon={self.epsilon:g}{limits}: error "
            f"{self.error:.3g}, {self.use:.1%} of the rows"
        )


@dataclass(frozen=True)
class PerUpdate:
    """A design for each update: `design=` of :class:`AustereMH` takes it.

    Every update first scans all rows for its own μ_std, then picks the test that reads the fewest
    rows of all whose error there is at most `tolerance`, and runs it on rows that are drawn anew.
    It is there to reproduce published figures: with the scan, the decision itself is known.

    Parameters
    ----------
    tolerance
        Largest probability of a wrong decision in an update, in (0, 0.5]. Where no test of the grid
        keeps to it, all rows decide.
    batch_sizes, epsilons
        The grid.

    Raises
    ------
    SettingError
        If one of them is out of range.
    """

    tolerance: float
    batch_sizes: tuple[int, ...] = BATCH_SIZES
    epsilons: tuple[float, ...] = EPSILONS

    def __post_init__(self) -> None:
        object.__setattr__(self, "tolerance", tolerance_of(self.tolerance))
        grid = grid_of(self.batch_sizes, self.epsilons)
        object.__setattr__(self, "batch_sizes", grid.batch_sizes)
        object.__setattr__(self, "epsilons", grid.epsilons)


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


def grid_of(
    batch_sizes: Sequence[int], epsilons: Sequence[float], boundaries: Sequence[float] = (0.5,)
) -> Grid:
    """Check the tests that a design is chosen from, and return them.

    Raises
    ------
    SettingError
        If a list is empty, or an entry out of range.
    """
    return Grid(
        tuple(whole("batch_sizes", value, 2) for value in _several("batch_sizes", batch_sizes)),
        tuple(tail_probability(value) for value in _several("epsilons", epsilons)),
        tuple(boundary_of(value) for value in _several("boundaries", boundaries)),
    )


def _several(name: str, values: Any) -> list[Any]:
    if np.ndim(values) != 1 or not len(values):
        raise SettingError(f"{name}={values!r} is no list of numbers. Give one or more.")
    return list(values)


def tolerance_of(tolerance: Any) -> float:
    """Return `tolerance` if it is an error that can be tolerated."""
    number = isinstance(tolerance, int | float | np.number) and not isinstance(tolerance, bool)
    if number and 0.0 < tolerance <= 0.5:
        return float(tolerance)
    raise SettingError(
        f"tolerance={tolerance!r} is not an error probability in (0, 0.5]. Use 0.1, or less for a "
        "smaller bias and more rows."
    )


def best_design(designs: Iterable[SequentialDesign], tolerance: float) -> SequentialDesign:
    """Return the design that reads the fewest rows of those with an error that is tolerated.

    Raises
    ------
    SettingError
        If there is none; names the smallest error.
    """
    tried = list(designs)
    tolerated = [design for design in tried if design.error <= tolerance]
    if not tolerated:
        least = min(design.error for design in tried)
        raise SettingError(
            f"tolerance={tolerance:g} is below {least:.3g}, the smallest error of the tests that "
            "were tried. Raise it, give smaller epsilons=, or use AustereMH(epsilon=0), which is "
            "exact."
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


class DesignTable(NamedTuple):
    """The design of an update, by its μ_std.

    Parameters
    ----------
    distances : ndarray, shape (K,)
        Smallest |μ_std| that an entry is for, ascending from 0.
    batch_sizes : ndarray of int64, shape (K,)
    epsilons : ndarray, shape (K,)
        0 where no test of the grid has an error that is tolerated: all rows decide.
    """

    distances: Floats
    batch_sizes: NDArray[np.int64]
    epsilons: Floats


@cache
def design_table(design: PerUpdate, n_rows: int) -> DesignTable:
    """Return the designs of the updates of :class:`AustereMH` on so many rows.

    An entry holds for all larger distances up to the next: errors fall with the distance.
    """
    distances = distances_of(n_rows, min(design.batch_sizes))
    fewest = np.ones(distances.size)
    table = DesignTable(
        distances, np.full(distances.size, min(design.batch_sizes)), np.zeros(distances.size)
    )
    for batch_size, epsilon, boundary in Grid(design.batch_sizes, design.epsilons).tests():
        looks = looks_of(batch_size, epsilon, n_rows, boundary, SHIPPED_ALL_ROWS_FROM)
        found = error_and_use(distances, looks)
        better = (found.error <= design.tolerance) & (found.use < fewest)
        fewest[better] = found.use[better]
        table.batch_sizes[better] = batch_size
        table.epsilons[better] = epsilon
    for part in table:
        part.setflags(write=False)
    return table
