from dataclasses import replace

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.replace import clone_replace

from model.reading.evaluation import assert_read_rightly, evaluate, positions, split_of

N = 24
RNG = np.random.default_rng(11)
X = RNG.normal(size=(N, 3))
x = X[:, 0]
y = RNG.normal(size=N)
positive = RNG.gamma(2.0, size=N) + 0.1
counts = RNG.poisson(3.0, N)
ones = RNG.integers(0, 2, N)
classes = RNG.integers(0, 3, N)
g = RNG.integers(0, 4, N)
h = RNG.integers(0, 2, N)
exposure = RNG.uniform(0.5, 3.0, N)

MODELS = {}


def model(build):
    MODELS[build.__name__] = build
    return build


def line():
    return pm.Normal("a") + pm.Normal("b") * x


@model
def normal():
    pm.Normal("y", line(), pm.HalfNormal("s"), observed=y)


@model
def normal_without_predictors():
    pm.Normal("y", pm.Normal("a"), pm.HalfNormal("s"), observed=y)


@model
def normal_with_the_scale_of_each_observation():
    pm.Normal("y", line(), pm.math.exp(pm.Normal("c") * x), observed=y)


@model
def student_t():
    pm.StudentT("y", nu=pm.Gamma("nu", 2, 0.1), mu=line(), sigma=1.5, observed=y)


@model
def laplace():
    pm.Laplace("y", line(), pm.HalfNormal("s"), observed=y)


@model
def skew_normal():
    pm.SkewNormal("y", mu=line(), sigma=1.0, alpha=pm.Normal("skew"), observed=y)


@model
def asymmetric_laplace():
    pm.AsymmetricLaplace("y", q=0.3, mu=line(), b=1.2, observed=y)


@model
def log_normal():
    pm.LogNormal("y", line(), pm.HalfNormal("s"), observed=positive)


@model
def gamma():
    mu = pm.math.exp(line())
    shape = pm.HalfNormal("shape")
    pm.Gamma("y", alpha=shape, beta=shape / mu, observed=positive)


@model
def weibull():
    pm.Weibull("y", alpha=pm.HalfNormal("k"), beta=pm.math.exp(line()), observed=positive)


@model
def beta():
    mu = pm.math.sigmoid(line())
    pm.Beta("y", alpha=5 * mu, beta=5 * (1 - mu), observed=positive / (1 + positive))


@model
def poisson_with_exposure():
    pm.Poisson("y", mu=exposure * pm.math.exp(line()), observed=counts)


@model
def poisson_with_an_offset():
    pm.Poisson("y", mu=pm.math.exp(line() + pt.log(pm.Data("e", exposure))), observed=counts)


@model
def negative_binomial():
    mu = pm.math.exp(line())
    pm.NegativeBinomial("y", mu=mu, alpha=pm.Exponential("alpha", 1), observed=counts)


@model
def zero_inflated_poisson():
    psi = pm.math.sigmoid(pm.Normal("psi"))
    pm.ZeroInflatedPoisson("y", psi=psi, mu=pm.math.exp(line()), observed=counts)


@model
def binomial():
    pm.Binomial("y", n=counts + 2, logit_p=line(), observed=counts)


@model
def beta_binomial():
    mu = pm.math.exp(line())
    pm.BetaBinomial("y", n=counts + 2, alpha=mu, beta=2.0, observed=counts)


@model
def bernoulli_logit():
    pm.Bernoulli("y", logit_p=line(), observed=ones)


@model
def bernoulli_probit():
    pm.Bernoulli("y", p=pm.math.invprobit(line()), observed=ones)


@model
def bernoulli_of_booleans():
    pm.Bernoulli("y", logit_p=line(), observed=ones.astype(bool))


@model
def categorical_regression():
    pm.Categorical("y", logit_p=X @ pm.Normal("B", shape=(3, 3)), observed=classes)


@model
def categorical_regression_on_mutable_data():
    logits = pm.math.dot(pm.Data("X", X), pm.Normal("B", shape=(3, 3)))
    pm.Categorical("y", p=pm.math.softmax(logits, axis=1), observed=pm.Data("k", classes))


@model
def ordered_logistic():
    cuts = pm.Normal("c", [-1.0, 1.0], transform=pm.distributions.transforms.ordered, shape=2)
    pm.OrderedLogistic("y", eta=pm.Normal("b") * x, cutpoints=cuts, observed=classes)


@model
def censored():
    pm.Censored("y", pm.Normal.dist(line(), 1.0), -1.0, 1.0, observed=np.clip(y, -1, 1))


@model
def truncated():
    pm.Truncated("y", pm.Normal.dist(line(), 1.0), lower=-9.0, upper=9.0, observed=y)


@model
def normal_mixture():
    w = pm.Dirichlet("w", np.ones(2))
    pm.NormalMixture("y", w=w, mu=pm.Normal("m", shape=2), sigma=1.0, observed=y)


@model
def mixture_of_regressions():
    w = pm.Dirichlet("w", np.ones(2))
    parts = [pm.Normal.dist(line(), 1.0), pm.StudentT.dist(nu=3, mu=0.0, sigma=2.0)]
    pm.Mixture("y", w, parts, observed=y)


@model
def custom_density_of_each_observation():
    def logp(value, a, z):
        return -pt.log1p((value - a * z) ** 2)

    pm.CustomDist("y", pm.Normal("a"), x, logp=logp, observed=y)


@model
def operator_product():
    pm.Normal("y", X @ pm.Normal("b", shape=3), observed=y)


@model
def dot_of_mutable_data():
    pm.Normal("y", pm.math.dot(pm.Data("X", X), pm.Normal("b", shape=3)), observed=y)


@model
def summed_product():
    pm.Normal("y", (X * pm.Normal("b", shape=3)).sum(1), observed=pm.Data("y_data", y))


@model
def transposed_product():
    pm.Normal("y", pm.Normal("b", shape=3) @ X.T, observed=y)


@model
def transposed_product_of_mutable_data():
    pm.Normal("y", pm.Normal("b", shape=3) @ pm.Data("X", X).T, observed=y)


@model
def summed_over_the_first_axis():
    pm.Normal("y", (pm.Normal("b", shape=3)[:, None] * pm.Data("Xt", X.T)).sum(0), observed=y)


@model
def stacked_columns():
    design = pt.stack([pt.ones(N), pm.Data("x", x), pm.Data("z", X[:, 1])], axis=1)
    pm.Normal("y", design @ pm.Normal("b", shape=3), observed=y)


@model
def columns_and_an_offset():
    Xd = pm.Data("X", X)
    b = pm.Normal("b", shape=2)
    pm.Normal("y", b[0] * Xd[:, 0] + b[1] * Xd[:, -1] + Xd[:, 1], observed=y)


@model
def sliced_columns_in_reverse():
    pm.Normal("y", pm.Data("X", X)[:, ::-1][:, :2] @ pm.Normal("b", shape=2), observed=y)


@model
def columns_centred_from_the_data_alone():
    Xd = pm.Data("X", X)
    pm.Normal("y", (Xd - Xd.mean(0)) @ pm.Normal("b", shape=3), observed=y)


@model
def length_of_the_data_as_a_number():
    xd = pm.Data("x", x)
    pm.Normal("y", pm.Normal("a") * pt.ones_like(xd) + pm.Normal("b") / xd.shape[0], observed=y)


@model
def groups():
    a = pm.Normal("a", shape=4) * pm.HalfNormal("s")
    pm.Normal("y", a[g], observed=y)


@model
def groups_in_mutable_data():
    pm.Normal("y", pm.Normal("a", shape=4)[pm.Data("g", g)] * pm.Data("x", x), observed=y)


@model
def crossed_groups():
    pm.Normal("y", pm.Normal("a", shape=(4, 2))[g, h], observed=y)


@model
def varying_slopes():
    B = pm.Normal("B", shape=(4, 2))
    pm.Normal("y", B[g, 0] + B[g, 1] * x, observed=y)


@model
def rows_of_a_matrix_of_coefficients():
    pm.Normal("y", (pm.Normal("B", shape=(4, 3))[g] * X).sum(-1), observed=y)


@model
def group_effects_of_group_predictors():
    U = RNG.normal(size=(4, 2))
    pm.Normal("y", (U @ pm.Normal("c", shape=2))[g], observed=y)


@model
def lagged_data():
    xd = pm.Data("x", x)
    pm.Normal("y", pm.Normal("b") * xd[RNG.integers(0, N, N)] + xd, observed=y)


@model
def one_entry_of_each_row():
    pm.Normal("y", (X * pm.Normal("b", shape=3))[np.arange(N), classes], observed=y)


@model
def permuted_rows_of_a_constant():
    pm.Normal("y", pm.Normal("b") * pt.as_tensor(x)[::-1], observed=y)


@model
def observations_with_two_axes():
    pm.Normal("y", X * pm.Normal("b", shape=3), pm.HalfNormal("s", shape=3), observed=X + 0.1)


@model
def two_likelihoods():
    a, b = pm.Normal("a"), pm.Normal("b")
    pm.Normal("y", a + b * x, observed=y)
    pm.Poisson("k", pm.math.exp(b), observed=counts[:17])


@model
def three_likelihoods_of_different_length():
    a, b = pm.Normal("a"), pm.HalfNormal("b")
    pm.Normal("y", a, b, observed=y)
    pm.Poisson("k", b * exposure[:9], observed=counts[:9])
    pm.Bernoulli("z", logit_p=a * x[:5], observed=ones[:5])


@model
def an_observed_variable_as_predictor():
    a, b = pm.Normal("a"), pm.Normal("b")
    first = pm.Normal("first", a * x, observed=y)
    pm.Normal("second", b * first, observed=y**2)


@model
def potential_without_data():
    b = pm.Normal("b", shape=3)
    pm.Potential("soft", -10.0 * b.sum() ** 2)
    pm.Normal("y", X @ b, observed=y)


@model
def specified_shapes():
    xd = pt.specify_shape(pm.Data("x", x[:, None]), (None, 1))
    pm.Normal("y", (pm.Normal("b", shape=3) * xd).sum(1), observed=y)


@model
def reshaped_rows():
    cube = pt.as_tensor(RNG.normal(size=(N, 2, 2)))
    pm.Normal("y", cube.reshape((N, 4)) @ pm.Normal("b", shape=4), observed=y)


@model
def as_many_groups_as_observations():
    pm.Normal("y", pm.Normal("a", shape=N)[RNG.permutation(N)], observed=y)


@model
def as_many_columns_as_observations():
    pm.Normal("y", RNG.normal(size=(N, N)) @ pm.Normal("b", shape=N), observed=y)


@model
def as_many_columns_in_transposed_mutable_data():
    square = pm.Data("S", RNG.normal(size=(N, N)))
    pm.Normal("y", pm.Normal("b", shape=N) @ square.T, observed=y)


@model
def summed_square_along_its_first_axis():
    square = pm.Data("S", RNG.normal(size=(N, N)))
    pm.Normal("y", (square * pm.Normal("b", shape=N)[:, None]).sum(0), observed=y)


@model
def square_observations():
    pm.Normal("y", pt.alloc(pm.Normal("a", shape=N), N, N), observed=RNG.normal(size=(N, N)))


@model
def as_many_dimensions_as_observations():
    b = pm.Normal("b", shape=N - 1)
    pm.Normal("y", pm.Normal("a") + RNG.normal(size=(N, N - 1)) @ b, observed=y)


@pytest.mark.parametrize("name", MODELS)
def test_batches_hold_the_rows_of_the_model(name):
    with pm.Model() as built:
        MODELS[name]()
    parts = split_of(built)
    assert [term.name for term in parts.terms] == [rv.name for rv in built.observed_RVs]
    assert_read_rightly(built, parts)


def test_dims_and_coords_are_read_through():
    coords = {"obs": range(N), "column": ["a", "b", "c"], "group": list("abcd")}
    with pm.Model(coords=coords) as built:
        Xd = pm.Data("X", X, dims=("obs", "column"))
        index = pm.Data("g", g, dims="obs")
        slope = pm.Normal("slope", dims="column")
        level = pm.Normal("level", dims="group")
        mu = pm.Deterministic("mu", level[index] + Xd @ slope, dims="obs")
        pm.Normal("y", mu, observed=pm.Data("y_data", y, dims="obs"), dims="obs")
    parts = split_of(built)
    assert_read_rightly(built, parts)
    assert parts.coordinate_names == [f"slope[{k}]" for k in range(3)] + [
        f"level[{k}]" for k in range(4)
    ]


@pytest.mark.parametrize("wrap", [np.asarray, pt.as_tensor, lambda a: pm.Data("x", a)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "uint8", "int32", "bool"])
def test_predictors_of_every_type_are_read_alike(dtype, wrap):
    column = (3 * positive).astype(dtype)
    with pm.Model() as built:
        pm.Normal("y", pm.Normal("b") * wrap(column) + pm.Normal("a"), observed=y)
    assert_read_rightly(built, split_of(built))


@pytest.mark.parametrize("wrap", [np.asarray, lambda a: pm.Data("X", a)])
@pytest.mark.parametrize(
    "layout",
    [np.asfortranarray, lambda a: np.repeat(a, 2, axis=0)[::2], lambda a: a[::-1, ::-1]],
    ids=["fortran", "strided", "reversed"],
)
def test_predictors_of_every_layout_are_read_alike(layout, wrap):
    with pm.Model() as built:
        pm.Normal("y", pm.math.dot(wrap(layout(X)), pm.Normal("b", shape=3)), observed=y)
    assert_read_rightly(built, split_of(built))


def test_arithmetic_in_the_type_of_the_array_is_kept():
    small = pytensor.shared(x.astype("float32"), name="x")
    with pm.Model() as built:
        pm.Normal("y", pm.Normal("b") * pt.exp(small), observed=y)
    parts = split_of(built)
    assert_read_rightly(built, parts)


def test_short_likelihoods_are_part_of_the_prior():
    with pm.Model() as built:
        a = pm.Normal("a")
        pm.Normal("y", a, observed=np.zeros(1_000))
        pm.Normal("z", a, observed=y)
    parts = split_of(built, min_rows=1_000)
    assert [term.name for term in parts.terms] == ["y"]
    assert_read_rightly(built, parts)


def test_named_likelihoods_are_subsampled_and_the_others_are_not():
    with pm.Model() as built:
        three_likelihoods_of_different_length()
    parts = split_of(built, observed=["z", "y"])
    assert [(term.name, term.n_rows) for term in parts.terms] == [("z", 5), ("y", N)]
    assert_read_rightly(built, parts)


def test_a_constant_prior_part_is_no_special_case():
    with pm.Model() as built:
        pm.Normal("y", pm.Flat("a"), observed=y)
    assert_read_rightly(built, split_of(built))


@pytest.mark.parametrize("name", ["p(y, n)", "y, z", "1|g", "f8"])
def test_a_variable_may_have_any_name(name):
    with pm.Model() as built:
        pm.Normal(name, line(), observed=pm.Data("f8, f4", y))
    assert_read_rightly(built, split_of(built))
    (term,) = split_of(built, weights=np.arange(1, N + 1)).terms
    assert term.name == name


def test_splitting_leaves_the_model_as_it_was():
    with pm.Model() as built:
        groups_in_mutable_data()
    before = [v.name for v in built.value_vars], list(built.initial_point())
    split_of(built)
    assert ([v.name for v in built.value_vars], list(built.initial_point())) == before
    pm.set_data({"x": 2 * x}, model=built)
    assert_read_rightly(built, split_of(built))


def test_data_of_the_moment_of_splitting_are_kept():
    with pm.Model() as built:
        scale = pm.Data("scale", np.array([2.0, 3.0]))
        pm.Normal("y", pm.Normal("a") * scale.sum(), observed=y)
    parts = split_of(built)
    (before,) = (evaluate([parts.position], parts.prior, [p]) for p in positions(parts, 1))
    pm.set_data({"scale": np.array([9.0, 9.0])}, model=built)
    (after,) = (evaluate([parts.position], parts.prior, [p]) for p in positions(parts, 1))
    assert before == after


def test_rows_in_memory_are_not_copied():
    data = RNG.normal(size=(N, 3))
    with pm.Model() as built:
        pm.Normal("y", pm.math.dot(data, pm.Normal("b", shape=3)), observed=y)
    (term,) = split_of(built).terms
    assert any(np.shares_memory(column.values, data) for column, _ in term.batches)


# Each mutant is a plausible mistake in the reading that `assert_read_rightly` must catch.


def test_mutant_that_counts_the_likelihood_in_the_prior_is_caught():
    with pm.Model() as built:
        normal()
    parts = split_of(built)
    at = {b.variable: parts.position[b.start : b.stop].reshape(b.shape) for b in parts.blocks}
    mutant = replace(parts, prior=clone_replace(built.logp(), at))
    with pytest.raises(AssertionError):
        assert_read_rightly(built, mutant)


def test_mutant_that_drops_jacobians_is_caught(monkeypatch):
    whole = pm.Model.logp

    def without_jacobian(self, vars=None, **settings):
        return whole(self, vars=vars, jacobian=vars is None, **settings)

    with pm.Model() as built:
        normal()
    monkeypatch.setattr(pm.Model, "logp", without_jacobian)
    parts = split_of(built)
    with pytest.raises(AssertionError):
        assert_read_rightly(built, parts)


def test_mutant_that_mixes_up_blocks_is_caught():
    with pm.Model() as built:
        normal()
    parts = split_of(built)
    swapped = split_of(built, vars=built.value_vars[::-1])
    with pytest.raises(AssertionError):
        assert_read_rightly(built, replace(swapped, blocks=parts.blocks))


def test_mutant_that_reads_the_next_row_is_caught():
    with pm.Model() as built:
        normal()
    parts = split_of(built)
    (term,) = parts.terms
    shifted = [
        (replace(column, values=np.roll(column.values, 1)) if column.name != "y" else column, batch)
        for column, batch in term.batches
    ]
    mutant = replace(parts, terms=(replace(term, batches=shifted),))
    with pytest.raises(AssertionError):
        assert_read_rightly(built, mutant)
