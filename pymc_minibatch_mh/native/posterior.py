"""The posterior as updates know it: posterior.c."""

from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.native.bound_tables import BoundTables
from pymc_minibatch_mh.native.library import function


class Reference(NamedTuple):
    """Control variates around a centre, frozen while a chain runs: ``mh_reference``."""

    #: Where the expansion is made, θ̂.
    centre: np.ndarray
    #: L with L Lᵀ = A⁻¹, A the posterior precision at the centre, and L⁻¹, shape (d, d): |L⁻¹ δ| is
    #: a distance in posterior standard deviations.
    factor: np.ndarray
    whitener: np.ndarray
    #: Sums of the gradients and Hessians of all rows at the centre; zero at order 0, and below 2.
    gradient: np.ndarray
    hessian: np.ndarray
    order: int
    #: β, which multiplies the log-likelihood only.
    inverse_temperature: float
    #: First coordinate that is moved; those before it belong to other steps.
    first: int = 0
    #: β over the one that bounds and the predicted noise of rows were found at, which both are
    #: proportional to at order 0; 1 except where a schedule of temperatures is on its way.
    relative: float = 1.0

    @property
    def size(self) -> int:
        """Number of coordinates d."""
        return self.centre.size


def whitened_norm(whitener: np.ndarray, position: np.ndarray, origin: np.ndarray) -> float:
    """Return the distance from `origin` in posterior standard deviations."""
    return function("mh_whitened_norm")(whitener, position, origin, position.size)


class Posterior(NamedTuple):
    """A tempered posterior, by a cheap part and remainders of rows: ``mh_posterior``."""

    #: Address of the prior part (``mh_log_prior``), and the rows (``mh_rows``).
    prior: Any
    rows: Any
    reference: Reference
    #: Bounds of the remainders; none for tests without.
    bounds: BoundTables
    #: Batch size above which a look evaluates the full data.
    most_drawn: float = np.inf
