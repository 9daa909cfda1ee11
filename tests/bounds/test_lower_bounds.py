"""Every certified family has a lower bound of its densities, which firefly samplers use.

With m(θ) = M(θ̂, θ) and r_i the remainder of a row, β [r_i(θ) - r_i(θ̂)] >= -c_i m(θ): the density
of a row is at least that of its expansion, times exp(-c_i m).
"""

from math import factorial

import numpy as np

from bounds.certified import HuntFromCentre, fit, hunt
from bounds.test_certified import EVERY_CASE, ONE_ARGUMENT, ROWS
from every import every
from pymc_minibatch_mh.bounds.bounds_pass import TOTAL
from pymc_minibatch_mh.kernels.bound_tables import table_of_move
from pymc_minibatch_mh.kernels.moves import (
    DIRECTIONAL,
    JOINT,
    SHARP,
    move_between,
    products,
    size_of_move,
)

MOVES, CLIMBS = 20_000, 60


def largest_gap(name, surrogate, tables):
    """Return by how much of c m a row's log-density lies below its expansion at most."""
    fitted = fit(name, ROWS)
    settings = {"moves": MOVES, "climbs": CLIMBS, "search": HuntFromCentre}
    return hunt(fitted, surrogate, tables, **settings).max()


@every(("name", "order"), EVERY_CASE)
def test_no_density_lies_below_its_lower_bound(name, order):
    fitted = fit(name, ROWS)
    surrogate = fitted.surrogate(order)
    largest = largest_gap(name, surrogate, fitted.bounds(surrogate).tables())
    assert 0.0 < largest <= 1.0


def test_no_density_of_a_tempered_posterior_lies_below_its_lower_bound():
    fitted = fit("poisson_exposure", ROWS)
    surrogate = fitted.surrogate(2, beta=0.25)
    tables = fitted.bounds(surrogate).tables()
    assert 0.5 < largest_gap("poisson_exposure", surrogate, tables) <= 1.0


@every("name", ONE_ARGUMENT)
def test_lower_bounds_that_are_too_high_are_found(name):
    fitted = fit(name, ROWS)
    surrogate = fitted.surrogate(2)
    tables = fitted.bounds(surrogate).tables()
    low = type(tables)(tables.heads, 0.75 * tables.c, tables.looseness)
    assert largest_gap(name, surrogate, low) > 1.0


@every("kind", [DIRECTIONAL, JOINT, SHARP])
@every("order", [0, 1, 2])
def test_a_move_from_the_centre_has_the_size_of_taylors_remainder(order, kind):
    """All kinds of tables hold for such a move with |a|^k/k!, and are used with it."""
    surrogate = fit("bernoulli_logit", ROWS).surrogate(order)
    rng = np.random.default_rng(3)
    for length in (1e-6, 0.1, 1.0, 7.0):
        a = rng.standard_normal(surrogate.centre.size)
        a *= length / np.linalg.norm(a)
        move = move_between(surrogate, surrogate.centre, surrogate.centre + surrogate.factor @ a)
        m = size_of_move(products(move), order, kind)
        exact = length ** (order + 1) / factorial(order + 1)
        assert exact * (1.0 - 1e-9) <= m <= exact * (1.0 + 1e-8)


def test_the_bound_is_one_function_of_the_position():
    """Which table serves is decided by the end of a move from the centre alone."""
    fitted = fit("student_fixed", ROWS)
    surrogate = fitted.surrogate(2)
    tables = fitted.bounds(surrogate).tables()
    radii, chosen = tables.heads[:, 0], []
    assert len(radii) > 1
    rng = np.random.default_rng(4)
    for length in np.linspace(0.05, 1.2 * radii[np.isfinite(radii)].max(), 40):
        sizes = []
        for _ in range(3):
            a = rng.standard_normal(surrogate.centre.size)
            a *= length / np.linalg.norm(a)
            end = surrogate.centre + surrogate.factor @ a
            table, m = table_of_move(tables.arrays, surrogate, surrogate.centre, end)
            chosen.append(table)
            sizes.append(tables.heads[table, TOTAL] * m if table >= 0 else np.inf)
        # In whitened coordinates it is one of the distance.
        np.testing.assert_allclose(sizes, sizes[0], rtol=1e-8)
    assert len(set(chosen)) > 1
