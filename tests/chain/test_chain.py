"""A chain is a value: it is copied, pickled and run in any thread, and goes on as it would have."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import cloudpickle
import numpy as np
import pytest

from pymc_minibatch_mh.chain.chain import Chain
from zoo import METHODS

TUNE, DRAWS = 150, 400


@pytest.fixture(params=METHODS)
def program(step_of, request):
    return step_of("two_likelihoods", request.param).program


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
    with ThreadPoolExecutor(2) as pool:
        threads = list(pool.map(run, [chain_of(program, seed) for seed in (1, 2)]))
    np.testing.assert_array_equal(threads, serial)


def test_a_chain_copied_mid_run_goes_on_in_a_thread_as_the_original_does(program):
    whole = run(chain_of(program, 3))
    chain = chain_of(program, 3)
    chain.advance(TUNE)
    chain.stop_adapting()
    chain.advance(100)
    copied = chain.copy()
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(one.advance, DRAWS - 100) for one in (chain, copied)]
    for job in jobs:
        np.testing.assert_array_equal(job.result().positions, whole[TUNE + 100 :])


@pytest.mark.parametrize("cut", [70, TUNE + 30])
def test_a_pickled_chain_goes_on_as_the_original_does(program, cut):
    def advanced(chain, start, stop):
        out = []
        for draw in range(start, stop):
            if draw == TUNE:
                chain.stop_adapting()
            out.append(chain.advance(1).positions[0])
        return np.array(out)

    chain = chain_of(program, 4)
    advanced(chain, 0, cut)
    arrived = pickle.loads(cloudpickle.dumps(chain))
    expected = advanced(chain, cut, TUNE + 60)
    np.testing.assert_array_equal(advanced(arrived, cut, TUNE + 60), expected)
    assert arrived.state == chain.state


def test_how_many_draws_are_made_at_once_changes_nothing(program):
    one, other = chain_of(program, 5), chain_of(program, 5)
    at_once = one.advance(230)
    parts = [other.advance(draws) for draws in (1, 49, 3, 100, 77)]
    np.testing.assert_array_equal(at_once.positions, np.vstack([p.positions for p in parts]))
    np.testing.assert_array_equal(at_once.counts, np.vstack([p.counts for p in parts]))
    assert one.state == other.state


def test_a_chain_changes_nothing_that_it_shares(program):
    before = cloudpickle.dumps(program.prepared.surrogate)
    tables = program.prepared.tables
    c = None if tables is None else tables.c.copy()
    run(chain_of(program, 6))
    assert cloudpickle.dumps(program.prepared.surrogate) == before
    if c is not None:
        np.testing.assert_array_equal(tables.c, c)


@pytest.mark.parametrize("name", ["position", "others"])
def test_what_compiled_code_writes_to_is_not_replaced(step_of, name):
    chain = chain_of(step_of("two_likelihoods", "TunaMH").program, 7)
    with pytest.raises(AttributeError, match=name):
        setattr(chain, name, getattr(chain, name).copy())


def test_a_copy_that_shares_its_scratch_is_noticed(step_of):
    program = step_of("two_likelihoods", "TunaMH").program
    whole = run(chain_of(program, 7))
    chain = chain_of(program, 7)
    mutant = chain.copy()
    mutant._position = chain.position
    run(mutant)
    assert not np.array_equal(run(chain), whole)


def test_a_copy_that_shares_its_generator_is_noticed(step_of):
    program = step_of("two_likelihoods", "TunaMH").program
    whole = run(chain_of(program, 8))
    chain = chain_of(program, 8)
    mutant = chain.copy()
    mutant.rng = chain.rng
    mutant.advance(10)
    assert not np.array_equal(run(chain), whole)
