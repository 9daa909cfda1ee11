"""Parameter χ of a Poisson test that maximises the effective draws per second."""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfc

# Trial values of χ besides 0 in `best_chi`; precision of log χ; and number of points in each
# refinement of the grid.
_CHI_GRID = np.geomspace(1e-8, 1e6, 141)
_LOG_CHI_PRECISION = 1e-4
_FINER = 33


def best_chi(
    sizes: ArrayLike, mean_square: float, row_cost: float, max_rate: float = math.inf
) -> float:
    """Choose the χ that maximises the effective draws per second.

    χ >= 0 maximises the mean of a/(2 - a)/(1 + row_cost R), with R = C M (1 + χ C M) expected rows
    and the acceptance a = 2Φ(-√v/2) under noise of variance v = mean_square C M/(1 + χ C M). An
    independence proposal accepted with probability a adds a/(2 - a) effective draws per update.

    `sizes` are C M of typical proposals, `mean_square` is the mean of (dU_i/(c_i M))² over drawn
    rows, and `row_cost` the cost of a row in units of the rest of an update. Above `max_rate`
    expected rows the full data decide without noise, at the cost of `max_rate` rows.
    """
    moves = np.asarray(sizes, dtype=np.float64)
    moves = moves[(moves > 0.0) & (moves < math.inf) & (moves <= max_rate)]
    if moves.size == 0:
        return 0.0

    def mean_efficiency(chis: np.ndarray) -> np.ndarray:
        raised = 1.0 + np.multiply.outer(chis, moves)
        accepted = erfc(np.sqrt(mean_square * moves / (8.0 * raised)))
        accepted[moves * raised > max_rate] = 1.0
        effective = accepted / (2.0 - accepted)
        cost = 1.0 + row_cost * np.minimum(moves * raised, max_rate)
        return (effective / cost).mean(axis=1)

    best = int(np.argmax(mean_efficiency(_CHI_GRID)))
    low, high = np.log(_CHI_GRID[[max(best - 1, 0), min(best + 1, _CHI_GRID.size - 1)]])
    while high - low > _LOG_CHI_PRECISION:
        finer = np.linspace(low, high, _FINER)
        top = int(np.argmax(mean_efficiency(np.exp(finer))))
        low, high = finer[max(top - 1, 0)], finer[min(top + 1, _FINER - 1)]
    found = np.array([0.0, _CHI_GRID[best], math.exp(0.5 * (low + high))])
    return float(found[np.argmax(mean_efficiency(found))])
