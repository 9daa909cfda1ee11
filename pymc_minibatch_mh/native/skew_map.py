"""The record of a triangular map of third order: skew_map.c has its formula."""

from itertools import pairwise
from typing import Self

import numpy as np

from pymc_minibatch_mh.native.library import function, record_of

#: c per S_aaa, between the 1/3 of a Taylor expansion and the 1/1.69 of least squares, which fits
#: tails better; maximum |c|, so that a tail is at most 1 + MAX_BEND times as wide as a normal's.
BEND, MAX_BEND = 0.45, 0.9
#: Mean of sqrt(1 + w^2) - 1 of a standard normal w.
MEAN_OF_ROOT = 0.354530806


class SkewMap(record_of("mh_skew_map")):  # type: ignore[misc]
    """Map of standard normal numbers to positions, and its inverse: see ``mh_skew_map``.

    It only affects acceptance rates, never exactness, because its density is evaluated.
    """

    @classmethod
    def of_thirds(
        cls,
        order: np.ndarray,
        centre: np.ndarray,
        factor: np.ndarray,
        thirds: np.ndarray,
        negligible: float,
    ) -> Self:
        """Map of averaged third derivatives S, shape (d, d, d), in coordinates x of θ = m + T x.

        Small monomials are left out, as long as the sum of their variances is `negligible`.
        """
        size, every = centre.size, np.arange(centre.size)
        cubes = thirds[every, every, every]
        twice = thirds[every, every]  # S_aab at (a, b)
        before = np.tri(size, k=-1)
        bends = np.clip(BEND * cubes, -MAX_BEND, MAX_BEND)
        # So that the mean of x is 0, but for the products of two coordinates' skewness.
        turned = np.array([np.diag(matrix)[:a].sum() for a, matrix in enumerate(thirds)])
        shifts = -MEAN_OF_ROOT * bends - 0.5 * turned
        monomials = [_monomials(a, thirds[a]) for a in range(size)]
        needed = _largest([values for _, values in monomials], negligible)
        pairs = [index[:, chosen] for (index, _), chosen in zip(monomials, needed, strict=True)]
        values = [values[chosen] for (_, values), chosen in zip(monomials, needed, strict=True)]
        firsts, seconds = np.concatenate(pairs, axis=1).astype(np.int32)
        return cls(
            size=size,
            order=np.ascontiguousarray(order, dtype=np.int64),
            centre=np.ascontiguousarray(centre[order]),
            factor=np.ascontiguousarray(factor),
            whitener=np.ascontiguousarray(np.linalg.inv(factor)),
            shifts=shifts,
            bends=bends,
            exponents=np.ascontiguousarray(0.5 * twice * before),
            starts=np.cumsum([0, *(x.size for x in values)], dtype=np.int64),
            firsts=np.ascontiguousarray(firsts),
            seconds=np.ascontiguousarray(seconds),
            values=np.concatenate(values),
        )

    @property
    def skewness(self) -> float:
        """Root of the sum of the squares of S, without what the map leaves out or clips."""
        cubes, twice = self.bends / BEND, 2.0 * self.exponents
        same = self.firsts == self.seconds
        squares = np.where(same, 3.0 * (2.0 * self.values) ** 2, 6.0 * self.values**2)
        return float(np.sqrt(cubes @ cubes + 3.0 * np.sum(twice**2) + squares.sum()))

    def to_position(self, white: np.ndarray) -> tuple[np.ndarray, float]:
        """Position of normal numbers, and log |dw/dθ| up to a constant."""
        position, log_volume = np.empty(self.size), np.empty(1)
        function("mh_place_by_map")(self, white, position, log_volume)
        return position, float(log_volume[0])

    def whiten(self, position: np.ndarray) -> tuple[np.ndarray, float]:
        """Normal numbers of a position, and log |dw/dθ| up to a constant."""
        white, log_volume = np.empty(self.size), np.empty(1)
        function("mh_whiten_by_map")(self, position, white, log_volume)
        return white, float(log_volume[0])


def _monomials(a: int, thirds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indices b <= c < a of w_b w_c in x_a, shape (2, n), and coefficients, (n,)."""
    index = np.array(np.tril_indices(a))
    return index, thirds[index[0], index[1]] * np.where(index[0] == index[1], 0.5, 1.0)


def _largest(values: list[np.ndarray], negligible: float) -> list[np.ndarray]:
    """Whether each coefficient is needed for a sum of omitted squares of at most `negligible`."""
    everything = np.concatenate(values)
    ranked = np.argsort(np.abs(everything))
    needed = np.ones(everything.size, dtype=bool)
    needed[ranked[np.cumsum(everything[ranked] ** 2) <= negligible]] = False
    ends = np.cumsum([0, *(x.size for x in values)])
    return [needed[first:last] for first, last in pairwise(ends)]
