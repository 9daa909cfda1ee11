"""The second derivative of log Γ."""

import numpy as np
from scipy.special import polygamma

from every import every
from pymc_minibatch_mh.functions.gamma import trigamma


@every(("low", "high"), [(1e-8, 1e-2), (1e-2, 1.0), (1.0, 30.0), (30.0, 1e8)])
def test_trigamma_is_that_of_scipy(low, high):
    points = np.geomspace(low, high, 2_000)
    ours = np.array([trigamma(x) for x in points])
    assert np.abs(ours / polygamma(1, points) - 1.0).max() < 2e-14


def test_trigamma_of_negative_numbers_follows_from_the_recurrence():
    points = np.array([-3.7, -2.5, -1.2, -0.3])
    ours = np.array([trigamma(x) - trigamma(x + 1.0) for x in points])
    assert np.allclose(ours, 1.0 / points**2, rtol=1e-10)
