"""What the pages claim of tests that read batches, where no other test shows it."""

import math
from dataclasses import replace

import numpy as np
import pytest

from helpers.in_library import decide_batch, move_between, predicted_noise, sample_size
from law.exactness import law
from law.exactness.compiled import by_looks
from law.exactness.enumeration import (
    acceptance,
    audited_spread,
    children,
    sample_statistics,
    subsets,
    transition_matrix,
)
from law.exactness.kernels import BETA, CHAINS, PRIOR, RULES
from law.statistical.budget import FAR
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.steps import austere, barker, penalty

#: Differences with a long tail upwards.
SKEWED = np.exp(np.linspace(-1.5, 1.8, 12))
CHEAP, HUGE = 0.2, 10_000_000


@pytest.mark.parametrize("rows", [2, 4, 7])
def test_a_batch_estimates_the_log_ratio_without_bias(rows):
    log_ratio, _, _ = sample_statistics(CHEAP, SKEWED[subsets(12, rows)], 12, BETA)
    assert log_ratio.mean() == pytest.approx(CHEAP + BETA * SKEWED.sum(), rel=1e-12)


@pytest.mark.parametrize("rows", [2, 4, 7])
def test_the_variance_of_a_batch_is_estimated_without_bias(rows):
    log_ratio, variance, _ = sample_statistics(CHEAP, SKEWED[subsets(12, rows)], 12, BETA)
    assert variance.mean() == pytest.approx(log_ratio.var(), rel=1e-12)


@pytest.mark.parametrize("name", ["barker", "barker, sigma=1", "penalty"])
def test_a_batch_is_sized_by_the_move_alone(name):
    clean = CHAINS["clean"]
    two = replace(clean, log_prior=PRIOR[:2], log_likelihood=clean.log_likelihood[:2])
    _, counts = by_looks(two, RULES[name], [0.0, 1.0]).run(300, seed=51)
    # Both directions of one move, whatever was drawn.
    assert len(set(counts["n_obs"])) == 1
    rng = np.random.default_rng(52)
    whitener = np.tril(rng.normal(size=(3, 3)))
    one = np.eye(3)
    for order in (0, 1, 2):
        s = Reference(np.zeros(3), one, whitener, np.zeros(3), one, order, 1.0)
        for _ in range(50):
            here, there = rng.normal(size=(2, 3))
            moves = move_between(s, here, there), move_between(s, there, here)
            forth, back = (predicted_noise(move, s, 1.0) for move in moves)
            assert forth == back > 0.0


def shift_of_growth(differences, sigma):
    """Return the expected error of Δ, read on from 3 to 6 rows unless s < σ."""
    total = differences.size
    first, variance, _ = sample_statistics(0.0, differences[subsets(total, 3)], total, BETA)
    second, _, _ = sample_statistics(0.0, differences[subsets(total, 6)], total, BETA)
    later = second[children(total, 3, 6)].mean(axis=1)
    return np.where(variance < sigma**2, first, later).mean() - BETA * differences.sum()


def test_growth_shifts_the_mean_of_skewed_rows_always_to_one_side():
    shifts = np.array([shift_of_growth(SKEWED, sigma) for sigma in (0.8, 1.2, 2.0, 4.0)])
    assert shifts.max() < -0.01
    mirrored = [shift_of_growth(-SKEWED, sigma) for sigma in (0.8, 1.2, 2.0, 4.0)]
    np.testing.assert_allclose(mirrored, -shifts)
    # Without a stop there is no shift, and without skewness none either.
    assert shift_of_growth(SKEWED, 0.0) == pytest.approx(0.0, abs=1e-12)
    assert shift_of_growth(np.linspace(-1.0, 1.0, 12), 1.2) == pytest.approx(0.0, abs=1e-12)


USUAL = {barker: barker.barker_test(), penalty: penalty.penalty_test()}


def accepted_by_all_rows(module, log_ratio):
    return decide_batch(log_ratio, 0.0, 0.0, 12, 12, 0.5, USUAL[module])[1]


@pytest.mark.parametrize("log_ratio", [-30.0, -2.0, -1e-9, 0.0, 0.3, 5.0, 40.0])
def test_barkers_rule_adds_a_logistic_number(log_ratio):
    # The chance that a standard logistic number exceeds -Δ.
    expected = 1.0 / (1.0 + math.exp(-log_ratio))
    assert accepted_by_all_rows(barker, log_ratio) == pytest.approx(expected, rel=1e-12)


def test_barkers_rule_accepts_at_most_as_often_as_the_usual_one():
    for log_ratio in np.linspace(-20.0, 20.0, 401):
        usual = accepted_by_all_rows(penalty, log_ratio)
        assert usual == pytest.approx(min(1.0, math.exp(log_ratio)))
        assert 0.5 * usual <= accepted_by_all_rows(barker, log_ratio) <= usual
    assert accepted_by_all_rows(barker, 0.0) == 0.5 * accepted_by_all_rows(penalty, 0.0)


@pytest.mark.parametrize("sd", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("ratio", [0.0, 0.7, -2.0])
def test_the_penalty_of_known_normal_noise_is_exact(ratio, sd):
    # With very many rows the variance is as good as known.
    settings, n = penalty.penalty_test(), HUGE // 10

    def accepted(log_ratio, factor=1.0):
        x = log_ratio + sd * np.linspace(-9.0, 9.0, 3_001)
        weights = np.exp(-0.5 * ((x - log_ratio) / sd) ** 2)
        p = [decide_batch(v, factor * sd**2, 0.0, n, HUGE, 0.5, settings)[1] for v in x]
        return weights @ np.array(p) / weights.sum()

    balance = accepted(ratio) - math.exp(ratio) * accepted(-ratio)
    assert balance == pytest.approx(0.0, abs=1e-5)
    if ratio != 0.0:
        off = accepted(ratio, 0.5) - math.exp(ratio) * accepted(-ratio, 0.5)
        assert abs(off) > 1e-3


def share_of_wrong_looks(epsilon, looks=20_000, rows=8):
    """Return how often a look is sure of the wrong side, the mean being all but at the threshold.

    The threshold is log u, and the differences are normal.
    """
    settings, uniform = austere.austere_test(epsilon, batch_size=rows), 0.5
    noise = np.random.default_rng(53).standard_normal((looks, rows))
    means, squares = noise.mean(axis=1), noise.var(axis=1, ddof=1) / rows
    verdicts = [
        decide_batch(math.log(uniform) + m, v, 0.0, rows, HUGE, uniform, settings)[0]
        for m, v in zip(means, squares, strict=True)
    ]
    return np.mean(np.array(verdicts) == 0.0)


def test_a_look_is_wrong_with_probability_epsilon_at_most():
    noise = FAR * math.sqrt(0.05 * 0.95 / 20_000)
    assert share_of_wrong_looks(0.05) < 0.05 + noise
    assert share_of_wrong_looks(0.08) > 0.05 + noise


def test_errors_of_the_austere_test_partly_cancel():
    differences, cheap = SKEWED[:9] - SKEWED[:9].mean(), -0.4
    rule = replace(RULES["austere, eps=.05"], settings=austere.austere_test(0.2, batch_size=2))
    exact = min(1.0, math.exp(cheap + BETA * differences.sum()))

    def accepted_at(uniform):
        def decide(log_ratio, variance, skewness, n, total, _, settings):
            verdict, _, error = decide_batch(
                log_ratio, variance, skewness, n, total, uniform, settings
            )
            return verdict, 0.5, error

        return acceptance(replace(rule, decide_batch=decide), cheap, differences, BETA)

    uniforms = (np.arange(60) + 0.5) / 60.0
    gaps = np.array([accepted_at(u) - (u < exact) for u in uniforms])
    assert gaps.min() < -0.05
    assert gaps.max() > 0.05
    assert abs(gaps.mean()) < 0.8 * np.abs(gaps).mean()


@pytest.mark.parametrize("spread", [0.0, 1.0, 1e9, np.inf])
def test_the_first_look_of_the_austere_test_is_settled(spread):
    assert sample_size(spread, 0, 10_000, austere.austere_test(batch_size=70)) == 70


def test_the_austere_test_reads_more_where_decisions_are_close():
    settings, threshold = austere.austere_test(0.05, batch_size=50), math.log(0.5)

    def verdict(gap):
        return decide_batch(threshold + gap, 1.0, 0.0, 50, 10_000, 0.5, settings)[0]

    assert [verdict(gap) for gap in (-5.0, -2.5, -0.5, 0.0, 0.5, 2.5, 5.0)] == [
        0.0, 0.0, -1.0, -1.0, -1.0, 1.0, 1.0
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["barker", "penalty"])
def test_a_chain_can_be_further_off_than_its_updates(name):
    """Where few moves are tried, an update errs little, and the chain as much as ever."""
    chain = CHAINS["rare event"]
    target = chain.target()
    moves = transition_matrix(chain, RULES[name])
    slow = 0.9 * np.eye(len(target)) + 0.1 * moves
    assert law.total_variation(moves, target) > 0.5 * law.drift(moves, target)
    assert law.total_variation(slow, target) > 5.0 * 0.5 * law.drift(slow, target)
    assert law.gap(slow) < law.gap(moves)


def test_the_spread_that_sizes_a_batch_is_symmetric():
    assert audited_spread(SKEWED, BETA) == pytest.approx(audited_spread(-SKEWED, BETA), rel=1e-12)
