"""A chain can be cut, stored, moved to another process and resumed."""

import copy
import os
import pickle
import subprocess
import sys
import zlib
from dataclasses import replace

import cloudpickle
import numpy as np
import pymc as pm
import pytest

from conformance.harness import run, same_state
from pymc_minibatch_mh import AustereMH, Bounds, Mixture, PenaltyMH, SettingError, TunaMH
from pymc_minibatch_mh.expansion.target import Target
from pymc_minibatch_mh.methods.poisson import PoissonMethod
from pymc_minibatch_mh.model.reading.split import split
from pymc_minibatch_mh.preparation.file import key_of
from zoo import METHODS, logistic

SEED = 21
#: Draws among which a chain of 200 draws of warm-up and 100 others is cut.
PHASES = {"in warm-up": (1, 200), "after it": (201, 300)}


@pytest.fixture(params=METHODS)
def step(step_of, request):
    step = step_of("two_likelihoods", request.param)
    step.setup_chain(np.random.default_rng(SEED), 300, 300)
    return step


@pytest.fixture
def start(model_of):
    return model_of("two_likelihoods").initial_point()


def drawn_cut(method, phase):
    """Return a draw at random, the same one in every run."""
    seed = zlib.crc32(f"{method} {phase}".encode())
    return int(np.random.default_rng(seed).integers(*PHASES[phase]))


def test_restoring_a_state_repeats_the_draws(step, start):
    _, point = run(step, start, 130)
    state = step.sampling_state
    first, _ = run(step, point, 90, stop_at=60)
    after = step.sampling_state
    step.sampling_state = state
    same_state(step.sampling_state, state)
    again, _ = run(step, point, 90, stop_at=60)
    np.testing.assert_array_equal(first, again)
    same_state(step.sampling_state, after)


@pytest.mark.parametrize("phase", PHASES)
def test_a_cut_chain_resumes_bit_for_bit_in_another_step(step, start, phase):
    cut = drawn_cut(type(step).__name__, phase)
    whole, _ = run(step, start, 300, stop_at=200)
    step.setup_chain(np.random.default_rng(SEED), 300, 300)
    before, point = run(step, start, cut, stop_at=200)
    stored = pickle.dumps(step.sampling_state)
    other = cloudpickle.loads(cloudpickle.dumps(step))
    other.setup_chain(np.random.default_rng(99), 300, 300)
    run(other, start, 60)
    other.sampling_state = pickle.loads(stored)
    after, _ = run(other, point, 300 - cut, stop_at=200 - cut)
    np.testing.assert_array_equal(np.vstack([before, after]), whole)


def test_a_state_of_other_settings_is_refused(step, step_of):
    other = step_of("logistic", type(step).__name__, updates_per_draw=5)
    with pytest.raises(
        SettingError, match=r"^updates_per_draw=1 is not that of the sampling state, 5"
    ):
        step.sampling_state = other.sampling_state


def counts(rows=2_000, *, seed=51, sd=2.0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, rows)
    with pm.Model() as model:
        level, slope = pm.Normal("level", 0.0, sd), pm.Normal("slope", 0.0, 2.0)
        mu = pm.math.exp(level + slope * x)
        pm.Poisson("counts", mu=mu, observed=rng.poisson(np.exp(0.4 + 0.6 * x)))
    return model


@pytest.fixture(scope="module")
def model():
    return counts()


@pytest.fixture(scope="module")
def own(model):
    return PenaltyMH(model=model)


@pytest.fixture(scope="module")
def file(own, tmp_path_factory):
    path = tmp_path_factory.mktemp("state") / "step.npz"
    own.save(path)
    return path


BOUNDS = np.full(2_000, 40.0)
GIVEN = Bounds(BOUNDS)
#: What differs -> how the other step is built, and what the refusal names.
OTHERS = {
    "data": (
        lambda model, file: PenaltyMH(model=counts(seed=52)),
        r"'a data array of counts' \(column 0\)",
    ),
    "temperature": (
        lambda model, file: PenaltyMH(model=model, temperature=4.0),
        r"temperature \(4\.0, not 1\.0\)",
    ),
    "method": (
        lambda model, file: AustereMH(model=model, prepared=file),
        r"method \(AustereMH, not PenaltyMH\)",
    ),
    "settings": (
        lambda model, file: PenaltyMH(model=model, prepared=file, batch_size=200),
        "the settings of its test",
    ),
    "proposal": (
        lambda model, file: PenaltyMH(model=model, prepared=file, proposal=Mixture(walk_weight=0)),
        "its proposal",
    ),
}


def refused_as_differing_in(what):
    message = rf"^sampling_state= is of a step that differs in {what}\. Build the step as the one"
    return pytest.raises(SettingError, match=message)


@pytest.mark.parametrize("what", OTHERS)
def test_a_state_of_another_step_is_refused(model, own, file, what):
    build, named = OTHERS[what]
    other = build(model, file)
    with refused_as_differing_in(named):
        own.sampling_state = other.sampling_state


@pytest.mark.parametrize(
    ("order", "changed", "weights", "what"),
    [
        (1, {}, None, r"taylor_order \(1, not 2\)"),
        (2, {"sd": 2.5}, None, "the prior part"),
        (2, {"rows": 1_999}, None, r"'a data array of counts' \(column 0\)"),
        (2, {}, np.full(2_000, 2), "the likelihood of 'counts'"),
    ],
)
def test_a_state_of_another_model_or_order_is_refused(own, order, changed, weights, what):
    model = counts(**changed)
    target = Target(split(model, model.value_vars, weights=weights), order, 1.0, None)
    with refused_as_differing_in(what):
        own.sampling_state = replace(own.sampling_state, key=own.key | key_of(target))


def test_the_settings_of_exact_tests_are_told_from_each_other():
    usual = {
        "form": "best",
        "chi": None,
        "delayed_acceptance": False,
        "bounds": None,
        "tolerates_violations": False,
    }
    changes = [
        {}, {"form": "paper"}, {"chi": 1.0}, {"delayed_acceptance": True},
        {"tolerates_violations": True},
    ]  # fmt: skip
    keys = [PoissonMethod(**usual | change).key for change in changes]
    assert len(set(keys)) == len(changes)
    assert keys[0] == PoissonMethod(**usual).key


def farther(there, here):
    return 2.0 * np.abs(there - here).sum()


@pytest.mark.parametrize("other", [None, Bounds(np.full(2_000, 50.0)), Bounds(BOUNDS, farther)])
def test_a_state_of_other_bounds_is_refused(model, own, file, other):
    first, second = (TunaMH(model=model, prepared=file, bounds=b) for b in (GIVEN, other))
    with refused_as_differing_in("its bounds"):
        first.sampling_state = second.sampling_state
    again = TunaMH(model=model, prepared=file, bounds=Bounds(BOUNDS.copy()))
    first.sampling_state = again.sampling_state


def test_a_state_is_that_of_the_same_step_built_again(own, file):
    again = PenaltyMH(model=counts(), prepared=file)
    again.sampling_state = pickle.loads(pickle.dumps(own.sampling_state))
    same_state(again.sampling_state, own.sampling_state)


#: Builds the step again, takes over a chain that another process has left, and goes on.
RESUME = """
import pickle, sys
import numpy as np
from conformance.harness import run
from conformance.test_state import counts
from pymc_minibatch_mh import PenaltyMH

state, point = pickle.load(open(sys.argv[1], "rb"))
step = PenaltyMH(model=counts())
step.setup_chain(np.random.default_rng(99), 300, 300)
step.sampling_state = state
np.save(sys.argv[2], run(step, point, 90, stop_at=40)[0])
"""


@pytest.mark.slow
def test_a_cut_chain_resumes_bit_for_bit_in_another_process(own, model, tmp_path):
    own.setup_chain(np.random.default_rng(SEED), 300, 300)
    _, point = run(own, model.initial_point(), 120)
    files = [tmp_path / name for name in ("chain.pickle", "positions.npy")]
    files[0].write_bytes(pickle.dumps((own.sampling_state, point)))
    expected, _ = run(own, point, 90, stop_at=40)
    path = {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "5"}
    subprocess.run([sys.executable, "-c", RESUME, *files], env=os.environ | path, check=True)
    np.testing.assert_array_equal(np.load(files[1]), expected)


def test_what_a_state_belongs_to_is_known_to_an_unpickled_step(own):
    fresh = copy.copy(own)
    fresh.__dict__.pop("key", None)
    arrived = cloudpickle.loads(cloudpickle.dumps(fresh))
    assert "key" not in vars(arrived)
    assert arrived.key == own.key


def frozen_after_warm_up(step, start):
    """Return whether nothing that adapts has changed since the end of warm-up."""
    _, point = run(step, start, 150)
    step.stop_tuning()
    before = step.sampling_state
    step.tune = True
    run(step, point, 150)
    learned = ("proposal", "window_counts", "warm_up_sum", "surrogate")
    after, before = step.sampling_state.chain_state, before.chain_state
    pairs = [(getattr(after, name), getattr(before, name)) for name in learned]
    pairs.append((settings_of(after.test), settings_of(before.test)))
    return all(unequal(*pair) == [] for pair in pairs)


def settings_of(test):
    """Return the numbers of a test's record; its arrays are what it remembers."""
    if not isinstance(test, tuple):
        return test
    return tuple(settings_of(value) for value in test if not isinstance(value, np.ndarray))


def unequal(one, other):
    """Return what of two records, or arrays, is not the same."""
    if isinstance(one, tuple):
        return [d for pair in zip(one, other, strict=True) for d in unequal(*pair)]
    return [] if np.array_equal(one, other) else [(one, other)]


def test_nothing_adapts_after_warm_up(step, start):
    assert frozen_after_warm_up(step, start)
    assert not step.chain.state.adapting


def test_adaptation_left_on_is_noticed(step, start):
    mutant = copy.copy(step)
    mutant.setup_chain(np.random.default_rng(SEED), 300, 300)
    mutant.stop_tuning = lambda: None
    assert not frozen_after_warm_up(mutant, start)


def test_a_chain_that_takes_over_from_another_is_noticed(step, start):
    def last_of_two_chains(step):
        for seed in (1, 2):
            step.setup_chain(np.random.default_rng(seed), 300, 300)
            positions, _ = run(step, start, 150)
        return positions

    mutant = copy.copy(step)
    clean = last_of_two_chains(step)
    mutant.setup_chain = lambda rng, tune, draws: setattr(mutant, "rng", rng)
    assert not np.array_equal(last_of_two_chains(mutant), clean)


def test_warm_up_adapts(step, start):
    before = step.chain.state.proposal
    run(step, start, 150)
    assert unequal(step.chain.state.proposal, before)


def test_a_chain_without_warm_up_does_not_adapt(step, start):
    step.setup_chain(np.random.default_rng(1), 0, 100)
    before = step.chain.state.proposal
    run(step, start, 100)
    assert not unequal(step.chain.state.proposal, before)


@pytest.mark.parametrize("method", METHODS)
def test_a_pickle_is_little_larger_than_the_data(method):
    model = logistic(rows=250_000)
    nbytes = model["X"].get_value().nbytes + model.rvs_to_values[model["y"]].data.nbytes
    assert nbytes > 5e6
    step = METHODS[method](model=model)
    assert len(cloudpickle.dumps(step)) < 1.2 * nbytes
