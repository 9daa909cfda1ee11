"""Tests on batches that read some rows at every update: their law, and what a batch is of."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from law.exactness import kernels
from law.exactness.compiled import ON_BATCHES, Compiled, posterior_of
from law.exactness.kernels import BETA
from law.exactness.test_enumeration import FIGURES
from law.exactness.toys import jump, rows_of
from pymc_minibatch_mh.native.bound_tables import no_tables
from pymc_minibatch_mh.steps import austere, penalty

pytestmark = ON_BATCHES

PAGE = Path(__file__).parents[3] / "docs" / "guarantees.md"
HEAVY = np.array([1, 4])
#: Sums over different batches differ.
ROWS = np.array([0.11, -1.7, 0.043, 0.27, 2.3, -0.39])
CHEAP = 0.2


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


def log_ratios(batch_size, most_drawn=np.inf):
    """Return the log ratios of moves from the first state to the second, and rows per update."""
    tables = no_tables()._replace(heavy=HEAVY)
    rows = rows_of([0.0 * ROWS, ROWS], [0.0, CHEAP], second=2)
    settings = penalty.penalty_test(batch_size=batch_size)._replace(kappa=0.0)
    chain = Compiled(posterior_of(rows, BETA, tables, most_drawn), jump([0.0, 1.0]), settings)
    before, counts = chain.run(600, seed=55)
    return np.where(before < 0.5, 1.0, -1.0) * counts["log_ratio"], counts["n_obs"]


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


def test_a_later_look_reads_the_other_rows_once():
    """At this level no look at two of the four other rows decides."""
    tables = no_tables()._replace(heavy=HEAVY)
    rows = rows_of([0.0 * ROWS, ROWS], [0.0, CHEAP], second=2)
    settings = austere.austere_test(1e-9, batch_size=2)
    chain = Compiled(posterior_of(rows, BETA, tables), jump([0.0, 1.0]), settings)
    before, counts = chain.run(200, seed=56)
    found = np.where(before < 0.5, 1.0, -1.0) * counts["log_ratio"]
    np.testing.assert_allclose(found, CHEAP + BETA * ROWS.sum(), rtol=1e-12)
    assert (counts["n_looks"] == 2.0).all()
    assert (counts["n_obs"] == ROWS.size).all()
