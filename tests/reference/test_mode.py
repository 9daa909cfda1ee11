from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.optimize import minimize

from pymc_minibatch_mh.compiled import model as compiled_model
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.compiled.prior import GraphPrior
from pymc_minibatch_mh.errors import BoundsError, MinibatchError, ModeError
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.reference import mode as mode_module
from pymc_minibatch_mh.reference.density import Density
from pymc_minibatch_mh.reference.mode import find_mode
from pymc_minibatch_mh.reference.target import Target
from reference.formulas import hierarchy_passes, logistic_passes, passes_of

N = 2_000
RNG = np.random.default_rng(21)
X = np.column_stack([np.ones(N), RNG.normal(size=(N, 2))])
y = RNG.random(N) < 1 / (1 + np.exp(-X @ [0.3, -1.0, 0.5]))
NAMES = ["intercept", "slope[0]", "slope[1]"]


def mode_of(passes, start=None, beta=1.0, names=NAMES):
    start = np.zeros(len(names)) if start is None else start
    return find_mode(Density(passes, names, beta), start, np.random.default_rng(0))


def assert_is_the_mode(found, passes, beta=1.0):
    """Compare with scipy, in posterior standard deviations."""

    def objective(theta):
        rows, prior = passes.likelihood(theta, hessian=True), passes.prior(theta, hessian=True)
        return -beta * rows.value - prior.value, -beta * rows.gradient - prior.gradient

    best = minimize(objective, np.zeros(3), jac=True, method="BFGS", options={"gtol": 1e-8}).x
    gap = found.position - best
    assert np.sqrt(gap @ found.precision @ gap) < 2e-3
    rows, prior = (part(best, hessian=True) for part in (passes.likelihood, passes.prior))
    np.testing.assert_allclose(found.precision, -beta * rows.hessian - prior.hessian, rtol=1e-3)


@pytest.mark.parametrize("beta", [1.0, 0.1])
@pytest.mark.parametrize("start", [np.zeros(3), np.array([3.0, -3.0, 3.0])])
def test_newton_finds_the_mode_of_a_logistic_regression(beta, start):
    passes = logistic_passes(X, y, [0.01, 1.0, 25.0])
    assert_is_the_mode(mode_of(passes, start, beta), passes, beta)


def test_a_subsample_leads_to_the_mode_of_all_rows():
    passes, read = logistic_passes(X, y, np.ones(3)), []

    def likelihood(theta, *, hessian, rows=None):
        read.append(N if rows is None else len(rows))
        return passes.likelihood(theta, hessian=hessian, rows=rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mode_module, "SUBSAMPLE", 200)
        found = mode_of(passes_of(likelihood, passes.prior))
    assert_is_the_mode(found, passes)
    assert set(read) == {200, N}
    assert read.count(N) <= 6


def test_a_subsample_without_a_mode_leaves_it_to_all_rows(monkeypatch):
    monkeypatch.setattr(mode_module, "SUBSAMPLE", 200)
    drawn = np.random.default_rng(0).choice(N, 200, replace=False)
    few = np.zeros(N, dtype=bool)
    few[np.setdiff1d(np.arange(N), drawn)[:5]] = True
    passes = logistic_passes(X, few, np.array([0.0, 1.0, 1.0]))
    assert_is_the_mode(mode_of(passes), passes)


def separated():
    passes = logistic_passes(X, X[:, 1] > 0.0, [1.0, 0.0, 1.0])
    return passes, NAMES, r"'slope\[0\]'"


def collinear():
    twice = np.column_stack([X[:, :2], 2 * X[:, 1]])
    return (
        logistic_passes(twice, y, np.zeros(3)),
        NAMES,
        r"'slope\[0\]', 'slope\[1\]'|'slope\[1\]', 'slope\[0\]'",
    )


def boundary_of_a_hierarchy():
    return hierarchy_passes(np.full(8, 1e-3), 1.0), ["log_tau", *"abcdefgh"], "'log_tau'"


@pytest.mark.parametrize("case", [separated, collinear, boundary_of_a_hierarchy])
def test_a_mode_that_is_missing_names_the_parameters(case):
    passes, names, culprits = case()
    with pytest.raises(ModeError, match=f"^({culprits})[: ].*(informative prior|pm.NUTS)"):
        mode_of(passes, np.full(len(names), 0.01), names=names)


#: True of a start that was given and of the mean of a warm-up.
START = r"^The search for the mode starts at a point whose log-density is not finite"


def test_a_start_outside_the_support_is_refused():
    passes = logistic_passes(X, y, np.ones(3))
    with pytest.raises(ModeError, match=START):
        mode_of(passes, np.full(3, np.nan))


def test_derivatives_that_are_not_finite_name_the_parameter():
    passes = logistic_passes(X, y, np.ones(3))

    def prior(theta, *, hessian):
        sound = passes.prior(theta, hessian=hessian)
        return replace(sound, gradient=np.array([0.0, np.nan, 0.0]))

    with pytest.raises(ModeError, match=r"^'slope\[0\]' has derivatives that are not finite"):
        mode_of(passes_of(passes.likelihood, prior))


# Models in PyMC, through the compiled passes.


@pytest.fixture(scope="module")
def normal():
    """Two likelihoods whose mode is known, on arrays that tests may spoil and mend."""
    few, many = RNG.normal(2.0, 1.0, 1_000), RNG.normal(2.0, 1.0, 1_500)
    design = RNG.normal(size=1_500)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 0.1)
        pm.Normal("few", mu, 0.5, observed=few)
        pm.Normal("many", mu * design, 2.0, observed=many)
    target = Target(CompiledModel(factorize(model, model.value_vars)), 2, 0.5)
    precision = 100.0 + 0.5 * (1_000 / 0.25 + design @ design / 4.0)
    mean = 0.5 * (few.sum() / 0.25 + design @ many / 4.0) / precision
    return SimpleNamespace(target=target, precision=precision, mean=mean, few=few, design=design)


def test_compiled_passes_find_the_mode_in_closed_form(normal):
    found = normal.target.mode(np.array([-3.0]), np.random.default_rng(0))
    assert found.position.item() == pytest.approx(normal.mean, rel=1e-9)
    assert found.precision.item() == pytest.approx(normal.precision, rel=1e-9)


@pytest.mark.parametrize("row", [0, 777, 1_499])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_row_without_density_is_named(normal, row, value):
    start = np.array([1.0])
    normal.target.require_finite(start)
    columns = {c.name: c.values for c in normal.target.source.columns}
    (design,) = (v for v in columns.values() if v.size == 1_500 and v[0] == normal.design[0])
    whole = design[row]
    design[row] = value
    try:
        with pytest.raises(MinibatchError, match=f"^'many' has .* first in row {row}[.] Correct"):
            normal.target.require_finite(start)
    finally:
        design[row] = whole
    normal.target.require_finite(start)


@pytest.mark.parametrize("road", ["forms", "graphs"])
def test_a_curvature_without_value_is_named_by_its_row_and_operation(road, monkeypatch):
    """A search that goes on along the gradient ends with the reason, and not with a guess."""
    y = np.linspace(0.5, 1.5, 50)
    y[37] = 0.0
    through = ", through pow"
    if road == "graphs":
        monkeypatch.setattr(
            compiled_model, "row_functions", Mock(side_effect=BoundsError("of none"))
        )
        through = ""
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.CustomDist("y", mu, logp=lambda v, mu: -((v * pt.exp(mu)) ** 1.5), observed=y)
    target = Target(CompiledModel(factorize(model, model.value_vars, min_rows=1)))
    with pytest.raises(ModeError, match=f"not finite in row 37 of 'y'{through}, at mu = ") as told:
        target.mode(np.zeros(1), np.random.default_rng(0))
    assert "kink" not in str(told.value)
    assert "prior" not in str(told.value)


def test_a_step_that_is_too_long_is_no_error_of_pymc():
    with pm.Model() as model:
        scale = pm.HalfNormal("scale")
        effect = pm.Normal("effect", 0.0, scale, shape=3)
        pm.Normal("y", effect[0], 1.0, observed=RNG.normal(size=1_000))
    prior = GraphPrior(factorize(model, model.value_vars))
    # The scale underflows to zero here, which PyMC's own check refuses by raising.
    value, *_ = prior.derivatives(np.array([-800.0, 0.1, 0.0, 0.0]), np.empty(0), hessian=True)
    assert value == -np.inf


def test_values_that_are_all_rounding_do_not_end_the_search():
    passes = logistic_passes(X, y, np.ones(3))
    noise = np.random.default_rng(8)

    def likelihood(theta, *, hessian, rows=None):
        found = passes.likelihood(theta, hessian=hessian, rows=rows)
        return replace(found, value=found.value + noise.normal(scale=1e-2))

    for _ in range(20):
        assert_is_the_mode(mode_of(passes_of(likelihood, passes.prior)), passes)


TIMES = np.where(RNG.random(N) < 0.05, RNG.uniform(0.0, 3.0, N), 0.2 + RNG.lognormal(-1, 0.35, N))


def reactions(values, mu, log_sd, onset, logit, where):
    """Return log-densities of lognormal times after an onset, and guesses that are uniform."""
    late = values > onset
    z = (np.log(where(late, values - onset, 1.0)) - mu) / np.exp(log_sd)
    scale = log_sd + np.log(where(late, values - onset, 1.0)) + 0.5 * np.log(2.0 * np.pi)
    reaction = where(late, -0.5 * z**2 - scale, -np.inf)
    return reaction - np.log1p(np.exp(logit)), logit - np.log1p(np.exp(logit)) - np.log(3.0)


WEIGHTS = {"fixed": lambda: pt.constant(-3.0), "free": lambda: pm.Normal("logit", -3.0, 1.0)}


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("order", [1, -1])
def test_the_mode_of_a_mixture_is_found_where_a_part_is_impossible(weight, order):
    def logp(values, *parameters):
        return pt.logaddexp(*reactions(values, *parameters, pt.switch)[::order])

    with pm.Model() as model:
        mu, log_sd, onset = (
            pm.Normal("mu", -1),
            pm.Normal("log_sd", 0),
            pm.Normal("onset", 0.1, 0.1),
        )
        pm.CustomDist("y", mu, log_sd, onset, WEIGHTS[weight](), logp=logp, observed=TIMES)
    factorization = factorize(model, model.value_vars)
    start, means = np.array([-0.5, 0.0, 0.3, -2.0]), np.array([-1.0, 0.0, 0.1, -3.0])
    size = factorization.size

    def objective(position):
        given = np.concatenate([position, [-3.0] * (4 - size)])
        with np.errstate(all="ignore"):
            rows = np.logaddexp(*reactions(TIMES, *given, np.where))
        return 0.5 * (((given - means) / [1, 1, 0.1, 1]) ** 2).sum() - rows.sum()

    found = Target(CompiledModel(factorization)).mode(start[:size], np.random.default_rng(0))
    best = minimize(objective, found.position + 0.05, method="BFGS").x
    gap = found.position - best
    assert np.sqrt(gap @ found.precision @ gap) < 2e-3
