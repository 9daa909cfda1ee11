"""What a step method needs of a proposal."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np


class Proposal(ABC):
    """A symmetric or reversible move and the way its numbers adapt.

    The numbers live in the chain's state; a proposal holds settings only, so that one instance
    serves all chains.
    """

    @property
    @abstractmethod
    def function(self) -> Any:
        """The compiled move, with the signature ``PROPOSE``."""

    @property
    @abstractmethod
    def n_components(self) -> int:
        """Number of components that the compiled move draws from."""

    @abstractmethod
    def initial_numbers(self, size: int) -> np.ndarray:
        """Return the numbers of a chain that has not adapted yet, in `size` dimensions."""

    @abstractmethod
    def adapt(
        self,
        numbers: np.ndarray,
        window: np.ndarray,
        total: np.ndarray,
        walk_target: float,
        size: int,
    ) -> None:
        """Adapt `numbers` in place from tallies of the last window and of the whole warm-up.

        Parameters
        ----------
        numbers : ndarray
            Numbers of the chain.
        window, total : ndarray, shape (components, N_TALLIES)
            Tallies that the update keeps per component.
        walk_target
            Acceptance that a random walk aims at under the chosen test.
        size
            Number of dimensions d.
        """

    @abstractmethod
    def scaling(self, numbers: np.ndarray) -> float:
        """Return the scale of the local move, for the sampler stats."""
