"""Rows by their linear forms and rows as graphs of all parameters are the same rows."""

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.gradient import grad, pushforward
from pytensor.graph.replace import clone_replace

from compiled.fitted import rows_of
from every import every
from families import FAMILIES
from likelihood.evaluation import evaluate
from pymc_minibatch_mh.compiled.compiled_model import GraphPrior
from pymc_minibatch_mh.compiled.graphs import GraphRows
from pymc_minibatch_mh.kernels.handle import address_of
from pymc_minibatch_mh.kernels.posterior import RowSpace
from pymc_minibatch_mh.kernels.row_sums import moments_of_move
from pymc_minibatch_mh.reference.full_data import FullData
from tiers import fast


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


@every("name", fast(FAMILIES))
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


@pytest.mark.slow
@pytest.mark.parametrize("name", list(FAMILIES))
def test_both_paths_compile_to_the_same_roles(name):
    found = rows_of(name)
    forms, graph = found.compiled, GraphRows(found.parts, found.source)
    ours, theirs = passes_of(found, forms), passes_of(found, graph)
    one = ours.likelihood(found.position, hessian=True)
    other = theirs.likelihood(found.position, hessian=True)
    np.testing.assert_allclose(one.gradient, other.gradient, rtol=1e-8)
    np.testing.assert_allclose(one.hessian, other.hessian, rtol=1e-8, atol=1e-8)
    factor = 0.05 * np.tril(np.ones((found.parts.size, found.parts.size)))
    # Differences of gradients, which the graph's path takes, count a kink that they step over.
    if name != "laplace":
        bends = [x.skewness(found.position, factor, None) for x in (ours, theirs)]
        np.testing.assert_allclose(*bends, rtol=2e-2, atol=2e-2 * np.abs(bends[0]).max())
    rng = np.random.default_rng(2)
    here, there = found.position + 0.1 * rng.standard_normal((2, found.parts.size))
    drawn = np.arange(found.source.n_rows)
    for order in (0, 1, 2):
        moments = []
        for rows in (forms, graph):
            at = rows.at(found.source)
            space = RowSpace(found.source.term_starts, at.context)
            address = address_of(at.evaluate(order))
            ends, out = (here, there, found.position), np.empty(drawn.size)
            moments.append(moments_of_move(address, ends, space, drawn, out))
        np.testing.assert_allclose(*moments, rtol=1e-6)
