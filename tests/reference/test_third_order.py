"""Cubic terms of expansions, and bounds of the remainders that they leave."""

import numpy as np
import pymc as pm
import pytest

from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.native.bound_tables import table_of_move
from pymc_minibatch_mh.reference.full_data import BoundedMove

ROWS, GROUPS = 1_200, 5
RNG = np.random.default_rng(11)
X, G = RNG.normal(size=(ROWS, 2)), RNG.integers(0, GROUPS, ROWS)
COUNTS = RNG.poisson(1.0, ROWS)


def hierarchy(family):
    """Return a regression with effects of groups, of one linear predictor."""
    with pm.Model() as model:
        mu, tau = pm.Normal("mu"), pm.HalfNormal("tau")
        effects = pm.Normal("a", mu, tau, shape=GROUPS)
        slopes = pm.Normal("b", 0.0, 1.0, shape=2)
        family(effects[G] + X @ slopes)
    return model


#: name -> an observed variable with a linear predictor.
FAMILIES = {
    "logit": lambda u: pm.Bernoulli("y", logit_p=u, observed=COUNTS > 0),
    "probit": lambda u: pm.Bernoulli("y", p=pm.math.invprobit(u), observed=COUNTS > 0),
    "cloglog": lambda u: pm.Bernoulli("y", p=1 - pm.math.exp(-pm.math.exp(u)), observed=COUNTS > 0),
    "Poisson": lambda u: pm.Poisson("y", pm.math.exp(u), observed=COUNTS),
    "negative binomial": lambda u: pm.NegativeBinomial(
        "y", mu=pm.math.exp(u), alpha=3.0, observed=COUNTS
    ),
    "binomial": lambda u: pm.Binomial("y", 9, logit_p=u, observed=np.minimum(COUNTS, 9)),
    "Gamma": lambda u: pm.Gamma("y", alpha=2.0, beta=2.0 * pm.math.exp(-u), observed=COUNTS + 0.5),
    "Student": lambda u: pm.StudentT("y", nu=4.0, mu=u, sigma=1.0, observed=COUNTS - 1.0),
    "Weibull": lambda u: pm.Weibull("y", 1.5, pm.math.exp(u), observed=COUNTS + 0.5),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_no_row_exceeds_its_bound(name):
    """Fourth derivatives bound remainders between any two positions of a region."""
    step = TunaMH(model=hierarchy(FAMILIES[name]), taylor_order=3)
    target, reference, tables = step.target, step.reference, step.tables
    assert reference.order == 3
    rng, largest = np.random.default_rng(5), []
    for k in range(40):
        w = rng.standard_normal((2, reference.size))
        radius = min(tables.headers[0, 0], 6.0)
        w *= rng.uniform(0.2, 1.0, (2, 1)) * radius / np.linalg.norm(w, axis=1)[:, None]
        if k % 2:
            w[1] = w[0] + 0.1 * (w[1] - w[0])
        here, there = reference.centre + w @ reference.factor.T
        move = replace_move(step, here, there)
        if move is not None:
            largest.append(target.full_data.largest_ratio(move, tables.c[move.table])[0])
    assert len(largest) > 30
    assert 0.02 < max(largest) <= 1.0


def replace_move(step, here, there):
    """Return a move with its table and size; None if no table holds."""
    table, m = table_of_move(step.tables.arrays, step.reference, here, there)
    ends = here, there, step.reference.centre
    return BoundedMove(3, ends, table, m, 1.0) if table >= 0 else None


def test_cubic_terms_are_differences_of_hessians():
    step = TunaMH(model=hierarchy(FAMILIES["Poisson"]), taylor_order=3)
    reference, full_data = step.reference, step.target.full_data
    tensor, size = np.zeros((reference.size,) * 3), 1e-4
    for k, unit in enumerate(np.eye(reference.size)):
        hessians = [
            full_data.likelihood(reference.centre + s * size * unit, hessian=True).hessian
            for s in (1, -1)
        ]
        tensor[k] = (hessians[0] - hessians[1]) / (2.0 * size)
    x = np.random.default_rng(3).normal(size=reference.size)
    found, start = 0.0, 0
    for a, b, first, last in reference.lines:
        thirds = reference.thirds[start : start + last - first]
        found += x[a] * x[b] * (thirds @ x[first:last])
        start += last - first
    assert start == reference.thirds.size
    assert found == pytest.approx(np.einsum("abc,a,b,c", tensor, x, x, x) / 6.0, rel=1e-6)
    # Effects of different groups share no row.
    assert len(reference.lines) < 60


def test_coefficients_of_a_coordinate_in_two_places_add_up():
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=3)
        pm.Poisson("y", pm.math.exp(b[G % 3] + 0.3 * b[0] + X[:, 0] * b[1]), observed=COUNTS)
    step = TunaMH(model=model, taylor_order=3)
    centre = step.reference.centre
    design = np.eye(3)[G % 3] + np.outer(np.ones(ROWS), [0.3, 0.0, 0.0])
    design[:, 1] += X[:, 0]
    tensor = -np.einsum("i,ia,ib,ic", np.exp(design @ centre), design, design, design)
    ascending = np.zeros((3, 3, 3))
    for a, b, c in np.ndindex(3, 3, 3):
        ascending[a, b, c] = tensor[a, b, c] if a <= b <= c else 0.0
    np.testing.assert_allclose(step.target.full_data.thirds(centre), ascending, rtol=1e-10)


def test_rows_of_several_predictors_are_refused():
    def free_scale(u):
        pm.Normal("y", u, pm.HalfNormal("sigma"), observed=COUNTS)

    with pytest.raises(SettingError, match="several linear predictors"):
        TunaMH(model=hierarchy(free_scale), taylor_order=3)
    with pytest.raises(SettingError, match="blocks=True"):
        TunaMH(model=hierarchy(FAMILIES["logit"]), taylor_order=3, blocks=True)
