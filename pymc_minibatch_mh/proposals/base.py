"""Base class of proposals."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from pymc_minibatch_mh.errors import SettingError

#: Efficiency of each component of a proposal, records of shape (components,).
Tallies = np.ndarray


class Proposal(ABC):
    """A proposal that is reversible with respect to a known density, with its adaptation.

    A proposal is frozen and shared by all chains. The state of a chain is a record: a named tuple
    of floats, ints and arrays. The linked record (:meth:`linked`) has the fields of the C record
    that its class names as `LAYOUT`, and its function, an ``mh_propose``, as `propose`.
    """

    #: Whether slice proposals in the likelihood's null space follow updates by default.
    moves_without_rows: bool = True
    #: Whether proposals are mostly independent of the position, so that tails matter.
    is_independent: bool = False

    @property
    def rests_on(self) -> str:
        """Unverified claim of the user that exactness requires as well; empty for none."""
        return ""

    @property
    def in_own_terms(self) -> bool:
        """Whether settings refer to the model's variables, so that the chain samples these."""
        return False

    @property
    def draws_rows(self) -> bool:
        """Whether an update draws observations to propose."""
        return False

    @property
    def n_components(self) -> int:
        """Number of components of the compiled proposal, by default one."""
        return 1

    @abstractmethod
    def record(self, size: int) -> Any:
        """Initial record of a chain in `size` dimensions."""

    @abstractmethod
    def adapted(
        self, record: Any, window: Tallies, total: Tallies, walk_target: float, size: int
    ) -> Any:
        """Record after a window of warm-up.

        Parameters
        ----------
        record
            Record of the chain.
        window, total : ndarray, shape (components,)
            Tallies of the last window, and of the whole warm-up.
        walk_target
            Target acceptance rate of a random walk under the chosen test.
        size
            Number of dimensions d.
        """

    def linked(self, record: Any, plan: Any) -> Any:
        """Record for compiled updates, by default the same record."""
        return record

    def require_proposed(self, record: Any, status: int) -> None:
        """Raise the exception of a custom proposal, if it ended a run with `status`.

        `record` is the record for compiled updates.
        """
        return

    def scales(self, plan: Any) -> tuple[int, ...]:
        """Coordinates proposed first; all others are proposed given these. Default: none."""
        return ()

    def skewness_of(self, plan: Any) -> float | None:
        """Size of the third order that proposals follow; None if they are normal."""
        return None

    def rows_read(self, n_rows: int) -> int:
        """Number of observations, out of `n_rows`, that a proposal evaluates; default 0."""
        return 0

    @abstractmethod
    def scaling(self, record: Any) -> float:
        """Scale of the local proposal, for the sampler stats."""


def positive_definite(name: str, given: Any, size: int | None = None) -> np.ndarray:
    """Copy of a positive definite matrix with `size` rows; SettingError for any other value."""
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
