"""Walks on orthonormal matrices: they stay there, are symmetric, and leave the uniform law."""

import numpy as np
import pymc as pm
import pytest
from scipy.stats import kstest, ortho_group

from law.statistical.budget import FAR, LEVEL
from papers import stiefel
from papers.stiefel import StiefelWalk
from proposals.proposing import walked_by
from pymc_minibatch_mh import PenaltyMH
from pymc_minibatch_mh.errors import SettingError

#: Shapes of matrices with orthonormal columns, rows, and both.
SHAPES = [(4, 2), (2, 4), (3, 3)]


def linked(shape, scale, first=0, others=0):
    return stiefel.linked(scale, first, shape, shape[0] * shape[1] + first + others)


def walked(own, start, rng, steps=1):
    """Return where a walk of some steps ends, all of them taken, and its last density ratio."""
    return walked_by(own, start.ravel(), rng, steps)


def uniform(shape, rng):
    """Return a matrix of the uniform law."""
    side = max(shape)
    whole = ortho_group.rvs(side, random_state=rng)
    return np.ascontiguousarray(whole[: shape[0], : shape[1]])


def products(matrix):
    return matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T


@pytest.mark.parametrize("shape", SHAPES)
def test_a_walk_stays_on_the_manifold_to_rounding(shape):
    rng = np.random.default_rng(1)
    end, log_q = walked(linked(shape, 0.4), uniform(shape, rng), rng, steps=20_000)
    np.testing.assert_allclose(products(end.reshape(shape)), np.eye(min(shape)), atol=5e-15)
    assert log_q == 0.0


def test_steps_and_their_reverse_are_equally_likely():
    """X' = QX of a square X: Q and its transpose, which leads back, have one law."""
    rng, count = np.random.default_rng(3), 4_000
    own, odd = linked((3, 3), 0.6), np.empty((count, 3, 3))
    for k in range(count):
        start = uniform((3, 3), rng)
        turn = walked(own, start, rng)[0].reshape(3, 3) @ start.T
        odd[k] = (turn - turn.T) * (1.0 + np.trace(turn))
    for i, j in ((0, 1), (0, 2), (1, 2)):
        values = odd[:, i, j]
        assert abs(values.mean()) < FAR * values.std() / np.sqrt(count)
        assert abs((values**3).mean()) < FAR * (values**3).std() / np.sqrt(count)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_uniform_law_stays(shape):
    """Squared length of the projection of an axis: Beta; products of entries: uncorrelated."""
    rng, count = np.random.default_rng(4), 3_000
    long, short = max(shape), min(shape)
    own, ends = linked(shape, 0.5), np.empty((count, *shape))
    for k in range(count):
        ends[k] = walked(own, uniform(shape, rng), rng, steps=3)[0].reshape(shape)
    # The square of an entry of a uniform unit vector is Beta(1/2, (n-1)/2).
    for cell in ((0, 0), (shape[0] - 1, shape[1] - 1)):
        found = kstest(ends[:, *cell] ** 2, "beta", args=(0.5, 0.5 * (long - 1)))
        assert found.pvalue > LEVEL
    cross = ends[:, 0, 0] * ends[:, 1, 1]
    assert abs(cross.mean()) < FAR * cross.std() / np.sqrt(count)
    assert short > 1


def test_a_position_off_the_manifold_goes_nowhere():
    start = np.eye(3)
    start[0, 0] = 1.1
    assert np.isnan(walked(linked((3, 3), 0.1), start, np.random.default_rng(6))[1])
    start[0, 0] = np.nan
    assert np.isnan(walked(linked((3, 3), 0.1), start, np.random.default_rng(6))[1])


def two_matrices():
    rng = np.random.default_rng(7)
    x = rng.standard_normal((1_200, 4))
    with pm.Model() as model:
        w, v = pm.Normal("w", shape=(2, 2)), pm.Normal("v", shape=(2, 2))
        pm.Normal("y", (x[:, :2] @ w + x[:, 2:] @ v).sum(axis=1), 1.0, observed=x[:, 0])
    return model


def test_where_the_matrix_lies_is_read_from_the_model():
    model = two_matrices()
    step = PenaltyMH([model["v"]], model=model, taylor_order=0, proposal=StiefelWalk(0.2))
    found = step.program.sampler.proposal.linked(step.chain.state.records.proposal, step.plan)
    assert found.state.tolist() == [0.2, 4, 2, 2, 2, 1]


def test_more_than_a_matrix_is_refused():
    model = two_matrices()
    message = r"^proposal=StiefelWalk\(\) moves one matrix, and this step moves 'w' of shape \(2, 2"
    with pytest.raises(SettingError, match=message):
        PenaltyMH(model=model, taylor_order=0, proposal=StiefelWalk(0.2))
