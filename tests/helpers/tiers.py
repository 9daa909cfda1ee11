"""Which cases of a long list run in the fast tier."""

import pytest

#: Families that between them have every kind of argument, data and operation of rows.
QUICK = (
    "bernoulli_logit", "negative_binomial", "student_free", "grouped", "zero_inflated_poisson",
    "normal_mixture", "softmax", "ordered_logistic", "censored_weibull",
)  # fmt: skip


def fast(cases, kept=QUICK):
    """Return cases as parameters, all but those that are kept marked as slow."""
    return [case if case in kept else _slow(case) for case in cases]


def _slow(case):
    return pytest.param(*(case if isinstance(case, tuple) else [case]), marks=pytest.mark.slow)
