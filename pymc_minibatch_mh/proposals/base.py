"""What a chain needs of a proposal."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np


class Proposal(ABC):
    """A move that is reversible with respect to a known density, and how it adapts.

    A proposal is frozen and serves all chains. What changes in a chain lies in a record of its own:
    a named tuple of floats, ints and arrays, whose class names the compiled move
    (:func:`pymc_minibatch_mh.kernels.roles.role_of`, ``propose``).
    """

    @property
    @abstractmethod
    def n_components(self) -> int:
        """Number of components that the compiled move draws from."""

    @abstractmethod
    def record(self, size: int) -> Any:
        """Return the record of a chain that has not adapted yet, in `size` dimensions."""

    @abstractmethod
    def adapted(
        self, record: Any, window: np.ndarray, total: np.ndarray, walk_target: float, size: int
    ) -> Any:
        """Return the record after a window of warm-up.

        Parameters
        ----------
        record
            Record of the chain.
        window, total : ndarray, shape (components, N_TALLIES)
            Tallies of the last window, and of the whole warm-up.
        walk_target
            Acceptance that a random walk aims at under the chosen test.
        size
            Number of dimensions d.
        """

    def linked(self, record: Any, prepared: Any) -> Any:
        """Return what compiled updates are handed: the record, unless they need addresses."""
        return record

    @abstractmethod
    def scaling(self, record: Any) -> float:
        """Return the scale of the local move, for the sampler stats."""
