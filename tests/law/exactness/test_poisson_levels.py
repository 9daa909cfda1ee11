"""PoissonMH is exact on small chains, mutants of it are not, and the loop reads as many rows."""

import math
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest

from law.exactness import law
from law.exactness import poisson_levels as enumeration
from law.exactness.compiled import BY_BOUNDS
from law.exactness.enumeration import total_variation
from law.exactness.poisson import logistic, random_chain, student
from law.exactness.poisson_levels import Rule, shares, transition_matrix
from pymc_minibatch_mh.published import poisson as levels

pytestmark = BY_BOUNDS

UPDATES = 60_000
DESIGN = list(product((logistic, student), (1.0, 0.4, 1.6), (1, 2)))
RULES = {
    "lam=1": levels.LevelsTest(1.0, math.inf, 0),
    "small lam": levels.LevelsTest(0.05, math.inf, 0),
    "large lam": levels.LevelsTest(6.0, math.inf, 0),
    "too many rows": levels.LevelsTest(1.0, 1.5, 0),
}


@cache
def chains():
    rng = np.random.default_rng(20260801)
    names = ("family", "beta", "components")
    return [
        random_chain(rng, order=0, outside=0, **dict(zip(names, case, strict=True)))
        for case in DESIGN
    ]


@cache
def matrices(name):
    return [transition_matrix(chain, Rule(RULES[name])) for chain in chains()]


@pytest.mark.parametrize("name", RULES)
def test_stationary_law_is_the_target(name):
    found = law.worst(chains(), matrices(name))
    assert found["total variation"] <= 1e-12
    assert found["drift"] <= 1e-12
    assert found["imbalance"] <= 1e-14
    assert found["gap"] > 1e-4


def test_a_larger_lam_accepts_at_least_as_often():
    for more, fewer in (("too many rows", "large lam"), ("large lam", "lam=1")):
        gains = [
            (one - other)[~np.eye(len(one), dtype=bool)]
            for one, other in zip(matrices(more), matrices(fewer), strict=True)
        ]
        assert min(gain.min() for gain in gains) >= -1e-14
        assert max(gain.max() for gain in gains) > 1e-3


@cache
def chosen():
    """Return a tempered chain of two components, with levels on both sides of the first one's."""
    for chain in chains():
        level = chain.log_likelihood - chain.log_likelihood[0]
        ends = min(-level.min(), level.max())
        if ends > 0.1 and len(chain.weights) == 2 and chain.inverse_temperature != 1.0:
            return chain
    raise AssertionError("no such chain")


def narrow(chain):
    widths, below = enumeration.ranges(chain)
    return 0.5 * widths, 0.5 * below


def shares_of_narrow(chain, state):
    widths, below = enumeration.ranges(chain)
    return (shares(chain, state) * widths - 0.5 * below) / (0.5 * widths)


MUTANTS = {
    "ranges halved": {"ranges": narrow, "shares": shares_of_narrow},
    "from the centre instead of the lower end": {
        "shares": lambda chain, k: shares(chain, k) - shares(chain, 0)
    },
    "without temperature": {
        "shares": lambda chain, k: (
            shares(chain, 0) + (shares(chain, k) - shares(chain, 0)) / chain.inverse_temperature
        )
    },
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_not_exact(name):
    mutant = replace(Rule(RULES["lam=1"]), **MUTANTS[name])
    found = [total_variation(transition_matrix(c, mutant), c.target()) for c in chains()]
    assert max(found) > 1e-4


def loop(name):
    """Return the chosen chain for the loop."""
    return enumeration.compiled(chosen(), RULES[name])


def test_rows_are_read_at_the_same_rate_in_every_move():
    """Drawn rows are read, and the kept ones of them once more."""
    states, counts = loop("lam=1").run(UPDATES, seed=47)
    widths = enumeration.ranges(chosen())[0]
    moved = counts["n_looks"] > 0.0
    drawn = 1.0 + widths.sum()
    kept = np.array([1.0 + widths @ shares(chosen(), k) for k in range(len(chosen().log_prior))])
    kept = kept[states[moved].ravel().astype(int)]
    # A row that is kept is counted twice: of the variance of two Poisson numbers, four times.
    excess = (counts["n_obs"][moved] - drawn - kept) / np.sqrt(drawn + 3.0 * kept)
    assert abs(excess.mean()) < 5.0 / np.sqrt(excess.size)
    assert abs(np.mean(excess**2) - 1.0) < 5.0 * np.sqrt(3.0 / excess.size)
    assert 0.0 < counts["bound_ratio"].max() <= 1.0


@pytest.mark.parametrize("end", ["low", "high"])
def test_a_log_likelihood_out_of_its_range_stops_before_the_move_and_is_named(end):
    chain, whole = chosen(), loop("large lam")
    c = whole.posterior.bounds.c.copy()
    level = chain.inverse_temperature * (chain.log_likelihood - chain.log_likelihood[0])
    row = int(np.argmin(level.min(axis=0)) if end == "low" else np.argmax(level.max(axis=0)))
    width, below = c[:, row]
    # The range ends at half of the way to where the log-likelihood goes, below or above.
    c[:, row] = (width - 0.5 * below, 0.5 * below)
    if end == "high":
        c[:, row] = (0.5 * (width + below), below)
    _, counts = whole.but(c=c).run(2_000, seed=48)
    stopped = counts["bound_ratio"] > 1.0
    assert stopped.any()
    assert (counts["bound_row"][stopped] == row).all()
    assert not counts["accepted"][stopped].any()
