"""Expansions of rows, and quadratic lower bounds: what they leave adds up to the whole."""

from functools import cache
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
from scipy.special import expit

from helpers.in_library import expansion_change
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.native.row_sums import moments_of_move
from pymc_minibatch_mh.reference.mode import reference_at
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.reference.third_order import with_cubic_terms
from reference.formulas import logistic_rows

N = 1_200
RNG = np.random.default_rng(31)
X = np.column_stack([np.ones(N), RNG.normal(size=(N, 2))])
y = RNG.random(N) < 1 / (1 + np.exp(-X @ [0.3, -1.0, 0.5]))
ORDERS = (0, 1, 2, 3)
BETAS = (1.0, 0.2)


@cache
def compiled():
    """The model, whose compiled functions serve every order and temperature."""
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.0, shape=3)
        pm.Bernoulli("y", logit_p=pm.math.dot(X, beta), observed=y)
    return CompiledModel(factorize(model, model.value_vars))


def setting_of(order, beta=1.0):
    target = Target(compiled(), order, beta)
    mode = target.mode(np.zeros(3), np.random.default_rng(1))
    reference = reference_at(mode, order, beta)
    if order == 3:
        reference = with_cubic_terms(reference, target.full_data)
    rng = np.random.default_rng(2)
    theta, new = reference.centre + 2.0 * rng.normal(size=(2, 3)) @ reference.factor.T
    return SimpleNamespace(
        target=target, mode=mode, reference=reference, theta=theta, new=new, order=order
    )


def compiled_change(s, rows):
    rows, ends = np.array(rows, dtype=np.int64), (s.theta, s.new, s.reference.centre)
    n, mean, *_ = moments_of_move(s.target.space, ends, rows, np.empty(rows.size))
    return n * mean


def expansion(s, theta):
    """Taylor polynomial of every row around the centre, by formula."""
    gap = theta - s.reference.centre
    parts = logistic_rows(X, y, s.reference.centre, s.order)
    total = parts[0].copy()
    if s.order >= 1:
        total += parts[1] @ gap
    if s.order >= 2:
        total += 0.5 * (parts[2] @ gap) @ gap
    if s.order == 3:
        p = expit(X @ s.reference.centre)
        total -= p * (1 - p) * (1 - 2 * p) * (X @ gap) ** 3 / 6.0
    return total


def log_likelihoods(theta):
    return logistic_rows(X, y, theta, 0)[0]


@pytest.mark.parametrize("order", ORDERS)
def test_differences_of_remainders_are_those_by_formula(order):
    s = setting_of(order)
    change = log_likelihoods(s.new) - log_likelihoods(s.theta)
    change -= expansion(s, s.new) - expansion(s, s.theta)
    found = [compiled_change(s, [row]) for row in range(0, N, 40)]
    np.testing.assert_allclose(found, change[::40], rtol=1e-8, atol=1e-13)


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("order", ORDERS)
def test_expansion_and_remainders_add_up_to_the_log_likelihood(order, beta):
    s = setting_of(order, beta)
    total = beta * compiled_change(s, range(N)) + expansion_change(s.reference, s.theta, s.new)
    expected = beta * (log_likelihoods(s.new).sum() - log_likelihoods(s.theta).sum())
    assert abs(expected) > 0.1 * beta
    assert total == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("order", ORDERS)
def test_a_move_and_its_return_cancel(order):
    s = setting_of(order)
    there = expansion_change(s.reference, s.theta, s.new)
    assert expansion_change(s.reference, s.new, s.theta) == pytest.approx(-there, rel=1e-12)
    forth = compiled_change(s, range(N))
    s.theta, s.new = s.new, s.theta
    assert compiled_change(s, range(N)) == pytest.approx(-forth, rel=1e-9)


def variance_of(s, theta, new):
    (moments,) = s.target.full_data.moves(s.target.taylor_order, [(theta, new)], s.reference.centre)
    return moments.variance


def test_higher_orders_leave_smaller_remainders():
    left = []
    for order in ORDERS:
        s = setting_of(order)
        left.append(variance_of(s, s.theta, s.new))
    assert left[0] > 50 * left[1] > 50 * 5 * left[2] > 50 * 5 * 5 * left[3]


@pytest.mark.parametrize("beta", BETAS)
def test_factor_and_whitener_belong_to_the_precision(beta):
    s = setting_of(2, beta)
    covariance = s.reference.factor @ s.reference.factor.T
    np.testing.assert_allclose(covariance, np.linalg.inv(s.mode.precision), rtol=1e-10)
    np.testing.assert_allclose(s.reference.whitener @ s.reference.factor, np.eye(3), atol=1e-12)
    assert (np.triu(s.reference.whitener, 1) == 0.0).all()
    hessian = logistic_rows(X, y, s.reference.centre, 2)[2].sum(0)
    expected = -beta * hessian + np.eye(3) / 4.0
    np.testing.assert_allclose(s.mode.precision, expected, rtol=1e-9)
