import math

import numpy as np
import pytest
from scipy.special import expit, ndtr, stdtr

from every import every
from pymc_minibatch_mh.steps import austere, barker, penalty
from pymc_minibatch_mh.steps.batches import logistic, normal_cdf, student_tail


@every("degrees", [*range(1, 41), 100, 1000, 10**5, 10**8])
def test_student_tail_is_scipys(degrees):
    # SciPy's own error reaches 1e-9 at one degree of freedom and t = 1e-8.
    t = np.concatenate([[0.0], np.linspace(1e-3, 12, 300), np.logspace(1.1, 100, 30)])
    ours = [student_tail(x, float(degrees)) for x in t]
    np.testing.assert_allclose(ours, stdtr(degrees, -t), rtol=0, atol=1e-11)


def test_student_tail_with_one_degree_is_cauchys():
    for t in (1e-12, 1e-8, 1e-4, 1.0, 1e4):
        assert student_tail(t, 1.0) == pytest.approx(math.atan2(1.0, t) / math.pi, abs=1e-14)


def test_student_tail_at_the_ends():
    assert student_tail(math.inf, 5.0) == 0.0
    assert student_tail(1e200, 5.0) == 0.0
    assert student_tail(1e200, 500.0) == 0.0
    assert student_tail(0.0, 5.0) == 0.5
    assert student_tail(0.0, 500.0) == 0.5


def test_normal_cdf_keeps_its_relative_accuracy_in_the_tail():
    x = np.linspace(-37, 9, 400)
    np.testing.assert_allclose([normal_cdf(v) for v in x], ndtr(x), rtol=1e-12)


def test_logistic_at_the_infinities():
    assert [logistic(x) for x in (-math.inf, -1e4, 0.0, math.inf)] == [0.0, 0.0, 0.5, 1.0]
    assert logistic(1.3) == pytest.approx(expit(1.3), rel=1e-15)


BIG = 10**6
#: Tests on batches, whose decisions have the same ends.
TESTS = [
    (austere, austere.austere_test()),
    (barker, barker.barker_test()),
    (barker, barker.barker_test(batch_rule="grow")),
    (penalty, penalty.penalty_test()),
]


@every("n", [500, BIG])
@every(("module", "test"), TESTS)
def test_infinite_and_undefined_log_ratios(module, test, n):
    assert module.decide_batch(math.nan, math.nan, math.nan, n, BIG, 0.0, test) == (0, 0, 0)
    assert module.decide_batch(-math.inf, math.nan, 0.0, n, BIG, 0.0, test) == (0, 0, 0)
    assert module.decide_batch(math.inf, math.nan, 0.0, n, BIG, 0.999, test) == (1, 1, 0)
