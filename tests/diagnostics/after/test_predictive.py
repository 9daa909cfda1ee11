"""Draws of chosen rows have the distribution of PyMC's draws of all rows."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from pytensor.compile.mode import Mode
from scipy.stats import ks_2samp

from diagnostics.after.traces import regression, regression_trace, trace_of
from helpers.tiers import fast
from law.statistical.budget import LEVEL
from pymc_minibatch_mh import Rows, posterior_predictive
from pymc_minibatch_mh.errors import UnsupportedModelError

ROWS, DRAWS = 40, 4_000
CHOSEN = [33, 5, 12]
#: How PyMC draws: no code of its own is under test.
IN_PYTHON = {"mode": Mode("vm", "fast_run")}
RNG = np.random.default_rng(81)
X = np.linspace(-2.0, 2.0, ROWS)
Y = RNG.standard_normal(ROWS)


def normal():
    pm.Normal("y", 1.5 * pm.Normal("b") * X, 0.3, observed=Y)


def in_data():
    pm.Normal("y", 1.5 * pm.Normal("b") * pm.Data("x", X), 0.3, observed=pm.Data("seen", Y))


def without_columns():
    pm.Normal("y", pm.Normal("b"), 0.5, observed=Y)


def mixture():
    b = pm.Normal("b")
    parts = [pm.Normal.dist(b + 3.0 * X, 0.3), pm.Normal.dist(-b, 1.0)]
    pm.Mixture("y", w=[0.4, 0.6], comp_dists=parts, observed=Y)


def truncated():
    rate = pm.Gamma.dist(1.0 + pm.math.exp(pm.Normal("b") + X), 1.0)
    pm.Truncated("y", rate, 0.1, 3.0, observed=np.clip(np.abs(Y), 0.2, 2.0))


def censored():
    latent = pm.Normal.dist(pm.Normal("b") * X, 1.0)
    pm.Censored("y", latent, -1.0, 1.0, observed=np.clip(Y, -1.0, 1.0))


def categories():
    pm.Categorical("y", logit_p=X[:, None] * pm.Normal("b", shape=3), observed=np.arange(ROWS) % 3)


def vectors():
    mean = (pm.Normal("b") * X)[:, None] * np.array([1.0, -2.0])
    pm.MvNormal("y", mean, np.array([[1.0, 0.8], [0.8, 1.0]]), observed=np.stack([Y, Y], axis=1))


def of_another():
    first = pm.Normal("first", 2.0 * pm.Normal("b") * X, 1.0, observed=Y)
    pm.Normal("y", 2.0 * first, 0.1, observed=Y)


MODELS = fast(
    [
        normal,
        in_data,
        without_columns,
        truncated,
        censored,
        categories,
        of_another,
        mixture,
        vectors,
    ],
    [in_data, censored, of_another],
)


def built(define):
    with pm.Model() as model:
        define()
    return model


def draws_of(model, count=DRAWS):
    shapes = {rv.name: rv.type.shape for rv in model.free_RVs}
    rng = np.random.default_rng(82)
    return trace_of({n: 0.5 * rng.standard_normal((2, count // 2, *s)) for n, s in shapes.items()})


def of_pymc(model, trace):
    with model:
        drawn = pm.sample_posterior_predictive(
            trace, var_names=["y"], random_seed=83, progressbar=False, compile_kwargs=IN_PYTHON
        )
    return drawn["posterior_predictive"]["y"].to_numpy()[:, :, CHOSEN]


def smallest_p_value(own, other):
    """Compare the draws of each row, and the sums of its entries, with those of another sampler."""
    cells = [x.reshape(DRAWS, len(CHOSEN), -1) for x in (own, other)]
    cells = [np.concatenate([x, x.sum(axis=2, keepdims=True)], axis=2) for x in cells]
    one, two = (x.reshape(DRAWS, -1).T for x in cells)
    return min(ks_2samp(a, b, method="asymp").pvalue for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("define", MODELS, ids=lambda f: f.__name__)
def test_rows_are_drawn_as_by_pymc(define):
    model = built(define)
    trace = draws_of(model)
    tree = posterior_predictive(trace, CHOSEN, model=model, var_name="y", random_seed=84)
    own, seen = (tree[group]["y"] for group in ("posterior_predictive", "observed_data"))
    assert own.dims[:3] == ("chain", "draw", "y_dim_0")
    assert own.dtype == model["y"].dtype
    other = of_pymc(model, trace)
    assert own.shape == other.shape
    assert smallest_p_value(own.to_numpy(), other) > LEVEL
    np.testing.assert_array_equal(seen, model.rvs_to_values[model["y"]].eval()[CHOSEN])
    xr.testing.assert_equal(seen["y_dim_0"], own["y_dim_0"])


def test_rows_follow_their_own_draw():
    model = built(normal)
    trace = draws_of(model)
    tree = posterior_predictive(trace, CHOSEN, model=model, random_seed=84)
    own = tree["posterior_predictive"]["y"].to_numpy()
    b = trace["posterior"]["b"].to_numpy()
    noise = (own - 1.5 * b[..., None] * X[CHOSEN]).reshape(DRAWS, -1)
    np.testing.assert_allclose(noise.std(axis=0), 0.3, rtol=0.06)
    # Rows, and draws of one row, do not share their noise.
    assert np.abs(np.corrcoef(noise.T) - np.eye(len(CHOSEN))).max() < 0.08
    assert np.abs((noise[1:] * noise[:-1]).mean(axis=0)).max() < 0.08 * 0.3**2


@pytest.mark.parametrize("seeded", [int, np.random.default_rng])
def test_a_seed_repeats_the_draws_and_another_does_not(seeded):
    model, trace = regression(), regression_trace(draws=5)
    one, again, other = (
        posterior_predictive(trace, CHOSEN, model=model, random_seed=seeded(seed))[
            "posterior_predictive"
        ]["y"]
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


def test_predictions_carry_the_models_coordinates():
    labels = [f"flight {k}" for k in range(ROWS)]
    with pm.Model(coords={"flight": labels}) as model:
        pm.Normal("y", pm.Normal("b"), observed=Y, dims="flight")
    tree = posterior_predictive(draws_of(model, 4), CHOSEN, model=model)
    for group in ("posterior_predictive", "observed_data"):
        assert tree[group]["flight"].to_numpy().tolist() == ["flight 33", "flight 5", "flight 12"]
    assert list(tree.children) == ["posterior_predictive", "observed_data"]


def test_observations_on_disk_are_read_beside_their_predictions(tmp_path):
    np.save(tmp_path / "y.npy", Y)
    stored = Rows.from_npy(y=tmp_path / "y.npy")
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("b"), observed=stored.data("y"))
    tree = posterior_predictive(draws_of(model, 4), CHOSEN, model=model)
    np.testing.assert_array_equal(tree["observed_data"]["y"], Y[CHOSEN])


def walk_of_rows():
    pm.GaussianRandomWalk("y", sigma=1.0, init_dist=pm.Normal.dist(pm.Normal("b")), observed=Y)


def one_vector():
    pm.MvNormal("y", pm.Normal("b") * X, np.eye(ROWS), observed=Y)


def latents():
    pm.Normal("y", pm.Normal("b", shape=ROWS), observed=Y)


def of_the_mean_of_another():
    first = pm.Normal("first", pm.Normal("b") * X, observed=Y)
    pm.Normal("y", first + first.mean(), observed=Y)


def by_a_function():
    pm.CustomDist("y", pm.Normal("b"), logp=lambda v, b: -((v - b) ** 2), random=noise, observed=Y)


def noise(b, rng=None, size=None):
    return b + rng.standard_normal(size).cumsum()


@pytest.mark.parametrize(
    ("define", "cause"),
    [
        (walk_of_rows, "runs over the observations"),
        (one_vector, "draws all of its values together"),
        (latents, r"one value per observation \('b'\)"),
        (of_the_mean_of_another, "enter each of them"),
        (by_a_function, "is not known to draw its rows independently"),
    ],
)
def test_rows_that_need_the_others_are_refused(define, cause):
    model = built(define)
    message = rf"^'y': some of its observations .*{cause}.*pm\.sample_posterior_predictive\(\)"
    with pytest.raises(UnsupportedModelError, match=message):
        posterior_predictive(draws_of(model, 4), CHOSEN, model=model, var_name="y")
