"""A chain is a value: it is run in any thread with the same draws."""

from concurrent.futures import ThreadPoolExecutor

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


def test_chains_in_threads_draw_what_they_draw_one_after_the_other(program):
    serial = [run(chain_of(program, seed)) for seed in (1, 2)]
    begun = [chain_of(program, seed) for seed in (1, 2)]
    with ThreadPoolExecutor(4) as pool:
        threads = list(pool.map(run, [*begun, *(chain.copy() for chain in begun)]))
    np.testing.assert_array_equal(threads, serial * 2)


def test_a_chain_changes_nothing_that_it_shares(program):
    before = cloudpickle.dumps(program.plan.reference)
    tables = program.plan.tables
    c = None if tables is None else tables.c.copy()
    run(chain_of(program, 6))
    assert cloudpickle.dumps(program.plan.reference) == before
    if c is not None:
        np.testing.assert_array_equal(tables.c, c)


@pytest.mark.parametrize("name", ["position", "others"])
def test_what_compiled_code_writes_to_is_not_replaced(prepared, name):
    chain = chain_of(prepared("two_likelihoods").program, 7)
    with pytest.raises(AttributeError, match=name):
        setattr(chain, name, getattr(chain, name).copy())


@pytest.mark.parametrize("part", ["_position", "rng"])
def test_a_copy_that_shares_its_scratch_or_its_generator_is_noticed(prepared, part):
    program = prepared("two_likelihoods").program
    whole = run(chain_of(program, 7))
    chain = chain_of(program, 7)
    mutant = chain.copy()
    setattr(mutant, part, getattr(chain, part))
    run(mutant)
    assert not np.array_equal(run(chain), whole)


@pytest.mark.parametrize(("share", "growth"), [(0.05, 1.0), (0.06, 1.1), (0.2, 1.1), (0.22, 1.5)])
def test_predicted_noise_grows_with_what_was_missing(prepared, share, growth):
    chain = chain_of(prepared("two_likelihoods", "BarkerMinibatchMH").program, 1)
    before = chain.state.test.kappa
    batches = WINDOW * chain.program.updates_per_draw
    chain.state.window_counts["underestimated"] = share * batches
    _adapt_records(chain)
    assert chain.state.test.kappa == pytest.approx(growth * before)


@pytest.mark.parametrize("made", [0, 2])
def test_updates_without_memory_are_no_draws(prepared, monkeypatch, made):
    chain = chain_of(prepared("two_likelihoods").program, 1)
    monkeypatch.setattr(chains, "run", lambda *_: (Status.NO_MEMORY, made))
    with pytest.raises(MemoryError, match="update"):
        chain.advance(3)
