"""Groups of rows: how many there are, and rows that choose one that is not there."""

import os

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from data.elsewhere import Elsewhere
from pymc_minibatch_mh import PenaltyMH, Rows, TunaMH
from pymc_minibatch_mh.data.source import BLOCK_ROWS
from pymc_minibatch_mh.errors import SourceError, UnsupportedModelError
from pymc_minibatch_mh.model.factorization import factorize

N = 2 * BLOCK_ROWS + 7
RNG = np.random.default_rng(5)
G = RNG.integers(0, 200, N).astype(np.int16)
# The largest number is the very last.
G[-1] = 200


@pytest.mark.parametrize("dtype", ["i2", ">i4", "u1", "u8", "f4", "f8"])
def test_the_number_of_groups_is_the_largest_number_and_one(dtype):
    assert Rows(g=G.astype(dtype)).n_groups("g") == 201


def test_groups_are_counted_where_the_rows_are():
    storage = Elsewhere({"g": G})
    assert Rows.of(storage).n_groups("g") == 201
    # One row before, to see that the files are there.
    assert storage.n_read == 1


def test_a_file_that_was_written_to_is_not_counted_from_memory(tmp_path):
    np.save(tmp_path / "g.npy", G)
    rows = Rows.from_npy(g=tmp_path / "g.npy")
    rows.n_groups("g")
    os.utime(tmp_path / "g.npy", (1, 1))
    with pytest.raises(SourceError, match=r"g\.npy was written to after"):
        rows.n_groups("g")


def wrong_at(row, number, dtype):
    numbers = G.astype(dtype)
    numbers[row] = number
    return numbers


@pytest.mark.parametrize(
    ("row", "number", "dtype", "said"),
    [
        (N - 2, -1, "i2", "-1"),
        (BLOCK_ROWS + 3, 2.5, "f8", "2.5"),
        (0, np.nan, "f4", "nan"),
        (5, np.inf, "f8", "inf"),
        (BLOCK_ROWS, -3.0, "f8", "-3.0"),
    ],
)
def test_what_is_no_number_of_a_group_is_named_with_its_row_and_file(
    tmp_path, row, number, dtype, said
):
    np.save(tmp_path / "g.npy", wrong_at(row, number, dtype))
    rows = Rows.from_npy(g=tmp_path / "g.npy")
    place = rf"^'g' is {said} in row {row:,} of .*g\.npy, which is not a group number"
    with pytest.raises(SourceError, match=place):
        rows.n_groups("g")


ROWS, GROUPS = 2_000, 8
ROWS_RNG = np.random.default_rng(4)
Y = ROWS_RNG.normal(size=ROWS)
X = ROWS_RNG.normal(size=(ROWS, 3))


def groups(row=None, index=None):
    chosen = np.arange(ROWS) % GROUPS
    if row is not None:
        chosen[row] = index
    return chosen


def intercepts(chosen):
    a = pm.Normal("a", shape=GROUPS)
    return a[chosen]


def slopes(chosen):
    b = pm.Normal("b", shape=(GROUPS, 3))
    return (b[chosen] * X).sum(axis=1)


def from_one(chosen):
    return intercepts(pm.Data("g", chosen + 1) - 1)


def table(chosen):
    return pm.math.exp(pm.Normal("s")) * pm.Data("t", np.linspace(0.0, 1.0, GROUPS))[chosen]


def through_a_factor(chosen):
    z = pm.Normal("z", shape=GROUPS)
    # At zero there is no factor.
    factor = pt.linalg.cholesky(pt.outer(z, z) + pt.exp(z[0]) * z[1] * np.eye(GROUPS))
    return (factor @ z)[chosen]


def as_a_graph(chosen):
    a = pm.Normal("a", shape=GROUPS)
    b = pm.Normal("b", shape=10)
    return a[chosen] + pm.math.tanh(np.outer(Y, np.ones(10)) * b).sum(axis=1)


WAYS = {f.__name__: f for f in (intercepts, slopes, from_one, table, through_a_factor, as_a_graph)}


def model_of(way, chosen):
    with pm.Model() as model:
        pm.Normal("y", WAYS[way](chosen), 1.0, observed=Y)
    return model


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("index", [GROUPS, -GROUPS - 1, 100_000_000])
def test_an_index_out_of_range_is_refused_with_its_row(way, index):
    model = model_of(way, groups(17, index))
    with pytest.raises(UnsupportedModelError, match=rf"^'y' uses entry {index} in row 17 of"):
        factorize(model, model.value_vars)


@pytest.mark.parametrize("way", WAYS)
def test_indices_in_range_are_read(way):
    model = model_of(way, groups(17, -GROUPS))
    assert factorize(model, model.value_vars).terms[0].n_rows == ROWS


@pytest.mark.parametrize("method", [TunaMH, PenaltyMH])
def test_a_step_on_groups_that_were_set_out_of_range_is_refused(method):
    model = model_of("from_one", groups())
    method(model=model)
    with model:
        pm.set_data({"g": groups(3, 200) + 1})
        with pytest.raises(UnsupportedModelError, match="uses entry 200 in row 3 of an array"):
            method()
