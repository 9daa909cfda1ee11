"""The contract of proposals."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from pymc_minibatch_mh.errors import SettingError

#: Efficiency of each component of a proposal, records of shape (components,).
Tallies = np.ndarray


class Proposal(ABC):
    """A move that is reversible with respect to a known density, and how it adapts.

    A proposal is frozen and serves all chains. The state of a chain is a record: a named tuple of
    floats, ints and arrays. Linked (:meth:`linked`), it has the fields of a record of C, which its
    class names as `LAYOUT`, and its move, an ``mh_propose``, as `propose`.
    """

    #: Whether single coordinates may move by the prior part in between, without the user's asking.
    moves_without_rows: bool = True

    @property
    def rests_on(self) -> str:
        """Claim of a user that exactness rests on beyond the method; empty for none."""
        return ""

    @property
    def in_own_terms(self) -> bool:
        """Whether its settings are in terms of the model's own variables, as the chain then is."""
        return False

    @property
    def draws_rows(self) -> bool:
        """Whether an update draws rows to propose."""
        return False

    @property
    def n_components(self) -> int:
        """Number of components that the compiled move draws from, by default one."""
        return 1

    @abstractmethod
    def record(self, size: int) -> Any:
        """Return the record of a chain that has not adapted yet, in `size` dimensions."""

    @abstractmethod
    def adapted(
        self, record: Any, window: Tallies, total: Tallies, walk_target: float, size: int
    ) -> Any:
        """Return the record after a window of warm-up.

        Parameters
        ----------
        record
            Record of the chain.
        window, total : ndarray, shape (components,)
            Tallies of the last window, and of the whole warm-up.
        walk_target
            Acceptance that a random walk aims at under the chosen test.
        size
            Number of dimensions d.
        """

    def linked(self, record: Any, plan: Any) -> Any:
        """Return the record of compiled updates: this one, unless they need more."""
        return record

    def require_proposed(self, record: Any, status: int) -> None:
        """Raise the exception of a user's move, if a run has ended with a status of one.

        `record` is that of compiled updates.
        """
        return

    def scales(self, plan: Any) -> tuple[int, ...]:
        """Return the coordinates that are proposed first, and the others given them; else none."""
        return ()

    def rows_read(self, n_rows: int) -> int:
        """Return how many rows an update reads to propose, of `n_rows` in all; by default none."""
        return 0

    @abstractmethod
    def scaling(self, record: Any) -> float:
        """Return the scale of the local move, for the sampler stats."""


def positive_definite(name: str, given: Any, size: int | None = None) -> np.ndarray:
    """Return a copy of a setting; SettingError if it is no positive definite matrix of a `size`."""
    try:
        matrix = np.array(given, dtype=np.float64)
        np.linalg.cholesky(matrix)
    except (TypeError, ValueError, np.linalg.LinAlgError) as error:
        raise SettingError(
            f"{name}={type(given).__name__} is not a positive definite matrix. Give an array of "
            "shape (d, d) for the d unconstrained coordinates of the step."
        ) from error
    if matrix.ndim != 2 or not np.allclose(matrix, matrix.T):
        raise SettingError(f"{name}= is not symmetric. Give a covariance matrix.")
    if size is not None and len(matrix) != size:
        raise SettingError(
            f"{name}= has {len(matrix)} lines for {size} unconstrained coordinates. Give one line "
            "for each."
        )
    return matrix
