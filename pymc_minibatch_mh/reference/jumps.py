"""Centre and precision where some coordinates decide where observations jump, as change points do.

Given these coordinates, the log-likelihood is smooth in all others. So the search goes by turns: a
place of each jump, with all others fixed, and then the mode of the others, with a quadratic in the
place of the part of the log-likelihood that jumps. Derivatives do not notice jumps, and averages
over few of them are mostly noise, so the log-density of a place is compared on grids, from one as
wide as its prior to one as wide as the posterior.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from pymc_minibatch_mh.errors import ModeError
from pymc_minibatch_mh.reference.density import Density
from pymc_minibatch_mh.reference.full_data import Derivatives, FullData
from pymc_minibatch_mh.reference.log_coordinates import LogFullData
from pymc_minibatch_mh.reference.messages import WAY_ON
from pymc_minibatch_mh.reference.mode import Mode
from pymc_minibatch_mh.reference.smoothing import NEAR

#: Distance at which a place is tried, in standard deviations of its prior; values of a grid,
#: relative to its reach; smallest and largest standard deviation on it; maximum number of grids.
FARTHEST, GRID, NARROWEST, WIDEST, MAX_GRIDS = 4.0, np.linspace(-1.0, 1.0, 65), 0.1, 0.3, 60
#: Maximum number of turns; precision that holds a place, relative to that of its prior.
MAX_TURNS, HOLDS = 10, 1e4


class PinnedFullData(LogFullData):
    """Full-data evaluations with a quadratic in some coordinates, around `values`.

    They are in the coordinates of the given evaluations, which may be logarithms.
    """

    def __init__(
        self, full_data: FullData, pinned: Sequence[int], values: np.ndarray, precisions: np.ndarray
    ) -> None:
        super().__init__(full_data, full_data.logs)
        self._pinned, self._values, self._precisions = list(pinned), values, precisions

    def prior(self, theta: np.ndarray, *, hessian: bool) -> Derivatives:
        """Derivatives of the log prior with the quadratic."""
        prior, pinned = super().prior(theta, hessian=hessian), self._pinned
        away = theta[pinned] - self._values
        prior.gradient[pinned] -= self._precisions * away
        if prior.has_hessian:
            prior.hessian[pinned, pinned] -= self._precisions
        return replace(prior, value=prior.value - 0.5 * float(self._precisions @ away**2))


def find_between_jumps(
    search: Callable[[Density, np.ndarray], Mode],
    density: Density,
    start: np.ndarray,
    jumping: Sequence[int],
) -> Mode:
    """Centre where the coordinates `jumping` decide where observations jump.

    `search` finds the mode near a position. ModeError if there is none.
    """
    full_data = density.full_data
    prior = full_data.prior(start, hessian=True)
    widths = 1.0 / np.sqrt(np.maximum(-np.diag(prior.hessian)[list(jumping)], 1e-12))
    pinned = PinnedFullData(full_data, jumping, start[list(jumping)], HOLDS / widths**2)
    mode = search(replace(density, full_data=pinned), start)
    for _ in range(MAX_TURNS):
        position, precisions = mode.position.copy(), np.empty(len(jumping))
        for k, j in enumerate(jumping):
            along = replace(density, rest=np.array([j]), fixed=position)
            position[j], precisions[k] = _place_of_jump(along, position[j], widths[k])
        pinned = PinnedFullData(full_data, jumping, position[list(jumping)], precisions)
        mode = search(replace(density, full_data=pinned), position)
        moved = np.abs(mode.position - position) * np.sqrt(np.diag(mode.precision))
        if moved.max() < NEAR:
            break
    return replace(mode, kinked=tuple(range(start.size)))


def _place_of_jump(density: Density, start: float, width: float) -> tuple[float, float]:
    """Mean of a density of one coordinate around its mode, and its inverse variance."""
    mean, reach = start, FARTHEST * width
    for _ in range(MAX_GRIDS):
        grid = mean + reach * GRID
        values = np.array([density.at(x, hessian=False).total.value for x in grid[:, None]])
        weights = np.exp(values - np.nanmax(values))
        weights = np.where(np.isfinite(weights), weights, 0.0) / np.nansum(weights)
        mean = float(weights @ grid)
        deviation = float(np.sqrt(weights @ (grid - mean) ** 2))
        if NARROWEST * reach < deviation < WIDEST * reach:
            return mean, deviation**-2.0
        reach *= 0.5 if deviation <= NARROWEST * reach else 2.0
    raise ModeError(
        f"{density.first_names}: the log-density along it has no width that a grid of {GRID.size} "
        f"values resolves, although it decides where observations jump. {WAY_ON}"
    )
