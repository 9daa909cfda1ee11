"""Tests on batches that read some rows at every update: their law, and what a batch is of."""

from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from numba import njit

from exactness import kernels
from exactness.compiled import NO_CONTEXT, Compiled, Elsewhere, by_looks, chance
from exactness.enumeration import transition_matrix
from exactness.kernels import BETA
from exactness.test_enumeration import FIGURES
from kernels.chain import line
from pymc_minibatch_mh.kernels import counts as entry
from pymc_minibatch_mh.kernels.bound_tables import no_tables
from pymc_minibatch_mh.kernels.first_class import address_of
from pymc_minibatch_mh.kernels.posterior import Posterior, RowSpace
from pymc_minibatch_mh.kernels.signatures import EVALUATE_SIGNATURE, LOGP_SIGNATURE
from pymc_minibatch_mh.methods import penalty
from statistical.budget import LEVEL

UPDATES = 60_000
DATA = "outlier, read always"
PAGE = Path(__file__).parents[2] / "docs" / "guarantees.md"
#: Of the tests on batches, one with a single look and one with several.
COMPILED = ("penalty", "austere, eps=.05")

HEAVY, STARTS = np.array([1, 4]), np.array([0, 2, 6])
POSITIONS = np.array([0.0, 1.0])
#: Sums over different batches differ.
ROWS = np.array([0.11, -1.7, 0.043, 0.27, 2.3, -0.39])
CHEAP = 0.2


@pytest.mark.parametrize("name", COMPILED)
def test_the_loop_steps_as_enumerated(name):
    found = by_looks(name, DATA).transitions(UPDATES, seed=54)
    assert chance(found, transition_matrix(kernels.CHAINS[DATA], kernels.RULES[name])) > LEVEL


@pytest.mark.parametrize("data", ["outlier", "rare event"])
@pytest.mark.parametrize("name", kernels.RULES)
def test_reading_the_row_in_question_takes_most_of_the_bias(name, data):
    assert FIGURES[name][f"{data}, read always"] < 0.15 * FIGURES[name][data]


def test_the_page_has_the_stored_figures():
    rows = [
        f"| {name} | {data} | {FIGURES[name][data]:.1e} | "
        f"{FIGURES[name][f'{data}, read always']:.1e} |"
        for name in ("barker", "penalty", "austere, eps=.05")
        for data in ("outlier", "rare event")
    ]
    assert "\n".join(rows) in PAGE.read_text(encoding="utf-8")


@cache
def functions():
    """Return what two states are compared by, of six rows in two terms."""

    @njit(LOGP_SIGNATURE)
    def prior(position, context):
        return CHEAP * position[0]

    @njit(EVALUATE_SIGNATURE)
    def evaluate(position, new, centre, rows, ends, context, differences, scales):
        term = 0
        for k in range(rows.size):
            while k >= ends[term]:
                term += 1
            differences[k] = ROWS[rows[k] + STARTS[term]] * (new[0] - position[0])

    return prior, evaluate


def log_ratios(batch_size, most_drawn=np.inf):
    """Return the log ratios of moves from the first state to the second, and rows per update."""
    prior, evaluate = functions()
    tables = no_tables()._replace(heavy=HEAVY)
    space, addresses = RowSpace(STARTS, NO_CONTEXT), (address_of(prior), address_of(evaluate))
    posterior = Posterior(*addresses, space, line(BETA), tables, most_drawn)
    settings = penalty.settings(batch_size=batch_size)._replace(kappa=0.0)
    chain = Compiled(POSITIONS, posterior, Elsewhere(POSITIONS), settings, functions())
    before, counts = chain.run(600, seed=55)
    forth = np.abs(before - POSITIONS[0]) < 0.5
    return np.where(forth, 1.0, -1.0) * counts[:, entry.LOG_RATIO], counts[:, entry.N_OBS]


def possible(batch_size):
    """Return the log ratios of all batches of the other rows, with what is known exactly."""
    others = np.delete(ROWS, HEAVY)
    sums = [others.size * np.mean(some) for some in combinations(others, batch_size)]
    return CHEAP + BETA * (np.array(sums) + ROWS[HEAVY].sum())


@pytest.mark.parametrize("batch_size", [2, 3])
def test_batches_are_all_those_of_the_other_rows(batch_size):
    """A set of sums tells which rows are in them, how often, and by what they are multiplied."""
    found, rows = log_ratios(batch_size)
    expected = possible(batch_size)
    # Of 600 updates the chance that one of six batches is not seen is below 1e-45.
    np.testing.assert_allclose(np.unique(found.round(9)), np.sort(expected), atol=1e-8)
    assert expected.mean() == pytest.approx(CHEAP + BETA * ROWS.sum(), rel=1e-12)
    assert (rows == batch_size + HEAVY.size).all()


@pytest.mark.parametrize(("batch_size", "most_drawn"), [(4, np.inf), (3, 5.0)])
def test_a_full_pass_reads_every_row_once(batch_size, most_drawn):
    """The whole rest, and a batch that heavy rows bring to the limit."""
    found, rows = log_ratios(batch_size, most_drawn)
    np.testing.assert_allclose(found, CHEAP + BETA * ROWS.sum(), rtol=1e-12)
    assert (rows == ROWS.size).all()
