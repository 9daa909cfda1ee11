"""The χ of Poisson tests: what is read more, against what is accepted more often."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfc

from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.kernels import roles as entry

#: Seconds that a row takes where the data fit a cache, and where they do not; that an update
#: takes without its rows, and PyMC's loop around a draw.
CACHED_ROW, ROW, UPDATE, LOOP = 0.2e-6, 0.5e-6, 1.2e-6, 17e-6
#: Size of data in bytes up to which a cache holds them.
CACHE = 2**24
#: Largest χ before rows have been seen.
USUAL_CHI = 1.0
#: Rows to see before their ratios are believed.
ENOUGH_ROWS = 50
#: Share of what is read in one pass that typical moves read at most with the χ of a start: some
#: moves are larger.
START_SHARE = 0.5
# Where `best_chi` looks besides 0, how close it gets on the logarithmic scale, and in how many
# places at a time.
_CHI_GRID = np.geomspace(1e-8, 1e6, 141)
_LOG_CHI_PRECISION = 1e-4
_FINER = 33


def best_chi(
    sizes: ArrayLike, mean_square: float, row_cost: float, max_rate: float = math.inf
) -> float:
    """Choose the χ that makes most effective draws in a given time.

    The maximum over χ >= 0 of the mean of a/(2 - a)/(1 + row_cost R), with the acceptance a =
    2Φ(-√v/2) that noise of variance v = mean_square CM/(1 + χ CM) leaves: an independence move that
    is accepted with probability a has an effective sample of a/(2 - a) per update. Up to χ <= 1e6
    and to 0.01 % in χ; to a quarter, where moves that read all rows make it jump.

    Parameters
    ----------
    sizes
        C M of typical moves. Those that read all rows whatever χ is are left out.
    mean_square
        Mean of (dU_i/(c_i M))² over drawn rows, in [0, 1].
    row_cost
        Cost of a row, in units of all else that an update costs.
    max_rate
        Expected rows above which all rows decide, without noise, at the cost of as many.
    """
    moves = np.asarray(sizes, dtype=np.float64)
    moves = moves[(moves > 0.0) & (moves < math.inf) & (moves <= max_rate)]
    if moves.size == 0:
        return 0.0

    def efficiency(chis: np.ndarray) -> np.ndarray:
        raised = 1.0 + np.multiply.outer(chis, moves)
        accepted = erfc(np.sqrt(mean_square * moves / (8.0 * raised)))
        accepted[moves * raised > max_rate] = 1.0
        effective = accepted / (2.0 - accepted)
        cost = 1.0 + row_cost * np.minimum(moves * raised, max_rate)
        return (effective / cost).mean(axis=1)

    best = int(np.argmax(efficiency(_CHI_GRID)))
    low, high = np.log(_CHI_GRID[[max(best - 1, 0), min(best + 1, _CHI_GRID.size - 1)]])
    while high - low > _LOG_CHI_PRECISION:
        finer = np.linspace(low, high, _FINER)
        top = int(np.argmax(efficiency(np.exp(finer))))
        low, high = finer[max(top - 1, 0)], finer[min(top + 1, _FINER - 1)]
    found = np.array([0.0, _CHI_GRID[best], math.exp(0.5 * (low + high))])
    return float(found[np.argmax(efficiency(found))])


def largest_chi(size: float, max_rate: float) -> float:
    """Return the χ at which a move of `size` C M is expected to read `max_rate` rows.

    It is 0 where the move reads all rows whatever χ is, and infinite for one that reads none.
    """
    if not 0.0 < size < max_rate:
        return math.inf if size == 0.0 else 0.0
    return (max_rate / size - 1.0) / size


def starting_chi(sizes: Sequence[float], max_rate: float) -> float:
    """Return the χ of a start: one at which moves of some sizes do not read all rows."""
    return float(min([USUAL_CHI, *(largest_chi(size, START_SHARE * max_rate) for size in sizes)]))


def chi_for_gap(ratio: float) -> float:
    """Return the χ that keeps the share κ, `ratio`, of the spectral gap of Metropolis–Hastings.

    χ = 4/((1 - κ) log(1/κ)), proven by Zhang et al. (2020, appendix F) for "paper" without delayed
    acceptance; it holds for "best", which accepts at least as often. Very loose: as an estimate,
    far smaller χ keep that share.
    """
    if not 0.0 < ratio < 1.0:
        raise SettingError(
            f"spectral_gap_ratio={ratio} is outside (0, 1): no finite chi keeps the whole gap. "
            "Use a number such as 0.5, or set chi."
        )
    return 4.0 / ((1.0 - ratio) * math.log(1.0 / ratio))


def chi_from(
    totals: np.ndarray, n_bytes: int, max_rate: float, updates_per_draw: int
) -> float | None:
    """Choose χ from what a chain's updates have counted; None where too little was seen.

    `totals` has shape (N_COUNTS,), `n_bytes` is the size of the data and `max_rate` the expected
    rows above which all rows decide.
    """
    if not (totals[entry.N_SIZES] > 0.0 and totals[entry.N_RATIOS] > ENOUGH_ROWS):
        return None
    size = totals[entry.SIZES] / totals[entry.N_SIZES]
    ratio = min(totals[entry.SQUARED_RATIOS] / totals[entry.N_RATIOS], 1.0)
    row = CACHED_ROW if n_bytes < CACHE else ROW
    cost = row / (UPDATE + LOOP / updates_per_draw)
    return best_chi([size], ratio, cost, max_rate)


def require_subsampling(chi: float, sizes: Sequence[float], limit: float) -> None:
    """Refuse a χ that alone makes the Poisson means of all typical moves exceed a limit.

    `sizes` are their C M, and `limit` the rows above which a move is decided by all of them.
    """
    if not sizes or not max(sizes) <= limit:
        return
    if min(size * (1.0 + chi * size) for size in sizes) > limit:
        raise SettingError(
            f"chi={chi:g} makes the Poisson means of all moves that were tried exceed "
            f"{limit:,.0f}, above which a move reads all rows: every update would. Use "
            "chi='auto', or a smaller number."
        )
