"""Differences in place of derivatives: of operations that have a gradient, and nothing else."""

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from helpers.tiers import fast
from law.statistical.budget import FAR
from model.evaluation import split_of
from pymc_minibatch_mh import Bounds, PenaltyMH, TunaMH
from pymc_minibatch_mh.compiled.gradient_differences import hessian_by_differences
from pymc_minibatch_mh.compiled.graphs import GraphRows, row_source
from pymc_minibatch_mh.compiled.prior import GraphPrior
from pymc_minibatch_mh.errors import BoundsError, SettingError, UnsupportedModelError
from pymc_minibatch_mh.native.row_sums import moments_of_move

N = 1_000
RNG = np.random.default_rng(12)
x = RNG.normal(size=N)
y = np.arctan(0.4) + 0.5 * x + 0.3 * RNG.normal(size=N)


class Slope(Op):
    """Gradient of an arc tangent in Python, plus a jump, without a derivative."""

    __props__ = ("jump",)

    def __init__(self, jump):
        self.jump = jump

    def make_node(self, a):
        return Apply(self, [pt.as_tensor(a)], [pt.dscalar()])

    def perform(self, node, inputs, outputs):
        (a,) = inputs
        outputs[0][0] = np.asarray(1.0 / (1.0 + a**2) + self.jump * (np.sin(1e6 * a) > 0.0))


class Atan(Op):
    """An arc tangent of one number in Python, with a gradient alone; an error above a limit."""

    __props__ = ("jump", "limit")

    def __init__(self, jump=0.0, limit=np.inf):
        self.jump, self.limit = jump, limit

    def make_node(self, a):
        return Apply(self, [pt.as_tensor(a)], [pt.dscalar()])

    def perform(self, node, inputs, outputs):
        if inputs[0] > self.limit:
            raise RuntimeError("above the limit")
        outputs[0][0] = np.asarray(np.arctan(inputs[0]))

    def pullback(self, inputs, outputs, cotangents):
        return [cotangents[0] * Slope(self.jump)(inputs[0])]


def model_of(atan, *, potential=None):
    with pm.Model() as model:
        a, b = pm.Normal("a"), pm.Normal("b")
        if potential is not None:
            pm.Potential("more", potential(a))
        pm.Normal("y", atan(a) + b * x, 0.3, observed=y)
    return model


@pytest.fixture(scope="module")
def model():
    """A model whose rows have differences for derivatives."""
    return model_of(Atan())


@pytest.fixture(scope="module")
def step(model):
    return PenaltyMH(model=model)


def log_likelihood(theta):
    """Return values, gradients and Hessians of all rows, by hand."""
    a, b = theta
    z, slopes = (y - np.arctan(a) - b * x) / 0.09, np.stack([np.full(N, 1.0 / (1.0 + a**2)), x])
    second = -np.einsum("an,bn->nab", slopes, slopes) / 0.09
    second[:, 0, 0] += z * -2.0 * a / (1.0 + a**2) ** 2
    return -0.5 * 0.09 * z**2, (z * slopes).T, second


def test_hessians_are_those_of_a_function_whatever_the_units():
    """A sum of quartic functions whose standard deviations differ by a factor of a million."""
    units = np.array([1e-4, 1.0, 1e2])
    centre = np.array([3e-4, -0.5, 40.0])

    def gradient(place):
        z = (place - centre) / units
        return -(z + 0.5 * z**3 + 0.3 * z.sum()) / units

    place = centre + 0.2 * units
    z = (place - centre) / units
    exact = -(np.diag(1.0 + 1.5 * z**2) + 0.3) / np.outer(units, units)
    found = hessian_by_differences(gradient, place)
    np.testing.assert_allclose(
        found * np.outer(units, units), exact * np.outer(units, units), atol=1e-3
    )


def test_an_infinite_slope_has_an_infinite_curvature():
    hessian = hessian_by_differences(lambda x: np.where(x > 1.0, np.inf, -x), np.array([1.0, 0.0]))
    assert hessian[0, 0] == np.inf
    np.testing.assert_allclose(hessian[1], [0.0, -1.0])


@pytest.mark.slow
def test_derivatives_of_all_rows_are_the_exact_ones(step):
    of_rows = step.target.full_data
    assert of_rows.rows.without_second == "Slope"
    theta = np.array([0.5, 0.4])
    found, known = of_rows.likelihood(theta, hessian=True), log_likelihood(theta)
    np.testing.assert_allclose(found.gradient, known[1].sum(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.hessian, known[2].sum(axis=0), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("order", fast([1, 2], [2]))
def test_remainders_of_rows_are_the_exact_ones(order):
    centre, ends = np.array([0.48, 0.48]), (np.array([0.52, 0.43]), np.array([0.45, 0.5]))
    parts, rows, found = split_of(model_of(Atan())), np.arange(N), np.empty(N)
    read = GraphRows(parts, row_source(parts))
    moments_of_move(read.space(order), (*ends, centre), rows, found)
    values, slopes, second = log_likelihood(centre)

    def remainders(place):
        step = place - centre
        bent = 0.5 * (second @ step) @ step if order == 2 else 0.0
        return log_likelihood(place)[0] - values - slopes @ step - bent

    exact = remainders(ends[1]) - remainders(ends[0])
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-8)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_exception_in_the_prior_part_is_zero_density():
    parts = split_of(model_of(pt.arctan, potential=Atan(limit=1.0)))
    prior = GraphPrior(parts)
    source = row_source(parts)
    log_prior, context = prior.compiled(), np.array(source.others_address, dtype=np.int64)
    assert np.isfinite(log_prior(np.array([0.5, 0.0]), context))
    assert np.isnan(log_prior(np.array([1.5, 0.0]), context))


def test_the_hessian_of_a_prior_part_is_that_of_its_derivatives():
    theta, none = np.array([0.3, 0.1]), np.empty(0)
    found, known = (
        GraphPrior(split_of(model_of(pt.arctan, potential=f))).derivatives(
            theta, none, hessian=True
        )
        for f in (Atan(), pt.arctan)
    )
    np.testing.assert_allclose(found[2], known[2], rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_gradient_that_jumps_gives_expansions_of_first_order():
    model = model_of(Atan(jump=0.05))
    with pytest.raises(
        UnsupportedModelError, match=r"'y': the gradient of Slope has no der.*jumps.*order=1"
    ):
        PenaltyMH(model=model, taylor_order=2)
    assert PenaltyMH(model=model).reference.order == 1


def test_bounds_need_derivatives(model):
    with pytest.raises(BoundsError, match=r"'y' goes through Atan"):
        TunaMH(model=model)


@pytest.mark.slow
def test_bounds_of_a_user_are_of_exact_remainders():
    model = model_of(Atan())
    with pytest.raises(SettingError, match=r"second derivatives of Slope are diff.*taylor_order=0"):
        TunaMH(model=model, bounds=Bounds(np.ones(N)))


def test_the_posterior_is_that_of_derivatives(model, step):
    with model:
        trace = pm.sample(
            2_000, tune=500, chains=2, cores=1, step=step, random_seed=1, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    for name, exact in moments_on_a_grid().items():
        draws = trace.posterior[name].values
        assert abs(draws.mean() - exact[0]) < FAR * float(az.mcse(draws))
        assert draws.std() == pytest.approx(exact[1], rel=0.15)


def moments_on_a_grid():
    """Return means and standard deviations of the parameters, by quadrature."""
    a, b = np.meshgrid(np.linspace(0.2, 0.7, 161), np.linspace(0.4, 0.6, 161), indexing="ij")
    residuals = y[:, None, None] - np.arctan(a) - b * x[:, None, None]
    total = -0.5 * (a**2 + b**2 + (residuals**2).sum(axis=0) / 0.09)
    mass = np.exp(total - total.max()) / np.exp(total - total.max()).sum()
    means = {"a": (mass * a).sum(), "b": (mass * b).sum()}
    spread = {"a": (mass * (a - means["a"]) ** 2).sum(), "b": (mass * (b - means["b"]) ** 2).sum()}
    return {name: (means[name], np.sqrt(spread[name])) for name in means}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:SplineWrapper should implement:FutureWarning")
def test_densities_between_points_are_expanded_to_first_order():
    """Straight lines between points: their slope jumps at each."""
    points, rng = np.linspace(-6.0, 6.0, 200), np.random.default_rng(6)
    density = np.exp(-np.log1p(points**2 / 4.0) * 2.5)
    shifted = np.clip(0.7 + rng.standard_t(4, 8_000), -4.0, 5.0)
    with pm.Model():
        law = pm.Interpolated.dist(points, density)
        pm.CustomDist(
            "y", pm.Normal("mu"), logp=lambda value, mu: pm.logp(law, value - mu), observed=shifted
        )
        step = PenaltyMH()
        trace = pm.sample(
            2_000, tune=500, chains=2, cores=1, step=step, random_seed=1, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    assert step.reference.order == 1
    grid = np.linspace(0.6, 0.8, 400)
    logp = [np.log(np.interp(shifted - mu, points, density)).sum() - 0.5 * mu**2 for mu in grid]
    weights = np.exp(logp - np.max(logp))
    weights /= weights.sum()
    mean = grid @ weights
    deviation = ((grid - mean) ** 2 @ weights) ** 0.5
    draws = trace.posterior["mu"].values
    assert abs(draws.mean() - mean) < FAR * float(az.mcse(draws))
    assert draws.std() == pytest.approx(deviation, rel=0.15)
    assert trace.sample_stats["n_obs"].mean() < 0.1 * shifted.size
