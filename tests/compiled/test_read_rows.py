"""Compiled rows are the model's, whichever way they are read, and read data where they lie."""

import re

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.gradient import grad, pushforward
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.graph.replace import clone_replace

from compiled.fitted import rows_of
from helpers.models import FAMILIES, poisson
from helpers.tiers import fast
from model.evaluation import evaluate, positions, rows_of_whole, split_of
from pymc_minibatch_mh.compiled import form_rows
from pymc_minibatch_mh.compiled.form_rows import FormRows
from pymc_minibatch_mh.compiled.graphs import GraphRows, ReadRows, compiled_graph, row_source
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.compiled.prior import GraphPrior
from pymc_minibatch_mh.data import ArrayRows, Column
from pymc_minibatch_mh.native.row_sums import moments_of_move
from pymc_minibatch_mh.reference.full_data import FullData
from pymc_minibatch_mh.structure.random_effects import NotSeparableError
from pymc_minibatch_mh.structure.row_function import row_functions

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


@pytest.mark.parametrize("numbers", [[0], [N - 1, 0, 0, 17], list(range(N))])
def test_rows_of_every_type_and_layout_are_read_by_address(read, numbers):
    for column, batch in zip(COLUMNS, read(numbers), strict=True):
        np.testing.assert_array_equal(batch, column.rows_first[numbers], err_msg=column.name)
        kind = column.values.dtype.kind
        assert batch.dtype == {"f": "float64", "b": "bool"}.get(kind, "int64"), column.name


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
    rows = FormRows(row_functions(parts), parts.size) if forms else GraphRows(parts, source)
    return model, parts, source, rows.at(source).space(0)


def change_of_rows(compiled, drawn, theta, new):
    *_, space = compiled
    drawn = np.array(drawn, dtype=np.int64)
    return moments_of_move(space, (theta, new, theta), drawn, np.empty(drawn.size))


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


class OnlyInPython(Op):
    """An operation that numba cannot compile."""

    __props__ = ()

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = inputs[0]


def test_an_operation_without_a_compiled_form_is_called_in_python_and_named(caplog):
    parts = split_of(poisson())
    x = pt.vector("x", dtype="float64")
    compiled_graph(parts, [x], [OnlyInPython()(x)], None)
    assert "'counts': the operation OnlyInPython" in caplog.text
    assert "updates call Python" in caplog.text


def passes_of(found, rows):
    return FullData(rows.at(found.source), GraphPrior(found.parts), found.source)


def graph_of_all_rows(parts):
    """Return the summed log-likelihood as a graph of the position, rebuilt from its batches."""
    total = pt.constant(0.0)
    for term in parts.terms:
        data = {
            batch: pt.constant(np.asarray(column.rows_first).astype(batch.type.dtype))
            for column, batch in term.batches
        }
        length = {term.length: pt.constant(np.int64(term.n_rows))}
        (logp,) = clone_replace([term.logp], data | length, rebuild_strict=False)
        total = total + logp.sum()
    return total


@pytest.mark.parametrize("name", fast(FAMILIES))
def test_sums_of_derivatives_are_those_of_the_graph(name):
    found = rows_of(name)
    theta = found.parts.position
    direction = pt.vector("direction", shape=(found.parts.size,))
    total = graph_of_all_rows(found.parts)
    gradient = grad(total, theta, disconnected_inputs="ignore")
    product = pushforward(gradient, theta, direction, disconnected_outputs="ignore")
    along = np.random.default_rng(1).standard_normal(found.parts.size)
    values = evaluate([theta, direction], [total, gradient, product], [found.position, along])
    ours = passes_of(found, found.compiled).likelihood(found.position, hessian=True)
    scale = np.abs(ours.gradient).max()
    np.testing.assert_allclose(ours.value, values[0], rtol=1e-11)
    np.testing.assert_allclose(ours.gradient, values[1], rtol=1e-9, atol=1e-11 * scale)
    scale = np.abs(ours.hessian @ along).max()
    np.testing.assert_allclose(ours.hessian @ along, values[2], rtol=1e-8, atol=1e-10 * scale)


def test_long_series_with_kinks_are_compiled_as_graphs(monkeypatch):
    """Thousands of operations on numbers compile for minutes, and arrays of them in seconds."""
    monkeypatch.setattr(form_rows, "MAX_OPERATIONS", 10)
    with pm.Model() as model:
        a = pm.Normal("a", shape=3)
        pm.Laplace("y", a[np.arange(N) % 3], pt.exp(a[0]), observed=WIDE[:, 0])
    compiled = CompiledModel(split_of(model))
    assert isinstance(compiled.rows, GraphRows)
    assert re.search(r"its derivatives are \d\d operations on numbers", compiled.why_graph)
    with pytest.raises(NotSeparableError, match="operations on numbers"):
        _ = compiled.elements
