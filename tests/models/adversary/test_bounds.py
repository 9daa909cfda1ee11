"""Bounds of random models are never exceeded."""

import numpy as np
import pytest

from helpers.tiers import fast
from models.adversary.expressions import random_expression
from models.adversary.hunting import SCALES, largest_ratio, random_reference
from models.adversary.likelihoods import LIKELIHOODS, random_likelihood
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.structure.row_function import row_functions

KINDS = len(LIKELIHOODS)
FEW = range(1, KINDS, 12)


def worst(model, seed, order, *, shrink=1.0):
    """Return the largest ratio in the widest region that has bounds, None if there is none."""
    parts = factorize(model, model.value_vars, min_rows=1)
    rng = np.random.default_rng([seed, order])
    try:
        (function,) = row_functions(parts)
    except BoundsError:
        return None
    for scale in SCALES:
        reference = random_reference(rng, parts.size, order, scale)
        support = parts.lower, parts.upper
        try:
            return largest_ratio(function, reference, support, rng, shrink=shrink)
        except BoundsError:
            continue
    return None


def assert_never_exceeded(model, seed):
    order = seed % 3
    found = worst(model, seed, order)
    assert found is None or found <= 1.0


pytestmark = pytest.mark.filterwarnings(
    # Of enclosures that have become infinite, and of moves where no row has a density.
    "ignore:overflow encountered:RuntimeWarning",
    "ignore:invalid value encountered:RuntimeWarning",
)


@pytest.mark.parametrize("seed", fast([*FEW, *range(KINDS, 10 * KINDS)], FEW))
def test_no_likelihood_exceeds_its_bounds(seed):
    assert_never_exceeded(random_likelihood(seed)[1], seed)


@pytest.mark.parametrize("seed", fast(range(400), range(6)))
def test_no_expression_exceeds_its_bounds(seed):
    assert_never_exceeded(random_expression(seed), seed)


def test_bounds_that_are_half_too_small_are_exceeded():
    """A search that stays far from bounds would not find one that is violated."""
    seeds = range(0, KINDS, 6)
    halved = [worst(random_likelihood(seed)[1], seed, 1 + seed % 2, shrink=0.5) for seed in seeds]
    assert sum(ratio is not None and ratio > 1.0 for ratio in halved) >= 2
