"""Posterior record of the compiled updates: posterior.c."""

from typing import Any, NamedTuple, Self

import numpy as np

from pymc_minibatch_mh.native.bound_tables import BoundTables
from pymc_minibatch_mh.native.library import function


class Reference(NamedTuple):
    """Control variates around a centre, frozen while a chain runs: ``mh_reference``."""

    centre: np.ndarray
    #: L with L Lᵀ = A⁻¹, A the posterior precision at the centre, and L⁻¹.
    factor: np.ndarray
    whitener: np.ndarray
    #: Sums of gradients (zero at order 0) and of Hessians (zero below order 2) at the centre.
    gradient: np.ndarray
    hessian: np.ndarray
    order: int
    #: β, which multiplies the log-likelihood but not the log prior.
    inverse_temperature: float
    first: int = 0
    #: β divided by the β of bounds and predicted noise, which are proportional to it at order 0;
    #: 1 except during a temperature schedule.
    relative: float = 1.0
    #: At order 3: coordinates (a, b, first c, last c), shape (n, 4), of third derivatives of all
    #: rows, which are divided by the number of equal terms: one line after the other.
    lines: np.ndarray = np.empty((0, 4), np.int64)
    thirds: np.ndarray = np.empty(0)

    @property
    def size(self) -> int:
        """Number of coordinates d."""
        return self.centre.size

    def quadratic(self) -> Self:
        """Control variates of order 2, without cubic terms."""
        return self._replace(order=2, lines=np.empty((0, 4), np.int64), thirds=np.empty(0))


def whitened_norm(whitener: np.ndarray, position: np.ndarray, origin: np.ndarray) -> float:
    """Distance from `origin` in posterior standard deviations."""
    return function("mh_whitened_norm")(whitener, position, origin, position.size)


class Posterior(NamedTuple):
    """Tempered posterior, split into prior, control variates and remainders: ``mh_posterior``."""

    #: Address of the log prior (``mh_log_prior``), and the observations (``mh_rows``).
    prior: Any
    rows: Any
    reference: Reference
    bounds: BoundTables
    most_drawn: float = np.inf
    #: Rows of evaluated groups so far, shape (1,); None if they are not counted.
    group_rows: np.ndarray | None = None
