"""No row exceeds its bound, and none has a density below the lower bound that follows from it.

With m(θ) = M(θ̂, θ) and r_i the remainder of a row, β [r_i(θ) - r_i(θ̂)] >= -c_i m(θ): the density
of a row is at least that of its expansion, times exp(-c_i m), which firefly samplers use.
"""

import json
from functools import cache
from math import factorial

import numpy as np
import pymc as pm
import pytest

from benchmarks.looseness import FEW_ROWS, FILE, HUNTED, ORDERS, measured
from bounds.certified import HuntFromCentre, Rows, evaluate, fit, hunt
from bounds.vectors import VECTORS
from helpers.in_library import move_between, products, size_of_move
from helpers.models import FAMILIES
from helpers.tiers import QUICK, fast
from model.evaluation import rows_of_batch
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.native.moves import DIRECTIONAL, JOINT, SHARP

SMOOTH = [name for name in FAMILIES if name != "laplace"]
#: One and more arguments, counts, a mixture, heavy tails, a kink.
FEW = [
    "bernoulli_logit",
    "poisson_exposure",
    "negative_binomial",
    "student_fixed",
    "noncentred",
    "shared_level",
]
FAST = [
    *((name, 2) for name in [*QUICK, "noncentred", "shared_level", "slopes_of_groups"]),
    *((name, 1) for name in ["student_fixed", "correlated"]),
    *((name, 0) for name in ["laplace", "poisson_exposure"]),
]
EVERY_CASE = fast(
    [
        *((name, 2) for name in SMOOTH),
        *((name, 1) for name in FEW),
        *((name, 0) for name in [*FEW, "laplace"]),
        *(("correlated", order) for order in (2, 1, 0)),
        ("heavy_tailed", 1),
        ("slopes_of_groups", 2),
    ],
    FAST,
)


@cache
def bounded(name, order):
    """Return a family around its mode, its reference and the tables of its bounds."""
    fitted = fit(name, FEW_ROWS)
    reference = fitted.reference(order)
    return fitted, reference, fitted.bounds(reference).tables()


def largest_gap(name, reference, tables):
    """Return by how much of c m a row's log-density lies below its expansion at most."""
    settings = {"moves": 5_000, "climbs": 20, "search": HuntFromCentre}
    return hunt(fit(name, FEW_ROWS), reference, tables, **settings).max()


@pytest.mark.parametrize(("name", "order"), EVERY_CASE)
def test_no_row_exceeds_its_bound(name, order):
    largest = hunt(*bounded(name, order), **HUNTED).max()
    assert largest <= 1.0
    stored = json.loads(FILE.read_text())["families"]
    if name in stored and order == ORDERS[name]:
        # A search that stays far from bounds would not find one that is too small.
        assert largest > 0.9 * stored[name]["of_few_rows"]


@pytest.mark.parametrize(("name", "order"), EVERY_CASE)
def test_no_density_lies_below_its_lower_bound(name, order):
    _, reference, tables = bounded(name, order)
    assert 0.0 < largest_gap(name, reference, tables) <= 1.0


@pytest.mark.parametrize("name", ["poisson_exposure", "student_fixed"])
def test_no_row_of_a_tempered_posterior_exceeds_its_bound(name):
    fitted = fit(name, FEW_ROWS)
    reference = fitted.reference(2, beta=0.25)
    tables = fitted.bounds(reference).tables()
    assert 0.5 < hunt(fitted, reference, tables, **HUNTED).max() <= 1.0


@pytest.mark.parametrize("kind", [DIRECTIONAL, JOINT, SHARP])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_a_move_from_the_centre_has_the_size_of_taylors_remainder(order, kind):
    """All kinds of tables hold for such a move with |a|^k/k!, and are used with it."""
    reference = fit("bernoulli_logit", FEW_ROWS).reference(order)
    rng = np.random.default_rng(3)
    for length in (1e-6, 0.1, 1.0, 7.0):
        a = rng.standard_normal(reference.centre.size)
        a *= length / np.linalg.norm(a)
        move = move_between(reference, reference.centre, reference.centre + reference.factor @ a)
        m = size_of_move(products(move), order, kind)
        exact = length ** (order + 1) / factorial(order + 1)
        assert exact * (1.0 - 1e-9) <= m <= exact * (1.0 + 1e-8)


def censored_laplace(rows):
    """The second derivative of the distribution function jumps at the mean."""
    y = np.clip(np.random.default_rng(132).laplace(0.2, 1.0, rows), -1.0, None)
    with pm.Model() as model:
        level, scale = pm.Normal("level", 0.0, 1.0), pm.HalfNormal("scale", 1.0)
        pm.Censored("y", pm.Laplace.dist(level, scale), lower=-1.0, upper=None, observed=y)
    return model


def test_branches_that_are_no_two_forms_of_one_function_are_refused(monkeypatch):
    monkeypatch.setitem(FAMILIES, "censored_laplace", censored_laplace)
    fitted = fit.__wrapped__("censored_laplace", FEW_ROWS)
    reference = fitted.reference(2)
    near = reference._replace(centre=np.array([-1.0, 0.0]))
    with pytest.raises(BoundsError, match="a condition on the parameters"):
        fitted.bounds(near).tables()


@pytest.mark.parametrize("name", fast([*FAMILIES, *VECTORS], [name for name, _ in FAST]))
def test_rows_are_evaluated_as_the_model_evaluates_them(name):
    fitted = fit(name, FEW_ROWS)
    position = fitted.mode.position + 0.1
    for function, term in zip(fitted.functions, fitted.factorization.terms, strict=True):
        rows = np.arange(0, function.n_rows, 7)
        some = Rows(function, rows, fitted.factorization.size)
        value, _ = evaluate(function, some.data, some.arguments(position))
        expected = rows_of_batch(fitted.factorization, term, position, rows)
        np.testing.assert_allclose(value, np.ravel(expected), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(FAMILIES))
def test_bounds_are_no_looser_than_the_stored_figures(name):
    row, stored = measured(name), json.loads(FILE.read_text())["families"][name]
    assert row["largest_ratio"] <= 1.0
    # Ratios alone would hide bounds that are all looser, those of regions without width included.
    for figure in ("total", "small", "middle", "large"):
        assert row[figure] <= 1.02 * stored[figure]
