"""Rows, taken apart into linear forms and functions of them, are put together again."""

import numpy as np

from bounds.certified import evaluate
from model.evaluation import positions, split_of, whole_rows
from pymc_minibatch_mh.structure.row_function import RowData, row_functions


def put_together(function, position, rows=None):
    """Evaluate rows from their linear forms and the root."""
    rows = slice(0, function.n_rows) if rows is None else rows
    data = RowData(function, rows)
    arguments = [data.coefficients(form, position.size) @ position for form in function.arguments]
    result, _ = evaluate(function, data, arguments)
    return np.broadcast_to(result, np.arange(function.n_rows)[rows].shape)


def assert_put_together_again(model, parts=None, n=2, axis=0):
    """Compare the rows of a model with those that are put together, and return their functions."""
    parts = split_of(model) if parts is None else parts
    whole = [whole_rows(model, parts, term.name, axis) for term in parts.terms]
    known = [(x, [rows(x) for rows in whole]) for x in positions(parts, n)]
    functions = row_functions(parts)
    assert_rows_are(functions, known)
    return functions


def assert_rows_are(functions, known):
    """Compare rows with those of the model, which are known at some positions."""
    for position, wholes in known:
        for function, whole in zip(functions, wholes, strict=True):
            found = put_together(function, position)
            np.testing.assert_allclose(found, whole, rtol=1e-9, atol=1e-11)
