"""A chain can be cut, stored, moved to another process and resumed."""

import copy
import pickle
from dataclasses import replace
from functools import partial
from itertools import pairwise

import cloudpickle
import numpy as np
import pymc as pm
import pytest

from helpers.models import logistic
from helpers.zoo import METHODS
from law.golden.combinations import COMBINATIONS, Combination, of_family
from proposals.test_custom_proposal import adapt, langevin
from pymc_minibatch_mh import Bounds, CustomProposal, PenaltyMH, TunaMH
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.native.bound_tables import END, NEXT
from pymc_minibatch_mh.plan.identity import key_of
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.steps.tuna import TunaSettings
from robustness.conformance.harness import run, same_state

SEED = 21
#: Draws of warm-up, and of a whole chain.
TUNE, DRAWS = 130, 190
#: Draws before which it is cut: the first, one in warm-up, the first after it, and the last.
CUTS = (0, 71, TUNE, DRAWS - 1)
#: Chains that remember more than others do, or whose steps are sent with more than others are.
UNUSUAL = {
    name: COMBINATIONS[name]
    for name in (
        "tuna with delayed acceptance", "tuna by bounds of a user", "firefly, untuned", "poisson",
        "barker that grows", "confidence by a scan", "a test of a user", "noncentred hierarchy",
        "small groups",
        "influential rows, batches", "walk from the start", "langevin", "tempered", "annealed",
        "rows in files", "rows in files, batches", "rows in chunks", "rows in a table",
    )
} | {
    "annealed, exact": Combination(
        of_family("poisson"), "TunaMH", {"temperature": [(0, 16.0), (60, 4.0), (110, 1.0)]}
    ),
    "a move that adapts": Combination(
        of_family("poisson"),
        "PenaltyMH",
        # Made with the step, as making it compiles it.
        {"proposal": partial(CustomProposal, langevin, state=[0.01], batch_size=50, adapt=adapt)},
    ),
}  # fmt: skip


@pytest.fixture(params=METHODS)
def step(prepared, request, tmp_path):
    way = UNUSUAL.get(request.param)
    step = way.step(way.model(tmp_path)) if way else prepared("two_likelihoods", request.param)
    step.setup_chain(np.random.default_rng(SEED), 300, 300)
    return step


@pytest.fixture
def start(step):
    return step.gaussian_draw(np.random.default_rng(SEED), 1.0)


def as_a_state(step, other):
    """Leave the state of a chain to a step that has made draws of another chain."""
    stored = pickle.dumps(step.sampling_state)

    def arrived():
        other.setup_chain(np.random.default_rng(99), TUNE, 10)
        run(other, other.gaussian_draw(np.random.default_rng(98), 1.0), 30)
        other.sampling_state = pickle.loads(stored)
        return other

    return arrived


def as_a_copy(step, _):
    copied = copy.copy(step)
    copied.chain = step.chain.copy()
    return lambda: copied


def as_a_pickle(step, _):
    stored = cloudpickle.dumps(step)
    return lambda: cloudpickle.loads(stored)


#: How a chain is kept: (step, another step of the same) -> what returns a step that goes on.
WAYS = (as_a_state, as_a_copy, as_a_pickle)


#: Chains whose like another case of the fast tier has: of stored rows, of a temperature, of a
#: function of a user, and of a method whose test is another. Those of small groups have tests of
#: their own.
ALIKE = {
    "tuna by bounds of a user", "a test of a user", "firefly, untuned", "walk from the start",
    "tempered", "annealed", "rows in files", "rows in chunks", "rows in a table",
    "noncentred hierarchy", "barker that grows", "small groups",
}  # fmt: skip
EVERY_CHAIN = [
    pytest.param(name, marks=pytest.mark.slow) if name in ALIKE else name
    for name in (*METHODS, *UNUSUAL)
]


@pytest.mark.parametrize("step", EVERY_CHAIN, indirect=True)
def test_restoring_a_state_repeats_the_draws(step, start):
    """Wherever a chain is cut, and whatever it is kept as, it goes on bit for bit."""
    other, kept, whole, point = as_a_pickle(step, None)(), [], [], start
    for cut, following in pairwise((*CUTS, DRAWS)):
        kept.append((cut, point, [way(step, other) for way in WAYS]))
        draws, point = run(step, point, following - cut, stop_at=TUNE - cut)
        whole.append(draws)
    end = step.sampling_state
    places = end.chain_state.supplies
    # Of rows that were drawn ahead, some are left.
    assert not places.size or (places[:, NEXT] < places[:, END]).any()
    for k, (cut, there, ways) in enumerate(kept):
        for arrived in ways:
            again = arrived()
            rest, _ = run(again, there, DRAWS - cut, stop_at=TUNE - cut)
            np.testing.assert_array_equal(rest, np.vstack(whole[k:]))
            same_state(again.sampling_state, end)


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
WALKS = {"centre": "start", "covariance": np.eye(2)}
#: What differs, of what docs/inputs/README.md has not -> the method, the settings of two steps, and
#: what the refusal names.
OTHERS = {
    "schedule": (
        "TunaMH",
        {"temperature": [(0, 16.0), (130, 4.0), (200, 1.0)]},
        {"temperature": [(0, 16.0), (200, 1.0)]},
        r"temperature \(\[\(0, 16\.0\), \(200",
    ),
    "limit": ("TunaMH", {}, {"full_pass_above": 500.0}, "full_pass_above"),
    "centre": ("PenaltyMH", WALKS, WALKS | {"covariance": 2.0 * np.eye(2)}, "the centre"),
}


def refused_as_differing_in(what):
    message = rf"^sampling_state= is from a step that differs in {what}"
    return pytest.raises(SettingError, match=message)


@pytest.mark.parametrize("what", OTHERS)
def test_a_state_of_another_step_is_refused(model, what):
    method, *settings, named = OTHERS[what]
    one, other = (METHODS[method](model=model, **own) for own in settings)
    with refused_as_differing_in(named):
        one.sampling_state = other.sampling_state


@pytest.mark.parametrize(
    ("changed", "weights", "what"),
    [
        ({"sd": 2.5}, None, "the prior part"),
        ({"rows": 1_999}, None, r"'a data array of counts' \(column 0\)"),
        ({}, np.full(2_000, 2), "the likelihood of 'counts'"),
    ],
)
def test_a_state_of_another_model_is_refused(own, changed, weights, what):
    model = counts(**changed)
    target = Target(CompiledModel(factorize(model, model.value_vars, weights=weights)))
    with refused_as_differing_in(what):
        own.sampling_state = replace(own.sampling_state, key=own.key | key_of(target))


def test_the_settings_of_exact_tests_are_told_from_each_other():
    changes = [
        {}, {"chi": 1.0}, {"delayed_acceptance": True},
        {"on_violation": "warn"},
    ]  # fmt: skip
    keys = [TunaSettings(**change).key for change in changes]
    assert len(set(keys)) == len(changes)
    assert keys[0] == TunaSettings(chi="auto", temperature=2.0).key


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
    learned = ("window_counts", "warm_up_sum", "reference")
    after, before = step.sampling_state.chain_state, before.chain_state
    pairs = [(getattr(after, name), getattr(before, name)) for name in learned]
    (proposal, test), (old_proposal, old_test) = after.records, before.records
    pairs += [(proposal, old_proposal), (settings_of(test), settings_of(old_test))]
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
    before = step.chain.state.records.proposal
    run(step, start, 150)
    assert unequal(step.chain.state.records.proposal, before)


def test_a_chain_without_warm_up_does_not_adapt(step, start):
    step.setup_chain(np.random.default_rng(1), 0, 100)
    before = step.chain.state.records.proposal
    run(step, start, 100)
    assert not unequal(step.chain.state.records.proposal, before)


def test_a_pickle_is_little_larger_than_the_data():
    model = logistic(rows=250_000)
    nbytes = model["X"].get_value().nbytes + model.rvs_to_values[model["y"]].data.nbytes
    assert nbytes > 5e6
    for method in METHODS.values():
        assert len(cloudpickle.dumps(method(model=model))) < 1.2 * nbytes, method
