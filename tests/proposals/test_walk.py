import cloudpickle
import numpy as np
from scipy.stats import chi2

from every import every
from proposals.proposing import CENTRE, COVARIANCE, repeated
from pymc_minibatch_mh import RandomWalk
from pymc_minibatch_mh.kernels.roles import N_TALLIES, TALLY_ACCEPT, TRIED
from statistical.budget import LEVEL

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


@every("first", [0, 1])
@every("shape", SHAPES)
def test_steps_have_the_covariance_that_was_asked_for(shape, first):
    walk, covariance = SHAPES[shape]
    assert surprise(walk, covariance, first) > LEVEL


@every("shape", SHAPES)
def test_steps_of_another_covariance_are_noticed(shape):
    walk, covariance = SHAPES[shape]
    other = next(c for name, (_, c) in SHAPES.items() if name != shape)
    assert surprise(walk, other, 0) < LEVEL
    assert surprise(walk, 1.2 * covariance, 0) < LEVEL


@every("adapt", [True, False])
def test_the_scale_adapts_only_where_it_may(adapt):
    walk = RandomWalk(0.05, "identity", adapt=adapt)
    window = np.zeros((1, N_TALLIES))
    window[0, [TRIED, TALLY_ACCEPT]] = 50.0, 45.0
    record = walk.adapted(walk.record(3), window, window, 0.234, 3)
    assert (record.scale > 0.05) == adapt
    assert adapt or record.scale == 0.05


def test_a_covariance_is_kept_as_it_was():
    given = OWN.copy()
    walk = RandomWalk(covariance=given)
    before = repr(walk)
    given *= 2.0
    np.testing.assert_array_equal(walk.record(3).factor, np.linalg.cholesky(OWN))
    again = cloudpickle.loads(cloudpickle.dumps(walk))
    assert repr(again) == repr(walk) == before
    assert repr(RandomWalk(covariance=given)) != before
    assert len({repr(RandomWalk()), repr(RandomWalk(adapt=False)), before}) == 3
