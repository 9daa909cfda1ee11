"""Rows taken apart and put together again are the rows of the model."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from helpers.models import FAMILIES
from helpers.tiers import fast
from model.evaluation import split_of
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.structure.row_function import RowData, row_functions
from structure.recomposed import assert_put_together_again

N = 24
RNG = np.random.default_rng(17)
X = RNG.normal(size=(N, 3))
x = X[:, 0]
y = RNG.normal(size=N)
positive = RNG.gamma(2.0, size=N) + 0.1
counts = RNG.poisson(3.0, N)
ones = RNG.integers(0, 2, N)
classes = RNG.integers(0, 3, N)
g = RNG.integers(0, 4, N)
h = RNG.integers(0, 2, N)


def built(build):
    with pm.Model() as result:
        build()
    return result


def functions_of(build):
    return row_functions(split_of(built(build)))


MODELS = {}


def model(build):
    MODELS[build.__name__] = build
    return build


def normal(mu):
    pm.Normal("y", mu, 1.0, observed=y)


@model
def groups_beside_predictors():
    normal(pm.Normal("a", shape=4)[g] + X @ pm.Normal("b", shape=3))


@model
def groups_in_groups():
    of_group = np.array([0, 1, 1, 0])
    effects = pm.Normal("c", shape=2)[of_group] + pm.HalfNormal("t") * pm.Normal("a", shape=4)
    normal(effects[pm.Data("g", g)])


@model
def groups_counted_from_the_end():
    index = np.where(ones == 1, g, g - 4)
    normal(pm.Normal("a", shape=4)[index] * x)


@model
def a_reference_group_counted_from_the_end():
    index = np.where(ones == 1, g, g - 4).astype(np.int8)
    effects = pt.concatenate([np.zeros(1), pm.Normal("a", shape=3)])
    normal(effects[pm.Data("g", index)])


@model
def groups_of_different_form_counted_from_the_end():
    a = pm.Normal("a", shape=3)
    normal(pt.concatenate([a[:1], pt.exp(a[1:2]), a[1:2] * a[2:]])[classes - 3])


@model
def every_other_coefficient():
    normal(pm.Normal("a", shape=8)[::2][g] + pm.Normal("b", shape=4)[::-1][g])


@model
def crossed_groups_with_slopes():
    B = pm.Normal("B", shape=(4, 2, 2))
    normal(B[g, h, 0] + B[g, h, 1] * x)


LINE = np.random.default_rng(3).integers(-6, 6, N)


@model
def cells_of_grids():
    a, b = pm.Normal("a", shape=(6, 4)), pm.Normal("b", shape=(3, 5, 6))
    normal(a[LINE, g] + x * 2.0 * b[classes - 3, g, LINE])


@model
def cells_of_a_grid_on_its_side_or_by_lines():
    a, of_line = pm.Normal("a", shape=(5, 6)), np.array([2, 1, 1, 2, 2])
    apart = pm.Normal("b", shape=(5, 7))[:, ::2]
    normal(a.T[LINE, g - 4] + x * a[of_line][g, LINE] + apart[classes, g])


@model
def a_choice_between_predictors_that_may_be_missing():
    xs = pt.as_tensor(np.where(ones == 1, x, np.nan))
    normal(pt.switch(pt.isnan(xs), pm.Normal("a"), pm.Normal("b") * xs))


@model
def an_impossible_choice_that_is_never_made():
    a = pm.Normal("a", shape=2)
    table = pt.concatenate([a[:1], pt.as_tensor([-np.inf]), a[1:]])
    normal(table[np.where(classes == 1, 0, classes)])


def small(values, dtype):
    return pytensor.shared(values.astype(dtype), name=f"{dtype} {values.sum()}")


@model
def products_that_would_overflow():
    many = 100 + g
    theta = pt.exp(pm.Normal("a"))
    mu = theta * small(many, "int8") * small(many + 1, "int8") - theta * small(many, "uint8") * 3
    pm.Normal("y", mu * 1e-4, observed=y)


@model
def sums_that_would_overflow():
    many = 100 + g
    mu = (pm.Normal("a") + small(many, "int8")) + small(many + 1, "int8")
    pm.Normal("y", 1e-2 * mu - small(many, "uint8"), 100.0, observed=y)


@model
def quotients_and_logarithms_of_small_types():
    scale = small(1 + g, "int8")
    theta = pm.Normal("a")
    mu = theta / small(positive, "float32") + pt.log(scale * pt.exp(theta))
    normal(mu + (theta * scale) ** 2 + theta * small(x, "float32") * small(y, "float32"))


@model
def arithmetic_of_small_types_as_the_model_has_it():
    few = small(g, "int8")
    short = small(x, "float32")
    normal(pm.Normal("a") * (pt.exp(few) / (1 + pt.exp(short)) + few * 60 + short**2))


@model
def conditions_on_the_position():
    a, b = pm.Normal("a"), pm.Normal("b")
    normal(pt.switch((a * x > b) & (b < 5.0), a, b * x) + (a > b * x) * x)


@model
def equality_at_a_kink():
    rectified = pt.maximum(pm.Normal("a") * x, 0.0)
    normal(pt.switch(pt.eq(rectified, 0.0), 2.0, rectified) + pt.neq(rectified, 0.0) * x)


@model
def a_rate_that_is_kept_inside_limits():
    pm.Poisson("y", pt.clip(pt.exp(pm.Normal("a") + x), 1e-3, 1e3), observed=counts)


@model
def mixture_of_which_data_rule_parts_out():
    w = pm.Dirichlet("w", np.ones(2))
    parts = [pm.Exponential.dist(pt.exp(pm.Normal("a"))), pm.Normal.dist(pm.Normal("b"), 1.0)]
    pm.Mixture("y", w, parts, observed=y)


@model
def a_background_that_is_zero_in_some_rows():
    background = np.where(ones == 1, -np.inf, -1.0)
    signal = pm.Normal("a") * x
    normal(pt.logsumexp(pt.stack([pt.as_tensor(background), signal], axis=1), axis=1))


@model
def softmax_beside_impossible_classes():
    logits = pt.stack([pm.Normal("a") * x, pt.full((N,), -np.inf), pm.Normal("b") * x], axis=1)
    normal(pm.math.softmax(logits, axis=1)[:, 0] + pm.math.softmax(logits, axis=1)[:, 1])


def density(logp):
    """Observe positive numbers whose log-density has an onset and a log-weight."""

    def of_values(value, *parameters):
        return logp(value, *parameters)

    onset, size = pt.exp(pm.Normal("onset")), pm.Normal("size")
    pm.CustomDist("y", onset, size, pm.Normal("b"), logp=of_values, observed=positive)


def after(value, onset, log_density):
    return pt.switch(value > onset, log_density, -np.inf)


@model
def a_part_that_begins_at_a_parameter():
    density(lambda v, t, a, b: pt.logaddexp(np.log(0.9) + after(v, t, -b * pt.log(v - t)), -3.0))


@model
def many_parts_that_begin_at_parameters():
    def logp(v, t, a, b):
        parts = [a - k + after(v, t * k, -pt.exp(b) * (v - t * k)) for k in range(1, 16)]
        return pt.logsumexp(pt.stack([*parts, b + 0.0 * v], axis=1), axis=1)

    density(logp)


@model
def nested_parts_that_begin_and_end_at_parameters():
    def logp(v, t, a, b):
        early, late = pt.switch(v > t, -np.inf, a * v), after(v, t, after(v, t + 0.5, b * v))
        return pt.logaddexp(pt.logaddexp(early, late), a + after(v, t, pt.logaddexp(late, a)))

    density(logp)


@model
def parts_by_energies_and_densities():
    def logp(v, t, a, b):
        energies = pt.switch(v > t, pt.sqr(v - b), np.inf), pt.switch(v > t, np.inf, pt.sqr(v - a))
        sizes = (
            (v > t) * (v - t),
            (v <= t) * (t - v),
            pt.maximum(v - t, 0.0),
            pt.maximum(t - v, 0.0),
        )
        ramps = pt.maximum(v - t, 0.0), pt.maximum(t - v, 0.0)
        by_energies = pt.logaddexp(*(-0.5 * energy for energy in energies))
        return sum((pt.logaddexp(*map(pt.log, pair)) for pair in (sizes, ramps)), by_energies)

    density(logp)


@model
def states_that_numbers_make_impossible():
    """Occupancy of a site: nothing is seen where nobody lives, as the sum over states has it."""
    seen = RNG.integers(0, 2, size=(N, 3)) * (np.arange(N) % 2)[:, None]
    share, size = pm.Normal("share"), pm.Normal("size")

    def logp(value, share, size):
        visits = pt.stack([value, seen[:, 1], seen[:, 2]], axis=1)
        lived = (visits * size - pt.softplus(size)).sum(axis=1)
        empty = pt.switch(visits, np.float64(-np.inf), np.float64(0.0)).sum(axis=1)
        return pt.logaddexp(lived, empty - share) - pt.softplus(-share)

    pm.CustomDist("y", share, size, logp=logp, observed=seen[:, 0])


@model
def parts_that_data_make_impossible():
    logs = np.where(np.arange(N)[:, None] % [2, 3], -np.inf, X[:, :2])
    logs[:, 1] = np.where(np.isneginf(logs[:, 0]), 0.5, logs[:, 1])
    normal(pt.logsumexp(pm.Data("logs", logs) + pm.Normal("weights", shape=2), axis=1))


@model
def factors_of_groups_beside_a_reference():
    size = pt.concatenate([[1.0], pt.exp(pm.Normal("a", shape=2)), pt.exp(pm.Normal("b", shape=1))])
    pm.Normal("y", size[g] * pm.Normal("c"), 1.0, observed=y)


@model
def observations_with_a_column_per_outcome():
    mu = pm.Normal("a") + X * pm.Normal("b")
    pm.Normal("y", mu, pm.HalfNormal("s"), observed=RNG.normal(size=(N, 3)))


@model
def a_likelihood_without_parameters():
    pm.Normal("prior_only")
    pm.Normal("y", 0.0, 1.0, observed=y)


def kinds(functions):
    """Return "r" for each argument of rows and "g" for each that all rows share."""
    forms = [form for function in functions for form in function.arguments]
    return "".join(sorted(("g" if form.is_global else "r" for form in forms), reverse=True))


#: Arguments of the rows of some models.
ARGUMENTS = {
    "factors_of_groups_beside_a_reference": "rg",
    "every_other_coefficient": "r",
    "crossed_groups_with_slopes": "r",
    "observations_with_a_column_per_outcome": "rrrg",
    "a_likelihood_without_parameters": "",
}
OF_FAMILIES = {
    **dict.fromkeys(("bernoulli_logit", "bernoulli_probit", "binomial", "poisson_exposure"), "r"),
    **dict.fromkeys(("exponential", "laplace", "grouped"), "r"),
    **dict.fromkeys(("negative_binomial", "normal_scale", "student_fixed", "logistic_noise"), "rg"),
    **dict.fromkeys(("cauchy", "gamma", "weibull", "lognormal", "beta_regression"), "rg"),
    "zero_inflated_poisson": "rg",
    **dict.fromkeys(("student_free", "ordered_logistic"), "rgg"),
    **dict.fromkeys(("heteroscedastic", "softmax"), "rr"),
    "normal_mixture": "ggggg",
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", MODELS)
def test_rows_are_put_together_again(name):
    found = kinds(assert_put_together_again(built(MODELS[name])))
    assert found == ARGUMENTS.get(name, found)


def test_cells_of_a_grid_are_one_grouping_factor():
    (function,) = functions_of(MODELS["cells_of_grids"])
    gathers = [term.place for term in function.arguments[0].terms]
    assert sorted((place.first, place.step, place.size) for place in gathers) == [
        (0, 1, 24), (24, 1, 30), (54, 1, 30), (84, 1, 30),
    ]  # fmt: skip


@pytest.mark.parametrize("name", fast(FAMILIES))
def test_rows_of_every_family_are_put_together_again(name):
    found = kinds(assert_put_together_again(FAMILIES[name](rows=200), n=1))
    assert found == OF_FAMILIES.get(name, found)


def through(*etas):
    def logp(value, *etas):
        return sum((-pt.exp(k * eta) for k, eta in enumerate(etas, 1)), 0.0 * value)

    return lambda a, b: pm.CustomDist("y", *etas[0](a, b), logp=logp, observed=y)


#: Pairs of arguments that count once, and that count twice.
TOGETHER = {
    "once scaled by data": lambda a, b: (a + b * x, pt.as_tensor(y) * (a + b * x)),
    "of opposite sign": lambda a, b: (a + b * x, -a - b * x),
    "apart by a constant": lambda a, b: (a + b * x, a + b * x + 3.0),
    "apart by data": lambda a, b: (a + b * x, b * x + a - pt.as_tensor(y)),
    "of which rounding makes two": lambda a, b: (a + 0.3 * b, 3.0 * (a / 3.0 + 0.1 * b)),
    "once with what cancels": lambda a, b: (a, a + 0.1 * b + 0.2 * b - 0.3 * b),
    "times the same data": lambda a, b: (a, a * x),
}
APART = {
    "with other data": lambda a, b: (a + b * x, a + b * X[:, 1]),
    "of other parameters": lambda a, b: (a, b),
    "all but parallel": lambda a, b: (a + b, a + (1.0 + 1e-9) * b),
    "beside a coefficient that is tiny": lambda a, b: (a, a + 1e-17 * b),
}


@pytest.mark.parametrize("name", [*TOGETHER, *APART])
def test_arguments_that_differ_by_data_count_once_and_others_twice(name):
    def build():
        through((TOGETHER | APART)[name])(pm.Normal("a"), pm.Normal("b"))

    (function,) = assert_put_together_again(built(build))
    assert len(function.arguments) == 1 + (name in APART)


def test_a_sum_of_two_arguments_is_no_third():
    def build():
        eta, b = pm.Normal("a") + pm.Normal("c") * x, pm.Normal("b")
        pm.Normal("y", pt.exp(eta) + pt.exp(b) + pt.exp(2.0 * eta - b), observed=y)

    (function,) = assert_put_together_again(built(build))
    assert len(function.arguments) == 2


def refused(build):
    with pytest.raises(BoundsError) as refusal:
        functions_of(build)
    message = str(refusal.value)
    assert message.startswith("'y' ")
    assert "BarkerMinibatchMH()" in message
    assert "bounds=Bounds(" in message
    return message


def test_more_than_ten_arguments_at_once_are_refused():
    def build(k):
        pm.Normal("y", pt.tanh(X[:, :1] * pm.Normal("b", shape=k)).prod(1), observed=y)

    assert len(functions_of(lambda: build(10))[0].arguments) == 10
    assert "11 different linear combinations" in refused(lambda: build(11))


def test_more_than_ten_arguments_in_a_sum_are_not_refused():
    def build():
        pm.Normal("y", pt.tanh(X[:, :1] * pm.Normal("b", shape=11)).sum(1), observed=y)

    assert functions_of(build)[0].composition.n_joint == 1


def test_a_model_in_single_precision_is_refused():
    with pytensor.config.change_flags(floatX="float32"):
        message = refused(lambda: pm.Normal("y", pm.Normal("a"), observed=y.astype("float32")))
    assert "single precision" in message


def test_data_that_are_no_numbers_leave_no_finite_coefficient():
    strange = np.where(np.arange(N) < 2, [np.nan, np.inf] * (N // 2), x)
    (function,) = functions_of(
        lambda: normal(pm.Normal("a") * pt.as_tensor(strange) + pm.Normal("b"))
    )
    matrix = RowData(function, slice(0, N)).coefficients(function.arguments[0], 2)
    assert np.isfinite(matrix).all(axis=1).tolist() == [False, False] + [True] * (N - 2)
