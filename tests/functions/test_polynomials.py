"""Ranges of polynomials of shares hold all values, and are exact at the corners."""

from itertools import product

import numpy as np
import pytest

from pymc_minibatch_mh.functions.polynomials import Range, Unknown
from pymc_minibatch_mh.functions.polynomials import add_polynomials as plus
from pymc_minibatch_mh.functions.polynomials import bernstein_coefficients as in_basis
from pymc_minibatch_mh.functions.polynomials import constant_polynomial as constant
from pymc_minibatch_mh.functions.polynomials import linear_polynomial as linear
from pymc_minibatch_mh.functions.polynomials import multiply_polynomials as times
from pymc_minibatch_mh.functions.polynomials import polynomial_range as range_of

CLOSED = Range(0.0, 1.0, low_is_open=False, high_is_open=False)


def unknown(number, group=None, has_bound=True):
    return Unknown(number, number if group is None else group, False, False, has_bound)


A, B, C = ({(unknown(k),): 1.0} for k in range(3))
W = [{(unknown(10 + k, "w"),): 1.0} for k in range(3)]
SIZE = {(unknown(20, has_bound=False),): 1.0}


def rest(polynomial):
    return plus(constant(1.0), times(constant(-1.0), polynomial))


def value(polynomial, numbers):
    return sum(f * np.prod([numbers[u.number] for u in m]) for m, f in polynomial.items())


# Name -> polynomial, its range, and whether its ends are open.
KNOWN = {
    "convex combination": (plus(times(A, rest(B)), times(rest(A), B)), (0.0, 1.0), (True, True)),
    "lapse rate": (plus(A, times(rest(times(constant(2.0), A)), B)), (0.0, 1.0), (True, True)),
    "union": (plus(A, B, times(constant(-1.0), times(A, B))), (0.0, 1.0), (True, True)),
    "two of a kind": (times(constant(2.0), times(A, rest(A))), (0.0, 1.0), (True, True)),
    "shares of one": (plus(W[0], times(W[1], B)), (0.0, 1.0), (True, True)),
    "all shares of one": (rest(plus(*W)), (0.0, 1.0), (False, True)),
    "shares and their product": (plus(W[0], times(W[0], W[1])), (0.0, 1.0), (True, True)),
    "a size": (plus(constant(2.0), times(SIZE, rest(A))), (2.0, np.inf), (True, True)),
    "a size of unknown sign": (times(SIZE, plus(A, times(constant(-1.0), B))), (-np.inf, np.inf),
                               (True, True)),
    "nothing": ({}, (0.0, 0.0), (False, False)),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_a_range_is_known(name):
    polynomial, ends, are_open = KNOWN[name]
    found = range_of(polynomial)
    assert (found.low, found.high) == pytest.approx(ends)
    assert (found.low_is_open, found.high_is_open) == are_open


@pytest.mark.parametrize("seed", range(40))
def test_no_value_lies_outside_and_corners_are_reached(seed):
    rng = np.random.default_rng(seed)
    shares = [A, B, C, *W[:2]]
    terms = []
    for _ in range(rng.integers(2, 7)):
        factors = [shares[k] for k in rng.permutation(5)[: rng.integers(1, 4)]]
        if seed % 2:
            factors.append(factors[0])
        term = constant(float(rng.normal()))
        for factor in factors:
            term = times(term, factor)
        terms.append(term)
    polynomial = plus(*terms)
    boxes, weights = rng.random((3, 4_000)), rng.dirichlet(np.full(3, 0.3), 4_000).T
    numbers = {**dict(enumerate(boxes)), **{10 + k: w for k, w in enumerate(weights)}}
    values, found = value(polynomial, numbers), range_of(polynomial)
    assert found.low - 1e-12 <= values.min()
    assert values.max() <= found.high + 1e-12
    if not any(len(set(m)) < len(m) or {10, 11} <= {u.number for u in m} for m in polynomial):
        corners = [
            value(polynomial, {**dict(enumerate(box)), 10: w[0], 11: w[1]})
            for box in product([0.0, 1.0], repeat=3)
            for w in ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))
        ]
        assert (found.low, found.high) == pytest.approx((min(corners), max(corners)), abs=1e-12)


def test_terms_are_bounded_one_by_one_where_corners_are_too_many():
    mean = plus(*({(unknown(k),): 1.0 / 30.0} for k in range(30)))
    assert in_basis(mean, 2**14) is None
    assert (range_of(mean).low, range_of(mean).high) == pytest.approx((0.0, 1.0))


def test_quantities_are_known_by_their_ends():
    for of in (Range(-2.0, 3.0, False, False), Range(1.0), Range(high=-1.0)):
        one = Unknown(0, 0, not of.low_is_open, not of.high_is_open, of.is_bounded)
        found = range_of(linear(of, one))
        assert (found.low, found.high) == (of.low, of.high)
