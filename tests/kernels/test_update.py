"""The compiled update accepts as often as the enumerated acceptance functions say."""

import numpy as np
import pytest
from scipy.stats import binom

from exactness.enumeration import acceptance
from exactness.kernels import RULES
from kernels import toy
from pymc_minibatch_mh.acceptance import penalty
from pymc_minibatch_mh.kernels import sums as kernel
from pymc_minibatch_mh.kernels.surrogate import Surrogate, pack, unpack
from statistical.budget import FAR, LEVEL

UPDATES = 40_000


def surprise(chain, rule):
    """Return the smallest p-value of the accepted moves from each state."""
    states, sums = chain.steps(UPDATES, seed=17)
    values = []
    for state, sign in ((0.0, 1.0), (1.0, -1.0)):
        here = states == state
        cheap = sign * (toy.LOG_PRIOR + toy.LOG_Q)
        p = acceptance(rule, cheap, sign * toy.TABLE, toy.BETA)
        accepted = sums[here, kernel.ACCEPTED].sum()
        values += [binom.cdf(accepted, here.sum(), p), binom.sf(accepted - 1, here.sum(), p)]
    return min(values)


@pytest.mark.parametrize("name", RULES)
def test_moves_are_accepted_as_often_as_the_enumeration_says(name):
    assert surprise(toy.Toy(RULES[name]), RULES[name]) > LEVEL


MUTANTS = {
    "density ratio of the proposal dropped": {"roles": {"propose": toy.propose_without_ratio}},
    "finite-population correction dropped": {
        "roles": {"decide": toy.without_finite_population(penalty.decide)}
    },
    "every batch used twice": {"roles": {"evaluate": toy.evaluate_every_batch_twice}},
    "rows of two terms mixed up": {"roles": {"evaluate": toy.evaluate_one_term}},
    "inverse temperature missing": {"surrogate": {"inverse_temperature": 1.0}},
    "uniform squared": {"roles": {"decide": toy.decide_by_another_uniform(penalty.decide)}},
}


@pytest.mark.parametrize("name", MUTANTS)
def test_moves_of_a_mutant_are_not(name):
    assert surprise(toy.Toy(RULES["penalty"], **MUTANTS[name]), RULES["penalty"]) < 1e-9


@pytest.mark.parametrize("name", RULES)
def test_reported_acceptance_is_the_share_of_accepted_moves(name):
    _, sums = toy.Toy(RULES[name]).steps(UPDATES, seed=18)
    share, reported = sums[:, kernel.ACCEPTED].mean(), sums[:, kernel.ACCEPT].mean()
    # The austere test reports min(1, exp(D*)) at the look that decided, which noise raises.
    tolerance = 0.1 if name.startswith("austere") else FAR * np.sqrt(0.25 / UPDATES)
    assert share == pytest.approx(reported, abs=tolerance)


def test_several_updates_in_one_call_are_as_many_calls():
    states, sums = toy.Toy(RULES["penalty"]).steps(3_000, seed=24)
    by_three, of_three = toy.Toy(RULES["penalty"]).steps(1_000, seed=24, updates=3)
    np.testing.assert_array_equal(by_three, states[::3])
    for column in (kernel.ACCEPTED, kernel.N_OBS):
        expected = sums[:, column].reshape(-1, 3).sum(axis=1)
        np.testing.assert_array_equal(of_three[:, column], expected)


def test_sums_count_rows_and_looks():
    _, sums = toy.Toy(RULES["barker"]).steps(200, seed=19)
    rows = RULES["barker"].plan(toy.Toy(RULES["barker"]).spread, 0, 16, RULES["barker"].settings)
    assert (sums[:, kernel.N_OBS] == rows).all()
    assert (sums[:, kernel.N_LOOKS] == 1).all()
    assert not sums[:, kernel.FULL_PASS].any()


def test_a_batch_of_half_the_rows_is_read_in_full():
    _, sums = toy.Toy(RULES["barker"], surrogate={"spread": np.inf}).steps(200, seed=20)
    assert (sums[:, kernel.N_OBS] == toy.TABLE.size).all()
    assert sums[:, kernel.FULL_PASS].all()
    assert not sums[:, kernel.LOG_RATIO_STD].any()


def test_a_density_that_is_not_finite_is_rejected_and_counted():
    nowhere = toy.njit(toy.LOGP_SIGNATURE)(
        lambda position, _: -np.inf if position[0] > 0.5 else 0.0
    )
    states, sums = toy.Toy(RULES["barker"], {"prior": nowhere}).steps(50, seed=21)
    assert not states.any()
    assert sums[:, kernel.INVALID].all()
    assert not sums[:, kernel.N_OBS].any()


def test_a_row_that_is_not_finite_is_rejected_and_counted():
    @toy.njit(toy.EVALUATE_SIGNATURE)
    def broken(position, new, centre, rows, ends, context, differences, scales):
        differences[:] = 0.1
        differences[0] = -np.inf

    states, sums = toy.Toy(RULES["barker"], {"evaluate": broken}).steps(50, seed=22)
    assert not states.any()
    assert sums[:, kernel.INVALID].all()


def test_a_surrogate_is_unpacked_as_it_was_packed():
    rng = np.random.default_rng(23)
    matrices = rng.normal(size=(3, 2, 2))
    surrogate = Surrogate(
        rng.normal(size=2), *matrices[:2], rng.normal(size=2), matrices[2], 2, 0.5, 3.0, 1
    )
    for before, after in zip(surrogate, unpack(*pack(surrogate)), strict=True):
        np.testing.assert_array_equal(before, after)
