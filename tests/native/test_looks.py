"""The shipped sequential test errs and reads as the dynamic programme says, on real rows too."""

import math
import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from helpers.in_library import decide_batch, sample_size
from helpers.tiers import fast
from law.exactness.compiled import Compiled, posterior_of
from law.exactness.toys import jump, rows_of
from law.statistical.budget import FAR
from papers.sequential import sequential_error, sequential_use
from pymc_minibatch_mh.steps import austere

FOLDER = "PYMC_MINIBATCH_MH_DATA"
#: The published check simulated so many tests, and its figures lay within so many standard errors.
PUBLISHED_TESTS, PUBLISHED_ERRORS = 1_000, 3.0
TESTS = 2_000


#: In the place of every random number, so that there is one threshold for all updates.
UNIFORM = 0.5


def updates(differences, cheap, test, count, seed, uniform=None):
    """Return the counts of updates, each a draw of its own, in which rows change by numbers.

    `cheap` is the rest of the log ratio, and `uniform` stands for every random number if given.
    """
    rows = rows_of(differences)
    move = jump([0.0], [[1.0]], ratios=[[float(cheap)]])
    posterior = posterior_of(rows, 1.0, most_drawn=0.5 * differences.size)
    return Compiled(posterior, move, test).run(count, seed, uniform=uniform)[1]


def spread(differences):
    """Return √N times the standard deviation of the rows."""
    return float(np.sqrt(differences.size) * differences.std(ddof=1))


def normal_rows(n_rows=2_000):
    return np.random.default_rng(71).standard_normal(n_rows)


@cache
def regression_rows():
    """Changes of the log-likelihood of a logistic regression of digits in a step of a walk.

    Of 7 against 9 on 50 principal components where the data are there, or else of a stand-in with
    components as unequal as those.
    """
    rng = np.random.default_rng(72)
    file = Path(os.environ.get(FOLDER, ".")) / "mnist_7v9_pca50.npz"
    if file.exists():
        with np.load(file) as stored:
            X, y = stored["X_train"].astype(float), stored["y_train"]
    else:
        X = rng.standard_t(8, (12_214, 50)) * 2.0 / np.arange(1, 51) ** 0.6
        y = rng.random(X.shape[0]) < expit(X @ rng.normal(0.0, 0.5, 50))
    signs = np.where(y > 0, 1.0, -1.0)
    beta = np.zeros(50)
    for _ in range(8):
        p = expit(X @ beta)
        hessian = (X * (p * (1.0 - p))[:, None]).T @ X + 10.0 * np.eye(50)
        beta += np.linalg.solve(hessian, X.T @ ((y > 0) - p) - 10.0 * beta)
    new = beta + 0.01 * rng.standard_normal(50)
    return np.logaddexp(0.0, -signs * (X @ beta)) - np.logaddexp(0.0, -signs * (X @ new))


#: Rows, rows of a look, epsilon.
SETS = {
    "normal rows": (normal_rows, 100, 0.05),
    "digits": (regression_rows, 500, 0.05),
    "digits, epsilon .2": (regression_rows, 500, 0.2),
}


def looks(differences, distance, test, seed):
    """Return updates at a distance of the mean from the threshold in standard deviations."""
    wanted = math.log(UNIFORM) + distance * spread(differences)
    return updates(differences, wanted - differences.sum(), test, TESTS, seed, UNIFORM)


def allowed(share):
    """Return three standard errors of the published number of tests."""
    return PUBLISHED_ERRORS * math.sqrt(max(share * (1.0 - share), 1e-3) / PUBLISHED_TESTS)


@pytest.mark.parametrize("boundary", fast([0.5, 0.8], [0.5]))
@pytest.mark.parametrize("distance", [0.05, 0.5, 1.5])
@pytest.mark.parametrize("name", SETS)
def test_the_compiled_test_errs_and_reads_as_the_programme_says(name, distance, boundary):
    rows_of, m, epsilon = SETS[name]
    rows = rows_of()
    test = austere.austere_test(epsilon, batch_size=m, boundary=boundary)
    counts = looks(rows, distance, test, seed=73)
    given = (distance, m, epsilon, rows.size)
    options = {"boundary": boundary, "all_rows_from": 0.5}
    error, use = sequential_error(*given, **options), sequential_use(*given, **options)
    read = counts["n_obs"] / rows.size
    assert abs(1.0 - counts["accepted"].mean() - error) < allowed(error)
    noise = PUBLISHED_ERRORS * read.std() / math.sqrt(PUBLISHED_TESTS)
    assert abs(read.mean() - use) < noise


def by_permutation(rows, distance, test, rng):
    """Run the shipped looks on rows in a random order, all of them at the last look alone."""
    uniform, total = 0.5, rows.size
    cheap = math.log(uniform) + distance * spread(rows) - rows.sum()
    drawn, n = rng.permutation(rows), 0
    while True:
        n = sample_size(0.0, n, total, test)
        batch = drawn[:n]
        variance = total**2 * batch.var(ddof=1) / n * (1.0 - n / total)
        log_ratio = cheap + total * batch.mean()
        verdict = decide_batch(log_ratio, variance, 0.0, n, total, uniform, test)[0]
        if verdict >= 0.0:
            return verdict, n / total


@pytest.mark.parametrize("distance", [0.05, 0.5, 1.5])
@pytest.mark.parametrize("name", ["normal rows", "digits"])
def test_a_thousand_tests_as_published_err_as_the_programme_says(name, distance):
    rows_of, m, epsilon = SETS[name]
    rows, rng = rows_of(), np.random.default_rng(74)
    test = austere.austere_test(epsilon, batch_size=m)
    found = np.array([by_permutation(rows, distance, test, rng) for _ in range(PUBLISHED_TESTS)])
    error = float(sequential_error(distance, m, epsilon, rows.size))
    use = float(sequential_use(distance, m, epsilon, rows.size))
    noise = FAR * np.array([math.sqrt(max(error, 1e-2) / PUBLISHED_TESTS), found[:, 1].std()])
    noise[1] /= math.sqrt(PUBLISHED_TESTS)
    gaps = np.abs(np.array([1.0 - found[:, 0].mean() - error, found[:, 1].mean() - use]))
    assert (gaps < noise).all()


def share_by_all_rows(n_rows, reads_all_from_half, count=1_000):
    """Return how often all rows decide on a normal mean, in steps as wide as its posterior."""
    rng, test = np.random.default_rng(81), austere.austere_test(0.05, batch_size=100)
    data, by_all = rng.normal(0.5, 1.0, n_rows), 0
    for _ in range(count):
        theta = data.mean() + rng.standard_normal() / math.sqrt(n_rows)
        new = theta + rng.standard_normal() / math.sqrt(n_rows)
        rows = (new - theta) * (data - 0.5 * (theta + new))
        uniform, drawn, n, verdict = rng.random(), rng.permutation(rows), 0, -1.0
        while verdict < 0.0:
            n = sample_size(0.0, n, n_rows, test)
            n = n_rows if reads_all_from_half and 2 * n >= n_rows else n
            variance = n_rows**2 * drawn[:n].var(ddof=1) / n * (1.0 - n / n_rows)
            log_ratio = n_rows * drawn[:n].mean()
            verdict = decide_batch(log_ratio, variance, 0.0, n, n_rows, uniform, test)[0]
        by_all += n == n_rows
    return by_all / count


#: The chance of three events, none of which depends on the number of rows, in which the published
#: lemma says that a sequential test takes all rows.
LEMMA = 0.2997 * 0.14988 * 0.18932


@pytest.mark.parametrize(("n_rows", "from_half"), [(1_000, False), (1_000, True), (8_000, True)])
def test_all_rows_decide_as_often_as_the_lemma_says(n_rows, from_half):
    share = share_by_all_rows(n_rows, from_half)
    assert share - FAR * math.sqrt(share / 1_000) > LEMMA
