"""Bijections between the value variables of a model and other coordinates of its position."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

#: Where values lie in the position, and the values there: graphs, or arrays of shape (n, ...).
Placed = tuple[np.ndarray, Any]


@dataclass(frozen=True, eq=False)
class Bijection(ABC):
    """A bijection of a few coordinates, which a later one may move again.

    It moves the variable `name`, at `indices` of the position, to coordinates named by `label`.
    Positions and values are arrays of shape (d, ...); positions can be graphs of shape (d,).
    """

    name: str
    indices: np.ndarray
    label: str
    #: Whether its coordinates are bounded below by 0; rows are written in their logarithms.
    lower_bounded: ClassVar[bool] = False

    @property
    def moved(self) -> set[int]:
        """Coordinates that stand for other than the model's own variables."""
        return {int(k) for k in self.indices.flat}

    @property
    def coordinates(self) -> set[int]:
        """Coordinates that the bijection moves or depends on."""
        return self.moved

    @abstractmethod
    def inverse(self, position: Any) -> list[Placed]:
        """The model's variables in the place of the coordinates that are moved."""

    @abstractmethod
    def forward(self, values: np.ndarray) -> list[Placed]:
        """Coordinates that the model's variables are moved to."""

    @abstractmethod
    def log_jacobian(self, position: Any) -> Any:
        """Logarithm of the absolute Jacobian |∂ values / ∂ position|, shape (...)."""

    @staticmethod
    def rewritten(exprs: Any, row: Any) -> Any:
        """Expression of an observation in the coordinates of all bijections of this class."""
        return row
