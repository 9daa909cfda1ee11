"""The problems of ``peers.py``: data, and how long each kind of sampler runs on them.

NumPy is all that is imported, so that the libraries of a sampler are imported on its clock.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import tables

type Data = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Problem:
    """A model of one of four families, and its data."""

    #: What the tables call it.
    title: str
    #: "logistic", "student", "negative_binomial" or "grouped".
    family: str
    #: Number of rows, N.
    rows: int
    #: Returns the arrays: "x" of shape (N, d), "y" of shape (N,), and "group" of shape (N,).
    data: Callable[[], Data]
    #: Draws of the project's samplers through ``pm.sample``.
    ours: int = 20_000
    #: Draws of the project's driver.
    driver: int = 200_000
    #: Draws of each NUTS, and as many of warm-up.
    nuts: int = 1_000


#: Family -> its unknowns, in the order in which means and standard deviations are stored.
UNKNOWNS = {
    "logistic": ("beta",),
    "student": ("beta", "sigma"),
    "negative_binomial": ("beta", "alpha"),
    "grouped": ("beta", "mu_alpha", "tau_alpha", "alpha"),
}
#: Family -> those of them that are positive, and sampled as logarithms.
POSITIVE = {"student": ("sigma",), "negative_binomial": ("alpha",), "grouped": ("tau_alpha",)}


def _bernoulli(rng: np.random.Generator, logits: NDArray[np.float64]) -> NDArray[np.int8]:
    return (rng.random(len(logits)) < 1.0 / (1.0 + np.exp(-logits))).astype(np.int8)


def logistic(n_rows: int, size: int, spread: float = 0.4) -> Data:
    """Draw a logistic regression with standard normal columns."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((n_rows, size))
    return {"x": x, "y": _bernoulli(rng, x @ rng.normal(0.0, spread, size))}


def student(n_rows: int, size: int) -> Data:
    """Draw a regression with errors of Student's t of 4 degrees of freedom."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((n_rows, size))
    return {"x": x, "y": x @ rng.normal(0.0, 0.4, size) + rng.standard_t(4, n_rows)}


def negative_binomial(n_rows: int, size: int) -> Data:
    """Draw counts whose variance exceeds their mean: α = 3."""
    rng = np.random.default_rng(1)
    x = np.column_stack([np.ones(n_rows), rng.standard_normal((n_rows, size - 1))])
    mu = np.exp(x @ np.append(1.0, rng.normal(0.0, 0.2, size - 1)))
    return {"x": x, "y": rng.negative_binomial(3.0, 3.0 / (3.0 + mu))}


def hierarchy(n_rows: int, size: int, groups: int) -> Data:
    """Draw a logistic regression whose intercept varies between groups of equal size."""
    rng = np.random.default_rng(1)
    x, group = rng.standard_normal((n_rows, size)), rng.integers(0, groups, n_rows)
    intercepts = -0.5 + 0.7 * rng.standard_normal(groups)
    return {
        "x": x,
        "y": _bernoulli(rng, x @ rng.normal(0.0, 0.4, size) + intercepts[group]),
        "group": group,
    }


def flights() -> Data:
    """Return 50,000 late departures by 7 slopes and 104 destinations."""
    return dict(zip(("x", "y", "group"), tables.destinations(50_000), strict=True))


def covertype(n_rows: int) -> Data:
    """Return class 2 of Covertype against the rest."""
    return dict(zip(("x", "y"), tables.covertype(n_rows), strict=True))


#: Numbers of coefficients -> draws of the project's driver.
WIDE = {10: 40_000, 20: 40_000, 50: 40_000, 100: 20_000, 200: 4_000, 500: 300}
PROBLEMS = {
    **{
        f"logistic-10-1e{power}": Problem(
            f"logistic, d = 10, N = 10{'⁴⁵⁶⁷'[power - 4]}",
            "logistic",
            10**power,
            partial(logistic, 10**power, 10),
            nuts=1_000 if power < 6 else 300,
        )
        for power in (4, 5, 6, 7)
    },
    "logistic-50-1e5": Problem(
        "logistic, d = 50, N = 10⁵", "logistic", 100_000, partial(logistic, 100_000, 50)
    ),
    **{
        # Predictors of one spread whatever d is.
        f"wide-{size}": Problem(
            f"logistic, d = {size}, N = 10⁵, for wide models",
            "logistic",
            100_000,
            partial(logistic, 100_000, size, size**-0.5),
            driver=draws,
            nuts=300,
        )
        for size, draws in WIDE.items()
    },
    "student-1e6": Problem(
        "Student-t regression, d = 11, N = 10⁶",
        "student",
        1_000_000,
        partial(student, 1_000_000, 10),
        nuts=300,
    ),
    "negative-binomial-1e5": Problem(
        "negative binomial, d = 11, N = 10⁵",
        "negative_binomial",
        100_000,
        partial(negative_binomial, 100_000, 10),
    ),
    "hierarchy-12-1e5": Problem(
        "logistic with 12 random intercepts, d = 18, N = 10⁵",
        "grouped",
        100_000,
        partial(hierarchy, 100_000, 4, 12),
    ),
    "flights": Problem(
        "flights, 104 destinations, d = 113, N = 50,000",
        "grouped",
        50_000,
        flights,
        ours=20_000,
        driver=40_000,
    ),
    "covertype": Problem(
        "Covertype, d = 52, N = 100,000",
        "logistic",
        100_000,
        partial(covertype, 100_000),
        ours=20_000,
        driver=40_000,
        nuts=300,
    ),
}
