"""Likelihoods of the same stored rows, as one: what is read of a row serves all of them."""

from collections.abc import Sequence

from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace

from pymc_minibatch_mh.data import Column
from pymc_minibatch_mh.data.storage import Storage
from pymc_minibatch_mh.data.stored import StoredArray
from pymc_minibatch_mh.model.reading.batch import BatchTerm


def likelihoods_of(terms: Sequence[BatchTerm]) -> list[str]:
    """Return the names of the observed variables behind terms."""
    return [one.name for term in terms for one in term.likelihoods]


def storage_of(term: BatchTerm) -> Storage | None:
    """Return where the rows of a term are stored; None where they are in memory."""
    arrays = (column.values for column, _ in term.batches)
    return next((x.storage for x in arrays if isinstance(x, StoredArray)), None)


def joined(terms: Sequence[BatchTerm]) -> list[BatchTerm]:
    """Return terms on one storage as one, whose row i is row i of each of them.

    The log-likelihood of a row is the sum of theirs, so that a row is drawn and read once for all.
    Other terms are returned as they are.
    """
    storages = {id(storage_of(term)) for term in terms}
    if len(terms) < 2 or len(storages) > 1 or storage_of(terms[0]) is None:
        return list(terms)
    first = terms[0]
    batches: dict[str, tuple[Column, Variable]] = {}
    total = None
    for term in terms:
        replaced: dict[Variable, Variable] = {term.length: first.length}
        for column, batch in term.batches:
            # Several names of an array are one.
            _, kept = batches.setdefault(column.values.name, (column, batch))
            replaced[batch] = kept
        (logp,) = clone_replace([term.logp], replaced, rebuild_strict=False)
        total = logp if total is None else total + logp
    name = " and ".join(term.name for term in terms)
    held = [*batches.values()]
    return [BatchTerm(name, first.n_rows, total, first.length, held, joined=tuple(terms))]
