"""Bijections between the value variables of a model and other coordinates of its position."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

#: Where values lie in the position, and the values there: graphs, or arrays of shape (n, ...).
Placed = tuple[np.ndarray, Any]


@dataclass(frozen=True, eq=False)
class Map(ABC):
    """A one-to-one map of a few coordinates, which a later one may move again.

    It moves the variable `name`, at `places` of the position, to coordinates that `words` name.
    Positions and values are arrays of shape (d, ...); positions can be graphs of shape (d,).
    """

    name: str
    places: np.ndarray
    words: str
    #: Whether its coordinates begin at 0, where rows are written in their logarithms.
    begins_at_zero: ClassVar[bool] = False

    @property
    def moved(self) -> set[int]:
        """Coordinates that stand for other than the model's own variables."""
        return {int(k) for k in self.places.flat}

    @property
    def coordinates(self) -> set[int]:
        """Coordinates that the map moves or depends on."""
        return self.moved

    @abstractmethod
    def own(self, position: Any) -> list[Placed]:
        """Return the model's own variables in the place of coordinates that are moved."""

    @abstractmethod
    def mapped(self, values: np.ndarray) -> list[Placed]:
        """Return the coordinates that the model's own variables are moved to."""

    @abstractmethod
    def log_jacobian(self, position: Any) -> Any:
        """Return log |∂ values / ∂ position|, of shape (...)."""

    @staticmethod
    def rewritten(exprs: Any, row: Any) -> Any:
        """Expression of an observation in the coordinates of all maps of this class."""
        return row
