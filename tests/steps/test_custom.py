"""A test of a user's own: how it is run, what it is told, and how it is refused."""

import numpy as np
import pytest

from helpers.zoo import sample
from pymc_minibatch_mh import CustomTestMH
from pymc_minibatch_mh.errors import MinibatchError, SettingError
from pymc_minibatch_mh.steps.custom import CustomTestSettings

pytestmark = pytest.mark.filterwarnings("ignore:The number of samples is too small")


def sample_size(noise, n, total, numbers):
    return n + int(numbers[0])


def decide_batch(log_ratio, variance, skewness, n, total, uniform, numbers):
    probability = np.exp(min(0.0, log_ratio - 0.5 * variance))
    return (1.0 if uniform < probability else 0.0), probability, 0.125


def nearly(log_ratio, variance, skewness, n, total, uniform, numbers):
    probability = np.exp(min(0.0, log_ratio - 0.5 * variance))
    return (1.0 if uniform < probability else 0.0), probability, 0.25


def undecided(log_ratio, variance, skewness, n, total, uniform, numbers):
    return -1.0, 0.0, 0.0


def standing_still(noise, n, total, numbers):
    return n


@pytest.fixture(scope="module")
def step(model_of):
    model = model_of("logistic")
    return CustomTestMH(
        sample_size, decide_batch, numbers=[150], controls="noise of a batch", model=model
    )


def test_it_samples_what_the_penalty_method_samples(model_of, prepared, step):
    model = model_of("logistic")
    own, penalty = (
        sample(model, one, 6_000, 500, random_seed=1)
        for one in (step, prepared("logistic", "PenaltyMH"))
    )
    for name in own.posterior.data_vars:
        mean, sd = penalty.posterior[name].mean(("chain", "draw")), penalty.posterior[name].std()
        assert (abs(own.posterior[name].mean(("chain", "draw")) - mean) < 0.1 * sd).all()
    assert (own.sample_stats["n_obs"] == 150).all()
    assert (own.sample_stats["error_estimate"] == 0.125).all()
    assert not own.sample_stats["certified"].any()


def test_a_test_that_never_decides_reads_all_rows_and_ends(model_of):
    model = model_of("logistic")
    step = CustomTestMH(sample_size, undecided, numbers=[500], controls="nothing", model=model)
    trace = sample(model, step, 20, 20, random_seed=1)
    assert (trace.sample_stats["full_pass"] == 1).all()


def raising(log_ratio, variance, skewness, n, total, uniform, numbers):
    if uniform >= 0.0:
        raise ValueError("no verdict")
    return 1.0, 1.0, 0.0


def no_number(log_ratio, variance, skewness, n, total, uniform, numbers):
    return np.nan, 0.5, 0.0


def beyond(log_ratio, variance, skewness, n, total, uniform, numbers):
    return 1.0, 2.0, 0.0


@pytest.mark.parametrize("own", [raising, no_number, beyond])
@pytest.mark.parametrize("batch", [150, 10_000])
def test_a_test_without_a_verdict_ends_the_run(model_of, own, batch):
    model = model_of("logistic")
    step = CustomTestMH(sample_size, own, numbers=[batch], controls="nothing", model=model)
    with pytest.raises(MinibatchError, match="custom test raised an exception"):
        sample(model, step, 20, 20, random_seed=1)


def test_tests_are_told_from_each_other():
    usual = {
        "numbers": [150], "sample_size": sample_size, "decide_batch": decide_batch,
        "controls": "noise of a batch",
    }  # fmt: skip
    changes = [
        {}, {"numbers": [151]}, {"decide_batch": undecided}, {"decide_batch": nearly},
        {"sample_size": standing_still}, {"controls": "noise"},
    ]  # fmt: skip
    keys = {CustomTestSettings(**usual | change).key for change in changes}
    assert len(keys) == len(changes)
    assert CustomTestSettings(**usual).key in keys


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sample_size": 3}, r"^sample_size=3 cannot be compiled by numba"),
        ({"decide_batch": lambda x: x}, r"^decide_batch='<lambda>' cannot be compiled by numba"),
        ({"controls": ""}, r"^controls='' names no error"),
        ({"numbers": ["x"]}, r"^numbers=\['x'\] is not a sequence of numbers"),
        ({"walk_target": -1.0}, r"^walk_target=-1.0 is not a positive number"),
    ],
)
def test_what_is_no_test_is_refused(model_of, settings, message):
    given = {
        "sample_size": sample_size,
        "decide_batch": decide_batch,
        "controls": "noise",
        **settings,
    }
    with pytest.raises(SettingError, match=message):
        CustomTestMH(model=model_of("logistic"), **given)
