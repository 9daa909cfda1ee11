"""Moves that end at zero: the densities that they are drawn from, and that are corrected for."""

import numpy as np
import pytest
from scipy.stats import norm, truncnorm

from every import every
from proposals.proposing import CENTRE, COVARIANCE, proposed
from pymc_minibatch_mh.proposals.mixture import BorderedNumbers, log_share_above, normal_above

#: Coordinates that end at zero, after those of other steps.
ENDS = {0: [2, 0], 1: [2]}
TILT = np.array([-0.7, 0.4, 0.2])


def numbers(rho, first=0, scale=0.8):
    """Return a mixture of a walk and one Laplace component; a `rho` of one is the walk."""
    ends = ENDS[first]
    rest = [k for k in range(first, 3) if k not in ends]
    order = np.array([*range(first), *ends, *rest])
    factor = np.linalg.cholesky(COVARIANCE[np.ix_(order, order)])
    weights = np.array([1.0, 0.0] if rho == 1.0 else [0.0, 1.0])
    whitener = np.ascontiguousarray(np.linalg.inv(factor))
    own = float(scale), weights, np.array([0.0 if rho == 1.0 else rho])
    return BorderedNumbers(*own, order, len(ends), factor, whitener, TILT)


def log_density(of, rho, first, here, there):
    """Return log q(there|here), coordinate by coordinate, up to the constant that is of both."""
    white = [of.whitener @ (x[of.order] - CENTRE[of.order]) for x in (here, there)]
    scale = of.scale if rho == 1.0 else np.sqrt(1.0 - rho**2)
    total = 0.0
    for i in range(first, 3):
        mean = of.tilt[i] + rho * (white[0][i] - of.tilt[i])
        if i < first + of.n_ends:
            least = -(CENTRE[of.order[i]] + of.factor[i, :i] @ white[1][:i]) / of.factor[i, i]
            low = (least - mean) / scale
            total += truncnorm.logpdf(white[1][i], low, np.inf, mean, scale)
        else:
            total += norm.logpdf(white[1][i], mean, scale)
    return total


@every("first", [0, 1])
@every("rho", [-0.9, -0.3, 0.0, 0.5, 0.95, 1.0])
def test_density_ratio_is_that_of_the_truncated_densities(rho, first):
    rng, of = np.random.default_rng(4), numbers(rho, first)
    positions = np.abs(CENTRE + 2.0 * rng.standard_normal((30, 3)))
    new, log_q, components = proposed(positions, of, rng, first)
    assert (components == (0 if rho == 1.0 else 1)).all()
    for here, there, found in zip(positions, new, log_q, strict=True):
        ratio = log_density(of, rho, first, there, here) - log_density(of, rho, first, here, there)
        assert found == pytest.approx(ratio, abs=1e-9)


@every("first", [0, 1])
@every("rho", [-0.3, 0.0, 0.95, 1.0])
def test_no_move_leaves_the_support(rho, first):
    rng, of = np.random.default_rng(5), numbers(rho, first, scale=3.0)
    positions = np.abs(CENTRE + 0.1 * rng.standard_normal((2_000, 3)))
    new, *_ = proposed(positions, of, rng, first)
    assert (new[:, ENDS[first]] >= 0.0).all()
    assert (new[:, :first] == positions[:, :first]).all()
    # The other is not truncated.
    free = [k for k in range(first, 3) if k not in ENDS[first]]
    assert (new[:, free] < 0.0).any() or rho == 0.95


@every("bound", [-40.0, -1.0, 0.0, 0.49, 0.51, 3.0, 30.0, 300.0])
def test_shares_are_those_of_the_normal_distribution(bound):
    assert log_share_above(bound) == pytest.approx(norm.logsf(bound), rel=1e-12, abs=1e-300)


@every("bound", [-3.0, 0.0, 0.49, 0.51, 4.0, 40.0])
def test_draws_exceed_their_bound(bound):
    rng = np.random.default_rng(6)
    draws = np.array([normal_above(bound, rng) for _ in range(500)])
    assert (draws > bound).all()
