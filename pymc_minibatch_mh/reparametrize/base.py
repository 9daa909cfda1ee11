"""Factorizations after further coordinate changes, with their Jacobian."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace

from pymc_minibatch_mh.model.bijection import Bijection
from pymc_minibatch_mh.model.factorization import Factorization


def reparametrize_by(factorization: Factorization, maps: Sequence[Bijection]) -> Factorization:
    """Factorization after further coordinate changes, with their Jacobian in the prior part."""
    position = factorization.position.type("position")
    logps = [term.logp for term in factorization.terms]
    graphs = [factorization.prior, *logps, *factorization.natural.values()]
    own = {factorization.position: _graph_of_values(position, maps)}
    prior, *graphs = clone_replace(graphs, own)
    terms = [replace(t, logp=logp) for t, logp in zip(factorization.terms, graphs, strict=False)]
    lower, upper = factorization.lower.copy(), factorization.upper.copy()
    for one in maps:
        if one.support:
            lower[one.indices], upper[one.indices] = one.support
    return replace(
        factorization,
        position=position,
        lower=lower,
        upper=upper,
        prior=prior + sum(one.log_jacobian(position) for one in maps),
        terms=tuple(terms),
        natural=dict(zip(factorization.natural, graphs[len(terms) :], strict=True)),
        maps=(*factorization.maps, *maps),
        unmapped=factorization.unmapped or factorization,
    )


def _graph_of_values(position: Variable, maps: Sequence[Bijection]) -> Variable:
    (size,) = position.type.shape
    order, entries, n_entries = np.arange(size), [position], size
    for places, graph in (placed for one in maps for placed in one.inverse(position)):
        order[places] = n_entries + np.arange(places.size)
        entries.append(graph)
        n_entries += places.size
    # As a constant: PyTensor goes through an index array number by number.
    return pt.concatenate(entries)[pt.constant(order)]
