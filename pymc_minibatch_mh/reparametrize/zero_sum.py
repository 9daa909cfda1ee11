"""Coordinates α_g = s_g - s_n for n effects that add up to zero."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.model.bijection import Bijection, IndexedValues
from pymc_minibatch_mh.model.factorization import Factorization
from pymc_minibatch_mh.reparametrize.base import reparametrize_by
from pymc_minibatch_mh.structure.predictors import indexed_coordinates
from pymc_minibatch_mh.structure.row_function import linear_forms


@dataclass(frozen=True, eq=False)
class ReferenceLevel(Bijection):
    """Coordinates α_g = s_g - s_n, g < n, instead of PyMC's v, for effects s with sum zero.

    Every s is a sum over all v, so an observation with one indexed effect depends on all v, but on
    only one α and the sum of all α; a difference of two effects depends on two α. The last of n
    effects is s_n = -c Σ v, c = 1/(1 + √n), and s_g = v_g + s_n + c Σ v. Each column of `indices`,
    shape (n - 1, m), has effects that add up to zero.
    """

    @property
    def _level_count(self) -> int:
        return len(self.indices) + 1

    def inverse(self, position: Any) -> list[IndexedValues]:
        """Value variables v."""
        return self._moved_by(position, -1.0 / (self._level_count + np.sqrt(self._level_count)))

    def forward(self, values: np.ndarray) -> list[IndexedValues]:
        """Coordinates α."""
        return self._moved_by(values, 1.0 / (1.0 + np.sqrt(self._level_count)))

    def log_jacobian(self, position: Any) -> Any:
        """Log-Jacobian -m/2 log n."""
        return -0.5 * self.indices.shape[1] * np.log(self._level_count)

    def _moved_by(self, position: Any, share: float) -> list[IndexedValues]:
        return [
            (column, position[column] + share * position[column].sum(axis=0))
            for column in self.indices.T
        ]


def in_differences(factorization: Factorization) -> Factorization:
    """Factorization with differences of zero-sum effects if data index them; else unchanged."""
    maps = []
    for block, name in factorization.real_blocks:
        if block.adds_up_to_0:
            places = np.arange(block.start, block.stop).reshape(-1, block.shape[-1]).T
            maps.append(ReferenceLevel(name, places, f"{name} - {name}[..., -1]"))
    if not maps:
        return factorization
    found = reparametrize_by(factorization, maps)
    moved = set[int]().union(*(one.moved_indices for one in maps))
    try:
        return found if moved & indexed_coordinates(linear_forms(found)) else factorization
    except BoundsError:
        return factorization
