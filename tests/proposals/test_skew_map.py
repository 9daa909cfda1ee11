"""The map of third order: its inverse, its density, and which models have it."""

import arviz as az
import mpmath
import numpy as np
import pymc as pm
import pytest

from law.statistical.budget import FAR
from proposals.proposing import CENTRE, FACTOR, proposed
from proposals.test_by_scales import tables
from proposals.test_by_scales import white_of as white_of_tables
from pymc_minibatch_mh import BarkerMinibatchMH, Laplace, Mixture, PenaltyMH, TunaMH
from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.native.skew_map import BEND, MAX_BEND, MEAN_OF_ROOT, SkewMap
from pymc_minibatch_mh.proposals.mixture import MixtureNumbers, TransformedNumbers
from pymc_minibatch_mh.reference.full_data import Derivatives
from pymc_minibatch_mh.reference.skewness import (
    _average_derivatives,
    independent_acceptance,
    variational,
)

ORDER = np.array([2, 0, 1])


def thirds(size=3, width=0.8, seed=4):
    """Symmetric S."""
    s = width * np.random.default_rng(seed).standard_normal((size, size, size))
    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    return sum(s.transpose(order) for order in orders) / 6.0


def skewed(s=None, negligible=0.0):
    return SkewMap.of_thirds(ORDER, CENTRE, FACTOR, thirds() if s is None else s, negligible)


def x_of(white, s):
    """The formula of the map for one draw, in mpmath: coordinates x, and log |dx/dw|."""
    w, x, log_slope = [mpmath.mpf(float(v)) for v in white], [], mpmath.mpf(0)
    for a, own in enumerate(w):
        turn = sum(s[a, b, c] * w[b] * w[c] for b in range(a) for c in range(a)) / 2
        exponent = max(-3, min(3, sum(s[a, a, b] * w[b] for b in range(a)) / 2))
        c = max(-MAX_BEND, min(MAX_BEND, BEND * s[a, a, a]))
        k = -c * MEAN_OF_ROOT - sum(s[a, b, b] for b in range(a)) / 2
        x.append(k + turn + mpmath.exp(exponent) * (own + c * (mpmath.sqrt(1 + own**2) - 1)))
        log_slope += exponent + mpmath.log(1 + c * own / mpmath.sqrt(1 + own**2))
    return np.array([float(v) for v in x]), float(log_slope)


#: Few and many standard deviations, with exponents and bends within their limits and beyond.
CASES = [(0.3, 0.5), (1.5, 0.8), (3.0, 3.0), (9.0, 8.0)]


@pytest.mark.parametrize(("reach", "width"), CASES)
def test_the_map_is_the_formula(reach, width):
    s = thirds(width=width)
    of = skewed(s)
    for white in reach * np.random.default_rng(1).standard_normal((20, 3)):
        x, log_slope = x_of(white, s)
        expected = CENTRE.copy()
        expected[ORDER] += FACTOR @ x
        position, log_volume = of.to_position(white)
        assert position == pytest.approx(expected, rel=1e-10)
        assert log_volume == pytest.approx(-log_slope, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize(("reach", "width"), CASES)
def test_map_is_inverted(reach, width):
    of = skewed(thirds(width=width))
    for white in reach * np.random.default_rng(1).standard_normal((20, 3)):
        position, there = of.to_position(white)
        back, here = of.whiten(position)
        assert back == pytest.approx(white, rel=1e-6, abs=1e-6)
        assert here == pytest.approx(there, abs=1e-6)


@pytest.mark.parametrize(("reach", "width"), CASES[:3])
def test_volume_is_that_of_differences(reach, width):
    of, step, volumes = skewed(thirds(width=width)), 1e-6, []
    for white in reach * np.random.default_rng(2).standard_normal((20, 3)):
        sides = [
            [of.to_position(white + side * step * e)[0] for e in np.eye(3)] for side in (1, -1)
        ]
        jacobian = (np.array(sides[0]) - sides[1]) / (2.0 * step)
        volumes.append(of.to_position(white)[1] + np.linalg.slogdet(jacobian)[1])
    # Up to the determinant of T, which is constant.
    assert np.ptp(volumes) < 1e-4


def test_density_to_third_order_is_that_of_the_posterior():
    """The density of x, with its cubic, is that of w to third order: what remains falls as S²."""
    w, remains = np.random.default_rng(7).standard_normal((400, 3)), []
    for width in (0.02, 0.04):
        s = thirds(width=width)
        # The term of one coordinate alone is no cubic, for the sake of its tails.
        s[range(3), range(3), range(3)] = 0.0
        of = SkewMap.of_thirds(np.arange(3), np.zeros(3), np.eye(3), s, 0.0)
        # An average of S over the normal distribution has a gradient of 0: a linear term.
        linear = -0.5 * np.einsum("abb->a", s)
        found = []
        for white in w:
            x, log_volume = of.to_position(white)
            cubic = np.einsum("abc,a,b,c->", s, x, x, x) / 6.0
            found.append(linear @ x + cubic - 0.5 * x @ x - log_volume + 0.5 * white @ white)
        remains.append(np.std(found))
    assert remains[1] / remains[0] == pytest.approx(4.0, rel=0.1)


def test_one_coordinate_keeps_its_mean_and_is_as_skewed_as_its_posterior():
    """A cubic in Hermite polynomials: c fits He3 to first order, and the mean of x is 0."""
    # Trapezoids are exact to rounding for smooth functions that vanish at both ends.
    points = np.linspace(-12.0, 12.0, 2_001)
    weights = np.exp(-0.5 * points**2)
    weights /= weights.sum()
    assert weights @ np.sqrt(1.0 + points**2) - 1.0 == pytest.approx(MEAN_OF_ROOT, abs=1e-9)
    root = np.sqrt(1.0 + points**2)
    change = points * (root - 1.0) - points / root
    least_squares = 1.0 / (weights @ (change * (points**3 - 3.0 * points)))
    assert 1.0 / 3.0 < BEND < least_squares
    x = [
        SkewMap.of_thirds(
            np.zeros(1, int), np.zeros(1), np.eye(1), np.full((1, 1, 1), 0.5), 0.0
        ).to_position(np.array([w]))[0][0]
        for w in points
    ]
    assert weights @ x == pytest.approx(0.0, abs=1e-8)
    assert weights @ np.array(x) ** 3 > 0.3


def test_no_third_derivatives_are_the_normal_proposal():
    of = skewed(np.zeros((3, 3, 3)))
    assert of.values.size == 0
    for white in np.random.default_rng(3).standard_normal((5, 3)):
        position, log_volume = of.to_position(white)
        expected = CENTRE.copy()
        expected[ORDER] += FACTOR @ white
        assert position == pytest.approx(expected, rel=1e-14)
        assert log_volume == 0.0


def test_small_monomials_are_left_out():
    s = thirds()
    everything, some = skewed(s), skewed(s, negligible=0.05)
    assert 0 < some.values.size < everything.values.size
    assert np.sum(everything.values**2) - np.sum(some.values**2) <= 0.05
    assert np.abs(some.values).min() > 0.0
    white = np.ones(3)
    assert some.whiten(some.to_position(white)[0])[0] == pytest.approx(white)


def numbers(component, tabled, rho=0.0, scale=0.7):
    weights = np.array([1.0, 0.0] if component == 0 else [0.0, 1.0])
    mixture = MixtureNumbers(scale, weights, np.array([rho]))
    # Behind tables the map leads to their coordinates, near 0.
    middle = SkewMap.of_thirds(np.arange(3), np.zeros(3), np.eye(3), thirds(width=0.5), 0.0)
    return TransformedNumbers(mixture, *((tables(), middle) if tabled else (None, skewed())))


def white_of(position, own):
    volume = 0.0
    if own.tables is not None:
        position, volume = white_of_tables(position, own.tables)
    white, inner = own.map.whiten(position)
    return white, volume + inner


@pytest.mark.parametrize("tabled", [False, True])
@pytest.mark.parametrize("rho", [-0.3, 0.0, 0.95, None])
def test_density_ratio_is_that_of_the_moves(rho, tabled):
    own = numbers(0 if rho is None else 1, tabled, rho or 0.0)
    rng = np.random.default_rng(3)

    def log_density(here, there):
        (start, _), (end, volume) = white_of(here, own), white_of(there, own)
        if rho is None:
            return -0.5 * np.sum((end - start) ** 2) / own.mixture.scale**2 + volume
        return -0.5 * np.sum((end - rho * start) ** 2) / (1.0 - rho**2) + volume

    positions = CENTRE + rng.standard_normal((40, 3))
    new, log_q, components = proposed(positions, own, rng)
    assert (components == (0 if rho is None else 1)).all()
    for here, there, found in zip(positions, new, log_q, strict=True):
        expected = log_density(there, here) - log_density(here, there)
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_variational_normal_of_a_gamma_variable():
    """log of a gamma variable of shape a: m, the variance and S have closed forms."""
    shape = 3.0
    # E a - exp(m + s²/2) = 0, and 1/s² = exp(m + s²/2) = a; S = -s³ a.
    deviation = shape**-0.5

    def slopes(z):
        rate = np.exp(z)
        return Derivatives(0.0, shape - rate, -np.diag(rate))

    found = variational(slopes, 1)
    assert found.mean[0] == pytest.approx(np.log(shape) - 0.5 / shape, abs=0.02 * deviation)
    assert found.factor[0, 0] == pytest.approx(deviation, rel=0.03)
    assert found.thirds[0, 0, 0] == pytest.approx(-deviation, rel=0.1)


def test_sweeps_that_do_not_settle_end():
    asked = []

    def slopes(z):
        asked.append(z)
        return Derivatives(0.0, np.ones(20), -np.eye(20))

    assert variational(slopes, 20) is None
    assert len(asked) == 3 * 2 * 20


def test_averages_of_a_cubic_are_exact():
    """Of S(z, z, z)/6: the mean gradient is S_abb/2, the mean Hessian 0, and S itself."""
    s, rng = thirds(5), np.random.default_rng(2)

    def slopes(z):
        return Derivatives(0.0, 0.5 * s @ z @ z, s @ z)

    first, second, third = _average_derivatives(slopes, np.zeros(5), np.eye(5), rng)
    assert first == pytest.approx(0.5 * np.einsum("abb->a", s))
    assert second == pytest.approx(np.zeros((5, 5)), abs=1e-12)
    assert third == pytest.approx(s)


def test_acceptance_rates_are_those_of_all_pairs():
    logs = np.random.default_rng(1).standard_normal(40)
    weights = np.exp(logs)
    pairs = np.minimum(1.0, weights[None, :] / weights[:, None]).mean(axis=1)
    expected = weights @ pairs / weights.sum()
    assert independent_acceptance(logs) == pytest.approx(expected)
    # Draws of zero density are never accepted, and leave others as they are.
    nowhere = np.full(40, -np.inf)
    both = independent_acceptance(np.concatenate([logs, nowhere]))
    assert both == pytest.approx(0.5 * expected)
    assert independent_acceptance(nowhere) == 0.0


def rare(events=25, rows=20_000):
    """A logistic regression whose few events make its posterior skewed."""
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((rows, 2)), np.zeros(rows)
    chances = np.exp(0.7 * x[:, 0] + 0.4 * x[:, 1])
    y[rng.choice(rows, events, replace=False, p=chances / chances.sum())] = 1.0
    with pm.Model() as model:
        intercept, slopes = pm.Normal("intercept", -6.0, 4.0), pm.Normal("slopes", shape=2)
        pm.Bernoulli("y", logit_p=intercept + pm.math.dot(x, slopes), observed=y)
    return model


@pytest.fixture(scope="module")
def skewed_step():
    with rare():
        return TunaMH()


def log_weights(step, place, count=300):
    logs = []
    for white in np.random.default_rng(8).standard_normal((count, step.plan.reference.size)):
        position, log_volume = place(white)
        density = step.target.log_prior(position) + step.target.log_likelihood(position)
        logs.append(density - log_volume + 0.5 * white @ white)
    return np.array(logs)


def test_a_skewed_posterior_is_proposed_by_its_map():
    with rare():
        skewed_step = TunaMH()
    plan = skewed_step.plan
    assert plan.scale_conditional is None
    assert plan.skew_map is not None
    reference = plan.reference
    plain = log_weights(skewed_step, lambda w: (reference.centre + reference.factor @ w, 0.0))
    mapped = log_weights(skewed_step, plan.skew_map.to_position)
    assert np.std(mapped) < 0.5 * np.std(plain)
    record = Mixture().record(3)
    assert isinstance(Mixture().linked(record, plan), TransformedNumbers)
    for plain in (Mixture(skewness=False), Laplace()):
        assert isinstance(plain.linked(record, plan), MixtureNumbers)


def test_an_ordinary_posterior_has_no_map():
    with rare(events=8_000):
        assert TunaMH().plan.skew_map is None


@pytest.mark.slow
def test_draws_by_the_map_are_those_of_importance_sampling(skewed_step):
    """Means, deviations and quantiles, from independence draws whose weights are known."""
    step, rng = skewed_step, np.random.default_rng(11)
    white = 1.1 * rng.standard_normal((20_000, 3))
    places = [step.plan.skew_map.to_position(w) for w in white]
    positions = np.array([position for position, _ in places])
    logs = [
        step.target.log_prior(x) + step.target.log_likelihood(x) - log_volume + 0.5 * w @ w / 1.21
        for (x, log_volume), w in zip(places, white, strict=True)
    ]
    weights = np.exp(np.array(logs) - np.max(logs))
    weights /= weights.sum()
    chain = Chain(step.program, np.random.default_rng(12), True)
    chain.advance(1_000)
    chain.stop_adapting()
    draws = chain.advance(20_000).positions
    for values, own in zip(positions.T, draws.T, strict=True):
        mean = weights @ values
        deviation = np.sqrt(weights @ (values - mean) ** 2)
        errors = deviation / np.sqrt([float(az.ess(own[None])), 1.0 / (weights**2).sum()])
        assert abs(own.mean() - mean) < FAR * np.linalg.norm(errors)
        assert own.std() == pytest.approx(deviation, rel=FAR * np.linalg.norm(errors) / deviation)
        order = np.argsort(values)
        low = values[order][np.searchsorted(np.cumsum(weights[order]), 0.01)]
        assert np.mean(own < low) == pytest.approx(0.01, abs=0.005)


def test_saved_steps_and_approximate_methods_have_the_same_map(skewed_step, tmp_path):
    skewed_step.save(tmp_path / "step.npz")
    with rare():
        again = TunaMH(prepared=tmp_path / "step.npz")
        others = PenaltyMH(), BarkerMinibatchMH()
    record = Mixture().record(3)
    for step in (again, *others):
        linked = Mixture().linked(record, step.plan)
        assert isinstance(linked, TransformedNumbers)
        for values, expected in zip(linked.map, skewed_step.plan.skew_map, strict=True):
            assert np.array_equal(values, expected)
