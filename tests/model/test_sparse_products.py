"""Products of sparse matrices, compared with those of dense ones."""

import tracemalloc

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor import sparse
from scipy.sparse import coo_matrix, csc_matrix, csr_matrix
from scipy.stats import norm

from model.evaluation import evaluate, split_of
from pymc_minibatch_mh import TunaMH, sample
from pymc_minibatch_mh.errors import UnsupportedModelError
from pymc_minibatch_mh.model.independence import batch_term
from pymc_minibatch_mh.structure.random_effects import find_random_effects
from pymc_minibatch_mh.structure.row_function import RowData, row_functions

N, K = 60, 30
RNG = np.random.default_rng(4)
ROWS = np.arange(N)
g, h = RNG.permutation(ROWS % 4), RNG.permutation(ROWS % 3)
x = RNG.normal(size=N)
b, c = pt.vector("b", shape=(K,)), pt.matrix("c", shape=(K, 2))
B, C = RNG.normal(size=K), RNG.normal(size=(K, 2))


def matrix_of(*entries):
    """Matrix of triples: rows, columns and values."""
    parts = [map(np.ravel, np.broadcast_arrays(*triple)) for triple in entries]
    rows, columns, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    return csr_matrix((values, (rows, columns)), shape=(N, K))


PAIRS = np.array([RNG.choice(K, 2, replace=False) for _ in ROWS])
HALF = ROWS[::2]
#: Matrices, and the blocks in which they are read: columns, axes of the index, type of the values.
MATRICES = {
    "one factor": (matrix_of((ROWS, g + 3, 1.0)), [(0, K, 1, None)]),
    "slopes": (matrix_of((ROWS, g + 3, x)), [(0, K, 1, float)]),
    "two factors": (
        matrix_of((ROWS, g, 1.0), (ROWS, 4 + h, 1.0)),
        [(0, 4, 1, None), (4, K, 1, None)],
    ),
    "reference levels": (
        matrix_of((ROWS, 0, 1.0), (ROWS[g > 0], g[g > 0], 1.0), (ROWS, 4 + h, x)),
        [(0, 1, 0, float), (1, 4, 1, np.int8), (4, K, 1, float)],
    ),
    "numeric columns": (
        matrix_of((ROWS, 0, 1.0), (ROWS, 1, x), (ROWS, g + 2, 1.0), (HALF, K - 1, x[HALF])),
        [(0, 2, 0, float), (2, K - 1, 1, None), (K - 1, K, 0, float)],
    ),
    "single-precision numbers": (
        matrix_of((ROWS, 0, 1.0), (ROWS, g + 2, x)).astype(np.float32),
        [(0, 1, 0, np.float32), (1, K, 1, np.float32)],
    ),
    "two entries of each row": (
        matrix_of((ROWS[:, None], PAIRS, RNG.normal(size=(N, 2)))),
        [(0, K, 2, float)],
    ),
    "two ones of each row": (matrix_of((ROWS[:, None], PAIRS, 1.0)), [(0, K, 2, None)]),
    "one or two entries": (
        matrix_of((ROWS, PAIRS[:, 0], x), (ROWS[2:], PAIRS[2:, 1], 1.0)),
        [(0, K, 2, float)],
    ),
    "a row without entries": (
        matrix_of((ROWS[1:, None], PAIRS[1:], 2.0)),
        [(0, K, 2, float)],
    ),
    "a factor without the last row": (matrix_of((ROWS[:-1], g[:-1], 1.0)), [(0, K, 1, np.int8)]),
}


def term_of(graph):
    return batch_term("y", graph, N, {b: "b", c: "c"})


def assert_rows(graph, expected):
    """Compare rows of minibatches with those of a dense product, shape (N,)."""
    term = term_of(graph)
    for rows in ([3], [5, 0, 0, 2], list(ROWS)):
        inputs = [b, c, term.length, *(stand_in for _, stand_in in term.batches)]
        data = [column.rows_first[rows].astype(v.dtype) for column, v in term.batches]
        some = evaluate(inputs, term.logp, [B, C, len(rows), *data])
        np.testing.assert_allclose(some, expected[rows], rtol=1e-6, atol=1e-12)
    return term


@pytest.mark.parametrize("name", MATRICES)
def test_rows_of_matrices_are_those_of_dense_ones(name):
    matrix, blocks = MATRICES[name]
    term = assert_rows(sparse.dot(matrix, b), matrix.toarray() @ B)
    assert_rows(sparse.dot(matrix, c), (matrix.toarray() @ C).sum(axis=1))
    read = [column.values for column, _ in term.batches]
    types = [np.dtype(kind) for *_, kind in blocks if kind is not None]
    axes = [n for *_, n, _ in blocks if n]
    assert [x.dtype for x in read if x.dtype != np.int32] == types
    assert [x.ndim for x in read if x.dtype == np.int32] == axes


DENSE = MATRICES["numeric columns"][0].toarray()


@pytest.mark.parametrize(
    "write",
    [
        lambda m: sparse.structured_dot(m, b[:, None])[:, 0],
        lambda m: sparse.structured_dot(m, b.reshape((K, 1))).flatten(),
        lambda m: sparse.structured_dot(b[None], m.T)[0],
        lambda m: sparse.structured_dot(m, c[:, :1])[:, 0] + sparse.dot(c.T[:1], m.T)[0],
        lambda m: sparse.dot(b, m.T),
        lambda m: sparse.dot(c.T, m.T).T,
        lambda m: sparse.dot(csc_matrix(m.data), b),
        lambda m: sparse.dot(pytensor.shared(m.data), b),
        lambda m: sparse.true_dot(m, b[:, None]).toarray()[:, 0],
        lambda m: sparse.dot(sparse.multiply(m, m), b),
    ],
)
def test_every_product_is_read(write):
    graph = write(sparse.as_sparse_variable(csr_matrix(DENSE)))
    whole = evaluate([b, c], graph, [B, C])
    assert_rows(graph, whole.reshape(N, -1).sum(axis=1))


def test_entries_in_any_order_and_twice_are_read():
    matrix = coo_matrix((np.r_[x, x], (np.r_[ROWS, ROWS], np.r_[g + 3, g])), shape=(N, K))
    unsorted = csr_matrix(
        (np.c_[x, x, x].ravel(), np.c_[g + 3, g, g].ravel(), 3 * np.arange(N + 1))
    )
    unsorted.resize(N, K)
    assert_rows(sparse.dot(matrix.tocsr(), b), matrix.toarray() @ B)
    assert_rows(sparse.dot(unsorted, b), unsorted.toarray() @ B)
    assert not unsorted.has_canonical_format


def test_slopes_and_a_second_product_share_the_index():
    matrix = sparse.as_sparse_variable(matrix_of((ROWS, g, 1.0), (ROWS, 4 + g % 3, x)))
    slopes = sparse.as_sparse_variable(matrix_of((ROWS, h, 1.0), (ROWS, 3 + h, x)))
    twice = term_of(sparse.dot(matrix, b) * pt.exp(sparse.dot(matrix, c[:, 0])))
    assert len(twice.batches) == 3
    assert len(term_of(sparse.dot(slopes, b)).batches) == 2


def test_arrays_are_views_of_the_matrix_and_nothing_is_dense():
    n, k = 40_000, 500
    rows, levels = np.arange(n), RNG.integers(0, k, n)
    one = csr_matrix((RNG.normal(size=n), (rows, levels)), shape=(n, k))
    two = csr_matrix(
        (np.ones(2 * n), (np.r_[rows, rows], np.r_[levels, k + levels % 7])), shape=(n, k + 7)
    )
    for matrix in (one, one.tocsc(), two):
        size = matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes
        a = pt.vector("a", shape=(matrix.shape[1],))
        graph = sparse.dot(matrix, a)
        tracemalloc.start()
        term = batch_term("y", graph, n, {a: "a"})
        held, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert held < size + 2**17
        assert most < 2 * size + 2**17
        if matrix is one:
            read = [column.values for column, _ in term.batches]
            assert [
                np.shares_memory(x, y) for x, y in zip(read, (one.indices, one.data), strict=True)
            ]


def wide():
    full = matrix_of((ROWS, g, x)).tolil()
    full[3] = 1.0
    return csr_matrix(full)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (
            lambda: sparse.dot(sparse.multiply(csr_matrix(DENSE), b), c[:, 0]),
            "which depends on the para",
        ),
        (lambda: sparse.dot(wide(), b), r"in which observations have 1 to 30 entries.*dense array"),
        (
            lambda: sparse.dot(pt.constant(DENSE), sparse.multiply(csr_matrix(np.eye(K)), b))[:, 0],
            "whose rows are not",
        ),
        (lambda: sparse.multiply(csr_matrix(DENSE), b).toarray().sum(1), r"sparse\.dot\(X, b\)"),
        (
            lambda: (sparse.as_sparse_variable(csr_matrix(DENSE)) @ c)[:, 0],
            "an operation takes a sp",
        ),
    ],
)
def test_other_matrices_are_refused_with_the_way_out(graph, message):
    with pytest.raises(UnsupportedModelError, match=message):
        term_of(graph())


def test_a_sparse_response_is_refused():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("b"), observed=csr_matrix(DENSE))
    with pytest.raises(UnsupportedModelError, match="'y' is observed as a sparse matrix"):
        split_of(model)


def test_a_matrix_in_the_prior_part_stays_sparse():
    with pm.Model() as model:
        a = pm.Normal("a", shape=K)
        X = pm.Data("X", csr_matrix(DENSE[:4]))
        pm.Normal("small", sparse.dot(X, a), observed=np.ones(4))
        named = sparse.as_sparse_variable(csr_matrix(DENSE), name="design")
        pm.Normal("y", sparse.dot(named, a), np.array([2.0]), observed=x)
    parts = split_of(model, observed=["y"])
    assert [column.name for column, _ in parts.terms[0].batches].count("design") == 3
    prior = evaluate([parts.position], parts.prior, [B])
    expected = norm.logpdf(B).sum() + norm.logpdf(1.0, DENSE[:4] @ B).sum()
    np.testing.assert_allclose(prior, expected)


def grouped_models():
    """A model by indices, centred and not, and the same by a sparse design."""
    n, sizes = 3_000, (120, 130)
    rng = np.random.default_rng(7)
    rows, levels = np.arange(n), [rng.integers(0, size, n) for size in sizes]
    number, response = rng.normal(size=(2, n))
    columns = np.concatenate([levels[0], levels[1] + sizes[0], levels[1] + sum(sizes)])
    values = np.concatenate([np.ones(2 * n), number])
    design = csr_matrix((values, (np.tile(rows, 3), columns)), shape=(n, sum(sizes) + sizes[1]))
    for is_sparse in (False, True):
        with pm.Model() as model:
            first = pm.Normal("first", pm.Normal("mean"), pm.HalfNormal("tau"), shape=sizes[0])
            second = pm.HalfNormal("sd") * pm.Normal("z", shape=sizes[1])
            slope = pm.Normal("slope", 0.0, pm.HalfNormal("width"), shape=sizes[1])
            if is_sparse:
                mean = sparse.dot(design, pt.concatenate([first, second, slope]))
            else:
                mean = first[levels[0]] + second[levels[1]] + slope[levels[1]] * number
            pm.Normal("y", mean, observed=response)
        yield model


def test_a_design_has_the_factors_of_its_indices():
    read = []
    for model in grouped_models():
        parts = split_of(model)
        (function,) = row_functions(parts)
        effects = find_random_effects(parts, [function])
        data = RowData(function, slice(0, function.n_rows))
        matrices = [data.coefficients(form, parts.size) for form in function.arguments]
        read.append((effects.names, [one.places for one in effects.factors], matrices))
    (names, places, matrices), (other_names, other_places, other_matrices) = read
    assert names == other_names
    np.testing.assert_equal(places, other_places)
    np.testing.assert_equal(matrices, other_matrices)


@pytest.mark.slow
def test_draws_of_a_design_are_those_of_its_indices():
    traces = [
        sample(TunaMH(model=model), draws=200, tune=200, chains=1, random_seed=1, model=model)
        for model in grouped_models()
    ]
    for name, draws in traces[0].posterior.items():
        np.testing.assert_array_equal(draws, traces[1].posterior[name])
