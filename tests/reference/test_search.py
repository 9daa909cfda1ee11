"""Searches for the mode of models as users write them, from PyMC's default start."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.special import expit

from helpers.models import FAMILIES
from model.evaluation import at_points
from models.gallery.catalogue import EXAMPLES
from pymc_minibatch_mh import PenaltyMH, TunaMH
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.errors import ModeError
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.reference import newton
from pymc_minibatch_mh.reference import target as target_module
from pymc_minibatch_mh.reference.full_data import FullData
from pymc_minibatch_mh.reference.line_search import distance_to_maximum
from pymc_minibatch_mh.reference.mode import JITTERS
from pymc_minibatch_mh.reference.target import Target

N = 3_000


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture
def told(monkeypatch):
    """What the search reports while it goes on."""
    lines = []
    monkeypatch.setattr(newton, "report_stage", lambda stage, text: lines.append((stage, text)))
    return lines


def searched(model):
    """Return the mode, from where PyMC starts, and the target."""
    target = Target(CompiledModel(factorize(model, model.value_vars)))
    start = target.factorization.ravel(model.initial_point())
    return target.mode(start, np.random.default_rng(0)), target


def assert_is_a_mode_to_pymc(model, mode, target):
    """Ask PyMC's own derivatives how far the mode is, in posterior standard deviations."""
    # Whatever a standard deviation is by the search, PyMC says what it is.
    step = 1e-3 * np.linalg.inv(np.linalg.cholesky(mode.precision))
    places = np.concatenate([mode.position[None], mode.position + step, mode.position - step])
    points = [target.factorization.unravel(place, {}) for place in places]
    gradient, *around = at_points(model, model.dlogp(), points) @ step.T
    above, below = np.split(np.array(around), 2)
    precision = (below - above) / 2.0
    assert np.linalg.eigvalsh(precision + precision.T)[0] > 0.0
    assert np.sqrt(gradient @ np.linalg.solve(precision, gradient)) < 2e-3


def checked_mode(model):
    """Return the mode from where PyMC starts, which PyMC's own derivatives confirm."""
    mode, target = searched(model)
    assert_is_a_mode_to_pymc(model, mode, target)
    return mode


def years(rng, family):
    """A regression on the calendar year as it comes: far from zero for its spread."""
    year = 2010.0 + 5.0 * rng.standard_normal(N)
    eta = 0.1 * (year - 2010.0) + 0.5
    with pm.Model() as model:
        line = pm.Normal("a", 0.0, 1_000.0) + pm.Normal("b", 0.0, 10.0) * year
        if family == "bernoulli":
            pm.Bernoulli("y", logit_p=line, observed=(rng.random(N) < expit(eta)).astype(int))
        elif family == "poisson":
            pm.Poisson("y", mu=pt.exp(line), observed=rng.poisson(np.exp(eta)))
        else:
            pm.Normal("y", line, pm.HalfNormal("s", 5.0), observed=rng.normal(eta, 1.0))
    return model


def test_a_time_in_seconds_leads_to_the_mode(rng):
    # Slope and intercept are so correlated that nothing seemed to be left to climb.
    time = 1.7e9 + 1e5 * rng.standard_normal(N)
    seen = (rng.random(N) < expit((time - 1.7e9) / 1e5)).astype(int)
    with pm.Model() as model:
        line = pm.Normal("a", 0.0, 1e5) + pm.Normal("b", 0.0, 10.0) * time
        pm.Bernoulli("y", logit_p=line, observed=seen)
    mode, _ = searched(model)
    assert mode.position[1] == pytest.approx(1e-5, rel=0.2)


# Where the gradient vanishes and the Hessian is not that of a mode.


def test_a_step_far_beyond_a_scale_comes_back():
    model = EXAMPLES["golf"].build(2_000)
    mode = checked_mode(model)
    assert np.abs(mode.position).max() < 10.0


def test_rows_with_kinks_have_their_average_curvature():
    model = FAMILIES["laplace"](1_500)
    reference = TunaMH(model=model).plan.reference
    # Covariates are uniform on (-1, 1). The density of a residual is 1/2, where slopes jump by 2.
    expected = 1_500 * np.diag([1.0, 1.0 / 3.0])
    found = reference.whitener.T @ reference.whitener
    np.testing.assert_allclose(found, expected, rtol=0.3, atol=150.0)
    np.testing.assert_allclose(reference.centre, [0.4, 0.8], atol=0.2)


def test_a_symmetric_mixture_leaves_its_saddle(rng):
    data = np.where(rng.random(N) < 0.5, rng.normal(-2.0, 1.0, N), rng.normal(2.0, 1.0, N))
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 5.0, shape=2)
        pm.NormalMixture("y", w=[0.5, 0.5], mu=mu, sigma=1.0, observed=data)
    mode = checked_mode(model)
    np.testing.assert_allclose(np.sort(mode.position), [-2.0, 2.0], atol=0.2)


@pytest.mark.parametrize("write", [lambda a, b: a * b, lambda a, b: a**2 + b])
def test_a_product_of_parameters_leaves_zero(rng, write):
    x = rng.standard_normal(N)
    with pm.Model() as model:
        a, b = pm.Normal("a", 0.0, 1.0), pm.Normal("b", 0.0, 1.0)
        pm.Normal("y", write(a, b) * x, 1.0, observed=rng.normal(3.0 * x, 1.0))
    mode = checked_mode(model)
    assert write(*mode.position) == pytest.approx(3.0, abs=0.2)


def test_a_start_where_everything_vanishes_is_jittered(rng, told):
    x = rng.standard_normal(N)
    with pm.Model() as model:
        b = pm.Flat("b")
        pm.Normal("y", b**3 * x, 1.0, observed=rng.normal(8.0 * x, 1.0))
    mode = checked_mode(model)
    assert mode.position.item() == pytest.approx(2.0, abs=0.05)
    assert sum(text.startswith("1/") for _, text in told) > 1
    again, _ = searched(model)
    np.testing.assert_array_equal(again.position, mode.position)


# Kinks of the prior.


@pytest.mark.parametrize("scale", [1e-2, 1e-4])
def test_a_laplace_prior_gets_a_centre_and_a_scale(rng, scale):
    x = rng.standard_normal(N)
    y = rng.normal(0.01 * x, 1.0)
    with pm.Model() as model:
        b = pm.Laplace("b", 0.0, scale)
        pm.Normal("y", b * x, 1.0, observed=y)
    grid = np.linspace(-0.2, 0.2, 400_001)
    density = -0.5 * (x @ x) * grid**2 + (x @ y) * grid - np.abs(grid) / scale
    weights = np.exp(density - density.max())
    mean = np.average(grid, weights=weights)
    deviation = np.sqrt(np.average((grid - mean) ** 2, weights=weights))
    reference = TunaMH(model=model).reference
    assert abs(reference.centre.item() - mean) < 0.5 * deviation
    assert 0.6 < reference.factor.item() / deviation < 1.6


def test_an_absolute_difference_in_a_potential_has_its_mode_on_the_kink(rng):
    x = rng.standard_normal(N)
    y = (rng.random(N) < expit(0.3 + 0.3 * x)).astype(int)
    with pm.Model() as model:
        a, b = pm.Normal("a", 0.0, 5.0), pm.Normal("b", 0.0, 5.0)
        pm.Potential("alike", -1_000.0 * pt.abs(a - b))
        pm.Bernoulli("y", logit_p=a + b * x, observed=y)
    mode, _ = searched(model)
    assert mode.kinked == (0, 1)
    assert mode.position[0] - mode.position[1] == pytest.approx(0.0, abs=0.003)
    # Along the kink the data say how wide the posterior is, and across it the potential does.
    inverse = np.linalg.inv(mode.precision)
    across = np.sqrt([1.0, -1.0] @ inverse @ [1.0, -1.0])
    assert 5e-4 < across < 4e-3
    assert np.sqrt(inverse[0, 0]) == pytest.approx(0.027, rel=0.2)


# Single precision.


@pytest.fixture
def single_precision():
    with pytensor.config.change_flags(floatX="float32"):
        yield


@pytest.mark.usefixtures("single_precision")
@pytest.mark.slow
@pytest.mark.parametrize("family", ["bernoulli", "normal"])
def test_single_precision_leads_to_the_mode_of_double_precision(rng, family):
    found = PenaltyMH(model=years(rng, family)).reference
    with pytensor.config.change_flags(floatX="float64"):
        mode = PenaltyMH(model=years(np.random.default_rng(5), family)).reference
    gap = mode.whitener @ (found.centre - mode.centre)
    assert np.linalg.norm(gap) < 0.1


# Coordinates that go far, and are held there.


def dummy_without_events(prior):
    """A rare predictor none of whose rows has an event."""
    x, y = np.arange(20_000) >= 19_900, (np.arange(20_000) < 1_000).astype(int)
    pm.Bernoulli("y", logit_p=prior("a") + prior("b") * x, observed=y)


def events_of_a_dummy_alone(prior):
    x = np.arange(20_000) >= 19_900
    mu = pt.exp(prior("a") + prior("b") * x)
    pm.Poisson("y", mu, observed=np.where(x, 0, np.arange(20_000) % 3))


def separated_slope(prior):
    x = np.linspace(-3.0, 3.0, N)
    pm.Bernoulli("y", logit_p=prior("a") + prior("b") * x, observed=(x > 0.1).astype(int))


def no_excess_zeros(prior):
    psi, mu = pm.Beta("psi", 0.5, 0.5), pt.exp(prior("mu"))
    pm.ZeroInflatedPoisson("y", psi=psi, mu=mu, observed=np.random.default_rng(3).poisson(1.3, N))


def wide(name):
    return pm.Normal(name, 0.0, 1_000.0)


@pytest.mark.parametrize(
    "define", [dummy_without_events, events_of_a_dummy_alone, separated_slope, no_excess_zeros]
)
def test_a_coordinate_that_its_prior_holds_far_out_has_a_mode(define):
    with pm.Model() as model:
        define(wide)
    checked_mode(model)


@pytest.mark.parametrize("define", [dummy_without_events, events_of_a_dummy_alone, separated_slope])
def test_without_a_prior_that_holds_it_a_coordinate_runs_away(define):
    with pm.Model() as model:
        define(pm.Flat)
    with pytest.raises(ModeError, match=r"^'b' runs away.*decreases nowhere beyond.*prior is flat"):
        searched(model)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_a_regression_on_raw_scales_leads_to_least_squares(unit):
    rng = np.random.default_rng(4)
    height = 170.0 + 9.0 * rng.standard_normal(N)
    pay = unit * (-58_000.0 + 480.0 * height + 19_000.0 * rng.standard_normal(N))
    with pm.Model() as model:
        line = pm.Flat("a") + pm.Flat("b") * height
        pm.Normal("pay", line, pm.HalfFlat("s"), observed=pay)
    mode = checked_mode(model)
    coefficients, squares, *_ = np.linalg.lstsq(np.c_[np.ones(N), height], pay, rcond=None)
    away = mode.position[:2] - coefficients
    assert away @ mode.precision[:2, :2] @ away < 1e-4
    # The density of log s has a factor s.
    assert mode.position[2] == pytest.approx(0.5 * np.log(squares[0] / (N - 1)), abs=1e-5)


@pytest.mark.parametrize(
    ("log_density", "distance"),
    [
        (lambda t: -np.exp(-t) - 0.5 * (t / 1_000.0) ** 2, 11.3),
        # Heavy tails fall by the logarithm.
        (lambda t: -np.exp(-t) - np.log1p((t / 2.5) ** 2), 1.2),
        # The end of the numbers lies beyond the maximum, or before it.
        (lambda t: t - np.exp(np.longdouble(t) - 500.0) if t < 505.0 else np.nan, 500.0),
        (lambda t: t if t < 700.0 else np.nan, None),
        (lambda t: -np.exp(-t), None),
        (lambda t: 0.0 * t, None),
    ],
)
def test_a_rise_is_followed_to_where_it_ends(log_density, distance):
    def along(t):
        value, h = log_density(t), 1e-4
        return float(value), float(log_density(t + h) - log_density(t - h)) / (2.0 * h)

    found = distance_to_maximum(along)
    if distance is None:
        assert found is None
    else:
        assert 0.8 * distance <= found <= distance


# Searches that cannot end.


def perfect_fit(rng):
    x = rng.standard_normal(N)
    pm.Normal("y", pm.Normal("b", 0.0, 5.0) * x, pm.HalfNormal("s", 1.0), observed=2.0 * x)


def scale_without_data(rng):
    far = pm.HalfFlat("s") * pm.Normal("z")
    pm.Normal("y", pm.Normal("m") + 1e-8 * far, 1.0, observed=rng.standard_normal(N))


def slope_without_curvature(rng):
    """A slope with a curvature of 1e-308: the Newton step is no finite number."""
    far = pm.Flat("far", initval=0.0)
    pm.Potential("p", -5.0 * far - pt.exp(far - 709.0))
    pm.Normal("y", pm.Normal("m"), 1.0, observed=rng.standard_normal(N))


@pytest.mark.parametrize(
    ("define", "found", "early"),
    [
        (perfect_fit, "'s_log__' runs away: the scale 's' goes to 0,", True),
        # Along a ridge that curves, no straight line tells whether the log-density ever falls.
        (scale_without_data, "'s_log__' runs away: the scale 's' goes to infinity,", False),
        (slope_without_curvature, "'far' runs away: it goes to minus infinity,", True),
    ],
)
def test_a_coordinate_that_runs_away_ends_the_search(rng, told, define, found, early):
    with pm.Model() as model:
        define(rng)
    with pytest.raises(ModeError) as error:
        searched(model)
    assert str(error.value).startswith(found)
    assert "The last point is" in str(error.value)
    starts = [k for k, (_, text) in enumerate(told) if text.startswith("1/")]
    assert len(starts) == 1 + len(JITTERS)
    assert np.diff([*starts, len(told)]).max() <= newton.MAX_STEPS - early


@pytest.mark.parametrize("seed", [1, 3])
def test_an_exact_fit_has_no_mode_though_residuals_are_rounded(seed):
    x = np.random.default_rng(seed).standard_normal(N)
    with pm.Model() as model:
        line = pm.Normal("a", 0.0, 5.0) + pm.Normal("b", 0.0, 5.0) * x
        pm.Normal("y", line, pm.HalfNormal("s", 1.0), observed=30.0 + 0.3 * x)
    with pytest.raises(ModeError, match=r"^'s_log__' runs away.*nowhere beyond.*model fits"):
        searched(model)


@pytest.fixture(scope="module")
def many_rows():
    """A logistic regression of 200,000 rows with one strong covariate."""
    rng = np.random.default_rng(6)
    x = rng.standard_normal(200_000)
    y = (rng.random(x.size) < expit(2.0 + 2.0 * x)).astype(int)
    with pm.Model() as model:
        line = pm.Normal("a", 0.0, 5.0) + pm.Normal("b", 0.0, 5.0) * x
        pm.Bernoulli("y", logit_p=line, observed=y)
    return model


@pytest.fixture
def read(monkeypatch):
    """How many rows each pass read, None for all, and whether it took the Hessian."""
    found, likelihood = [], FullData.likelihood

    def counted(self, theta, *, hessian, rows=None):
        found.append((None if rows is None else len(rows), hessian))
        return likelihood(self, theta, hessian=hessian, rows=rows)

    monkeypatch.setattr(FullData, "likelihood", counted)
    return found


def test_a_subsample_saves_passes_over_all_rows(many_rows, read):
    mode, target = searched(many_rows)
    assert read.count((None, True)) <= 4
    assert read.count((None, False)) == 0
    gradient = target.full_data.likelihood(mode.position, hessian=False).gradient
    gradient += target.full_data.prior(mode.position, hessian=False).gradient
    assert np.sqrt(gradient @ np.linalg.solve(mode.precision, gradient)) < 1e-3


def test_a_centre_takes_three_passes_over_all_rows(many_rows, read, monkeypatch):
    target = Target(CompiledModel(factorize(many_rows, many_rows.value_vars)))
    found = target.expand(np.zeros(2), np.random.default_rng(0))[0]
    assert sum(rows is None for rows, _ in read) == 3
    monkeypatch.setattr(target_module, "MANY_ROWS", 10**9)
    patient = target.expand(np.zeros(2), np.random.default_rng(0))[0]
    assert np.linalg.norm(found.whitener @ (found.centre - patient.centre)) < 0.03
