import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from every import every
from likelihood.evaluation import positions, rows_of_whole, split_of
from pymc_minibatch_mh.compiled.form_rows import FormRows
from pymc_minibatch_mh.compiled.graphs import GraphRows, ReadRows, row_source
from pymc_minibatch_mh.data import ArrayRows, Column
from pymc_minibatch_mh.kernels.handle import address_of
from pymc_minibatch_mh.kernels.posterior import RowSpace
from pymc_minibatch_mh.kernels.row_sums import moments_of_move
from pymc_minibatch_mh.likelihood.function import row_functions

N = 50
RNG = np.random.default_rng(7)
WIDE = RNG.normal(size=(N, 4))
CUBE = RNG.normal(size=(3, N, 2))
COLUMNS = [
    Column("float64", WIDE[:, 0], 0),
    Column("float32", WIDE.astype("float32")[:, 1], 0),
    Column("int8", RNG.integers(-128, 128, N).astype("int8"), 0),
    Column("uint8", RNG.integers(0, 256, N).astype("uint8"), 0),
    Column("uint16", RNG.integers(0, 2**16, N).astype("uint16"), 0),
    Column("int64", RNG.integers(-(2**60), 2**60, N), 0),
    Column("bool", WIDE[:, 0] > 0.0, 0),
    Column("fortran", np.asfortranarray(WIDE), 0),
    Column("strided", np.repeat(WIDE, 3, axis=0)[::3, ::2], 0),
    Column("reversed", WIDE[::-1, ::-1], 0),
    Column("transposed", np.ascontiguousarray(WIDE.T), 1),
    Column("transposed int8", (10 * WIDE.T).astype("int8"), 1),
    Column("cube", CUBE, 1),
]


def readers(source):
    """Rows of every column: one compiled function of row numbers."""
    rows, context = pt.lvector("rows"), pt.lvector("context")
    batches = [
        ReadRows(int(slot), str(c.values.dtype), c.rows_first.shape[1:])(rows, context)
        for slot, c in zip(source.slots, source.columns, strict=True)
    ]
    function = pytensor.function([rows, context], batches, mode="NUMBA")
    return lambda numbers, move=0: function(np.array(numbers), source.context + move)


@pytest.fixture(scope="module")
def read():
    return readers(ArrayRows(COLUMNS, [N]))


@every("numbers", [[0], [N - 1, 0, 0, 17], list(range(N))])
def test_rows_of_every_type_and_layout_are_read_by_address(read, numbers):
    for column, batch in zip(COLUMNS, read(numbers), strict=True):
        np.testing.assert_array_equal(batch, column.rows_first[numbers], err_msg=column.name)
        kind = column.values.dtype.kind
        assert batch.dtype == {"f": "float64", "b": "bool"}.get(kind, "int64"), column.name


def test_no_rows_are_read_as_empty_batches(read):
    for column, batch in zip(COLUMNS, read(np.empty(0, dtype=np.int64)), strict=True):
        assert batch.shape == (0, *column.rows_first.shape[1:])


def test_mutant_that_starts_one_entry_late_is_caught(read):
    source = ArrayRows(COLUMNS, [N])
    move = np.zeros(source.context.size, dtype=np.int64)
    move[source.slots[0]] = COLUMNS[0].rows_first.strides[0]
    with pytest.raises(AssertionError):
        np.testing.assert_array_equal(read([3], move)[0], COLUMNS[0].rows_first[[3]])


def test_reading_in_python_is_refused():
    op = ReadRows(0, "float64", ())
    with pytest.raises(TypeError, match="only runs in numba"):
        op.perform(None, [], [])


# One model with several types and layouts through the compiled path.


@pytest.fixture(scope="module", params=["forms", "graph"])
def compiled(request):
    x8 = RNG.integers(0, 9, N).astype("uint8")
    g = RNG.integers(0, 3, N)
    with pm.Model() as model:
        a = pm.Normal("a", shape=3)
        b = pm.Normal("b", shape=4)
        mu = a[g] + pm.math.dot(np.asfortranarray(WIDE).astype("float32"), b)
        pm.Normal("y", mu + 0.1 * a[0] * x8, pm.HalfNormal("s"), observed=WIDE[:, 0])
        logits = b @ pm.Data("Xt", CUBE[0].T.repeat(2, axis=0))
        pm.Bernoulli("z", logit_p=logits, observed=WIDE[:, 1] > 0.0)
    parts = split_of(model)
    source = row_source(parts)
    forms = request.param == "forms"
    rows = FormRows(row_functions(parts)) if forms else GraphRows(parts, source)
    placed = rows.at(source)
    return model, parts, source, placed, placed.evaluate(0)


def change_of_rows(compiled, drawn, theta, new):
    _, _, source, placed, evaluate = compiled
    space = RowSpace(source.term_starts, placed.context)
    drawn = np.array(drawn, dtype=np.int64)
    ends, out = (theta, new, theta), np.empty(drawn.size)
    return moments_of_move(address_of(evaluate), ends, space, drawn, out)


def test_compiled_batches_hold_the_rows_of_the_model(compiled):
    model, parts, source, *_ = compiled
    theta, new = positions(parts)
    change = np.concatenate(
        [
            rows_of_whole(model, parts, t.name, new) - rows_of_whole(model, parts, t.name, theta)
            for t in parts.terms
        ]
    )
    assert change.shape == (source.n_rows,) == (2 * N,)
    for row in (0, 1, N - 1, N, 2 * N - 1):
        n, mean, *_ = change_of_rows(compiled, [row], theta, new)
        assert n == 1
        np.testing.assert_allclose(mean, change[row], rtol=1e-9, atol=1e-11)
    n, mean, *_ = change_of_rows(compiled, range(2 * N), theta, new)
    np.testing.assert_allclose(n * mean, change.sum(), rtol=1e-9)
