"""Bijections between the model's value variables and other coordinates of the position."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

#: Indices of values in the position, and the values: graphs, or arrays of shape (n, ...).
IndexedValues = tuple[np.ndarray, Any]


@dataclass(frozen=True, eq=False)
class Bijection(ABC):
    """A bijection of a few coordinates; a later bijection may map its output again.

    It maps the variable `name`, at `indices` of the position, to coordinates named by `label`.
    Positions and values are arrays of shape (d, ...); positions can be graphs of shape (d,).
    """

    name: str
    indices: np.ndarray
    label: str

    @property
    def support(self) -> tuple[float, float] | None:
        """Ends of the coordinates if they are positive; observations then use their logarithms."""
        return None

    @property
    def moved_indices(self) -> set[int]:
        """Coordinates that replace the model's own variables."""
        return {int(k) for k in self.indices.flat}

    @property
    def coordinates(self) -> set[int]:
        """Coordinates that the bijection changes or depends on."""
        return self.moved_indices

    def renumbered(self, new: np.ndarray) -> Self:
        """The same bijection where coordinate k of the position has the number new[k]."""
        return replace(self, indices=new[self.indices])

    @abstractmethod
    def inverse(self, position: Any) -> list[IndexedValues]:
        """Indices and values of the model's variables, computed from the mapped coordinates."""

    @abstractmethod
    def forward(self, values: np.ndarray) -> list[IndexedValues]:
        """Indices and values of the mapped coordinates, computed from the model's variables."""

    @abstractmethod
    def log_jacobian(self, position: Any) -> Any:
        """Logarithm of the absolute Jacobian |∂ values / ∂ position|, shape (...)."""

    @staticmethod
    def rewrite_observation(exprs: Any, row: Any) -> Any:
        """Expression of an observation in the coordinates of all bijections of this class."""
        return row
