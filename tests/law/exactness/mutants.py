"""Plausible mistakes in the tests and around them, each with the shipped rule that it alters.

A mutant is written in Python around the shipped functions, with the same signatures.
"""

from dataclasses import replace

from helpers import in_library
from law.exactness.enumeration import audited_spread, sample_statistics
from law.exactness.kernels import BETA, RULES
from pymc_minibatch_mh.published.barker_paper import growing
from pymc_minibatch_mh.steps import penalty
from pymc_minibatch_mh.steps.barker import barker_test


def with_variance(base, factor):
    """Hand a variance multiplied by factor(n, total) to the test."""

    def statistics(cheap, differences, total, beta):
        log_ratio, variance, skewness = sample_statistics(cheap, differences, total, beta)
        return log_ratio, variance * factor(differences.shape[1], total), skewness

    return replace(RULES[base], statistics=statistics)


def full_data_when_variance_is_large():
    def sample_size(noise, n, total, settings):
        return total if n > 0 else in_library.sample_size(noise, n, total, settings)

    def decide_batch(log_ratio, variance, skewness, n, total, uniform, settings):
        verdict, *rest = in_library.decide_batch(
            log_ratio, variance, skewness, n, total, uniform, settings
        )
        return (-1.0 if variance >= settings.sigma**2 else verdict), *rest

    return replace(RULES["barker"], sample_size=sample_size, decide_batch=decide_batch)


def growth_passed_off_as_fixed():
    return replace(RULES["barker"], settings=growing(barker_test(batch_size=4)))


def sized_by_the_direction():
    def spread(differences, beta):
        return audited_spread(differences, beta) * (0.5 if differences.sum() > 0.0 else 1.0)

    return replace(RULES["barker"], spread=spread)


def austere_statistics_of_the_paper(n, total):
    return (1.0 - (n - 1.0) / (total - 1.0)) / (1.0 - n / total)


#: name -> (shipped rule, chain that tells them apart, mutant)
MUTANTS = {
    "finite-population correction dropped": (
        "barker", "clean", with_variance("barker", lambda n, total: 1.0 / (1.0 - n / total))),
    "growth passed off as fixed": ("barker", "clean", growth_passed_off_as_fixed()),
    "full data when s2 is large": ("barker", "clean", full_data_when_variance_is_large()),
    "batch sized by the direction of the move": ("barker", "clean", sized_by_the_direction()),
    "the paper's standard error": (
        "austere, eps=.01",
        "outlier",
        with_variance("austere, eps=.01", austere_statistics_of_the_paper),
    ),
}  # fmt: skip


def temperature_on_the_prior():
    """A temperature that multiplies the cheap part as well, with all rows read."""

    def decide_batch(log_ratio, *rest):
        return in_library.decide_batch(BETA * log_ratio, *rest)

    return replace(
        RULES["penalty"], settings=penalty.penalty_test(batch_size=7), decide_batch=decide_batch
    )


FULL_DATA_MUTANTS = {
    "temperature on the whole ratio": temperature_on_the_prior(),
}
