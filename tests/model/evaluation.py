"""Batches and whole likelihoods, evaluated in Python: nothing is compiled."""

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import Mode
from pytensor.graph.rewriting.basic import dfs_rewriter
from pytensor.tensor.rewriting.ofg import inline_symbolic_for_fusion

from pymc_minibatch_mh.model.constant_data import as_plain_tensor, with_double_constants
from pymc_minibatch_mh.model.factorization import factorize

# Symbolic operations such as LogSumExp would compile their inner graph on their own.
PYTHON = Mode(linker="py", optimizer=dfs_rewriter(inline_symbolic_for_fusion))


def function_of(inputs, outputs):
    """Return graphs as a function of arrays."""
    function = pytensor.function(inputs, outputs, mode=PYTHON, on_unused_input="ignore")
    return np.errstate(all="ignore")(function)


def evaluate(inputs, output, values):
    return function_of(inputs, output)(*values)


def at_points(model, output, points):
    """Return what a graph of a model's own variables is at some points."""
    function = function_of(model.value_vars, output)
    return np.array([function(*(one[v.name] for v in model.value_vars)) for one in points])


def split_of(model, **settings):
    return factorize(model, **{"vars": model.value_vars, "min_rows": 1} | settings)


def positions(parts, n=2):
    return np.random.default_rng(5).normal(scale=0.4, size=(n, parts.size))


def pieces(parts, position):
    return [position[b.start : b.stop].reshape(b.shape) for b in parts.blocks]


def whole_rows(model, parts, name, axis=0):
    """Return the log-likelihood of every observation, of the model's own graph, by positions."""
    (logp,) = model.logp(vars=[model[name]], sum=False)
    function = function_of(model.value_vars, _rows_first(logp, axis))
    return lambda position: function(*pieces(parts, position))


def rows_of_whole(model, parts, name, position, axis=0):
    """Log-likelihood of every observation, from the model's own graph."""
    return whole_rows(model, parts, name, axis)(position)


def _rows_first(logp, axis):
    """Return the log-likelihoods of observations that lie along an axis; a sum stays a sum."""
    if not logp.type.ndim:
        return logp
    rows_first = pt.moveaxis(as_plain_tensor(logp), axis, 0)
    return with_double_constants(rows_first.sum(axis=tuple(range(1, rows_first.type.ndim))))


def rows_of_batch(parts, term, position, rows):
    """Log-likelihood of some observations, from the rebuilt graph."""
    inputs = [parts.position, term.length, *(batch for _, batch in term.batches)]
    data = [column.rows_first[rows].astype(batch.dtype) for column, batch in term.batches]
    return evaluate(inputs, term.logp, [position, len(rows), *data])


def assert_read_rightly(model, parts, axis=0):
    """Compare batches, all rows and the sum of all parts with the model's own log-density.

    Returns positions, each with the log-likelihoods of all rows of each term.
    """
    rng, known = np.random.default_rng(9), []
    values_of = _all_there_is_to_compare(model, parts, axis)
    for position in positions(parts):
        total, prior, rows, wholes = values_of(
            position, [np.arange(term.n_rows) for term in parts.terms]
        )
        # The sum in a potential has no rows: batches are compared with all rows as rebuilt.
        wholes = [w if np.ndim(w) else r for w, r in zip(wholes, rows, strict=True)]
        for term, whole in zip(parts.terms, wholes, strict=True):
            assert whole.shape == (term.n_rows,)
            assert np.isfinite(whole).all()
        np.testing.assert_allclose(prior + sum(map(np.sum, rows)), total, rtol=1e-10)
        for most in (7,) if known else (1, 2, 7):
            chosen = [rng.integers(t.n_rows, size=min(most, t.n_rows)) for t in parts.terms]
            batches = values_of(position, chosen)[2]
            for numbers, batch, whole in zip(chosen, batches, wholes, strict=True):
                assert batch.shape == numbers.shape
                np.testing.assert_allclose(batch, whole[numbers], rtol=1e-10, atol=1e-12)
        known.append((position, wholes))
    return known


def _all_there_is_to_compare(model, parts, axis):
    """Return the function of a position and of row numbers of each term.

    It returns the model's log-density, the prior part, the log-likelihoods of these rows as they
    were rebuilt, and those of all rows from the model's own graph, whose rows lie along an axis.
    """
    inputs = [*model.value_vars, parts.position]
    for term in parts.terms:
        inputs += [term.length, *(batch for _, batch in term.batches)]
    own = model.free_RVs + model.observed_RVs + model.potentials
    # Of the whole model, not of named variables: that is how parts are read.
    logps = dict(zip([v.name for v in own], model.logp(sum=False), strict=True))
    total = with_double_constants(sum(as_plain_tensor(logp).sum() for logp in logps.values()))
    wholes = [_rows_first(logps[term.name.split("[")[0]], axis) for term in parts.terms]
    function = function_of(
        inputs, [total, parts.prior, *(term.logp for term in parts.terms), *wholes]
    )

    def values(position, numbers):
        given = [*pieces(parts, position), position]
        for term, chosen in zip(parts.terms, numbers, strict=True):
            given.append(len(chosen))
            given += [c.rows_first[chosen].astype(batch.dtype) for c, batch in term.batches]
        total, prior, *found = function(*given)
        return total, prior, found[: len(numbers)], found[len(numbers) :]

    return values
