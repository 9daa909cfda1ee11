"""Steps on models with many coordinates: the copy of their rows, from the model to the draws."""

from functools import cache

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy.special import chdtri

from helpers.tiers import fast
from helpers.zoo import sample
from pymc_minibatch_mh import FactorizedMH, ScalableSubsamplingMH, TunaMH
from pymc_minibatch_mh.bounds import bounds_pass
from pymc_minibatch_mh.native.statistics import COUNTS
from pymc_minibatch_mh.plan.bound_sources import functions_of
from pymc_minibatch_mh.steps import tuna
from pymc_minibatch_mh.structure.row_function import RowData
from robustness.conformance.harness import same_draws

D, ROWS = 36, 3_000


def _likelihood(name, eta, rng):
    """Add a likelihood with a linear predictor, whose values at the truth are `eta`."""
    b = pm.Normal("b", 0.0, 1.0, shape=D)
    x, at = eta
    predictor = x @ b
    if name == "logistic":
        pm.Bernoulli("y", logit_p=predictor, observed=rng.random(ROWS) < 1 / (1 + np.exp(-at)))
    elif name == "poisson":
        pm.Poisson("y", pm.math.exp(predictor), observed=rng.poisson(np.exp(at)))
    elif name == "negative binomial":
        y, alpha = rng.negative_binomial(3.0, 3.0 / (3.0 + np.exp(at))), pm.HalfNormal("a", 5.0)
        pm.NegativeBinomial("y", mu=pm.math.exp(predictor), alpha=alpha, observed=y)
    elif name == "student":
        sigma = pm.HalfNormal("sigma", 2.0)
        pm.StudentT("y", nu=4.0, mu=predictor, sigma=sigma, observed=at + rng.standard_t(4.0, ROWS))
    elif name == "probit":
        p = pm.math.invprobit(predictor)
        pm.Bernoulli("y", p=p, observed=rng.normal(size=ROWS) < at)
    elif name == "binomial":
        y = rng.binomial(4, 1 / (1 + np.exp(-at)))
        pm.Binomial("y", n=4, logit_p=predictor, observed=y)
    elif name == "geometric":
        p = pm.math.invlogit(predictor)
        pm.Geometric("y", p=p, observed=rng.geometric(1 / (1 + np.exp(-at))))
    elif name == "complementary log-log":
        y = rng.random(ROWS) < 1 - np.exp(-np.exp(at))
        pm.Bernoulli("y", p=1 - pm.math.exp(-pm.math.exp(predictor)), observed=y)
    elif name == "zero-inflated":
        y = rng.poisson(np.exp(at)) * (rng.random(ROWS) < 0.7)
        pm.ZeroInflatedPoisson("y", 0.7, pm.math.exp(predictor), observed=y)
    elif name == "logistic errors":
        pm.Logistic("y", predictor, pm.HalfNormal("s", 2.0), observed=at + rng.logistic(size=ROWS))
    elif name == "gamma":
        rate = pm.math.exp(-predictor)
        pm.Gamma("y", alpha=3.0, beta=3.0 * rate, observed=rng.gamma(3.0, np.exp(at) / 3.0))
    elif name == "two predictors":
        spread = pm.Normal("s", 0.0, 1.0, shape=2)
        scale = pm.math.exp(x[:, :2] @ spread)
        pm.Normal("y", predictor, scale, observed=at + rng.normal(size=ROWS))


@cache
def model_of(name):
    rng = np.random.default_rng(31)
    x = rng.normal(size=(ROWS, D)) / np.sqrt(D)
    with pm.Model() as model:
        _likelihood(name, (x, x @ rng.normal(size=D)), rng)
    return model


#: Families of which every row is held against its own ceiling, and all that posteriors are of.
HELD = ("logistic", "poisson", "negative binomial", "student", "probit", "two predictors")
FAMILIES = (
    *HELD, "binomial", "geometric", "complementary log-log", "zero-inflated", "logistic errors",
    "gamma",
)  # fmt: skip
#: The others differ in the family of their rows alone, or have two predictors: nightly.
FEW = ("logistic",)


@cache
def step_of(name, method=TunaMH):
    with model_of(name):
        return method()


def unit_directions(plan, factor, rows):
    """Return whitened coefficients of the predictor of some rows, as unit vectors."""
    (function,) = functions_of(plan.target)
    white = RowData(function, rows).coefficients(function.arguments[0], D) @ factor
    return white / np.linalg.norm(white, axis=1, keepdims=True)


def directions_of(copy, rows):
    """Return the directions that lines hold, of rows that have one each."""
    lines = copy.lines[rows]
    scales = lines[:, :4].copy().view(np.float32)
    return scales * lines[:, 8 : 8 + copy.shared.shape[1]]


def test_lines_follow_the_centre():
    plan, rows = step_of("logistic").plan, np.arange(0, ROWS, 7)
    factor = plan.reference.factor * np.linspace(1.0, 3.0, D)
    moved = plan.reference._replace(
        centre=plan.reference.centre + 0.01, factor=factor, whitener=np.linalg.inv(factor)
    )
    found = directions_of(plan.at(moved).tables.copy, rows)
    assert np.abs(found - unit_directions(plan, factor, rows)).max() < 1 / 127
    assert np.abs(found - directions_of(plan.tables.copy, rows)).max() > 0.1


@pytest.mark.slow
def test_no_row_exceeds_its_own_ceiling():
    """A step without κ > 1 holds every row that it reads against its own ceiling."""
    for name in HELD:
        trace = sample(model_of(name), step_of(name, FactorizedMH), 300, 100, random_seed=5)
        stats = trace.sample_stats
        assert float(stats["bound_ratio"].max()) <= 1.0
        # Some moves read all rows.
        assert float(stats["n_candidates"].median()) > 2.0 * float(stats["n_obs"].median())


@pytest.mark.slow
@pytest.mark.parametrize("name", fast(FAMILIES, FEW))
def test_the_posterior_is_that_without_a_copy(name, monkeypatch):
    settings = {"tune": 1_500, "draws": 12_000, "chains": 2, "random_seed": 3}
    found = sample(model_of(name), step_of(name), **settings)
    monkeypatch.setattr(bounds_pass, "NARROW", 1_000)
    model = model_of.__wrapped__(name)
    with model:
        other = sample(model, TunaMH(), **settings)
    assert "n_candidates" not in other.sample_stats
    compare(found, other)


def compare(found, other):
    """Hold means and standard deviations of two traces against each other."""
    for kind in ("mean", "sd"):
        one, two = (az.summary(t.posterior, kind="all", round_to="none") for t in (found, other))
        error = np.hypot(one[f"mcse_{kind}"], two[f"mcse_{kind}"])
        z = ((one[kind] - two[kind]) / error).to_numpy(dtype=float)
        # By Bonferroni, of all coordinates together.
        assert (z**2).max() < chdtri(1, 1e-4 / z.size)


def test_a_saved_step_draws_what_a_new_one_draws(tmp_path):
    path, model = tmp_path / "step.npz", model_of("logistic")
    step_of("logistic").save(path)
    with model:
        step = TunaMH(prepared=path)
    np.testing.assert_array_equal(
        step.plan.tables.copy.lines, step_of("logistic").plan.tables.copy.lines
    )
    assert step.plan.tables.copy.lines.ctypes.data % 64 == 0
    runs = [sample(model, one, 50, 50, random_seed=9) for one in (step, step_of("logistic"))]
    same_draws(*runs)


def totals(**values):
    found = np.zeros((), COUNTS)
    for name, value in values.items():
        found[name] = value
    return found


def chosen_by(counts, *, size=40, rate_factor=1.0, by_groups=False):
    """Return the factors of ceilings and of rates that warm-up chooses; None for too few rows."""
    record = tuna.poisson_test()._replace(ceiling_factor=4.0, rate_factor=rate_factor)
    found = tuna.rate_factor_from(counts, record, 100, size, by_groups=by_groups)
    return found and (found.ceiling_factor, found.rate_factor)


SEEN = {"n_sizes": 1_000.0, "n_ratios": 3_000.0, "squared_ratios": 600.0}


def test_ceilings_are_raised_by_what_rows_and_candidates_cost():
    few, many = (chosen_by(totals(sizes=1_000.0 * size, **SEEN))[0] for size in (100.0, 10_000.0))
    # Rows are cheap beside many candidates, and beside updates of many coordinates.
    assert 1.0 < few < many
    counts = totals(sizes=1e5, **SEEN)
    assert few < chosen_by(counts, size=400)[0]
    noiseless = totals(sizes=1e5, **(SEEN | {"squared_ratios": 1e-9}))
    assert chosen_by(noiseless)[0] == 1.0
    assert chosen_by(totals(sizes=1e5, n_sizes=10.0)) is None


def test_rates_of_groups_are_raised_where_there_are_few_candidates():
    few, many = (totals(sizes=1_000.0 * size, **SEEN) for size in (4.0, 1_000.0))
    factor, raised = chosen_by(few, by_groups=True)
    assert raised == pytest.approx(tuna.CANDIDATES_PER_ROW * factor * 3.0 / 4.0)
    assert raised > 2.0
    assert chosen_by(few)[1] == chosen_by(many, by_groups=True)[1] == 1.0
    # Candidates that were counted came at raised rates.
    twice = totals(sizes=8_000.0, **SEEN)
    assert chosen_by(twice, rate_factor=2.0, by_groups=True) == (factor, raised)


def test_settings_say_which_factor_is_chosen():
    for method, raised in ((ScalableSubsamplingMH, True), (FactorizedMH, False)):
        program = step_of("logistic", method).program
        assert (program.method.record(program.plan).ceiling_factor > 1.0) == raised
