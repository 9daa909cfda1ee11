"""A chain is a value: it is run in any thread with the same draws."""

import cloudpickle
import numpy as np
import pytest

from helpers.zoo import METHODS
from pymc_minibatch_mh.chain import chain as chains
from pymc_minibatch_mh.chain.chain import WINDOW, Chain, _adapt_records
from pymc_minibatch_mh.native.library import Status

TUNE, DRAWS = 150, 400


@pytest.fixture(params=METHODS)
def program(prepared, request):
    return prepared("two_likelihoods", request.param).program


def chain_of(program, seed):
    chain = Chain(program, np.random.default_rng(seed), adapting=True)
    chain.state.started = True
    return chain


def run(chain):
    """Return the positions of a whole run."""
    warm_up = chain.advance(TUNE)
    chain.stop_adapting()
    after = chain.advance(DRAWS)
    return np.vstack([warm_up.positions, after.positions])


def test_a_chain_changes_nothing_that_it_shares(program):
    before = cloudpickle.dumps(program.plan.reference)
    tables = program.plan.tables
    c = None if tables is None else tables.c.copy()
    run(chain_of(program, 6))
    assert cloudpickle.dumps(program.plan.reference) == before
    if c is not None:
        np.testing.assert_array_equal(tables.c, c)


@pytest.mark.parametrize(("share", "growth"), [(0.05, 1.0), (0.06, 1.1), (0.2, 1.1), (0.22, 1.5)])
def test_predicted_noise_grows_with_what_was_missing(prepared, share, growth):
    chain = chain_of(prepared("two_likelihoods", "BarkerMinibatchMH").program, 1)
    before = chain.state.records.test.kappa
    batches = WINDOW * chain.program.updates_per_draw
    chain.state.window_counts["underestimated"] = share * batches
    _adapt_records(chain)
    assert chain.state.records.test.kappa == pytest.approx(growth * before)


@pytest.mark.parametrize("made", [0, 2])
def test_updates_without_memory_are_no_draws(prepared, monkeypatch, made):
    chain = chain_of(prepared("two_likelihoods").program, 1)
    monkeypatch.setattr(chains, "run", lambda *_: (Status.NO_MEMORY, made))
    with pytest.raises(MemoryError, match="update"):
        chain.advance(3)
