"""Families of likelihoods with the arguments of some of their rows near the truth."""

from functools import cache
from types import SimpleNamespace

import numpy as np

from helpers.models import FAMILIES
from pymc_minibatch_mh.compiled.form_rows import FormRows, evaluate_predictors
from pymc_minibatch_mh.compiled.graphs import row_source
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.structure.row_function import RowData, row_functions

ROWS = 1_000


@cache
def rows_of(name, rows=ROWS):
    """Return a family's row functions, and where its arguments lie at a plain position."""
    model = FAMILIES[name](rows)
    parts = factorize(model, model.value_vars, min_rows=1)
    functions = row_functions(parts)
    rng = np.random.default_rng(8)
    position = parts.ravel(model.initial_point()) + 0.2 * rng.standard_normal(parts.size)
    return SimpleNamespace(
        model=model,
        parts=parts,
        functions=functions,
        position=position,
        compiled=FormRows(functions, parts.size),
        source=row_source(parts),
    )


def arguments_of(found, term, rows, position=None):
    """Return the arguments of some rows of a term, shape (n, m)."""
    position = found.position if position is None else position
    rows = np.asarray(rows, dtype=np.int64)
    factor = np.eye(position.size)
    return evaluate_predictors(
        found.functions[term], rows, position, factor, directions=False
    ).values


def leaves_of_rows(found, term, rows):
    """Return what a row function takes of the data of some rows, shape (n, leaves)."""
    data = RowData(found.functions[term], np.asarray(rows))
    columns = [np.broadcast_to(data.value(leaf), len(rows)) for leaf in found.compiled.leaves[term]]
    return np.stack([np.empty(len(rows)), *columns], axis=1)[:, 1:].astype(np.float64)


def run(function, *columns, width):
    """Run a compiled function of rows; return `width` numbers of each row."""
    inputs = np.ascontiguousarray(np.concatenate(columns, axis=1), dtype=np.float64)
    outputs = np.empty((inputs.shape[0], width))
    function(inputs, outputs, len(inputs))
    return outputs
