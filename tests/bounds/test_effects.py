"""Effects of small groups are drawn exactly given all other parameters."""

from dataclasses import replace
from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import expit

from helpers.small_groups import target_of
from pymc_minibatch_mh import threads
from pymc_minibatch_mh.bounds import effect_tangents, effects
from pymc_minibatch_mh.bounds.effect_bounds import bounds_around, bounds_at, is_log_concave
from pymc_minibatch_mh.bounds.effect_tangents import in_scales, tangents_around
from pymc_minibatch_mh.bounds.effects import (
    draw_and_count,
    draw_effects,
    effect_values,
    generator_for,
)
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.native.posterior import Reference

GROUPS, EMPTY, WIDTH, OFFSET = 110, 57, 2.5, 0.6
#: Shape parameters of the tests: effects' and errors' degrees of freedom; location; slope; log σ.
NU, ERRORS, MU, SLOPE, LOG_SIGMA = 3.0, 4.0, 0.4, -0.7, -0.3

LAWS = {
    "normal": (lambda mu, tau: pm.Normal("a", mu, tau, shape=GROUPS), stats.norm()),
    "logistic": (lambda mu, tau: pm.Logistic("a", mu, tau, shape=GROUPS), stats.logistic()),
    "t": (lambda mu, tau: pm.StudentT("a", NU, mu=mu, sigma=tau, shape=GROUPS), stats.t(NU)),
}


def sigma():
    return pm.Lognormal("sigma", 0.0, 1.0)


#: Rows: how a model observes them, their log-likelihood, and how they are simulated.
ROWS = {
    "Bernoulli": (
        lambda name, eta, y: pm.Bernoulli(name, logit_p=eta, observed=y),
        lambda eta, y: -np.logaddexp(0.0, (1 - 2 * y) * eta),
        lambda eta, rng: rng.binomial(1, expit(eta)),
    ),
    "Poisson": (
        lambda name, eta, y: pm.Poisson(name, pm.math.exp(eta), observed=y),
        lambda eta, y: y * eta - np.exp(np.minimum(eta, 500.0)),
        lambda eta, rng: rng.poisson(np.exp(eta)),
    ),
    "Normal": (
        lambda name, eta, y: pm.Normal(name, eta, sigma(), observed=y),
        lambda eta, y: -0.5 * ((y - eta) / np.exp(LOG_SIGMA)) ** 2,
        lambda eta, rng: rng.normal(eta, np.exp(LOG_SIGMA)),
    ),
    "Laplace": (
        lambda name, eta, y: pm.Laplace(name, eta, sigma(), observed=y),
        lambda eta, y: -np.abs(y - eta) / np.exp(LOG_SIGMA),
        lambda eta, rng: rng.laplace(eta, np.exp(LOG_SIGMA)),
    ),
    "StudentT": (
        lambda name, eta, y: pm.StudentT(name, ERRORS, mu=eta, sigma=sigma(), observed=y),
        lambda eta, y: stats.t.logpdf((y - eta) / np.exp(LOG_SIGMA), ERRORS),
        lambda eta, rng: eta + 1.5 * rng.standard_t(ERRORS - 1.0, eta.size),
    ),
}


class Grouped:
    """A model with ragged groups, and its position at a scale τ of the effects."""

    def __init__(self, rows, law, tau, *, y=None, standardised=False, root=1, copies=1):
        rng = np.random.default_rng(3)
        others = np.delete(np.arange(GROUPS), EMPTY)
        self.groups = np.concatenate([others, rng.choice(others[:30], 1_100)])
        rng.shuffle(self.groups)
        self.x = rng.standard_normal(self.groups.size)
        observe, self.log_likelihood, simulate = ROWS[rows]
        prior, self.law = LAWS[law]
        self.tau, self.location, self.standardised = tau, MU + OFFSET, standardised
        effects = self.location + min(tau, 3.0) * rng.standard_normal(GROUPS)
        self.root, self.copies = root, copies
        self.y = simulate(effects[self.groups] + SLOPE * self.x, rng)
        if y is not None:
            self.y = np.full_like(self.y, y)
        with pm.Model() as model:
            mu, slope, scale = pm.Normal("mu"), pm.Normal("slope"), pm.HalfNormal("tau")
            if standardised:
                a = mu + OFFSET + scale * prior(0.0, WIDTH)
            else:
                a = prior(mu + OFFSET, scale)
            for k in range(copies):
                observe(f"y_{k}", a[self.groups] + slope * self.x, self.y)
        self.target = target_of(model, root)

    @property
    def position(self):
        tau = self.tau / WIDTH if self.standardised else self.tau
        tau = tau**self.root
        values = {"mu": MU, "slope": SLOPE, "tau_log__": tau, "sigma_log__": LOG_SIGMA}
        return np.array([values[name] for name in self.target.factorization.coordinate_names])

    def log_density(self, z):
        """Log-density of each group's effect at values z, shape (n,) or (groups, n)."""
        effects = np.broadcast_to(z, (GROUPS, np.shape(z)[-1]))
        eta = self.location + self.tau * effects[self.groups] + SLOPE * self.x[:, None]
        total = self.law.logpdf(effects)
        np.add.at(total, self.groups, self.copies * self.log_likelihood(eta, self.y[:, None]))
        return total

    def grid(self):
        """Grids on which the groups' densities lie, dense around their peaks, (groups, n)."""
        peak, width = np.zeros((GROUPS, 1)), np.full((GROUPS, 1), 100.0)
        for _ in range(12):
            z = peak + width * np.linspace(-1.0, 1.0, 101)
            values = self.log_density(z)
            peak = np.take_along_axis(z, values.argmax(axis=1)[:, None], axis=1)
            high = values > values.max(axis=1, keepdims=True) - 3.0
            width = np.where(high.sum(axis=1, keepdims=True) < 20, 0.3 * width, width)
        steps = np.linspace(-1.0, 1.0, 801)
        return peak + width * np.sinh(steps * np.arcsinh(1e4 / width))

    def probabilities(self, draws):
        """Values of the groups' distribution functions at draws, shape (n, groups)."""
        z = self.grid()
        values = self.log_density(z)
        density = np.exp(values - values.max(axis=1, keepdims=True))
        steps = 0.5 * (density[:, 1:] + density[:, :-1]) * np.diff(z)
        sums = np.concatenate([np.zeros((GROUPS, 1)), np.cumsum(steps, axis=1)], axis=1)
        sums /= sums[:, -1:]
        each = zip(draws.T, z, sums, strict=True)
        return np.array([np.interp(x, at, below) for x, at, below in each]).T

    def draws(self, n, bounds=None):
        """Draws of all effects, and proposals per effect that has rows."""
        if bounds is None and not is_log_concave(self.target):
            bounds = bounds_at(self.target, self.position)
        rngs = [np.random.default_rng(8)] * n
        z, trials = draw_and_count(self.target, np.tile(self.position, (n, 1)), rngs, bounds)
        return z[:, :, 0], trials / (n * (GROUPS - 1))

    def assert_law(self, draws):
        """Values of the distribution functions are uniform, over all groups and in each."""
        probabilities = self.probabilities(draws)
        assert stats.kstest(probabilities.ravel(), "uniform").pvalue > 1e-3
        values = [stats.kstest(column, "uniform").pvalue for column in probabilities.T]
        assert stats.kstest(values, "uniform").pvalue > 1e-3


grouped = cache(Grouped)


@pytest.mark.parametrize(
    ("rows", "law", "tau", "most"),
    [
        ("Bernoulli", "normal", 0.8, 1.2),
        ("Bernoulli", "logistic", 0.01, 1.2),
        ("Bernoulli", "t", 5.0, 1.2),
        ("Poisson", "normal", 3.0, 1.3),
        ("Poisson", "logistic", 0.8, 1.2),
        ("Poisson", "t", 0.8, 1.2),
        ("Normal", "normal", 0.8, 1.2),
        ("Normal", "logistic", 20.0, 1.2),
        ("StudentT", "normal", 0.8, 1.1),
        ("StudentT", "logistic", 3.0, 1.3),
        ("StudentT", "t", 3.0, 1.5),
    ],
)
def test_draws_have_the_law_of_each_group(rows, law, tau, most):
    """One group is empty; tangents need about 1.13 proposals for a normal density."""
    one = grouped(rows, law, tau)
    draws, trials = one.draws(250)
    assert trials < most
    one.assert_law(draws)


@pytest.mark.parametrize(
    ("rows", "law", "tau", "y"),
    [
        ("Bernoulli", "normal", 50.0, 0),
        ("Bernoulli", "logistic", 50.0, 1),
        ("Bernoulli", "normal", 1e-8, 1),
        ("Bernoulli", "t", 1e-6, None),
        ("Poisson", "logistic", 5.0, 0),
        ("Poisson", "normal", 0.8, 100_000),
        ("Poisson", "t", 2.5, 100_000),
    ],
)
def test_the_mode_may_be_far_from_the_nodes(rows, law, tau, y):
    """Nodes are those of the law of the effects, and the counts are 13 of its sds away."""
    one = grouped(rows, law, tau, y=y)
    draws, trials = one.draws(100)
    assert trials < 1.6
    one.assert_law(draws)


def test_densities_may_have_several_modes():
    one = Grouped("StudentT", "normal", 5.0, y=8.0 * (-1.0) ** np.arange(1_209))
    draws, _ = one.draws(60)
    one.assert_law(draws)


def test_rows_of_several_variables_belong_to_a_group():
    one = Grouped("Poisson", "normal", 0.8, copies=2)
    draws, _ = one.draws(100)
    one.assert_law(draws)


def test_effects_of_scale_0_have_their_law():
    one = Grouped("Bernoulli", "logistic", 0.0)
    draws, trials = one.draws(50)
    assert trials == 0
    assert stats.kstest(draws.ravel(), one.law.cdf).pvalue > 1e-3


def test_tangents_are_enough_where_rows_and_law_are_concave():
    cases = [
        ("Bernoulli", "normal"),
        ("Normal", "normal"),
        ("Poisson", "t"),
        ("StudentT", "normal"),
    ]
    found = [is_log_concave(grouped(rows, law, 0.8).target) for rows, law in cases]
    assert found == [True, True, False, False]


# ---- Bounds over a ball. ----


def reference_of(one):
    """Return control variates around the position of a model; its posterior may be another."""
    size = one.position.size
    factor = np.tril(np.full((size, size), 0.01)) + 0.03 * np.eye(size)
    zeros = np.zeros((size, size))
    return Reference(one.position, factor, np.linalg.inv(factor), zeros[0], zeros, 2, 1.0)


def at_the_edge(one, direction):
    """Return bounds over a ball, and a position at its edge as a vector and by name."""
    reference = reference_of(one)
    bounds = bounds_around(one.target, reference)
    step = 0.999 * bounds.radius * direction / np.linalg.norm(direction)
    position = reference.centre + reference.factor @ step
    names = one.target.factorization.coordinate_names
    return bounds, position, dict(zip(names, position, strict=True))


def log_likelihoods(one, at, z):
    """Return the sums of the StudentT rows of each group at effects, (groups, n)."""
    eta = at["mu"] + OFFSET + at["tau_log__"] * z[one.groups] + at["slope"] * one.x[:, None]
    scale = at["sigma_log__"]
    rows = stats.t.logpdf((one.y[:, None] - eta) / np.exp(scale), ERRORS) - scale
    total = np.zeros((GROUPS, z.shape[1]))
    np.add.at(total, one.groups, rows)
    return total


@pytest.mark.parametrize("kind", ["narrower", "wider", "random"])
def test_bounds_hold_in_the_whole_ball(kind):
    one = grouped("StudentT", "normal", 0.8)
    (entry,) = one.target.compiled.layout.scales
    scale = np.arange(one.position.size) == entry.coordinate
    random = np.random.default_rng(1).standard_normal(one.position.size)
    direction = {"narrower": -1.0 * scale, "wider": 1.0 * scale, "random": random}[kind]
    bounds, position, at = at_the_edge(one, direction)
    assert bounds.hold_at(position)
    step, tau = 1e-3, at["tau_log__"]
    for k, largest in enumerate(bounds.curvatures.T):
        low, high = bounds.ends[:, k], bounds.ends[:, k + 1]
        z = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, 11)
        three = [log_likelihoods(one, at, z + shift) for shift in (-step, 0.0, step)]
        second = (three[0] - 2.0 * three[1] + three[2]) / step**2
        assert (second <= tau**2 * largest[:, None] + 1e-5).all()
    for k, side in enumerate((-1.0, 1.0)):
        z = bounds.ends[:, [-k]] + side * np.linspace(0.0, 20.0, 50)
        values = log_likelihoods(one, at, z)
        slopes = side * (log_likelihoods(one, at, z + step) - values) / step
        assert (values <= bounds.ceilings[:, [k]] + 1e-9).all()
        assert (slopes <= tau * bounds.slopes[:, [k]] + 1e-2).all()


def test_draws_have_their_law_with_the_bounds_of_a_ball():
    one = grouped("StudentT", "normal", 0.8)
    bounds = bounds_around(one.target, reference_of(one))
    draws, trials = one.draws(200, bounds)
    assert trials < 4.0
    one.assert_law(draws)


def test_other_bounds_are_computed_outside_of_the_ball():
    one = grouped("StudentT", "normal", 0.8)
    bounds = bounds_around(one.target, reference_of(one))
    far = one.position + 1.0
    assert not bounds.hold_at(far)
    rngs = [np.random.default_rng(4) for _ in range(2)]
    given, computed = (
        draw_effects(one.target, far[None], [rng], x)
        for rng, x in zip(rngs, (bounds, None), strict=True)
    )
    np.testing.assert_array_equal(given, computed)


def test_a_ball_needs_no_bounds_if_tangents_are_enough():
    one = grouped("Bernoulli", "normal", 0.8)
    assert bounds_around(one.target, reference_of(one)) is None


# ---- Tangents at a centre. ----


def tangents_near(one, step):
    """Return tangents at a centre that is not the position."""
    reference = reference_of(one)
    away = step * np.arange(1.0, one.position.size + 1.0) * np.array([-1.0, 1.0, -0.5])
    return tangents_around(one.target, reference._replace(centre=one.position * (1.0 + away)))


@pytest.mark.parametrize("root", [1, 2])
@pytest.mark.parametrize("rows", ["Bernoulli", "Poisson"])
def test_tangents_at_a_centre_lie_above_the_rows_at_all_positions(rows, root):
    one, gaps = Grouped(rows, "normal", 0.8, root=root), []
    for step in (0.0, 0.03, 0.3):
        tangents = tangents_near(one, step).seen_from(in_scales(one.target, one.position))
        move = np.linspace(-1.0, 1.0, 5)
        z = tangents.points[:, :, None] + move
        values = one.log_density(z.reshape(GROUPS, -1)) - one.law.logpdf(z.reshape(GROUPS, -1))
        heights = tangents.values + tangents.gradients @ tangents.move
        gap = heights[:, :, None] + one.tau * tangents.slopes[:, :, None] * move
        gaps.append(gap - values.reshape(z.shape))
    # Constants, such as those of factorials, are in neither.
    constants = gaps[0][:, :1, 2:3]
    assert np.ptp(gaps[0][:, :, 2], axis=1).max() < 1e-9
    assert all((gap - constants > -1e-9).all() for gap in gaps)
    assert 1e-3 < (gaps[1] - constants)[:, :, 2].max() < (gaps[2] - constants)[:, :, 2].max()


@pytest.mark.parametrize(
    ("rows", "law", "root", "step", "most"),
    [
        ("Bernoulli", "normal", 1, 0.05, 1.2),
        ("Poisson", "logistic", 2, 0.02, 1.3),
        # Most of what is proposed here comes from points that were added where rows were evaluated.
        ("Poisson", "normal", 1, 0.3, 3.0),
    ],
)
def test_draws_by_tangents_at_a_centre_have_their_law(rows, law, root, step, most):
    one = Grouped(rows, law, 0.8, root=root)
    draws, trials = one.draws(250, tangents_near(one, step))
    assert 1.0 < trials < most
    one.assert_law(draws)


def test_tangents_need_concave_rows_of_one_predictor():
    for rows, law in [("Normal", "normal"), ("StudentT", "normal"), ("Bernoulli", "t")]:
        one = grouped(rows, law, 0.8)
        assert tangents_around(one.target, reference_of(one)) is None


def test_tangents_take_a_limited_memory(monkeypatch):
    one = grouped("Bernoulli", "normal", 0.8)
    monkeypatch.setattr(effect_tangents, "MAX_BYTES", 8 * GROUPS * 3 * 6 - 1)
    assert tangents_around(one.target, reference_of(one)) is None


# ---- Refusals. ----


def test_bounds_that_do_not_hold_are_noticed():
    one = grouped("StudentT", "t", 3.0)
    bounds = bounds_at(one.target, one.position)
    wrong = replace(bounds, curvatures=np.minimum(bounds.curvatures, 0.0))
    with pytest.raises(BoundsError, match=r"the effect of group \d+ of 'a' cannot be drawn"):
        one.draws(20, wrong)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rows_without_a_value_are_refused(value):
    one = grouped("Normal", "normal", 0.8)
    with pytest.raises(BoundsError, match="the effect of group 0 of 'a' cannot be drawn exactly"):
        draw_effects(one.target, np.full((1, 4), value), [np.random.default_rng(1)])


def test_rows_with_kinks_are_refused():
    one = Grouped("Laplace", "normal", 0.8)
    with pytest.raises(BoundsError, match=r"effects of 'a' cannot be drawn.*second derivatives"):
        one.draws(1)


# ---- Random numbers, and values of the model's variable. ----


def draws_of(one, n):
    """Return draws with the generators of their numbers."""
    rngs = [generator_for(one.position, k) for k in range(n)]
    return draw_effects(one.target, np.tile(one.position, (n, 1)), rngs)


def test_draws_do_not_depend_on_how_many_are_made_at_a_time(monkeypatch):
    one = grouped("Bernoulli", "normal", 0.8)
    together = draws_of(one, 5)
    monkeypatch.setattr(effects, "GROUPS_AT_ONCE", 2 * GROUPS)
    np.testing.assert_array_equal(draws_of(one, 5), together)
    assert len(np.unique(together)) == together.size


def test_draws_do_not_depend_on_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(effects, "GROUPS_IN_TASK", 7)
    one = grouped("Bernoulli", "normal", 0.8)
    drawn = []
    for cores in (1, 2, 5):
        monkeypatch.setattr(threads, "usable_cores", lambda cores=cores: cores)
        drawn.append(draws_of(one, 3))
    np.testing.assert_array_equal(drawn[0], drawn[1])
    np.testing.assert_array_equal(drawn[0], drawn[2])


def test_ranges_of_groups_have_numbers_of_their_own(monkeypatch):
    monkeypatch.setattr(effects, "GROUPS_IN_TASK", 10)
    one = Grouped("Bernoulli", "normal", 0.0)
    z = draws_of(one, 1).reshape(-1, 10)
    assert np.unique(z).size == GROUPS


def numbers_of(position, number):
    """Return numbers of a generator, and of the second one that it spawns."""
    rng = generator_for(position, number)
    return np.array([rng.random(3), rng.spawn(2)[1].random(3)])


def test_a_generator_is_a_function_of_position_and_number():
    position = np.array([0.3, -1.2, 0.7])
    numbers = numbers_of(position, 0)
    # Another processor rounds a position otherwise.
    np.testing.assert_array_equal(numbers, numbers_of(position * (1.0 + 1e-15), 0))
    for x, n in [(position, 1), (position * (1.0 + 1e-6), 0), (position[::-1], 0)]:
        assert not np.isin(numbers_of(x, n), numbers).any()


#: What draws that are stored already were made with.
NUMBERS = [439513309469, 621065261605]


def test_a_generator_is_the_same_in_all_releases():
    assert generator_for(np.array([0.5, 2.0]), 3).integers(0, 2**40, 2).tolist() == NUMBERS


@pytest.mark.parametrize(("standardised", "root"), [(False, 2), (True, 1)])
def test_values_are_those_of_the_variable_of_the_model(standardised, root):
    one = Grouped("Bernoulli", "normal", 0.8, standardised=standardised, root=root)
    draws, _ = one.draws(100)
    one.assert_law(draws)
    values = effect_values(one.target, np.tile(one.position, (100, 1)), draws[:, :, None])
    wanted = WIDTH * draws if standardised else one.location + one.tau * draws
    np.testing.assert_allclose(next(iter(values.values())), wanted, rtol=1e-12)
