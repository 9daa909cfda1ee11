"""What a sequential test makes of the moves that a chain tries.

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
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.methods.tables.sequential import (
    PUBLISHED_ALL_ROWS_FROM,
    ErrorAndUse,
    error_and_use,
    looks_of,
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
