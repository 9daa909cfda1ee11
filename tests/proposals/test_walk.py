"""Walks, and moves that end at zero: the densities that they are corrected by."""

import numpy as np
import pytest
from scipy.stats import chi2, norm, truncnorm

from law.statistical.budget import LEVEL
from proposals.proposing import CENTRE, COVARIANCE, proposed, repeated
from pymc_minibatch_mh import RandomWalk
from pymc_minibatch_mh.native.library import function
from pymc_minibatch_mh.proposals.mixture import LowerBoundedNumbers, MixtureNumbers

OWN = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 0.5]])
DRAWS = 4_000
#: What the steps of a walk are distributed by.
SHAPES = {
    "laplace": (RandomWalk(0.7), COVARIANCE),
    "identity": (RandomWalk(0.7, "identity"), np.eye(3)),
    "given": (RandomWalk(0.7, OWN), OWN),
}


def surprise(walk, covariance, first):
    """Return the p-values of too short and too long steps."""
    rng = np.random.default_rng(41)
    position = CENTRE + 5.0
    new, log_q, _ = repeated(position, walk.record(3), rng, DRAWS, first)
    assert not log_q.any()
    assert (new[:, :first] == position[:first]).all()
    precision = np.linalg.inv(0.49 * covariance)[first:, first:]
    white = np.linalg.cholesky(precision).T @ (new - position)[:, first:].T
    # Every coordinate has its own sum, so that one that is too long does not hide behind another.
    tails = chi2(DRAWS).cdf((white**2).sum(axis=1))
    crossed = (white[0] * white[-1]).sum() / np.sqrt(DRAWS) if len(white) > 1 else 0.0
    return min(tails.min(), (1.0 - tails).min(), chi2(1).sf(crossed**2))


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("shape", SHAPES)
def test_steps_have_the_covariance_that_was_asked_for(shape, first):
    walk, covariance = SHAPES[shape]
    assert surprise(walk, covariance, first) > LEVEL


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
    mixture = MixtureNumbers(float(scale), weights, np.array([0.0 if rho == 1.0 else rho]))
    return LowerBoundedNumbers(mixture, order, len(ends), factor, whitener, TILT)


def log_density(of, rho, first, here, there):
    """Return log q(there|here), coordinate by coordinate, up to the constant that is of both."""
    white = [of.whitener @ (x[of.order] - CENTRE[of.order]) for x in (here, there)]
    scale = of.mixture.scale if rho == 1.0 else np.sqrt(1.0 - rho**2)
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


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("rho", [-0.9, -0.3, 0.0, 0.5, 0.95, 1.0])
def test_density_ratio_is_that_of_the_truncated_densities(rho, first):
    rng, of = np.random.default_rng(4), numbers(rho, first)
    positions = np.abs(CENTRE + 2.0 * rng.standard_normal((30, 3)))
    new, log_q, components = proposed(positions, of, rng, first)
    assert (components == (0 if rho == 1.0 else 1)).all()
    for here, there, found in zip(positions, new, log_q, strict=True):
        ratio = log_density(of, rho, first, there, here) - log_density(of, rho, first, here, there)
        assert found == pytest.approx(ratio, abs=1e-9)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("rho", [-0.3, 0.0, 0.95, 1.0])
def test_no_move_leaves_the_support(rho, first):
    rng, of = np.random.default_rng(5), numbers(rho, first, scale=3.0)
    positions = np.abs(CENTRE + 0.1 * rng.standard_normal((2_000, 3)))
    new, *_ = proposed(positions, of, rng, first)
    assert (new[:, ENDS[first]] >= 0.0).all()
    assert (new[:, :first] == positions[:, :first]).all()
    # The other is not truncated.
    free = [k for k in range(first, 3) if k not in ENDS[first]]
    assert (new[:, free] < 0.0).any() or rho == 0.95


@pytest.mark.parametrize("bound", [-40.0, -1.0, 0.0, 0.49, 0.51, 3.0, 7.2, 30.0, 300.0])
def test_shares_are_those_of_the_normal_distribution(bound):
    share = function("mh_log_share_above")(bound)
    assert share == pytest.approx(norm.logsf(bound), rel=1e-12, abs=1e-300)
