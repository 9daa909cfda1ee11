"""Nodes of groups' effects by their moments, and moments before anything is known.

With nodes z = m + C x, x the products of Gauss-Hermite nodes of N(0, 1), m the mean and C C' the
covariance of a group's q effects at the mode, the weights are w √(2π)^q |C| exp(|x|²/2) times the
density of z. Many nodes for Student's t, whose tails no polynomial fits, are equally spaced in u of
x = a sinh(u); ends have its tails.
"""

from typing import NamedTuple

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import stdtr

from pymc_minibatch_mh.compiled.group_rows import Nodes
from pymc_minibatch_mh.structure.small_groups import EffectLaw, SmallGroups

#: By the number of effects, number of nodes in each direction before they are chosen.
FIRST_COUNT = {1: 15, 2: 9}
#: Number of nodes from which those of Student's t are stretched: a of x = a sinh(u), and the range
#: of u over the root of their number, for the smallest errors by 31 to 41 nodes.
STRETCHED, WIDENED, REACH = 31, 1.4, 0.55
#: Minimum movement of an effect over the posterior, in its own sd, for which equally spaced nodes
#: cover it; their reach in movements and in sd; number of groups that move most and all decide.
MIN_MOVEMENT, MOVEMENTS, WIDTHS, MOVING_GROUPS = 0.5, 5.0, 5.0, 200


def _is_stretched(law: EffectLaw, count: int) -> bool:
    return law.name == "t" and count >= STRETCHED


def standard_nodes(law: EffectLaw, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes x, and logarithms of their weights in integrals over x."""
    if _is_stretched(law, count):
        end = REACH * np.sqrt(count)
        u, step = np.linspace(-end, end, count, retstep=True)
        return WIDENED * np.sinh(u), np.log(WIDENED * step * np.cosh(u))
    x, weights = hermegauss(count)
    return x, np.log(weights) + 0.5 * x**2


def product_nodes(law: EffectLaw, count: int, q: int) -> tuple[np.ndarray, np.ndarray]:
    """Products of nodes in q dimensions, shape (q, count^q), and logarithms of their weights."""
    x, log_weights = standard_nodes(law, count)
    lines = np.array(np.meshgrid(*[x] * q, indexing="ij"))
    logs = np.sum(np.meshgrid(*[log_weights] * q, indexing="ij"), axis=0)
    return lines.reshape(q, -1), logs.ravel()


class EffectMoments(NamedTuple):
    """Means of effects, shape (groups, q), and factors of their covariances, (groups, q, q)."""

    mean: np.ndarray
    factor: np.ndarray

    def nodes(self, law: EffectLaw, count: int) -> Nodes:
        """Nodes for these moments, `count` of them in each direction."""
        x, log_weights = product_nodes(law, count, self.mean.shape[1])
        z = self.mean[:, :, None] + self.factor @ x
        log_sizes = np.linalg.slogdet(self.factor)[1][:, None]
        log_weights = log_weights + log_sizes + law.log_density(z).sum(axis=1)
        if _is_stretched(law, count):
            tails = stdtr(law.shape, z[:, 0, [0, -1]] * [1.0, -1.0])
            ends = log_weights[:, [0, -1]] - np.log(2.0)
            log_weights[:, [0, -1]] = np.logaddexp(ends, np.log(tails))
        return Nodes(z, log_weights)

    def moves_much(self, movements: np.ndarray) -> np.ndarray:
        """Whether effects move further over the posterior than nodes around one position allow."""
        return movements > MIN_MOVEMENT * self.factor[:, 0, 0]

    def moving_most(self, movements: np.ndarray) -> np.ndarray:
        """Numbers of the groups whose effects move most, in their own standard deviations."""
        return np.argsort(-movements / self.factor[:, 0, 0])[:MOVING_GROUPS]

    def wide_nodes(self, law: EffectLaw, count: int, movements: np.ndarray) -> Nodes:
        """Nodes where an effect that moves much is at all likely positions.

        Frozen nodes around one position miss a narrow effect at others. The trapezoidal rule has
        exponentially small errors wherever the effect is between its ends.
        """
        nodes, wide = self.nodes(law, count), self.moves_much(movements)
        if not wide.any():
            return nodes
        step = self._steps(count, movements)[wide]
        z = self.mean[wide] + step * (np.arange(count) - 0.5 * (count - 1))
        nodes.z[wide, 0], nodes.log_weights[wide] = z, np.log(step) + law.log_density(z)
        return nodes

    def _steps(self, count: int, movements: np.ndarray) -> np.ndarray:
        """Distances between wide nodes, shape (groups, 1)."""
        reach = MOVEMENTS * movements + WIDTHS * self.factor[:, 0, 0]
        return 2.0 * reach[:, None] / (count - 1)

    def aliasing(self, count: int, movements: np.ndarray) -> np.ndarray:
        """Variance of each group's error by wide nodes, for normal effects between their ends."""
        ratios = self.factor[:, 0, 0] / self._steps(count, movements)[:, 0]
        errors = 2.0 * np.exp(-((2.0 * np.pi * ratios) ** 2))
        return np.where(self.moves_much(movements), errors, 0.0)

    def some(self, numbers: np.ndarray | slice) -> "EffectMoments":
        """Moments of the effects of some groups."""
        return EffectMoments(self.mean[numbers], self.factor[numbers])


def first_moments(groups: SmallGroups, n_groups: int | None = None) -> EffectMoments:
    """Moments of effects by their prior, by default of all observations.

    Rows of large groups depend on no effect that is integrated out: theirs keep the prior.
    """
    q = len(groups.effects)
    n = groups.n_observations if n_groups is None else n_groups
    return EffectMoments(np.zeros((n, q)), np.tile(np.eye(q), (n, 1, 1)))


def first_nodes(groups: SmallGroups) -> Nodes:
    """Nodes before anything is known about the groups' effects."""
    z, log_weights = first_moments(groups, 1).nodes(groups.law, FIRST_COUNT[len(groups.effects)])
    n_groups = groups.n_observations
    return Nodes(np.tile(z, (n_groups, 1, 1)), np.tile(log_weights, (n_groups, 1)))
