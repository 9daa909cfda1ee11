"""A move of a user's own: what it is handed, that it is exact, and how it is refused."""

import arviz as az
import numpy as np
import pytest
from numba import njit

from pymc_minibatch_mh import OwnMove, PenaltyMH, SettingError, TunaMH, rows_gradient
from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.kernels import counts as entry
from statistical.budget import FAR
from zoo import logistic, sample

pytestmark = pytest.mark.filterwarnings("ignore:The number of samples is too small")

ROWS = 5_000


@pytest.fixture(scope="module")
def model():
    return logistic(rows=ROWS)


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


def one_way(position, new, rng, state, metric, rows):
    """Drift as above, but leave the density of the way back out."""
    drift(position, new, rng, state, metric, rows)
    return 0.0


def adapt(state, acceptance):
    state[0] *= np.exp(acceptance - 0.5)


def distance(model, move, reference):
    """Return how far means and sds are off, in standard errors of a run with a move."""
    step = TunaMH(model=model, proposal=move)
    trace = sample(model, step, 8_000, 500, random_seed=2)
    return step, trace, reference(trace)


@pytest.fixture(scope="module")
def reference(model):
    trace = sample(model, TunaMH(model=model), 10_000, 500, random_seed=1)
    own = moments(trace)

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


def test_a_langevin_move_on_a_batch_of_rows_is_exact(model, reference):
    move = OwnMove(langevin, state=[0.01], batch_size=ROWS // 3, adapt=adapt)
    step, _, error = distance(model, move, reference)
    assert error < FAR
    assert step.chain.state.proposal.state[0] != 0.01


def test_a_move_without_the_way_back_is_noticed(model, reference):
    move = OwnMove(one_way, state=[0.05], batch_size=ROWS // 3)
    assert distance(model, move, reference)[2] > FAR


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
def test_a_batch_estimates_the_gradient_of_all_rows(model, batch_size):
    step = TunaMH(model=model, proposal=OwnMove(reads, np.zeros(5), batch_size=batch_size))
    chain = Chain(step.program, np.random.default_rng(1), adapting=False)
    found = []
    for _ in range(300 if batch_size == 100 else 1):
        chain.advance(1)
        found.append(chain.state.proposal.state.copy())
    found = np.array(found)
    exact = step.target.passes.likelihood(chain.position, hessian=False)
    # Half of the rows or more stand for all of them.
    assert (found[:, 0] == {0: 0, 100: 100, 4_000: ROWS}[batch_size]).all()
    expected = np.array([exact.value, *exact.gradient]) if batch_size else np.zeros(4)
    if batch_size == 100:
        error = found[:, 1:].std(axis=0) / np.sqrt(len(found))
        assert (np.abs(found[:, 1:].mean(axis=0) - expected) < FAR * error).all()
    else:
        np.testing.assert_allclose(found[0, 1:], expected, atol=1e-8)


def raising(position, new, rng, state, metric, rows):
    new[0] = position[0]
    if rng.random() < 2.0:
        raise ValueError("no way")
    return 0.0


def half_written(position, new, rng, state, metric, rows):
    new[0] = position[0] + 0.01 * rng.standard_normal()
    return 0.0


@pytest.mark.parametrize("move", [raising, half_written])
def test_a_move_that_goes_nowhere_is_invalid(model, move):
    step = TunaMH(model=model, proposal=OwnMove(move))
    chain = Chain(step.program, np.random.default_rng(1), adapting=False)
    before = chain.position.copy()
    counts = chain.advance(50).counts
    assert (counts[:, entry.INVALID] == 1).all()
    assert not counts[:, entry.ACCEPTED].any()
    np.testing.assert_array_equal(chain.position, before)


def scaled_by(factors):
    def move(position, new, rng, state, metric, rows):
        new[0] = factors[0] * position[0]
        return 0.0

    return move


def test_moves_that_differ_in_what_they_use_are_told_from_each_other():
    pairs = [((0.1,), (9.0,)), (np.array([0.1]), np.array([9.0]))]
    for one, other in pairs:
        assert repr(OwnMove(scaled_by(one))) == repr(OwnMove(scaled_by(one)))
        assert repr(OwnMove(scaled_by(one))) != repr(OwnMove(scaled_by(other)))


def test_moves_are_told_from_each_other():
    one, other = OwnMove(langevin, [1.0]), OwnMove(one_way, [1.0])
    assert repr(one) == repr(OwnMove(langevin, [1.0]))
    assert len({repr(one), repr(other), repr(OwnMove(langevin, [2.0]))}) == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"move": lambda position: 0.0}, r"^OwnMove\('<lambda>'\) is no move that numba can"),
        ({"move": 3}, r"^OwnMove\(3\) is no move"),
        ({"move": langevin, "batch_size": -1}, r"^batch_size=-1 is no number of rows"),
        ({"move": langevin, "batch_size": 1.5}, r"^batch_size=1.5 is no number of rows"),
        ({"move": langevin, "state": ["x"]}, r"^state=\['x'\] are no numbers"),
        ({"move": langevin, "adapt": 3}, r"^adapt=3 is no function"),
    ],
)
def test_what_is_no_move_is_refused(settings, message):
    with pytest.raises(SettingError, match=message):
        OwnMove(**settings)


def test_a_move_beside_another_step_is_refused(model_of):
    model = model_of("two_likelihoods")
    first, *_ = model.continuous_value_vars
    with pytest.raises(SettingError, match="is moved by another step, and an OwnMove moves all"):
        PenaltyMH([first], model=model, proposal=OwnMove(langevin, [0.1]))
