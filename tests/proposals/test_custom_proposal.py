"""A move of a user's own: what it is handed, that it is exact, and how it is refused."""

import re
from functools import partial

import arviz as az
import numpy as np
import pytest
from numba import njit

from helpers.altered import with_proposal
from helpers.zoo import drawn
from law.statistical.budget import FAR
from pymc_minibatch_mh import CustomProposal, TunaMH, audit, rows_gradient
from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.errors import MinibatchError, SettingError

pytestmark = pytest.mark.filterwarnings("ignore:The number of samples is too small")

ROWS = 5_000


@pytest.fixture(scope="module")
def model(model_of):
    return model_of("logistic")


@pytest.fixture(scope="module")
def moved(prepared):
    """Return a step of the model with a proposal, on what was prepared once."""
    return partial(with_proposal, prepared("logistic"))


def langevin(position, new, rng, state, metric, rows):
    """Drift along the gradient of a batch, with the same batch at both ends."""
    size, step = position.size, state[0]
    here, there, white = np.empty(size), np.empty(size), np.empty(size)
    rows_gradient(rows, position, here)
    for i in range(size):
        white[i] = rng.standard_normal()
    forth = 0.0
    for i in range(size):
        forth += white[i] ** 2
        new[i] = position[i] + 0.5 * step**2 * here[i] + step * white[i]
    rows_gradient(rows, new, there)
    back = 0.0
    for i in range(size):
        back += ((position[i] - new[i] - 0.5 * step**2 * there[i]) / step) ** 2
    return 0.5 * (forth - back)


drift = njit(langevin)


def adapt(state, acceptance):
    state[0] *= np.exp(acceptance - 0.5)


def distance(model, step, reference):
    """Return how far means and sds are off, in standard errors of a run with a move."""
    return reference(drawn(model, step, 4_000, 500, random_seed=2))


@pytest.fixture(scope="module")
def reference(model, prepared):
    own = moments(drawn(model, prepared("logistic"), 4_000, 500, random_seed=1))

    def errors(other):
        (mean, sd, ess), (own_mean, own_sd, own_ess) = moments(other), own
        noise = np.sqrt(1.0 / ess + 1.0 / own_ess)
        off = np.abs(mean - own_mean) / own_sd, np.abs(np.log(sd / own_sd)) * np.sqrt(2.0)
        return float(np.max(off / noise))

    return errors


def moments(trace):
    """Return means, standard deviations and effective sample sizes of all coordinates."""
    ess = az.ess(trace, method="sd")
    found = [
        (values.mean(("chain", "draw")), values.std(("chain", "draw")), ess[name])
        for name, values in trace.posterior.data_vars.items()
    ]
    return [
        np.concatenate([np.ravel(x.to_numpy()) for x in part]) for part in zip(*found, strict=True)
    ]


def test_a_langevin_move_on_a_batch_of_rows_is_exact(model, moved, reference):
    step = moved(CustomProposal(langevin, state=[0.01], batch_size=ROWS // 10, adapt=adapt))
    assert distance(model, step, reference) < FAR
    assert step.chain.state.records.proposal.state[0] != 0.01


def reads(position, new, rng, state, metric, rows):
    """Write what the move is handed to the state: number of rows, and the gradient."""
    state[0] = rows.drawn.size
    out = np.empty(position.size)
    state[1] = rows_gradient(rows, position, out)
    for i in range(position.size):
        state[2 + i] = out[i]
        new[i] = position[i]
    return 0.0


@pytest.mark.parametrize("batch_size", [0, 100, 4_000])
def test_a_batch_estimates_the_gradient_of_all_rows(moved, batch_size):
    step = moved(CustomProposal(reads, np.zeros(5), batch_size=batch_size))
    chain = Chain(step.program, np.random.default_rng(1), adapting=False)
    found = []
    for _ in range(300 if batch_size == 100 else 1):
        chain.advance(1)
        found.append(chain.state.records.proposal.state.copy())
    found = np.array(found)
    exact = step.target.full_data.likelihood(chain.position, hessian=False)
    # Half of the rows or more stand for all of them.
    assert (found[:, 0] == {0: 0, 100: 100, 4_000: ROWS}[batch_size]).all()
    expected = np.array([exact.value, *exact.gradient]) if batch_size else np.zeros(4)
    if batch_size == 100:
        error = found[:, 1:].std(axis=0) / np.sqrt(len(found))
        assert (np.abs(found[:, 1:].mean(axis=0) - expected) < FAR * error).all()
    else:
        np.testing.assert_allclose(found[0, 1:], expected, atol=1e-8)


def half_written(position, new, rng, state, metric, rows):
    new[0] = position[0] + 0.01 * rng.standard_normal()
    return 0.0


def unfinished(position, new, rng, state, metric, rows):
    nudge(position, new, rng, state, metric, rows)
    return np.nan


@pytest.mark.parametrize("move", [half_written, unfinished])
def test_a_move_that_goes_nowhere_is_invalid(moved, move):
    step = moved(CustomProposal(move, state=[1.0, 1.0]))
    chain = Chain(step.program, np.random.default_rng(1), adapting=False)
    before = chain.position.copy()
    counts = chain.advance(50).counts
    assert (counts["invalid"] == 1).all()
    assert not counts["accepted"].any()
    np.testing.assert_array_equal(chain.position, before)


def raising(position, new, rng, state, metric, rows):
    nudge(position, new, rng, state, metric, rows)
    if rng.random() < state[2]:
        raise ValueError("no way", position.size)
    return 0.0


def of_nothing(position, new, rng, state, metric, rows):
    nudge(position, new, rng, state, metric, rows)
    if rng.random() < state[2]:
        new[0] = np.argmin(position[:0])
    return 0.0


def editing(position, new, rng, state, metric, rows):
    nudge(position, new, rng, state, metric, rows)
    if rng.random() < state[2]:
        position[0] += 1.0
    return 0.0


WRONG = {
    raising: (r"^CustomProposal\('raising'\) raised ValueError: .*no way", ValueError),
    of_nothing: (
        r"^CustomProposal\('of_nothing'\) raised ValueError: .*empty sequence",
        ValueError,
    ),
    editing: (r"^CustomProposal\('editing'\) changed `position`", None),
}


@pytest.fixture(scope="module")
def trace(model, prepared):
    return drawn(model, prepared("logistic"), 60, 60)


@pytest.mark.parametrize("move", WRONG)
def test_a_move_that_goes_wrong_ends_sampling_by_its_name(model, moved, trace, move):
    """In a run, in an audit and in the check; the chain stays where it was, and can go on."""
    (message, cause), own = WRONG[move], CustomProposal(move, state=[1.0, 1.0, 0.01])
    step = moved(own)
    with pytest.raises(MinibatchError, match=message) as in_a_run:
        drawn(model, step, 2_000, 0)
    with pytest.raises(MinibatchError, match=message) as in_an_audit:
        audit(trace, step, pairs=400)
    with pytest.raises(MinibatchError, match=message) as in_the_check:
        own.check()
    for raised in (in_a_run, in_an_audit, in_the_check):
        assert type(raised.value.__cause__) is (cause or type(None))
    chain = Chain(step.program, np.random.default_rng(1), adapting=False)
    chain.state.records.proposal.state[2] = 1.0
    before = chain.position.copy()
    with pytest.raises(MinibatchError, match=message):
        chain.advance(50)
    np.testing.assert_array_equal(chain.position, before)
    chain.state.records.proposal.state[2] = 0.0
    assert chain.advance(50).counts["accepted"].any()


def test_exactness_rests_on_the_ratio_of_the_user(model, prepared):
    step = TunaMH(model=model, proposal=CustomProposal(nudging, state=[1.0, 1.0]))
    own = "; and only if the log-ratio of CustomProposal('nudging') is correct, which is unverified"
    assert own in step.exactness
    assert own not in prepared("logistic").exactness


@njit
def nudge(position, new, rng, state, metric, rows):
    for i in range(position.size):
        new[i] = position[i]
    k = rng.integers(0, position.size)
    new[k] += state[0] * metric.factor[k, k] * rng.standard_normal()
    return 0.0


def nudging(position, new, rng, state, metric, rows):
    """Walk at random, which is symmetric."""
    return nudge(position, new, rng, state, metric, rows)


def stretching(position, new, rng, state, metric, rows):
    """Multiply all coordinates by one number or its inverse: the Jacobian is its power."""
    factor = np.exp(state[0] * rng.standard_normal())
    for i in range(position.size):
        new[i] = factor * position[i]
    if rng.random() < 0.7:
        nudge(position, new, rng, state, metric, rows)
        return 0.0
    return state[1] * position.size * np.log(factor)


def drifting(position, new, rng, state, metric, rows):
    """Drift along the gradient of a batch, with its log-ratio times a number."""
    return state[1] * drift(position, new, rng, state, metric, rows)


def aimed(position, new, rng, state, metric, rows):
    """Draw from the normal approximation, without a look at where the chain is."""
    size = position.size
    white, here, there = np.empty(size), 0.0, 0.0
    for i in range(size):
        white[i], own = rng.standard_normal(), 0.0
        new[i] = metric.centre[i]
        for j in range(i + 1):
            new[i] += metric.factor[i, j] * white[j]
            own += metric.whitener[i, j] * (position[j] - metric.centre[j])
        here += own**2
        there += white[i] ** 2
    return state[1] * 0.5 * (there - here)


def remembering(position, new, rng, state, metric, rows):
    """Go on in the direction of the last move, as no Markov chain does."""
    for i in range(position.size):
        new[i] = position[i]
    if rng.random() < 0.5:
        state[0] = -state[0] if rng.random() < 0.1 else state[0]
        new[0] += abs(metric.factor[0, 0]) * state[0]
        return 0.0
    return nudge(position, new, rng, state, metric, rows) + state[1] * position[0]


#: First number of the state, rows of a batch.
CHECKED = {nudging: (2.4, 0), stretching: (0.5, 0), drifting: (0.6, 100), aimed: (1.0, 0)}


@pytest.mark.parametrize("move", CHECKED)
def test_the_check_passes_right_ratios_and_fails_wrong_ones(move):
    first, batch_size = CHECKED[move]
    for size in (1, 4) if move is nudging else (4,):
        right = CustomProposal(move, state=[first, 1.0], batch_size=batch_size)
        assert 0.0 < right.check(size, random_seed=1) < 6.0
    if move is nudging:
        return
    for factor, guess in ((0.0, "always returned 0"), (-1.0, "opposite sign"), (0.5, "Jacobian")):
        wrong = CustomProposal(move, state=[first, factor], batch_size=batch_size)
        pattern = rf"^CustomProposal\('{move.__name__}'\) returns a wrong log-ratio: .*{guess}"
        with pytest.raises(SettingError, match=pattern) as raised:
            wrong.check(random_seed=1)
        assert re.search(
            r"the (mean of coordinate|variance of coordinate|correlation of coordinates \d and) \d "
            r"off by [+-]\d+\.\d standard errors",
            str(raised.value),
        )


def test_the_check_fails_a_move_that_remembers():
    with pytest.raises(SettingError, match="the proposal may depend on earlier positions"):
        CustomProposal(remembering, state=[0.3, 0.1]).check(random_seed=1)


def counting(position, new, rng, state, metric, rows):
    """Walk at random, for as long as a walk of the check lasts."""
    state[0] += 1.0
    if state[0] > 100.0:
        raise ValueError("walked on")
    return nudge(position, new, rng, state[1:], metric, rows)


def test_the_check_starts_every_walk_from_the_given_state():
    assert CustomProposal(counting, state=[0.0, 2.4]).check(random_seed=1) < 6.0


def test_a_move_that_gets_nowhere_is_not_checked():
    slow = CustomProposal(drifting, state=[0.006, 1.0], batch_size=100)
    with pytest.raises(SettingError, match=r"too slowly on this Gaussian .* Pass scale="):
        slow.check(random_seed=1)
    assert slow.check(scale=0.01, random_seed=1) < 6.0


def scaled_by(factors):
    def move(position, new, rng, state, metric, rows):
        new[0] = factors[0] * position[0]
        return 0.0

    return move


def test_moves_are_told_from_each_other():
    """By their code, their state, and the values that they use."""
    used = [(0.1,), (9.0,), np.array([0.1]), np.array([9.0])]
    given = [(nudging, [1.0]), (nudging, [2.0]), (half_written, [1.0])]

    def words(*moves):
        return [repr(CustomProposal(*one)) for one in moves]

    known = words(*given, *((scaled_by(x),) for x in used))
    assert len({*known}) == 7
    assert words(given[0], *((scaled_by(x),) for x in used[1::2])) == [known[i] for i in (0, 4, 6)]
