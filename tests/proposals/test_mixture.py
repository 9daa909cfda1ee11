import numpy as np
import pytest
from scipy.stats import chi2, multivariate_normal

from law.statistical.budget import FAR, LEVEL
from proposals.proposing import CENTRE, COVARIANCE, proposed, repeated
from pymc_minibatch_mh import Laplace, Mixture, RandomWalk
from pymc_minibatch_mh.native.statistics import TALLY
from pymc_minibatch_mh.proposals import mixture

TARGET = multivariate_normal(CENTRE + 0.2, 1.3 * COVARIANCE)


def moved(proposal, correct, rng, particles=6_000, steps=4, first=0):
    """Start particles exactly in the target and move them by Metropolis–Hastings."""
    numbers = proposal.record(3)
    positions = TARGET.rvs(particles, random_state=rng)
    for _ in range(steps):
        new, log_q, _ = proposed(positions, numbers, rng, first)
        log_ratio = TARGET.logpdf(new) - TARGET.logpdf(positions) + correct * log_q
        accept = np.log(rng.random(particles)) < log_ratio
        positions[accept] = new[accept]
    return positions


def largest_z(positions):
    """Return the largest standardised error of the whitened means and second moments."""
    root = np.linalg.cholesky(TARGET.cov)
    white = np.linalg.solve(root, (positions - TARGET.mean).T)
    count = white.shape[1]
    means = white.mean(axis=1) * np.sqrt(count)
    squares = ((white**2).mean(axis=1) - 1.0) * np.sqrt(count / 2.0)
    return max(np.abs(means).max(), np.abs(squares).max())


@pytest.mark.parametrize("first", [0, 1, 2])
@pytest.mark.parametrize("proposal", [RandomWalk(), Laplace(), Mixture()])
def test_moves_leave_the_target_invariant(proposal, first):
    rng = np.random.default_rng(12 if first else 8)
    assert largest_z(moved(proposal, 1.0, rng, first=first)) < FAR


@pytest.mark.parametrize("correct", [0.0, -1.0])
def test_moves_without_their_density_ratio_do_not(correct):
    assert largest_z(moved(Laplace(), correct, np.random.default_rng(8))) > 8.0


@pytest.mark.parametrize("rho", [-0.9, -0.3, 0.0, 0.5, 0.95])
def test_density_ratio_is_that_of_the_normal_densities(rho):
    rng = np.random.default_rng(9)
    numbers = Laplace((rho,)).record(3)

    def log_density(there, here):
        mean = CENTRE + rho * (here - CENTRE)
        return multivariate_normal(mean, (1.0 - rho**2) * COVARIANCE).logpdf(there)

    for _ in range(20):
        position = CENTRE + 3.0 * rng.standard_normal(3)
        (new,), (log_q,), (component,) = repeated(position, numbers, rng, 1)
        assert component == 1
        assert log_q == pytest.approx(log_density(position, new) - log_density(new, position))


@pytest.mark.parametrize("first", [0, 1, 2])
@pytest.mark.parametrize("rho", [-0.3, 0.0, 0.8])
def test_conditional_moves_have_the_conditional_mean_and_covariance(rho, first):
    rng = np.random.default_rng(13)
    numbers = Laplace((rho,)).record(3)
    position = CENTRE + np.array([1.0, -2.0, 0.5])
    drawn, *_ = repeated(position, numbers, rng, 4_000, first)
    assert (drawn[:, :first] == position[:first]).all()
    precision = np.linalg.inv(COVARIANCE)
    own, given = precision[first:, first:], precision[first:, :first]
    mean = CENTRE[first:] - np.linalg.solve(own, given @ (position - CENTRE)[:first])
    noise = drawn[:, first:] - mean - rho * (position[first:] - mean)
    white = np.linalg.cholesky(own / (1.0 - rho**2)).T @ noise.T
    assert np.abs(white.mean(axis=1)).max() < FAR / np.sqrt(4_000)
    assert np.abs(np.cov(white) - np.eye(3 - first)).max() < FAR / np.sqrt(2_000)


def test_components_are_drawn_with_their_weights():
    rng = np.random.default_rng(12)
    numbers = Mixture(rho=(0.0, 0.5), walk_weight=0.2).record(3)
    numbers = numbers._replace(weights=np.array([0.2, 0.7, 0.1]))
    drawn = np.bincount(repeated(CENTRE, numbers, rng, 4_000)[2], minlength=3)
    expected = 4_000 * np.array([0.2, 0.7, 0.1])
    assert chi2(2).sf(((drawn - expected) ** 2 / expected).sum()) > LEVEL


def tallies(proposal, accept=0.5, best=None, tried=200.0):
    table = np.zeros(proposal.n_components, TALLY)
    table["tried"] = tried
    table["accept"] = accept * tried
    table["jump"] = table["square_jump"] = 0.1 * tried
    if best is not None:
        table["jump"][best] = table["square_jump"][best] = 4.0 * tried
    return table


def adapted(proposal, table, target=0.234, numbers=None):
    numbers = proposal.record(3) if numbers is None else numbers
    return proposal.adapted(numbers, table, table, target, 3)


@pytest.mark.parametrize("best", range(6))
def test_weights_keep_their_floors(best):
    proposal = Mixture()
    numbers = adapted(proposal, tallies(proposal, best=best))
    weights = numbers.weights
    local = np.array(proposal.rho) >= mixture.LOCAL_RHO
    assert weights.sum() == pytest.approx(1.0)
    assert weights.argmax() == best
    assert weights[1:].min() >= mixture.MIN_WEIGHT
    assert weights[0] >= mixture.WALK_FLOORS[0]
    assert weights[1:][local].sum() >= 0.1 * (1.0 - 1e-12)
    np.testing.assert_array_equal(numbers.rho, proposal.rho)


@pytest.mark.parametrize(
    ("bold", "local", "floor"),
    [(0.99, 1.0, 0.01), (0.5, 0.5, 0.01), (0.8, 0.95, 0.1079), (0.2, 0.9, 0.2), (0.0, 0.0, 0.2)],
)
def test_the_walk_has_what_the_gaussian_approximation_loses(bold, local, floor):
    proposal = Mixture()
    table = tallies(proposal, accept=bold)
    table["accept"][5] = local * table["tried"][5]
    assert mixture.walk_floor(table, proposal.rho) == pytest.approx(floor, abs=1e-4)


def test_the_scale_follows_the_acceptance_less_and_less():
    proposal = RandomWalk(scale=1.0)

    def scale(accept, tried=200.0, tried_in_all=200.0):
        window = tallies(proposal, accept, tried=tried)
        total = tallies(proposal, accept, tried=tried_in_all)
        numbers = proposal.adapted(proposal.record(3), window, total, 0.234, 3)
        assert proposal.scaling(numbers) == numbers.scale
        return numbers.scale

    assert scale(0.05) < 1.0 == pytest.approx(scale(0.234))
    assert scale(0.9) > 1.5
    # Few tries say little, and many before the window leave less to learn.
    assert 1.0 < scale(0.9, 1.0, 1.0) < 1.1
    assert 1.0 < scale(0.9, tried_in_all=20_000.0) < scale(0.9)


def test_a_move_that_reads_more_rows_is_less_efficient():
    proposal = Mixture()
    table = tallies(proposal)
    table["rows"][1] = 1e6
    merits = mixture.component_efficiency(table, 3)
    assert merits[1] < merits[2] == merits[3]


def test_antithetic_moves_do_not_win_on_means_alone():
    proposal = Mixture(rho=(-0.9, 0.0))
    table = tallies(proposal, best=2)
    table["jump"][1] = 2.0 * 3 * 200.0 * 1.9
    table["square_jump"][1] = 0.01 * 200.0
    assert mixture.component_efficiency(table, 3).argmax() == 2


@pytest.mark.parametrize(("accept", "chosen"), [(0.5, 1), (0.48, 1), (0.4, 2)])
def test_antithetic_moves_are_for_posteriors_that_accept_them_as_often(accept, chosen):
    """Else some coordinate is not normal, and theirs would be the smallest ESS."""
    proposal = Mixture()
    table = tallies(proposal, best=1)
    table["accept"][1] = accept * table["tried"][1]
    table["jump"][2] *= 2.0
    assert adapted(proposal, table).weights.argmax() == chosen
