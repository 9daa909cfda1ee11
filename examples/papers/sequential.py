"""Error and use of data of a sequential test, by a dynamic programme.

A sequential test of N rows asks after every `m` further rows whether their mean is above or below a
threshold, and stops at look j once its standardised statistic z_j leaves [-G_j, G_j]. With
π_j = min(1, j m/N) the share of the rows that look j has read, and

    μ_std = √N (mean over all rows - threshold)/(standard deviation of the rows),

z_j is normal with variance 1 and mean μ_std √τ_j, τ_j = π_j/(1 - π_j), if sums over batches are
normal and their variance is known. Then z_j √τ_j is a Brownian motion with drift μ_std, seen at the
times τ_j. Given z_j = y, what was before does not depend on the drift any more: z_(j-1) is normal
with mean ρ y and variance 1 - ρ², ρ² = τ_(j-1)/τ_j. So

    h_1(y) = 1,    h_j(y) = ∫ over |x| <= G_(j-1) of h_(j-1)(x) φ(x; ρ y, 1 - ρ²) dx

is the probability that the test has come through all looks before, given z_j = y, for every μ_std
at once. The probability of a wrong stop at look j is the integral of h_j(y) φ(y - μ_std √τ_j) over
the wrong side. A test that comes through all looks is decided by all rows, and rightly.

Integrals are taken by Gauss-Legendre rules whose points lie closer than the normal densities in
them are wide. Twice as many points change no figure by 1e-7, and simulated random walks agree
(`tests/docs/examples/test_sequential.py`).

References
----------
Korattikara, Chen, Welling (2014), "Austerity in MCMC land: cutting the Metropolis-Hastings
budget", ICML, doi:10.48550/arXiv.1304.5299, section 5.1 and supplement.
Wang, Tsiatis (1987), "Approximately optimal one-parameter boundaries for group sequential trials",
Biometrics 43, doi:10.2307/2531959.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

Floats = NDArray[np.float64]

#: Share of the rows from which a look of `AustereMH` reads all of them, and a published one.
SHIPPED_ALL_ROWS_FROM, PUBLISHED_ALL_ROWS_FROM = 0.5, 1.0
#: Points of a rule per standard deviation of the narrowest density in its integral, and at least.
_POINTS_PER_SCALE, _FEWEST_POINTS = 1.6, 32
#: Standard deviations beyond which a normal density is left out: 2e-15 of its mass is there.
_REACH = 8.0
#: Probability of going on below which it is taken for zero.
_NOBODY = 1e-13


class Looks(NamedTuple):
    """What a sequential test does, as far as the dynamic programme has to know.

    Parameters
    ----------
    shares : tuple of float
        Share of the rows that each look has read; 1 of the last one.
    limits : tuple of float
        G_j of every look but the last: it stops where the statistic is farther from 0.
    """

    shares: tuple[float, ...]
    limits: tuple[float, ...]


class ErrorAndUse(NamedTuple):
    """What becomes of a sequential test.

    Parameters
    ----------
    error : ndarray
        Probability of the wrong decision.
    use : ndarray
        Expected share of the rows that are read.
    """

    error: Floats
    use: Floats


def sequential_error(
    mu_std: ArrayLike,
    m: int,
    epsilon: float,
    n_rows: int,
    *,
    boundary: float = 0.5,
    all_rows_from: float = 1.0,
) -> Floats:
    """Return the probability that a sequential test decides wrongly.

    That of the whole test, which may take many looks, for sums over batches that are normal.

    Parameters
    ----------
    mu_std : float or ndarray
        Standardised distance of the mean from the threshold,
        √n_rows (mean - threshold)/(standard deviation of the rows); its sign does not count. The
        error at 0 is the limit for small distances, the largest that there is.
    m
        Rows that each look adds.
    epsilon
        Tail probability below which a look decides, in [0, 0.5].
    n_rows
        Number of all rows.
    boundary
        α in the limits G_j = G_0 π_j^(0.5 - α), in [0.5, 1], with π_j the share of the rows that
        was read and G_0 the normal quantile of 1 - `epsilon`. At 0.5 all looks have the same limit;
        a larger one makes early looks decide less often.
    all_rows_from
        Share of the rows from which a look reads all of them at once: 1 as published, 0.5 in
        :class:`AustereMH`.

    Returns
    -------
    ndarray
        Of the shape of `mu_std`. The error of the quadrature is below 1e-6.

    Notes
    -----
    The time goes like (n_rows/m)^1.5: a tenth of a second for 300 looks.

    References
    ----------
    Korattikara, Chen, Welling (2014), "Austerity in MCMC land: cutting the Metropolis-Hastings
    budget", ICML, doi:10.48550/arXiv.1304.5299, section 5.1.
    """
    return _outcome(mu_std, looks_of(m, epsilon, n_rows, boundary, all_rows_from)).error


def sequential_use(
    mu_std: ArrayLike,
    m: int,
    epsilon: float,
    n_rows: int,
    *,
    boundary: float = 0.5,
    all_rows_from: float = 1.0,
) -> Floats:
    """Return the expected share of the rows that a sequential test reads.

    Parameters
    ----------
    mu_std, m, epsilon, n_rows, boundary, all_rows_from
        As in :func:`sequential_error`.

    Returns
    -------
    ndarray
        Of the shape of `mu_std`, in (0, 1].

    References
    ----------
    As of :func:`sequential_error`.
    """
    return _outcome(mu_std, looks_of(m, epsilon, n_rows, boundary, all_rows_from)).use


def looks_of(
    m: int, epsilon: float, n_rows: int, boundary: float = 0.5, all_rows_from: float = 1.0
) -> Looks:
    """Return the looks of a sequential test."""
    counts = np.arange(m, n_rows, m)
    read = counts[counts < all_rows_from * n_rows] / n_rows
    limits = abs(ndtri(epsilon)) * read ** (0.5 - boundary)
    return Looks((*read.tolist(), 1.0), tuple(limits.tolist()))


def _outcome(mu_std: ArrayLike, looks: Looks) -> ErrorAndUse:
    distances = np.abs(np.asarray(mu_std, dtype=np.float64))
    found = error_and_use(distances.ravel(), looks)
    return ErrorAndUse(*(part.reshape(distances.shape) for part in found))


def error_and_use(distances: Floats, looks: Looks) -> ErrorAndUse:
    """Return error and use for distances |μ_std|, each of shape (distances,)."""
    error = np.zeros(distances.size)
    use = np.full(distances.size, looks.shares[0])
    if math.inf in looks.limits:
        return ErrorAndUse(error, np.ones(distances.size))
    shares = np.array(looks.shares)
    times = shares[:-1] / (1.0 - shares[:-1])
    # Standard deviation of the statistic at a look, given that at the next one.
    spreads = np.sqrt(np.diff(times) / times[1:])
    came: _Came | None = None
    for j, limit in enumerate(looks.limits):
        scale = min([1.0, *spreads[max(j - 1, 0) : j + 1]])
        inner = _rule(0.0, limit, scale)
        stop = limit + _REACH if came is None else min(limit + _REACH, came.farthest)
        outer = _rule(limit, stop, scale)
        inside, outside = (1.0 if came is None else came.given(r.points) for r in (inner, outer))
        root = math.sqrt(times[j])
        # Farther away the test has stopped before, on the right side.
        near = np.flatnonzero(distances * root < limit + _REACH)
        shifts = distances[near, None] * root
        error[near] += _density(outer.points + shifts) @ (outer.weights * outside)
        weights = inner.weights * inside
        goes_on = (_density(inner.points - shifts) + _density(inner.points + shifts)) @ weights
        use[near] += (shares[j + 1] - shares[j]) * goes_on
        if not (goes_on > _NOBODY).any() or j == spreads.size:
            break
        came = _Came(inner.points, weights, limit, spreads[j])
    return ErrorAndUse(error, use)


class _Rule(NamedTuple):
    """Points and weights of a rule of integration."""

    points: Floats
    weights: Floats


class _Came:
    """The tests that have come through all looks so far, by their statistic at the last one.

    Parameters
    ----------
    points, weights : ndarray, shape (P,)
        Points in [0, limit], ascending, and the weights of a rule times h there, which is even.
    limit
        Limit of the last look.
    spread
        Standard deviation of the statistic there, given that at the next look.
    """

    def __init__(self, points: Floats, weights: Floats, limit: float, spread: float) -> None:
        self._points = np.concatenate([-points[::-1], points])
        self._weights = np.concatenate([weights[::-1], weights])
        self._spread = spread
        self._slope = math.sqrt(1.0 - spread**2)
        #: Statistic at the next look above which hardly any test has come through.
        self.farthest = (limit + _REACH * spread) / self._slope

    def given(self, statistics: Floats) -> Floats:
        """Return the share that came through of the tests with some statistics at the next look."""
        centres, reach = self._slope * statistics, _REACH * self._spread
        first = np.searchsorted(self._points, centres - reach)
        count = int((np.searchsorted(self._points, centres + reach) - first).max())
        # Points beyond the last one have no weight.
        points = np.append(self._points, np.full(count, math.inf))
        weights = np.append(self._weights, np.zeros(count))
        within = first[:, None] + np.arange(count)
        densities = _density((points[within] - centres[:, None]) / self._spread) / self._spread
        return np.einsum("ij,ij->i", densities, weights[within])


def _density(x: Floats) -> Floats:
    return np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


def _rule(start: float, stop: float, scale: float) -> _Rule:
    """Return a rule on an interval for integrands that vary as quickly as a scale."""
    length = max(stop - start, 0.0)
    count = max(_FEWEST_POINTS, math.ceil(_POINTS_PER_SCALE * length / scale))
    # In steps, so that a rule serves many looks.
    points, weights = _legendre(16 * -(-count // 16))
    return _Rule(start + 0.5 * length * (1.0 + points), 0.5 * length * weights)


@cache
def _legendre(count: int) -> tuple[Floats, Floats]:
    return np.polynomial.legendre.leggauss(count)
