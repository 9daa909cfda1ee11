from itertools import combinations_with_replacement, product

import numpy as np
import pymc as pm
import pytest

from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.bounds.remainder import directional_bound, joint_bound, n_orderings

ROWS = 300
every_order = pytest.mark.parametrize("order", [0, 1, 2])


def terms_of(m, order, seed=1):
    """Return random terms of all sizes, some of them zero, some the same for all rows."""
    rng = np.random.default_rng(seed)
    found = {}
    for index in combinations_with_replacement(range(m), order + 1):
        values = rng.exponential(size=ROWS) * 10.0 ** rng.uniform(-3.0, 3.0, ROWS)
        values[rng.random(ROWS) < 0.3] = 0.0
        found[index] = values if len(set(index)) > 1 or order == 0 else values[:1]
    return found


def form(terms, m, order, s):
    """Return Σ over ordered tuples of the terms times s_a s_b s_c, shape (rows, vectors)."""
    total = 0.0
    for ordered in product(range(m), repeat=order + 1):
        total = total + np.outer(
            np.broadcast_to(terms[tuple(sorted(ordered))], ROWS),
            np.prod([s[k] for k in ordered], axis=0),
        )
    return total


def test_ways_to_order_an_index():
    for index in combinations_with_replacement(range(4), 3):
        assert n_orderings(index) == sum(
            tuple(sorted(o)) == index for o in product(range(4), repeat=3)
        )


@every_order
@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_sums_over_directions(m, order):
    terms = terms_of(m, order)
    expected = form(terms, m, order, np.ones((m, 1)))[:, 0]
    found = np.broadcast_to(directional_bound(terms, 0.25), ROWS)
    np.testing.assert_allclose(found, 0.25 * expected, rtol=1e-11)
    assert (directional_bound(terms, 1.0) >= expected).all()


@every_order
def test_joint_bounds_of_two_arguments_are_close_to_the_maximum(order):
    angles = np.linspace(0.0, 0.5 * np.pi, 2_001)
    terms = terms_of(2, order)
    exact = form(terms, 2, order, np.stack([np.cos(angles), np.sin(angles)])).max(axis=1)
    bound = joint_bound(terms, np.ones(()), order, 1.0)
    assert (bound >= exact).all()
    assert (bound <= 1.02 * exact + 1e-300).all()


@every_order
@pytest.mark.parametrize("m", [1, 3, 4])
def test_joint_bounds_of_one_argument_and_of_more_arguments_are_norms(m, order):
    rng = np.random.default_rng(2)
    s = np.abs(rng.standard_normal((m, 4_000))) ** 1.5
    terms = terms_of(m, order)
    bound = joint_bound(terms, np.ones(()), order, 1.0)
    assert (bound >= form(terms, m, order, s / np.linalg.norm(s, axis=0)).max(axis=1)).all()
    every = [terms[tuple(sorted(o))] for o in product(range(m), repeat=order + 1)]
    norm = np.sqrt(sum(np.broadcast_to(term, ROWS) ** 2 for term in every))
    np.testing.assert_allclose(np.broadcast_to(bound, ROWS), norm, rtol=1e-11)


@pytest.mark.parametrize("m", [1, 2, 3])
def test_a_derivative_without_bound_leaves_none(m):
    for index in combinations_with_replacement(range(m), 3):
        terms = {k: np.ones(2) for k in combinations_with_replacement(range(m), 3)}
        terms[index] = np.array([1.0, np.inf])
        for bound in (directional_bound(terms, 1.0), joint_bound(terms, np.ones(()), 2, 1.0)):
            assert np.isfinite(bound[0])
            assert bound[1] == np.inf


def suprema_by_hand(residual, log_sigma):
    """Return the largest |third derivatives| of Student's t, ν = 4, over a grid of its arguments.

    They are by the location three times, twice, once and not at all, otherwise by log σ.
    """
    s, z = np.exp(-log_sigma), residual * np.exp(-log_sigma)
    g1, g2 = -5.0 * z / (4.0 + z**2), -5.0 * (4.0 - z**2) / (4.0 + z**2) ** 2
    g3 = 10.0 * z * (12.0 - z**2) / (4.0 + z**2) ** 3
    tail = g1 + 3.0 * z * g2 + z**2 * g3
    derivatives = s**3 * g3, s**2 * (2.0 * g2 + z * g3), s * tail, z * tail
    return [np.abs(derivative).max() for derivative in derivatives]


def test_bounds_of_student_errors_with_a_scale_are_those_by_hand():
    rng = np.random.default_rng(2025)
    X = np.column_stack([np.ones(2_000), rng.uniform(-1.0, 1.0, 2_000)])
    y = X @ [0.5, 1.0] + 1.2 * rng.standard_t(4, 2_000)
    with pm.Model() as model:
        b, sigma = pm.Normal("b", 0.0, 5.0, shape=2), pm.HalfNormal("sigma", 3.0)
        pm.StudentT("y", nu=4, mu=X @ b, sigma=sigma, observed=y)
    step = TunaMH(model=model)
    centre, factor = step.reference.centre, step.reference.factor
    box = np.linspace(-1.0, 1.0, 401) * step.tables.headers[0, 0]
    angle = np.linspace(0.0, 0.5 * np.pi, 1_001)
    by_hand = []
    for row in range(30):
        gradients = np.array([[*X[row], 0.0], [0.0, 0.0, 1.0]])
        whitened = gradients @ factor
        norms = np.linalg.norm(whitened, axis=1)
        location = gradients[0] @ centre + norms[0] * box
        D = suprema_by_hand(*np.meshgrid(y[row] - location, centre[2] + norms[1] * box))
        x1, x2 = norms[0] * np.cos(angle), norms[1] * np.sin(angle)
        form = D[0] * x1**3 + 3.0 * (D[1] * x1**2 * x2 + D[2] * x1 * x2**2) + D[3] * x2**3
        correlation = abs(whitened[0] @ whitened[1]) / norms.prod()
        by_hand.append((1.0 + correlation) ** 1.5 * form.max())
    ratios = step.tables.c[0, :30] / by_hand
    # Suprema of a grid are smaller than certified ones, by little in most rows.
    assert ratios.min() > 1.0
    assert np.median(ratios) < 1.5
