from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.stats import chi2

from bounds.certified import fit
from pymc_minibatch_mh.bounds.bounds_pass import TAILS, BoundsPass
from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.bounds.user_bounds import Bounds
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.native.bound_tables import TOTAL, table_of_move
from pymc_minibatch_mh.native.moves import DIRECTIONAL, JOINT, SHARP
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.structure.row_function import RowData, row_functions

ROWS = 1_500
EVERY = [
    (name, order)
    for name in ("bernoulli_logit", "student_fixed", "shared_level")
    for order in (0, 1, 2)
]


@cache
def tables_of(name, order):
    fitted = fit(name, ROWS)
    return fitted.bounds(fitted.reference(order)).tables()


def looseness_of(name, order):
    """Return the smallest Σc_i relative to that of a region without extent."""
    fitted = fit(name, ROWS)
    return tables_of(name, order).headers[:, TOTAL].min() / fitted.least_total(
        fitted.reference(order)
    )


def bounds_of(model, order=2, spread=0.1):
    """Return the tables of a model around zero, in a metric of one width everywhere."""
    parts = factorize(model, model.value_vars, min_rows=1)
    one = np.eye(parts.size)
    reference = Reference(
        np.zeros(parts.size), spread * one, one / spread, np.zeros(parts.size), one, order, 1.0
    )
    ends, names = (parts.lower, parts.upper), parts.coordinate_names
    return BoundsPass(row_functions(parts), reference, ends, names=names).tables()


def toy(logp, rows=40, d=1):
    """Return a model with a potential-like likelihood of its own."""
    y = np.random.default_rng(1).normal(size=rows)
    with pm.Model() as model:
        b = pm.Normal("b", shape=d)
        pm.CustomDist("y", b, logp=lambda value, b: logp(value, b), observed=y)
    return model


@pytest.mark.parametrize(("name", "order"), EVERY)
def test_trust_regions_are_nested(name, order):
    tables = tables_of(name, order)
    radius, kind, total = tables.headers.T
    nested = [
        *(np.sqrt(chi2.isf(tail, fit(name, ROWS).factorization.size)) for tail in TAILS),
        np.inf,
    ]
    assert (np.diff(radius) >= 0.0).all()
    assert set(radius) <= set(nested)
    assert len(set(zip(radius, kind, strict=True))) == len(radius)
    for one in set(kind):
        c = tables.c[kind == one]
        assert (np.diff(total[kind == one]) > 0.0).all()
        assert (np.diff(c, axis=0) >= -1e-6 * c[1:]).all()


@pytest.mark.parametrize(("name", "order"), EVERY)
def test_heads_tell_of_the_tables(name, order):
    tables = tables_of(name, order)
    n_rows = sum(f.n_rows for f in fit(name, ROWS).functions)
    assert tables.c.shape == (len(tables.headers), n_rows)
    assert tables.c.dtype == np.float32
    assert (np.isfinite(tables.c) & (tables.c > 0.0)).all()
    np.testing.assert_array_equal(tables.headers[:, TOTAL], tables.c.sum(axis=1, dtype=float))
    assert tables.verified
    assert 1.0 <= looseness_of(name, order) < 4.0
    kinds = {SHARP} if order == 0 or name == "bernoulli_logit" else {DIRECTIONAL, JOINT}
    assert set(tables.headers[:, 1]) <= kinds


@pytest.mark.parametrize("name", ["bernoulli_logit", "binomial"])
def test_bounds_are_rounded_up(name):
    fitted = fit(name, ROWS)
    bounds = fitted.bounds(fitted.reference(2))
    (function,) = fitted.functions
    data = RowData(function, np.arange(ROWS))
    place = bounds.geometry(data)
    tables = bounds.tables()
    # Intervals without ends are not cut.
    assert tables.headers[-1, 0] == np.inf
    exact, _ = bounds.kind.bounds(data, place, np.inf, (1,))
    assert (tables.c[-1] >= exact).all()
    assert (tables.c[-1] <= exact * (1.0 + 1e-6)).all()
    assert (tables.c[-1] > exact).any()


SHARED_KINK = toy(lambda value, b: -pt.sqr(value - pt.abs(b[0])))


@pytest.mark.parametrize("order", [1, 2])
def test_a_kink_that_all_rows_share_is_refused_with_a_way_on(order):
    with pytest.raises(
        BoundsError, match=r"'abs'.*BarkerMinibatchMH.*taylor_order=0, or pass bounds=B"
    ):
        bounds_of(SHARED_KINK, order)


def test_a_step_that_all_rows_share_is_refused_with_a_smooth_one():
    model = toy(lambda value, b: -pt.sqr(value - pt.switch(b[0] > 0.1, 0.5, b[1])), d=2)
    with pytest.raises(BoundsError, match=r"condition.*smooth step.*sigmoid.*PenaltyMH") as step:
        bounds_of(model)
    assert "a condition on the parameters, which depend on 'b[0]', are unb" in str(step.value)
    # No order of control variates bounds a jump.
    assert "taylor_order" not in str(step.value)
    with pytest.raises(BoundsError) as kink:
        bounds_of(SHARED_KINK)
    assert "smooth step" not in str(kink.value)


SWITCHES = {
    "of the user's own": (lambda v, b: pt.switch(v > b[0], -v, -np.inf), "switch.*-inf.*jumps"),
    "in a log of a sum": (
        lambda v, b: pt.logaddexp(pt.switch(b[0] > 0.1, -v, -np.inf), b[1]), "smooth step"),
    "of a support": (
        lambda v, b: pm.logp(pm.Exponential.dist(1.0), v - b[0]), "switch.*-inf.*impossible"),
    "parameter check": (
        lambda v, b: pm.logp(pm.Bernoulli.dist(b[0] + 0.0 * v), v > 0.0), "a parameter check of"),
    "parameter check within": (
        lambda v, b: pt.switch(v > 2.0, -np.inf, pm.logp(pm.Normal.dist(0.0, b[0]), v)),
        "a parameter check of"),
}  # fmt: skip


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_is_told_from_a_check_of_parameters(name):
    logp, words = SWITCHES[name]
    with pytest.raises(BoundsError, match=f"a condition on the parameters.*{words}") as found:
        bounds_of(toy(logp, d=2))
    assert ("parameter check" in str(found.value)) == ("check" in name)


SHARES = {
    "lapse rate": lambda a, b: (lapse := pm.math.sigmoid(a)) + (1 - 2 * lapse) * b,
    "guesses and lapses": lambda a, b: (
        (w := pm.Dirichlet("w", np.ones(3)))[0] + (1 - w[0] - w[1]) * b
    ),
    "noisy or": lambda a, b: 1 - (1 - pm.math.sigmoid(a)) * (1 - pm.math.sigmoid(2.0 * a) * b),
}


@pytest.mark.parametrize("name", SHARES)
@pytest.mark.parametrize("order", [1, 2])
def test_shares_that_stay_shares_have_bounds(name, order):
    x, rng = np.linspace(-6.0, 6.0, 40), np.random.default_rng(3)
    with pm.Model() as model:
        a, b = pm.Normal("a", -2.0, 1.0), pm.Normal("b")
        p = SHARES[name](a, pm.math.sigmoid(3.0 + b * x))
        pm.Bernoulli("y", p, observed=rng.random(40) < 0.5)
    tables = bounds_of(model, order, spread=0.4)
    assert np.isfinite(tables.c).all()
    assert tables.headers[-1, TOTAL] < 1e4


def test_a_kink_has_a_bound_without_control_variates():
    tables = tables_of("laplace", 0)
    assert tables.headers[-1, 0] == np.inf
    assert looseness_of("laplace", 0) == pytest.approx(1.0, rel=0.1)


def test_an_operation_without_a_rule_is_refused_by_name():
    model = toy(lambda value, b: -pt.gammainc(2.0, pt.exp(b[0]) + value**2))
    with pytest.raises(BoundsError, match=r"'y' goes through gammainc.*BarkerMinibatchMH.*Bounds"):
        bounds_of(model)


def test_the_first_of_many_rows_without_a_bound_is_named():
    """One in twenty may be evaluated in every update instead."""
    y = np.ones(50)
    shift = np.full(50, 5.0)
    shift[[17, 20, 30]] = 0.0
    with pm.Model() as model:
        b = pm.Normal("b")
        pm.Normal("y", mu=pt.sqrt(b + shift), sigma=1.0, observed=y)
    with pytest.raises(BoundsError, match=r"in row 17 .*'sqrt'.*no bound"):
        bounds_of(model)


def test_alias_tables_are_those_of_the_bounds():
    tables = Tables(np.zeros((2, 3)), np.float32([[1, 2, 3, 4], [4, 0, 0, 4]]))
    thresholds, aliases = tables.alias
    for k, c in enumerate(tables.c):
        chances = thresholds[k].copy()
        np.add.at(chances, aliases[k], 1.0 - thresholds[k])
        np.testing.assert_allclose(chances / 4.0, c.astype(float) / c.sum(dtype=float), rtol=1e-12)


def raises_beyond_one(position, new):
    if new[0] > 1.0:
        raise ValueError
    return abs(new[0] - position[0])


def test_a_metric_that_raises_bounds_no_move():
    tables = Bounds([3.0], raises_beyond_one).tables(1)
    one = np.ones((1, 1))
    reference = Reference(np.zeros(1), one, one, np.zeros(1), 0.0 * one, 0, 1.0)
    ends = np.array([[0.0], [1.0]]), np.array([[0.0], [2.0]]), np.array([[2.0], [0.0]])
    found = [table_of_move(tables.without_sampling_tables, reference, *end) for end in ends]
    assert found == [(0, 1.0), (-1, np.inf), (-1, np.inf)]
