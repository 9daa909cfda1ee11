"""The compiled loop counts what it does, and does not depend on how it is called."""

from dataclasses import replace

import numpy as np
import pytest

from law.exactness.compiled import ON_BATCHES, by_looks
from law.exactness.kernels import CHAINS, RULES
from law.exactness.toys import rows_of
from law.statistical.budget import FAR
from pymc_minibatch_mh.steps import austere

pytestmark = ON_BATCHES

UPDATES = 40_000
CLEAN = CHAINS["clean"]
#: Two of the states, so that there is one move and its way back.
TWO = replace(CLEAN, log_prior=CLEAN.log_prior[:2], log_likelihood=CLEAN.log_likelihood[:2])
N = TWO.log_likelihood.shape[1]


def loop(name):
    return by_looks(TWO, RULES[name], [0.0, 1.0])


@pytest.mark.parametrize("name", RULES)
def test_reported_acceptance_is_the_share_of_accepted_moves(name):
    _, counts = loop(name).run(UPDATES, seed=18)
    share, reported = counts["accepted"].mean(), counts["accept"].mean()
    # The austere test reports min(1, exp(D*)) at the look that decided, which noise raises.
    tolerance = 0.1 if name.startswith("austere") else FAR * np.sqrt(0.25 / UPDATES)
    assert share == pytest.approx(reported, abs=tolerance)


def test_several_updates_in_one_call_are_as_many_calls():
    chain = loop("penalty")
    states, counts = chain.run(3_000, seed=24, calls=3_000)
    by_three, of_three = chain.run(1_000, seed=24, updates=3)
    np.testing.assert_array_equal(by_three, states[::3])
    for column in ("accepted", "n_obs"):
        expected = counts[column].reshape(-1, 3).sum(axis=1)
        np.testing.assert_array_equal(of_three[column], expected)
    assert chain.proposal.furthest[0] < 1e-12


@pytest.mark.parametrize(("most_drawn", "looks"), [(N / 2, 2), (N, 4)])
def test_rows_are_drawn_up_to_the_limit(most_drawn, looks):
    test = austere.austere_test(1e-30, batch_size=4)
    _, counts = loop("barker").but(most_drawn=float(most_drawn), settings=test).run(50, seed=27)
    assert (counts["n_looks"] == looks).all()
    assert (counts["full_pass"] == 1).all()


def test_a_batch_of_half_the_rows_is_read_in_full():
    chain = loop("barker")
    _, counts = chain.but(settings=chain.settings._replace(kappa=np.inf)).run(200, seed=20)
    assert (counts["n_obs"] == N).all()
    assert counts["full_pass"].all()
    assert not counts["log_ratio_std"].any()


@pytest.mark.parametrize("part", ["log_prior", "log_likelihood"])
def test_a_density_that_is_not_finite_is_rejected_and_counted(part):
    """Of the second state, where a row is read unless the prior has decided before."""
    own = {"log_prior": TWO.log_prior.copy(), "log_likelihood": TWO.log_likelihood.copy()}
    own[part][1] = -np.inf
    rows = rows_of(own["log_likelihood"], own["log_prior"])
    states, counts = loop("barker").but(rows=rows).run(50, seed=21)
    assert not states.any()
    assert counts["invalid"].all()
    assert counts["n_obs"].any() == (part == "log_likelihood")
