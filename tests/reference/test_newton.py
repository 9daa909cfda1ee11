"""The search for a mode on log-densities that are written down, one difficulty each."""

import numpy as np
import pytest

from pymc_minibatch_mh.errors import ModeError
from pymc_minibatch_mh.reference.density import Density
from pymc_minibatch_mh.reference.newton import first_found, newton_search
from reference.formulas import derivatives, passes_of, quadratic

NAMES = ["a", "b"]


def searched(likelihood, start, prior=None):
    """Return the mode, and at how many positions derivatives were taken."""
    asked = []

    def counted(theta, *, hessian, rows=None):
        asked.append(theta)
        assert np.abs(theta).max() < 1e6, "the search leads away"
        with np.errstate(over="ignore"):
            return derivatives(*likelihood(theta), hessian=hessian)

    def flat(theta, *, hessian):
        return quadratic(0.0, np.zeros((theta.size, theta.size)), theta, hessian=hessian)

    start = np.array(start, dtype=float)
    density = Density(passes_of(counted, prior or flat), NAMES[: start.size], 1.0)
    mode, _ = newton_search(density, start, 1e-4)
    return mode, len(asked)


def bell(theta):
    """−Σ log cosh: full Newton steps from afar lead ever farther away."""
    return -np.log(np.cosh(theta)).sum(), -np.tanh(theta), -np.diag(np.cosh(theta) ** -2.0)


def test_a_step_that_is_too_long_is_halved():
    # Along one coordinate a step of one would do from far off, but not from nearby.
    assert searched(bell, [1.3])[0].position.item() == pytest.approx(0.0, abs=1e-3)
    mode, _ = searched(bell, [3.0, -2.0])
    np.testing.assert_allclose(mode.position, 0.0, atol=1e-3)
    np.testing.assert_allclose(mode.total.hessian, -np.eye(2), atol=1e-3)


def two_modes(theta):
    """A saddle lies at the origin between modes at a = −1 and 1."""
    a, b = theta
    value = -((a**2 - 1.0) ** 2) - 0.5 * b**2
    gradient = np.array([-4.0 * a * (a**2 - 1.0), -b])
    return value, gradient, np.diag([4.0 - 12.0 * a**2, -1.0])


def test_a_saddle_is_left_for_a_mode():
    mode, _ = searched(two_modes, [0.0, 0.5])
    np.testing.assert_allclose(np.abs(mode.position), [1.0, 0.0], atol=1e-3)
    assert mode.total.hessian[0, 0] == pytest.approx(-8.0, rel=1e-3)


def three_modes(theta):
    """Heights of 10, 0 and 5 at 0, 12 and −15, of which the last is the widest."""
    z, width = (theta - [0.0, 12.0, -15.0]) / [1.0, 1.0, 3.0], np.array([1.0, 1.0, 3.0])
    logs = np.array([10.0, 0.0, 5.0]) - 0.5 * z**2
    value = np.logaddexp.reduce(logs)
    shares, slopes = np.exp(logs - value), -z / width
    slope = shares @ slopes
    return value, np.array([slope]), np.array([[shares @ (slopes**2 - width**-2.0) - slope**2]])


def test_a_step_over_the_next_mode_is_not_the_last_word():
    # Near 6.45 the curvature is small and positive: a Newton step from there leads beyond zero.
    slope, curvature = three_modes(np.array([6.45]))[1:]
    assert 6.45 + slope[0] / curvature[0, 0] < -5.0
    mode, _ = searched(three_modes, [6.45])
    assert mode.position.item() == pytest.approx(0.0, abs=1e-3)


def plain_and_mode(theta):
    """A plain of height 10 from −4 to 4, a mode of height 5 at −15, and one of height 0 at 12."""
    (a,) = theta
    logs = np.array([10.0, 5.0 - 2.0 * (a + 15.0) ** 2, -0.5 * (a - 12.0) ** 2])
    for end in (a + 4.0, 4.0 - a):
        logs[0] -= np.logaddexp(0.0, -5.0 * end)
    rise, fall = (1.0 / (1.0 + np.exp(5.0 * end)) for end in (a + 4.0, 4.0 - a))
    slopes = np.array([5.0 * (rise - fall), -4.0 * (a + 15.0), 12.0 - a])
    bends = np.array([-25.0 * (rise * (1.0 - rise) + fall * (1.0 - fall)), -4.0, -1.0])
    value = np.logaddexp.reduce(logs)
    shares = np.exp(logs - value)
    slope = shares @ slopes
    return value, np.array([slope]), np.array([[shares @ (slopes**2 + bends) - slope**2]])


def test_a_plain_that_is_higher_is_no_mode():
    mode, _ = searched(plain_and_mode, [7.0])
    assert mode.position.item() == pytest.approx(-15.0, abs=1e-3)


def falling(theta):
    """Derivatives that promise a rise which is not there, most of it along b."""
    return -float((theta != 1.0).any()), -(theta - [0.0, 50.0]), -np.eye(2)


def test_a_point_that_cannot_be_left_names_the_coordinate_of_the_longest_step():
    with pytest.raises(ModeError, match=r"^'b' is stuck on the way to a mode"):
        searched(falling, [1.0, 1.0])


@pytest.mark.parametrize("scale", [0.01, 0.1, 1.0])
def test_a_kink_of_the_prior_is_averaged_over_as_wide_an_interval_as_the_posterior(scale):
    def likelihood(theta):
        return -0.5 * (theta - 0.02) @ (theta - 0.02) * 400.0, -400.0 * (theta - 0.02), [[-400.0]]

    def prior(theta, *, hessian):
        value, gradient = -np.abs(theta).sum() / scale, -np.sign(theta) / scale
        return derivatives(value, gradient, np.zeros((1, 1)), hessian=hessian)

    mode, _ = searched(lambda theta: [*map(np.asarray, likelihood(theta))], [1.0], prior)
    grid = np.linspace(-0.5, 0.5, 200_001)
    log_density = -200.0 * (grid - 0.02) ** 2 - np.abs(grid) / scale
    weights = np.exp(log_density - log_density.max())
    mean = np.average(grid, weights=weights)
    sd = np.sqrt(np.average((grid - mean) ** 2, weights=weights))
    assert abs(mode.position.item() - mean) < 0.5 * sd
    assert 0.6 < (-mode.total.hessian.item()) ** -0.5 / sd < 1.6


def test_the_first_start_that_leads_somewhere_is_taken_and_the_first_reason_is_told():
    def search(start):
        if start < 3:
            raise ModeError(f"start {start}")
        return start

    assert first_found(search, iter([1, 2, 3, 4])) == 3
    with pytest.raises(ModeError, match="start 1"):
        first_found(search, [1, 2])
