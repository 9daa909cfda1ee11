"""The compiled loop accepts as often as the enumerated acceptance functions say."""

import numpy as np
import pytest
from numba import njit
from scipy.stats import binom

from exactness.enumeration import acceptance
from exactness.kernels import RULES
from kernels import toy
from kernels.chain import draws_of
from pymc_minibatch_mh import Mixture
from pymc_minibatch_mh.kernels import counts as entry
from pymc_minibatch_mh.kernels.bound_tables import no_tables
from pymc_minibatch_mh.kernels.first_class import address_of
from pymc_minibatch_mh.kernels.posterior import Posterior, RowSpace
from pymc_minibatch_mh.kernels.signatures import EVALUATE_SIGNATURE, LOGP_SIGNATURE
from pymc_minibatch_mh.kernels.surrogate import Surrogate
from pymc_minibatch_mh.methods import austere
from statistical.budget import FAR, LEVEL

UPDATES = 40_000


def surprise(chain, rule):
    """Return the smallest p-value of the accepted moves from each state."""
    states, counts = chain.steps(UPDATES, seed=17)
    values = []
    for state, sign in ((0.0, 1.0), (1.0, -1.0)):
        here = states == state
        cheap = sign * (toy.LOG_PRIOR + toy.LOG_Q)
        p = acceptance(rule, cheap, sign * toy.TABLE, toy.BETA)
        accepted = counts[here, entry.ACCEPTED].sum()
        values += [binom.cdf(accepted, here.sum(), p), binom.sf(accepted - 1, here.sum(), p)]
    return min(values)


@pytest.mark.parametrize("name", RULES)
def test_moves_are_accepted_as_often_as_the_enumeration_says(name):
    assert surprise(toy.Toy(RULES[name]), RULES[name]) > LEVEL


MUTANTS = {
    "density ratio of the proposal dropped": {"proposal": toy.FlipWithoutRatio(toy.LOG_Q)},
    "finite-population correction dropped": {"kind": toy.WithoutFinitePopulation},
    "every batch used twice": {"evaluate": toy.evaluate_every_batch_twice},
    "rows of two terms mixed up": {"evaluate": toy.evaluate_one_term},
    "inverse temperature missing": {"inverse_temperature": 1.0},
    "uniform squared": {"kind": toy.ByAnotherUniform},
}


@pytest.mark.parametrize("name", MUTANTS)
def test_moves_of_a_mutant_are_not(name):
    assert surprise(toy.Toy(RULES["penalty"], **MUTANTS[name]), RULES["penalty"]) < 1e-9


@pytest.mark.parametrize("name", RULES)
def test_reported_acceptance_is_the_share_of_accepted_moves(name):
    _, counts = toy.Toy(RULES[name]).steps(UPDATES, seed=18)
    share, reported = counts[:, entry.ACCEPTED].mean(), counts[:, entry.ACCEPT].mean()
    # The austere test reports min(1, exp(D*)) at the look that decided, which noise raises.
    tolerance = 0.1 if name.startswith("austere") else FAR * np.sqrt(0.25 / UPDATES)
    assert share == pytest.approx(reported, abs=tolerance)


def test_several_updates_in_one_call_are_as_many_calls():
    states, counts = toy.Toy(RULES["penalty"]).steps(3_000, seed=24, calls=3_000)
    by_three, of_three = toy.Toy(RULES["penalty"]).steps(1_000, seed=24, updates=3)
    np.testing.assert_array_equal(by_three, states[::3])
    for column in (entry.ACCEPTED, entry.N_OBS):
        expected = counts[:, column].reshape(-1, 3).sum(axis=1)
        np.testing.assert_array_equal(of_three[:, column], expected)


@njit(LOGP_SIGNATURE)
def standard_normal(position, context):
    return -0.5 * (position**2).sum()


@njit(EVALUATE_SIGNATURE)
def linear(position, new, centre, rows, ends, context, differences, scales):
    for i in range(rows.size):
        differences[i] = 0.0
        for j in range(new.size):
            differences[i] += 0.05 * np.sin(rows[i] + 3.0 * j) * (new[j] - position[j])


@pytest.mark.parametrize("size", [2, 7, 16])
def test_draws_do_not_depend_on_how_many_are_made_in_a_call(size):
    rng = np.random.default_rng(25)
    factor = np.tril(0.1 * rng.standard_normal((size, size))) + np.eye(size)
    whitener = np.ascontiguousarray(np.tril(np.linalg.inv(factor)))
    centre, zero = 0.3 * rng.standard_normal(size), np.zeros(size)
    surrogate = Surrogate(centre, factor, whitener, zero, np.zeros((size, size)), 1, 0.5)
    space = RowSpace(np.array([0, 1_000]), np.zeros(0, dtype=np.int64))
    addresses = address_of(standard_normal), address_of(linear)
    posterior = Posterior(*addresses, space, surrogate, no_tables())
    test = RULES["barker"].settings._replace(kappa=1e3)
    given = posterior, Mixture(scale=0.2).record(size), test, centre
    whole, counts = draws_of(*given, count=2_000, seed=26)
    assert 0.1 < counts[:, entry.ACCEPTED].mean() < 0.9
    for calls in (3, 2_000):
        cut, of_cut = draws_of(*given, count=2_000, seed=26, calls=calls)
        np.testing.assert_array_equal(cut, whole)
        np.testing.assert_array_equal(of_cut, counts)


def test_counts_are_of_rows_and_looks():
    _, counts = toy.Toy(RULES["barker"]).steps(200, seed=19)
    rows = RULES["barker"].plan(toy.Toy(RULES["barker"]).spread, 0, 16, RULES["barker"].settings)
    assert (counts[:, entry.N_OBS] == rows).all()
    assert (counts[:, entry.N_LOOKS] == 1).all()
    assert not counts[:, entry.FULL_PASS].any()


@pytest.mark.parametrize("most_drawn", [0.5, 1.0])
def test_rows_are_drawn_up_to_the_limit(most_drawn):
    posterior = toy.Toy(RULES["barker"]).posterior._replace(most_drawn=most_drawn * 16)
    test = austere.settings(1e-9, batch_size=4)
    _, counts = draws_of(posterior, toy.FLIP, test, 0.0, count=50, seed=27)
    looks = 2 if most_drawn == 0.5 else 4
    assert (counts[:, entry.N_LOOKS] == looks).all()
    assert (counts[:, entry.FULL_PASS] == 1).all()


def test_a_batch_of_half_the_rows_is_read_in_full():
    _, counts = toy.Toy(RULES["barker"], kappa=np.inf).steps(200, seed=20)
    assert (counts[:, entry.N_OBS] == toy.TABLE.size).all()
    assert counts[:, entry.FULL_PASS].all()
    assert not counts[:, entry.LOG_RATIO_STD].any()


def test_a_density_that_is_not_finite_is_rejected_and_counted():
    nowhere = njit(LOGP_SIGNATURE)(lambda position, _: -np.inf if position[0] > 0.5 else 0.0)
    states, counts = toy.Toy(RULES["barker"], prior=nowhere).steps(50, seed=21)
    assert not states.any()
    assert counts[:, entry.INVALID].all()
    assert not counts[:, entry.N_OBS].any()


def test_a_row_that_is_not_finite_is_rejected_and_counted():
    @njit(EVALUATE_SIGNATURE)
    def broken(position, new, centre, rows, ends, context, differences, scales):
        differences[:] = 0.1
        differences[0] = -np.inf

    states, counts = toy.Toy(RULES["barker"], evaluate=broken).steps(50, seed=22)
    assert not states.any()
    assert counts[:, entry.INVALID].all()
