"""Rows depend on the directions of their group alone, and no row exceeds what these bound."""

import numpy as np
import pymc as pm
import pytest

from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.bounds.bounds_pass import BoundsPass
from pymc_minibatch_mh.bounds.geometry import groups_of
from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.chain.kernel_probe import Probe, ProposedMove
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.native.bound_tables import RADIUS
from pymc_minibatch_mh.structure.row_function import RowData, row_functions

ROWS, GROUPS = 1_500, 12


def slopes():
    """Errors of an unknown scale and shape around lines of groups."""
    rng = np.random.default_rng(5)
    group, x = rng.integers(0, GROUPS, ROWS), rng.uniform(-1.0, 1.0, ROWS)
    level, slope = rng.normal(0.0, 0.5, (2, GROUPS))
    y = level[group] + slope[group] * x + rng.standard_t(4, ROWS)
    with pm.Model() as model:
        a, b = (pm.Normal(name, 0.0, pm.HalfNormal(f"s_{name}"), shape=GROUPS) for name in "ab")
        mu, nu = a[group] + b[group] * x, pm.Gamma("nu", 2.0, 0.1)
        pm.StudentT("y", nu=nu, mu=mu, sigma=pm.HalfNormal("sigma"), observed=y)
    return model


def indicators():
    """Columns that few rows have, in pairs; the last column is zero in a tenth of the rows."""
    rng = np.random.default_rng(6)
    kinds = rng.integers(0, 8, (2, ROWS))[:, :, None] == np.arange(1, 8)
    dense = rng.standard_normal((ROWS, 2)) * (rng.random((ROWS, 2)) > [0.0, 0.1])
    design = np.column_stack([np.ones(ROWS), *kinds, dense])
    y = rng.random(ROWS) < 0.5
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.0, shape=design.shape[1])
        pm.Bernoulli("y", logit_p=design @ beta, observed=y.astype(np.int8))
    return model


def two_terms():
    """Two outcomes of the same groups, of which the second one reads the level alone."""
    rng = np.random.default_rng(7)
    group, x = rng.integers(-GROUPS, GROUPS, ROWS), rng.standard_normal(ROWS)
    with pm.Model() as model:
        a, b = (pm.Normal(name, 0.0, 1.0, shape=GROUPS) for name in "ab")
        mu, one = pm.Normal("mu"), pm.Normal("one")
        pm.Normal("y", mu + a[group] + b[group] * x, 1.0, observed=x)
        pm.Poisson("n", pm.math.exp(one * x + a[group]), observed=rng.poisson(1.0, ROWS))
    return model


#: Directions of all rows, of a group, and number of groups.
MODELS = {"slopes": (slopes, 2, 2, 12), "indicators": (indicators, 3, 2, 49),
          "two terms": (two_terms, 1, 2, 24)}  # fmt: skip


def factor_of(size):
    """Return a lower triangular matrix, by which positions are whitened."""
    rng = np.random.default_rng(3)
    return np.tril(rng.normal(0.0, 0.3, (size, size)), -1) + np.diag(rng.uniform(0.5, 2.0, size))


@pytest.mark.parametrize("name", MODELS)
def test_forms_of_a_row_lie_in_the_directions_of_a_group(name):
    build, shared, each, count = MODELS[name]
    model = build()
    own = factorize(model, model.value_vars)
    functions, factor = row_functions(own), factor_of(own.size)
    found = groups_of(functions, factor)
    assert found is not None
    assert (len(found.shared), found.each, found.n_groups, found.size) == (
        shared, each, count, shared + each,
    )  # fmt: skip
    bases = [
        np.concatenate([found.shared, lines])
        for lines in found.own.reshape(found.n_groups, found.each, own.size)
    ]
    for basis in bases:
        length = np.linalg.norm(basis, axis=1)
        np.testing.assert_allclose(basis @ basis.T, np.diag(length > 0.5), atol=1e-13)
    for function in functions:
        data = RowData(function, slice(0, ROWS))
        forms = [data.coefficients(form, own.size) @ factor for form in function.arguments]
        outside = np.zeros((len(bases), ROWS))
        for g, basis in enumerate(bases):
            for form in forms:
                rest = np.abs(form - form @ basis.T @ basis).max(axis=1)
                outside[g] = np.maximum(outside[g], rest)
        assert outside.min(axis=0).max() < 1e-13
        assert outside.max() > 0.1


@pytest.fixture(scope="module")
def step():
    return TunaMH(model=slopes())


@pytest.mark.slow
def test_bounds_are_several_times_smaller(step, monkeypatch):
    found = step.tables
    assert found.groups.n_groups == GROUPS
    support = step.target.factorization.lower, step.target.factorization.upper
    monkeypatch.setattr("pymc_minibatch_mh.bounds.bounds_pass.WORTH_GROUPS", np.inf)
    whole = BoundsPass(step.target.row_functions, step.reference, support).tables()
    assert whole.groups is None
    assert found.headers[0, RADIUS] < 0.7 * whole.headers[0, RADIUS]
    assert found.headers[0, 2] < 0.8 * whole.headers[0, 2]


@pytest.mark.slow
def test_no_row_exceeds_its_bound(step):
    rng, reference = np.random.default_rng(6), step.reference
    chain = Chain(step.program, np.random.default_rng(1), adapting=True)
    chain.state.started = True
    probe, largest = Probe(chain, rng), []
    for scale in (0.05, 0.3, 1.0) * 15:
        noise = rng.standard_normal((2, reference.centre.size))
        noise[1] = noise[0] + scale * (noise[1] - noise[0])
        here, there = reference.centre + noise @ reference.factor.T
        rows = probe.rows(ProposedMove(here, there, 0.0))
        if rows.bound_row >= 0:
            largest.append(rows.bound_ratio)
    assert len(largest) > 30
    assert 0.05 < max(largest) <= 1.0
