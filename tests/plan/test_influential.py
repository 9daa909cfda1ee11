"""Which rows are read at every update, and that this makes updates read few others."""

import pickle

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from scipy.special import expit

from helpers.in_library import move_between
from helpers.models import logistic
from helpers.zoo import drawn
from pymc_minibatch_mh import TunaMH, costs, explain
from pymc_minibatch_mh.bounds.tables import Tables, heavy_rows
from pymc_minibatch_mh.native.bound_tables import TOTAL
from pymc_minibatch_mh.native.library import function
from pymc_minibatch_mh.native.whitened_copy import NO_COPY
from pymc_minibatch_mh.reference.full_data import BoundedMove
from pymc_minibatch_mh.reference.influential import WORTHWHILE

ROWS, GROUPS, MEMBERS = 4_000, 2, 10


def rare_groups():
    """A regression with groups of few rows, alike in their outcome: little is known of them."""
    rng = np.random.default_rng(7)
    X = np.column_stack([np.ones(ROWS), rng.standard_normal((ROWS, 2)), np.zeros((ROWS, GROUPS))])
    members = rng.choice(ROWS, GROUPS * MEMBERS, replace=False)
    X[members, 3 + np.arange(members.size) % GROUPS] = 20.0
    y = (rng.random(ROWS) < expit(X[:, :3] @ [-0.5, 0.7, 0.3])).astype(np.int8)
    y[members] = 1
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=3 + GROUPS)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
    return model, members


@pytest.fixture(scope="module")
def grouped():
    return rare_groups()


@pytest.fixture(scope="module")
def step(grouped):
    model, _ = grouped
    return TunaMH(model=model, chi=0)


def test_members_of_a_rare_group_are_read_at_every_update(grouped, step):
    _, members = grouped
    assert set(step.tables.heavy) == set(members)
    drawn = step.tables.heads_of_drawn[:, TOTAL]
    assert (drawn < 1e-2 * step.tables.headers[:, TOTAL]).all()
    others = np.delete(step.tables.c, step.tables.heavy, axis=1)
    np.testing.assert_allclose(drawn, others.sum(axis=1, dtype=np.float64), rtol=1e-12)


def test_an_update_reads_them_and_few_others(grouped, step):
    model, members = grouped
    trace = drawn(model, step, 2_000, 500, random_seed=1)
    assert trace.sample_stats["n_obs"].min() >= len(members)
    # Drawn by their bounds, they alone would be read hundreds of times. A tenth of the proposals go
    # far along the tails of the groups' coefficients; where no bounds hold, they read all.
    assert trace.sample_stats["n_obs"].mean() < len(members) + 10
    assert trace.sample_stats["full_pass"].mean() < 0.002
    assert trace.sample_stats["certified"].all()


def test_no_row_is_heavy_where_all_are_alike():
    step = TunaMH(model=logistic())
    assert step.tables.heavy.size == 0
    assert step.tables.heads_of_drawn is step.tables.headers


def test_explain_counts_them(grouped, step):
    _, members = grouped
    found = explain(step, draws=200, tune=100, nuts=False, random_seed=1)
    assert found.certificate.n_heavy == len(members)
    assert f"{len(members)} are evaluated in every update; C = " in str(found.details)


def test_they_are_stored_and_sent_along(grouped, step, tmp_path):
    model, _ = grouped
    step.save(tmp_path / "step.npz")
    read = TunaMH(model=model, chi=0, prepared=tmp_path / "step.npz")
    sent = pickle.loads(cloudpickle.dumps(step))
    for other in (read, sent):
        np.testing.assert_array_equal(other.tables.heavy, step.tables.heavy)
        np.testing.assert_array_equal(other.tables.arrays.headers, step.tables.arrays.headers)


def chosen(c, moves, copy=NO_COPY):
    """Return the heavy rows of bounds, for typical moves of given sizes."""
    c = np.asarray(c, np.float32)[None]
    tables = Tables(np.array([[np.inf, 0.0, c.sum(dtype=np.float64)]]), c, copy=copy)
    nowhere = np.zeros(1)
    made = [BoundedMove(2, (nowhere,) * 3, 0, m, 1.0) for m in moves]
    return heavy_rows(tables, made).tolist()


def test_rows_are_heavy_where_they_would_be_drawn_often():
    c = np.full(1_000, 1e-3)
    limit = costs.INCLUDED_OBSERVATION / costs.OBSERVATION
    c[:3] = 50.0, 0.505 * limit, 0.495 * limit
    assert chosen(c, [2.0]) == [0, 1]
    # To read all that is heavy would read as many rows as before.
    assert chosen(np.full(1_000, 0.495 / WORTHWHILE), [2.0]) == []
    assert chosen(c, []) == []
    # Rows that a copy drops are drawn for less.
    limit = costs.INCLUDED_OBSERVATION / costs.CANDIDATE
    c[:3] = 50.0, 0.505 * limit, 0.495 * limit
    copy = NO_COPY._replace(lines=np.zeros((1_000, 64), np.int8))
    assert chosen(c, [2.0], copy) == [0, 1]


#: Rows that a full pass inside an update reads at a time.
BLOCK = 2048


def summed(name, *arguments):
    """Return the change of rows and the sum of their squares over their bounds."""
    change, squares = np.empty(1), np.empty(1)
    assert function(name)(*arguments, change, squares) == 0
    return change[0], squares[0]


def test_chosen_rows_of_two_terms_add_up_to_all(prepared):
    step = prepared("two_likelihoods", "TunaMH")
    posterior, rng = step.program.posterior(np.empty(0)), np.random.default_rng(3)
    reference, c = posterior.reference, posterior.bounds.c[0]
    noise = rng.standard_normal((2, reference.centre.size))
    move = move_between(reference, *(reference.centre + noise @ reference.factor.T))
    rows = np.arange(posterior.rows.term_starts[-1])
    # More than a block of them, from both terms.
    some = np.sort(rng.choice(rows, BLOCK + 500, replace=False))
    parts = [
        summed("mh_read_chosen", posterior, move, part, part.size, c)
        for part in (some, np.setdiff1d(rows, some))
    ]
    whole = summed("mh_read_all", posterior, move, c)
    np.testing.assert_allclose(np.sum(parts, axis=0), whole, rtol=1e-10)
    assert 0.0 < parts[0][1] < parts[0][1] + parts[1][1]
