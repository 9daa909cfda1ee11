"""Plausible mistakes in the tests and around them, each with the shipped rule that it alters.

A mutant is written in Python around the shipped functions, with the same signatures.
"""

import math
from dataclasses import replace

from scipy.special import stdtr

from exactness.enumeration import audited_spread, sample_statistics
from exactness.kernels import BETA, RULES
from pymc_minibatch_mh.steps import austere, barker, penalty
from pymc_minibatch_mh.steps.batches import normal_cdf


def with_variance(base, factor):
    """Hand a variance multiplied by factor(n, total) to the test."""

    def statistics(cheap, differences, total, beta):
        log_ratio, variance, skewness = sample_statistics(cheap, differences, total, beta)
        return log_ratio, variance * factor(differences.shape[1], total), skewness

    return replace(RULES[base], statistics=statistics)


def deciding_by(base, probability):
    """Accept a partial batch with probability(log_ratio, variance, n)."""
    shipped = RULES[base].decide_batch

    def decide_batch(log_ratio, variance, skewness, n, total, uniform, settings):
        if n >= total:
            return shipped(log_ratio, variance, skewness, n, total, uniform, settings)
        p = probability(log_ratio, variance, n)
        return float(uniform < p), p, 0.0

    return replace(RULES[base], decide_batch=decide_batch)


def full_data_when_variance_is_large():
    def sample_size(noise, n, total, settings):
        return total if n > 0 else barker.sample_size(noise, n, total, settings)

    def decide_batch(log_ratio, variance, skewness, n, total, uniform, settings):
        verdict, *rest = barker.decide_batch(
            log_ratio, variance, skewness, n, total, uniform, settings
        )
        return (-1.0 if variance >= settings.sigma**2 else verdict), *rest

    return replace(RULES["barker"], sample_size=sample_size, decide_batch=decide_batch)


def growth_passed_off_as_fixed():
    return replace(RULES["barker"], settings=barker.barker_test(batch_size=4, batch_rule="grow"))


def correction_left_out(log_ratio, variance, n):
    room = max(1.2**2 - variance, 0.0)
    return normal_cdf(log_ratio / math.sqrt(room)) if room > 0.0 else float(log_ratio > 0.0)


def penalty_of_known_variance(log_ratio, variance, n):
    return min(1.0, math.exp(log_ratio - variance / 2.0))


def sized_by_the_direction():
    def spread(differences, beta):
        return audited_spread(differences, beta) * (0.5 if differences.sum() > 0.0 else 1.0)

    return replace(RULES["barker"], spread=spread)


def austere_with(tail):
    def decide_batch(log_ratio, variance, skewness, n, total, uniform, settings):
        threshold = math.log(uniform) if uniform > 0.0 else -math.inf
        if n >= total or variance <= 0.0:
            return austere.decide_batch(log_ratio, variance, skewness, n, total, uniform, settings)
        p = tail(abs(log_ratio - threshold) / math.sqrt(variance), n)
        decided = p < settings.epsilon
        return (float(log_ratio > threshold) if decided else -1.0), math.exp(min(0, log_ratio)), p

    return replace(RULES["austere, eps=.01"], decide_batch=decide_batch)


def austere_statistics_of_the_paper(n, total):
    return (1.0 - (n - 1.0) / (total - 1.0)) / (1.0 - n / total)


#: name -> (shipped rule, chain that tells them apart, mutant)
MUTANTS = {
    "finite-population correction dropped": (
        "barker", "clean", with_variance("barker", lambda n, total: 1.0 / (1.0 - n / total))),
    "growth passed off as fixed": ("barker", "clean", growth_passed_off_as_fixed()),
    "full data when s2 is large": ("barker", "clean", full_data_when_variance_is_large()),
    "correction distribution left out": (
        "barker", "clean", deciding_by("barker", correction_left_out)),
    "batch sized by the direction of the move": ("barker", "clean", sized_by_the_direction()),
    "penalty of a known variance": (
        "penalty", "clean", deciding_by("penalty", penalty_of_known_variance)),
    "normal tail for Student's": (
        "austere, eps=.01", "outlier", austere_with(lambda t, n: normal_cdf(-t))),
    "n degrees of freedom": (
        "austere, eps=.01", "outlier", austere_with(lambda t, n: float(stdtr(n, -t)))),
    "the paper's standard error": (
        "austere, eps=.01",
        "outlier",
        with_variance("austere, eps=.01", austere_statistics_of_the_paper),
    ),
}  # fmt: skip


def approximate_at_full_data():
    """Barker's test that goes on using the table once all rows are read."""
    rule = RULES["barker"]

    def decide_batch(log_ratio, variance, skewness, n, total, uniform, settings):
        p = barker.acceptance_probability(log_ratio, variance, settings)
        return float(uniform < p), p, 0.0

    return replace(rule, settings=barker.barker_test(batch_size=7), decide_batch=decide_batch)


def temperature_on_the_prior():
    """A temperature that multiplies the cheap part as well, with all rows read."""

    def decide_batch(log_ratio, *rest):
        return penalty.decide_batch(BETA * log_ratio, *rest)

    return replace(
        RULES["penalty"], settings=penalty.penalty_test(batch_size=7), decide_batch=decide_batch
    )


FULL_DATA_MUTANTS = {
    "table used at full data": approximate_at_full_data(),
    "temperature on the whole ratio": temperature_on_the_prior(),
}
