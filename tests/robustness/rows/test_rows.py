"""Rows as they come: in any order, repeated, of any type and layout, and just enough of them.

Each case has a posterior in closed form, and another one that a reader would find who mistook
the rows in the way that the case invites; the chains must be at the first and not at the second.
"""

import numpy as np
import pymc as pm
import pytest

from helpers.zoo import drawn as sampled
from law.statistical.comparison import distance
from pymc_minibatch_mh import PenaltyMH, TunaMH, factorize
from pymc_minibatch_mh.data import Column
from pymc_minibatch_mh.errors import FactorizationError
from robustness.rows.conjugate import (
    Rows,
    drawn,
    model_of,
    posterior,
    regression_of,
    regression_posterior,
)

DRAWS, TUNE, SEED = 6_000, 500, 96
ROWS = 2_000


def in_order():
    rows = drawn(ROWS)
    rows = rows.at(np.argsort(rows.counts / rows.exposure, kind="stable"))
    return rows, posterior(rows.at(slice(ROWS // 2)), 2.0)


def clustered():
    rows = drawn(ROWS)
    rows = rows.at(np.lexsort((rows.exposure, rows.second)))
    return rows, posterior(rows.at(slice(ROWS // 2)), 2.0)


def repeated():
    once = drawn(ROWS // 4)
    return once.at(np.repeat(np.arange(ROWS // 4), 4)), posterior(once)


def just_enough():
    rows = drawn(1_001)
    # The last row is one that cannot be overlooked.
    rows.counts[-1] = 127
    rows.exposure[-1] = 0.5
    return rows, posterior(rows.at(slice(1_000)))


def backwards():
    plain = drawn(2 * ROWS)
    exposure = np.sort(plain.exposure)
    rows = Rows(exposure[::-2], plain.second[::2], plain.counts[1::2])
    rates = np.where(rows.second, 1.7, 0.6) * rows.exposure
    rows.counts[:] = np.random.default_rng(97).poisson(rates)
    return rows, posterior(Rows(exposure[:ROWS], rows.second, rows.counts))


def columns_of_a_matrix():
    plain = drawn(ROWS)
    order = np.argsort(plain.exposure)
    table = np.stack([plain.exposure[order], plain.exposure], axis=1)
    table.flags.writeable = False
    flags = np.stack([plain.second, ~plain.second], axis=1)
    flags.flags.writeable = False
    rows = Rows(table[:, 1], flags[:, 0], plain.counts)
    return rows, posterior(Rows(rows.exposure, flags.ravel()[:ROWS], rows.counts))


CASES = (in_order, clustered, repeated, just_enough, backwards, columns_of_a_matrix)
#: Cases in which a batch, too, is drawn by every run; bounds meet all of them.
BATCHES = (in_order, columns_of_a_matrix)
METHODS_AND_CASES = [
    *((TunaMH, case) for case in CASES),
    *((PenaltyMH, case) for case in BATCHES),
    *(
        pytest.param(PenaltyMH, case, marks=pytest.mark.slow)
        for case in CASES
        if case not in BATCHES
    ),
]


@pytest.mark.parametrize(("method", "case"), METHODS_AND_CASES, ids=lambda f: f.__name__)
def test_the_posterior_is_that_of_the_rows(method, case):
    rows, mistaken = case()
    model = model_of(rows)
    step = method(model=model)
    trace = sampled(model, step, DRAWS, TUNE, random_seed=SEED)
    off = distance(trace, posterior(rows))
    assert off.seen
    assert off.small
    assert not distance(trace, mistaken).small
    assert int(trace.sample_stats["n_obs"].sum()) > 0


@pytest.fixture(scope="module")
def matrix():
    """Single precision, in Fortran order and read-only, with rows in the order of a column."""
    rng = np.random.default_rng(98)
    X = np.stack([np.ones(ROWS), np.sort(rng.standard_normal(ROWS))], axis=1)
    y = X @ [0.5, -0.3] + rng.standard_normal(ROWS)
    X = np.asfortranarray(X, dtype=np.float32)
    X.flags.writeable = False
    return X, y[::-1].copy()[::-1]


# An expansion to second order is exact here and would leave no row to be read.
def test_a_matrix_in_single_precision_is_read_as_it_is(matrix):
    X, y = matrix
    model = regression_of(X, y)
    step = PenaltyMH(model=model, taylor_order=1)
    trace = sampled(model, step, 2 * DRAWS, TUNE, random_seed=SEED)
    off = distance(trace, regression_posterior(X, y))
    assert off.seen
    assert off.small
    assert not distance(trace, regression_posterior(X.ravel("K").reshape(X.shape), y)).small
    assert not distance(trace, regression_posterior(X, y[::-1])).small
    assert int(trace.sample_stats["n_obs"].sum()) > 0


def columns_of(model):
    (term,) = factorize(model, model.value_vars).terms
    return [column.values for column, _ in term.batches]


def test_arrays_are_neither_copied_nor_converted(matrix):
    def held(model, array):
        return any(np.shares_memory(array, values) for values in columns_of(model))

    for case in (backwards, columns_of_a_matrix):
        rows, _ = case()
        model = model_of(rows)
        assert held(model, rows.exposure)
        assert held(model, rows.second)
        assert not held(model, drawn(10).exposure)
    assert held(regression_of(*matrix), matrix[0])


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32])
def test_small_integers_in_data_stay_small(dtype):
    rows = drawn(ROWS)
    with pm.Model() as model:
        counts = pm.Data("counts", rows.counts.astype(dtype))
        pm.Poisson("y", pm.Gamma("lam", 2.0, 1.0), observed=counts)
    (values,) = columns_of(model)
    assert values.dtype == dtype
    assert np.array_equal(values, rows.counts)


def test_a_layout_that_is_mistaken_is_noticed(monkeypatch):
    rows, _ = columns_of_a_matrix()
    monkeypatch.setattr(Column, "address", property(as_if_contiguous))
    with pytest.raises(FactorizationError, match="'y': prior part"):
        PenaltyMH(model=model_of(rows))


def as_if_contiguous(column):
    view = column.rows_first
    return np.array([view.ctypes.data, *[view.itemsize] * view.ndim], dtype=np.int64)
