"""A test of the log-ratio that a custom move returns: a Gaussian that updates have to preserve.

Independent draws from a known Gaussian are moved by a few Metropolis–Hastings updates on all rows.
With a right log-ratio they still are such draws, so that their moments have known standard errors.
"""

from collections.abc import Callable
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.data.reading import load
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.kernels.posterior import RowSpace
from pymc_minibatch_mh.kernels.roles import propose
from pymc_minibatch_mh.kernels.signatures import DERIVATIVES_SIGNATURE
from pymc_minibatch_mh.kernels.surrogate import Surrogate, whitened_norm
from pymc_minibatch_mh.kernels.vectors import copy_to

#: Chance that the check fails a right move.
LEVEL = 1e-7
#: Independent walks of the check, and of the pilot that finds how long they have to be.
WALKS, PILOT_WALKS = 20_000, 500
#: Updates between two looks of the pilot, and the most of all; mean squared distance from the
#: start, in standard deviations, at which walks have forgotten enough of it. Independent: 2.
UPDATES, MOST_UPDATES, FORGOTTEN = 5, 1_000, 1.0
#: Rows that the Gaussian's density is the product of, and the most that a batch has of them.
ROWS, MOST_DRAWN = 80, 20
#: Neighbouring coordinates' correlation; by how much the metric is off, in standard deviations.
CORRELATION, SHIFT, WIDER = 0.6, 0.2, 1.15


class Gaussian(NamedTuple):
    """A Gaussian as moves know a posterior.

    Parameters
    ----------
    mean : ndarray, shape (d,)
    factor, whitener : ndarray, shape (d, d)
        L and L⁻¹, with L Lᵀ its covariance.
    surrogate
        An approximation of it, for the move.
    space
        Its rows.
    """

    mean: np.ndarray
    factor: np.ndarray
    whitener: np.ndarray
    surrogate: Surrogate
    space: RowSpace


class Ends(NamedTuple):
    """Position and proposal of a move."""

    position: np.ndarray
    new: np.ndarray


@compiled(DERIVATIVES_SIGNATURE)
def derivatives_of_rows(position, rows, ends, context, sums, hessian):
    """Add up -(θ - m_i)ᵀ P (θ - m_i)/2 of rows, and gradients: see ``DERIVATIVES``."""
    size = position.size
    for row in rows:
        for j in range(size):
            slope = 0.0
            for k in range(size):
                centre = load(context[0] + 8 * (row * size + k), np.float64)
                slope -= load(context[1] + 8 * (j * size + k), np.float64) * (position[k] - centre)
            centre = load(context[0] + 8 * (row * size + j), np.float64)
            sums[0] += 0.5 * slope * (position[j] - centre)
            sums[1 + j] += slope


@compiled()
def _walk(own, gaussian, positions, updates, sign, rng):
    """Make updates from each of the positions; return how many log-ratios were not zero."""
    new, state, used = np.empty(positions.shape[1]), own.state.copy(), 0
    for k in range(len(positions)):
        move = Ends(positions[k], new)
        copy_to(own.state, state)
        for _ in range(updates):
            log_q, component = propose(own, move, gaussian, rng)
            if component < 0:
                return used
            used += log_q != 0.0
            here = whitened_norm(gaussian.whitener, move.position, gaussian.mean)
            there = whitened_norm(gaussian.whitener, new, gaussian.mean)
            if np.log(rng.random()) < 0.5 * (here * here - there * there) + sign * log_q:
                copy_to(positions[k], new)
    return used


class MoveCheck:
    """The check of one move.

    Parameters
    ----------
    name
        The move in messages.
    record
        What compiled updates are handed.
    require_proposed
        Raises what has gone wrong in the move.
    scale
        About the standard deviation of the Gaussian.
    rng
        Its generator.
    """

    def __init__(
        self,
        name: str,
        record: Any,
        require_proposed: Callable[[Any], None],
        scale: float,
        rng: np.random.Generator,
    ) -> None:
        self._name, self._record, self._require = name, record, require_proposed
        self._rng = rng
        size = record.position.size
        places = np.arange(size)
        self._sd = scale * np.linspace(0.7, 1.3, size)
        covariance = CORRELATION ** np.abs(places[:, None] - places) * np.outer(self._sd, self._sd)
        factor, mean = np.linalg.cholesky(covariance), scale * (1.0 + places % 2)
        noise = rng.standard_normal((ROWS, size))
        # What rows are read from is kept: the context has its addresses.
        self._rows = mean + (noise - noise.mean(axis=0)) @ factor.T
        self._precision = np.linalg.inv(covariance) / ROWS
        context = np.array([self._rows.ctypes.data, self._precision.ctypes.data])
        nothing, whitener = (np.zeros(size), np.zeros((size, size))), np.linalg.inv(factor)
        metric = mean + SHIFT * self._sd, WIDER * factor, whitener / WIDER
        space = RowSpace(np.array([0, ROWS]), context)
        self._gaussian = Gaussian(
            mean, factor, whitener, Surrogate(*metric, *nothing, 0, 1.0), space
        )

    def largest(self) -> float:
        """Return the largest distance of a moment, in standard errors.

        Raises
        ------
        SettingError
            If a moment is off, or if walks forget nothing of their start.
        """
        updates = self._updates()
        off, used = self._distances(updates, 1.0)
        what = max(off, key=lambda name: abs(off[name]))
        if abs(off[what]) <= self._limit(off):
            return abs(off[what])
        raise SettingError(
            f"{self._name} returns a wrong log-ratio: {updates} updates from {WALKS:,} exact draws "
            f"of a Gaussian leave {what} off by {off[what]:+.1f} standard errors, where a right "
            f"one exceeds {self._limit(off):.1f} in one check of {round(1 / LEVEL):,}. "
            f"{self._guess(updates, used)}"
        )

    def _limit(self, off: dict[str, float]) -> float:
        return NormalDist().inv_cdf(1.0 - LEVEL / (2 * len(off)))

    def _guess(self, updates: int, used: int) -> str:
        if not used:
            return (
                "It has returned 0 each time, which only a symmetric move may: return "
                "log q(θ|θ') - log q(θ'|θ), the way back less the way there."
            )
        turned, _ = self._distances(updates, -1.0)
        if max(map(abs, turned.values())) <= self._limit(turned):
            return (
                "With its sign turned it is right: return log q(θ|θ') - log q(θ'|θ), the way back "
                "less the way there."
            )
        return (
            "A density, a Jacobian or a choice that depends on the position may be left out of it, "
            "or the move remembers where it was."
        )

    def _walked(self, positions: np.ndarray, updates: int, sign: float) -> int:
        used = _walk(self._record, self._gaussian, positions, updates, sign, self._rng)
        self._require(self._record)
        return int(used)

    def _drawn(self, count: int) -> np.ndarray:
        noise = self._rng.standard_normal((count, self._sd.size))
        return self._gaussian.mean + noise @ self._gaussian.factor.T

    def _updates(self) -> int:
        start = self._drawn(PILOT_WALKS)
        positions = start.copy()
        for updates in range(UPDATES, MOST_UPDATES + 1, UPDATES):
            self._walked(positions, UPDATES, 1.0)
            moved = np.mean(((positions - start) @ self._gaussian.whitener.T) ** 2)
            if moved >= FORGOTTEN:
                return updates
        raise SettingError(
            f"{self._name} is too slow on this Gaussian to be checked: {MOST_UPDATES:,} updates "
            f"take it {np.sqrt(moved):.2g} standard deviations far. Pass scale=, about the "
            "standard deviation of the posterior that the move and its state are made for; if that "
            "is what you did, nearly nothing is accepted, as by a wrong log-ratio."
        )

    def _distances(self, updates: int, sign: float) -> tuple[dict[str, float], int]:
        """Return how far each moment is off in standard errors, and how many ratios were not 0."""
        positions = self._drawn(WALKS)
        used = self._walked(positions, updates, sign)
        deviations, root = positions - self._gaussian.mean, np.sqrt(WALKS)
        own, white = deviations / self._sd, deviations @ self._gaussian.whitener.T
        off = {}
        for j in range(self._sd.size):
            off[f"the mean of coordinate {j}"] = root * own[:, j].mean()
            spread = (own[:, j] ** 2).mean() - 1.0
            off[f"the variance of coordinate {j}"] = root * spread / np.sqrt(2.0)
            for k in range(j):
                product = root * (white[:, j] * white[:, k]).mean()
                off[f"the correlation of coordinates {k} and {j}"] = product
        return {name: float(value) for name, value in off.items()}, used
