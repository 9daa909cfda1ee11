"""Batches and whole likelihoods, evaluated in Python: nothing is compiled."""

import numpy as np
import pytensor
from pytensor.compile.mode import Mode
from pytensor.graph.rewriting.basic import dfs_rewriter
from pytensor.tensor.rewriting.ofg import inline_symbolic_for_fusion

from pymc_minibatch_mh.model.reading.precision import in_double
from pymc_minibatch_mh.model.reading.split import split

# Symbolic operations such as LogSumExp would compile their inner graph on their own.
PYTHON = Mode(linker="py", optimizer=dfs_rewriter(inline_symbolic_for_fusion))


def evaluate(inputs, output, values):
    function = pytensor.function(inputs, output, mode=PYTHON, on_unused_input="ignore")
    with np.errstate(all="ignore"):
        return function(*values)


def at_points(model, output, points):
    """Return what a graph of a model's own variables is at some points."""
    function = pytensor.function(model.value_vars, output, mode=PYTHON)
    with np.errstate(all="ignore"):
        return np.array([function(*(one[v.name] for v in model.value_vars)) for one in points])


def split_of(model, **settings):
    return split(model, **{"vars": model.value_vars, "min_rows": 1} | settings)


def positions(parts, n=2):
    return np.random.default_rng(5).normal(scale=0.4, size=(n, parts.size))


def pieces(parts, position):
    return [position[b.start : b.stop].reshape(b.shape) for b in parts.blocks]


def rows_of_whole(model, parts, name, position):
    """Log-likelihood of every observation, from the model's own graph."""
    (logp,) = model.logp(vars=[model[name]], sum=False)
    values = evaluate(model.value_vars, in_double(logp), pieces(parts, position))
    return values.reshape(values.shape[0], -1).sum(axis=1)


def rows_of_batch(parts, term, position, rows):
    """Log-likelihood of some observations, from the rebuilt graph."""
    inputs = [parts.position, term.length, *(batch for _, batch in term.batches)]
    data = [column.rows_first[rows].astype(batch.dtype) for column, batch in term.batches]
    return evaluate(inputs, term.logp, [position, len(rows), *data])


def assert_read_rightly(model, parts):
    rng = np.random.default_rng(9)
    for position in positions(parts):
        total = evaluate([parts.position], parts.prior, [position])
        for term in parts.terms:
            whole = rows_of_whole(model, parts, term.name, position)
            assert whole.shape == (term.n_rows,)
            assert np.isfinite(whole).all()
            for n in {1, 2, min(7, term.n_rows)}:
                rows = rng.integers(term.n_rows, size=n)
                batch = rows_of_batch(parts, term, position, rows)
                assert batch.shape == (n,)
                np.testing.assert_allclose(batch, whole[rows], rtol=1e-10, atol=1e-12)
            total += rows_of_batch(parts, term, position, np.arange(term.n_rows)).sum()
        expected = evaluate(model.value_vars, in_double(model.logp()), pieces(parts, position))
        np.testing.assert_allclose(total, expected, rtol=1e-10)
