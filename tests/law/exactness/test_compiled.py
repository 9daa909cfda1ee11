"""The compiled loop steps as often from state to state as the enumerated matrices say."""

from functools import cache, partial

import numpy as np
import pytest

from law.exactness import (
    confidence,
    firefly,
    group_rates,
    kernels,
    poisson_levels,
    test_firefly,
    wide,
)
from law.exactness import test_poisson_levels as in_levels
from law.exactness.compiled import by_counts, by_looks, chance, grouped, matrix_by_counts
from law.exactness.enumeration import transition_matrix
from law.exactness.poisson import RULES, mixture_chain
from law.exactness.toys import CALLS, SECOND
from law.statistical.budget import LEVEL
from pymc_minibatch_mh.native.moves import JOINT

UPDATES = 60_000


@cache
def poisson(name, heavy=()):
    """A Poisson test."""
    chain, settings = mixture_chain(heavy), RULES[name]
    return by_counts(chain, settings), matrix_by_counts(chain, settings)


#: Moves among three states, none of them as probable as the one back.
PROPOSALS = np.array([[0.0, 0.7, 0.3], [0.4, 0.0, 0.6], [0.8, 0.2, 0.0]])


@cache
def batches(name, data="clean"):
    """A test that reads batches."""
    chain, rule = kernels.CHAINS[data], kernels.RULES[name]
    loop = by_looks(chain, rule, kernels.POSITIONS, PROPOSALS)
    return loop, transition_matrix(chain, rule, PROPOSALS)


def levels(name, enumerated=None):
    """PoissonMH."""
    rule = poisson_levels.Rule(in_levels.RULES[enumerated or name])
    return in_levels.loop(name), poisson_levels.transition_matrix(in_levels.chosen(), rule)


def bright_rows(q, **mistake):
    """Firefly Monte Carlo, on positions and on which rows are bright."""
    loop = test_firefly.loop(q)
    return loop, firefly.transition_matrix(loop.chain, firefly.Rule(q, **mistake))


def looks(name):
    """The confidence sampler."""
    return confidence.loop(name), confidence.matrix(name)


#: name -> the compiled loop on a chain, and the transition matrix that is enumerated.
BY_BOUNDS = (
    {name: partial(poisson, name) for name in RULES}
    | {
        f"{name}, heavy row": partial(poisson, name, (1,))
        for name in ("best, delayed", "paper", "factorized")
    }
    | {name: partial(levels, name) for name in in_levels.RULES}
    | {f"firefly, q={q}": partial(bright_rows, q) for q in test_firefly.QS}
    | {f"confidence by {name}": partial(looks, name) for name in confidence.SETTINGS}
    | {f"wide, {name}": partial(wide.loop, name) for name in wide.RULES}
    | {
        f"{kind}, {name}": partial(group_rates.loop, name, with_copy=kind == "wide groups")
        for name in group_rates.RULES
        for kind in ("groups", "wide groups")
    }
)
ON_BATCHES = (
    {name: partial(batches, name) for name in kernels.RULES}
    # One with a single look and one with several.
    | {
        f"{name}, heavy row": partial(batches, name, "outlier, read always")
        for name in ("penalty", "austere, eps=.05")
    }
)
LAWS = BY_BOUNDS | ON_BATCHES


@pytest.mark.parametrize("name", grouped(BY_BOUNDS, ON_BATCHES))
def test_the_loop_steps_as_enumerated(name):
    loop, matrix = LAWS[name]()
    # The confidence sampler reads thousands of rows in two states.
    updates = UPDATES // 4 if name.startswith("confidence") else UPDATES
    assert chance(loop.transitions(updates, seed=41), matrix) > LEVEL


def another(run, enumerated):
    """The loop of one Poisson test, and the law of another."""
    return poisson(run)[0], poisson(enumerated)[1]


def another_factor():
    """The loop with one factor of ceilings, and the law with another."""
    return wide.loop("best")[0], wide.loop("best, factor 2.5")[1]


def changed(change, case):
    """A loop that differs in some parts from what is enumerated, and goes on past its bounds."""
    loop, matrix = case()
    if hasattr(loop.settings, "tolerates"):
        loop = loop.but(settings=loop.settings._replace(tolerates=1))
    return loop.but(**change(loop)), matrix


def cold(loop):
    return {"reference": loop.posterior.reference._replace(inverse_temperature=1.0)}


def with_context(loop, word, value):
    """Return the rows of a loop with another word in their context."""
    context = loop.posterior.rows.context.copy()
    context[word] = value
    return {"rows": loop.posterior.rows._replace(context=context)}


def of_one_term(loop):
    return with_context(loop, SECOND, 0)


def read_twice(loop):
    return with_context(loop, CALLS, 0)


def halved(loop):
    tables = loop.posterior.bounds
    return {"headers": tables.headers * [1.0, 1.0, 0.5], "c": tables.c / 2}


def drawn_evenly(loop):
    return {"thresholds": np.ones_like(loop.posterior.bounds.thresholds)}


def of_another_metric(loop):
    return {"headers": loop.posterior.bounds.headers * [1.0, 0.0, 1.0] + [0.0, JOINT, 0.0]}


BEST, PENALTY = partial(poisson, "best"), partial(batches, "penalty")
#: name -> a loop, and a transition matrix that is not its own.
WRONG_BY_BOUNDS = {
    "factorized": partial(another, "MH-SS", "factorized"),
    "first stage": partial(another, "best", "best, delayed"),
    "rate of the paper": partial(another, "paper", "MH-SS"),
    "form of the paper": partial(another, "best", "paper, chi=0"),
    "bounds halved": partial(changed, halved, BEST),
    "temperature missing": partial(changed, cold, BEST),
    "rows drawn evenly": partial(changed, drawn_evenly, BEST),
    "rows of both terms taken for the first": partial(changed, of_one_term, BEST),
    "metric of another table": partial(changed, of_another_metric, BEST),
    "another lam": partial(levels, "small lam", "large lam"),
    "another factor": another_factor,
} | {
    name: partial(bright_rows, 0.4, **test_firefly.MUTANTS[name])
    for name in ("rows darken without q", "table of the pair", "bounds left out of the ratio")
}
WRONG_ON_BATCHES = {
    "every batch used twice": partial(changed, read_twice, PENALTY),
    "rows of two terms mixed up": partial(changed, of_one_term, PENALTY),
}
MISTAKES = WRONG_BY_BOUNDS | WRONG_ON_BATCHES


@pytest.mark.parametrize("name", grouped(WRONG_BY_BOUNDS, WRONG_ON_BATCHES))
def test_a_mistake_is_noticed(name):
    loop, matrix = MISTAKES[name]()
    assert chance(loop.transitions(UPDATES, seed=43), matrix) < 1e-3 * LEVEL


def test_a_chain_has_states_on_both_sides_of_the_radius():
    chain = mixture_chain()
    assert 0 < chain.outside.sum() < len(chain.outside)
    assert len(chain.weights) == 2
    assert np.abs(chain.proposals - chain.proposals.transpose(0, 2, 1)).max() > 0.1
