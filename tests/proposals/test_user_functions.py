"""What users' moves call: Poisson numbers as NumPy draws them, and gradients of batches."""

import numpy as np
import pytest
from numba import njit

from pymc_minibatch_mh import CustomProposal, rows_gradient
from pymc_minibatch_mh.errors import MinibatchError
from pymc_minibatch_mh.proposals.user_functions import sample_poisson

DRAWS = 200_000
#: Where the method changes, and around.
MEANS = [0.0, 1e-12, 1.0, np.nextafter(10.0, 0.0), 10.0, 11.0, 12.0, 35.0, 1e5, 1e12]


@njit
def own(rng, mean, out):
    for i in range(out.size):
        out[i] = sample_poisson(rng, mean)


def both(function, mean):
    """Return what a compiled function draws and what NumPy does, and the next number of either."""
    ours, theirs = np.random.default_rng(5), np.random.default_rng(5)
    drawn = np.empty(DRAWS)
    function(ours, mean, drawn)
    expected = theirs.poisson(mean, DRAWS)
    return np.append(drawn, ours.random()), np.append(expected, theirs.random())


@pytest.mark.parametrize("mean", MEANS)
def test_poisson_numbers_are_those_of_numpy(mean):
    np.testing.assert_array_equal(*both(own, mean))


def of_another_size(position, new, rng, state, metric, rows):
    rows_gradient(rows, position, np.empty(position.size + 1))
    return 0.0


def test_a_gradient_of_another_size_is_refused():
    own = CustomProposal(of_another_size, batch_size=10)
    with pytest.raises(MinibatchError, match="takes a position and an array of its size"):
        own.check()


def of_a_part(position, new, rng, state, metric, rows):
    """Write gradients of whole arrays and of strided ones, which are the same."""
    wide = np.zeros((position.size, 2))
    wide[:, 0] = position
    one, other = np.empty(position.size), np.zeros((position.size, 2))
    first = rows_gradient(rows, position, one)
    if first != rows_gradient(rows, wide[:, 0], other[:, 1]):
        raise ValueError("another value")
    for i in range(position.size):
        if one[i] != other[i, 1] or other[i, 0] != 0.0:
            raise ValueError("another gradient")
        new[i] = position[i] + state[0] * rng.standard_normal()
    return 0.0


def test_gradients_are_of_any_arrays():
    assert CustomProposal(of_a_part, state=[0.6], batch_size=10).check(random_seed=1) < 6.0
