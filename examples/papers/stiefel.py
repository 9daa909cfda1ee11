"""A random walk on matrices with orthonormal columns or rows, as unmixing matrices have them.

X' = Q X with Q = (I - S/2)⁻¹ (I + S/2), S skew-symmetric with independent normal entries of
standard deviation `scale` above the diagonal. Q is a rotation, and -S, which is as likely as S,
leads back: X = Qᵀ X'. The walk is symmetric with respect to the measure that rotations leave as it
is, the uniform one of the manifold, so that its density ratio is 1. Where rows are orthonormal, the
same is done to the transpose.

Guarantee
---------
That of the test it is used with, for a log-density with respect to the uniform (Haar) measure,
which is the Hausdorff measure of the manifold up to a constant: a model writes it as a function of
all entries of the matrix, of which values on the manifold alone count.

References
----------
Korattikara, Chen, Welling (2014), "Austerity in MCMC land: cutting the Metropolis-Hastings
budget", section 6.2, ICML, doi:10.48550/arXiv.1304.5299.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.proposals.base import Proposal
from pymc_minibatch_mh.proposals.custom_proposal import (
    LinkedCustom,
    link_function,
    require_proposed,
)
from pymc_minibatch_mh.proposals.walk import tune_scale

#: How far products of columns may be from 0 and 1 before a position is off the manifold.
TOLERANCE = 1e-6


class StiefelNumbers(NamedTuple):
    """Numbers of the walk in a chain."""

    scale: float


#: Numbers that the compiled walk takes: standard deviation of the entries of S; place of the first
#: entry of the matrix in the position; length and number of the orthonormal vectors; places from
#: one entry of a vector to the next, and from one vector to the next.
SCALE, FIRST, LENGTH, WIDTH, ALONG, ACROSS = range(6)


@njit(error_model="numpy")
def _orthonormal(vectors: Any) -> bool:
    """Return whether vectors are orthonormal, up to the tolerance: columns, shape (length, width).

    Entries that are no numbers are not.
    """
    for j in range(vectors.shape[1]):
        for k in range(j + 1):
            product = -1.0 if j == k else 0.0
            for i in range(vectors.shape[0]):
                product += vectors[i, j] * vectors[i, k]
            if not abs(product) <= TOLERANCE:
                return False
    return True


@njit(error_model="numpy")
def _polished(vectors: Any) -> Any:
    """Return vectors that are orthonormal up to rounding, from some that nearly are.

    One step of Newton's iteration for the polar factor: without it, rounding errors of many updates
    would add up.
    """
    products = np.dot(vectors.T, vectors)
    for j in range(products.shape[0]):
        products[j, j] -= 3.0
    return -0.5 * np.dot(vectors, products)


# Without a signature numba compiles it when a step asks for its address, not at each import.
@njit(nogil=True, error_model="numpy")
def rotate(position: Any, new: Any, rng: Any, state: Any, metric: Any, rows: Any) -> float:
    """Rotate the matrix. A position off the manifold goes nowhere."""
    first, length, width = int(state[FIRST]), int(state[LENGTH]), int(state[WIDTH])
    along, across = int(state[ALONG]), int(state[ACROSS])
    for i in range(new.size):
        new[i] = position[i]
    vectors = np.empty((length, width))
    for i in range(length):
        for j in range(width):
            vectors[i, j] = position[first + i * along + j * across]
    if not _orthonormal(vectors):
        return np.nan
    plus, minus = np.eye(length), np.eye(length)
    for i in range(length):
        for k in range(i):
            half = 0.5 * state[SCALE] * rng.standard_normal()
            plus[i, k] += half
            plus[k, i] -= half
            minus[i, k] -= half
            minus[k, i] += half
    turned = _polished(np.linalg.solve(minus, np.dot(plus, vectors)))
    for i in range(length):
        for j in range(width):
            new[first + i * along + j * across] = turned[i, j]
    return 0.0


def linked(scale: float, first: int, shape: tuple[int, int], size: int) -> LinkedCustom:
    """Return the walk of a matrix of a shape, which begins at `first` of `size` coordinates."""
    rows, columns = shape
    sides = (rows, columns, columns, 1) if rows >= columns else (columns, rows, 1, columns)
    state = np.array([scale, first, *sides], dtype=np.float64)
    return link_function(rotate, state, 0, size)


@dataclass(frozen=True)
class StiefelWalk(Proposal):
    """A random walk on matrices with orthonormal columns, or rows if there are fewer of them.

    Guarantee: that of the step it is used with, for the density that the model has with respect to
    the uniform (Haar) measure of the manifold. Symmetric, so that its density ratio is 1. A chain
    has to start on the manifold: give `initvals` with an orthonormal matrix. Elsewhere every
    proposal is rejected and counted in the stat ``invalid``.

    There is no mode to expand around on a manifold: use ``taylor_order=0, centre="start"``. An
    update takes a time that grows with the cube of the longer side.

    Parameters
    ----------
    scale
        Standard deviation of the angles that each pair of axes is turned by, in radians, before
        warm-up, which moves it to the acceptance that suits the test.
    adapt
        Whether it is moved in warm-up.

    Raises
    ------
    SettingError
        When the step is built, if it does not move one matrix alone.

    References
    ----------
    Korattikara, Chen, Welling (2014), "Austerity in MCMC land: cutting the Metropolis-Hastings
    budget", section 6.2, ICML, doi:10.48550/arXiv.1304.5299.
    """

    scale: float = 0.1
    adapt: bool = True
    #: One entry alone would leave the manifold.
    moves_without_rows = False

    @property
    def in_own_terms(self) -> bool:
        """True: the matrix is one of the model's own variables."""
        return True

    @property
    def n_components(self) -> int:
        """One."""
        return 1

    def record(self, size: int) -> StiefelNumbers:
        """Return the scale that a chain starts with."""
        return StiefelNumbers(float(self.scale))

    def adapted(
        self,
        record: StiefelNumbers,
        window: np.ndarray,
        total: np.ndarray,
        walk_target: float,
        size: int,
    ) -> StiefelNumbers:
        """Move the acceptance to that of a random walk."""
        if not self.adapt:
            return record
        return StiefelNumbers(tune_scale(record.scale, window[0], total[0], walk_target))

    def linked(self, record: StiefelNumbers, plan: Any) -> LinkedCustom:
        """Return the scale with the place of the matrix.

        Raises
        ------
        SettingError
            If the step does not move one matrix alone.
        """
        factorization = plan.target.factorization
        moved = [block for block in factorization.blocks if block.start >= factorization.first]
        if len(moved) != 1 or len(moved[0].shape) != 2:
            shapes = ", ".join(f"{block.name!r} of shape {block.shape}" for block in moved)
            raise SettingError(
                f"proposal=StiefelWalk() moves one matrix, and this step moves {shapes}. Pass "
                "vars=[...] with the matrix, and let other steps move the rest."
            )
        (block,) = moved
        return linked(record.scale, block.start, block.shape, factorization.size)

    def require_proposed(self, record: LinkedCustom, status: int) -> None:
        """Raise a MinibatchError if the walk has raised."""
        require_proposed("StiefelWalk()", record, status)

    def scaling(self, record: StiefelNumbers) -> float:
        """Return the scale."""
        return record.scale
