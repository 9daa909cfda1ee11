"""Indices of rows outside of what they choose from, which compiled code would not notice."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor.subtensor import AdvancedSubtensor, indices_from_subtensor
from pytensor.tensor.type import integer_dtypes

from pymc_minibatch_mh.errors import UnsplittableModelError
from pymc_minibatch_mh.model.reading.batch import BatchTerm
from pymc_minibatch_mh.model.reading.stored import blocks_of

#: Compiles nothing, and computes no values where a shape will do.
_OF_SHAPES = Mode(linker="py", optimizer="fast_compile")


def require_indices_in_range(term: BatchTerm, values: Sequence[Variable]) -> None:
    """Refuse a term in which a row chooses an entry that is not there.

    Parameters
    ----------
    term
        The term.
    values
        What is not data: the position, and the values of other variables.

    Raises
    ------
    UnsplittableModelError
        If an index is out of range; names the variable, the row and the index.
    """
    for index, length, before in _chosen(term, values):
        wrong = (index < -length) | (index >= length)
        if wrong.any():
            first = np.unravel_index(np.argmax(wrong), wrong.shape)
            row = "" if before is None else f" in row {before + first[0]}"
            raise UnsplittableModelError(
                f"{term.name!r} chooses entry {index[first]}{row} of something that has {length} "
                "entries. Correct the index, which counts from 0."
            )


def _chosen(
    term: BatchTerm, values: Sequence[Variable]
) -> Iterator[tuple[np.ndarray, int, int | None]]:
    """Yield arrays of indices that are data, what they choose from, and their first row.

    Of what they choose from it is the number of entries. Rows that are stored are read in blocks.
    """
    pairs = [
        (index, _length(node.inputs[0], axis))
        for node in toposort([term.logp])
        if isinstance(node.op, AdvancedSubtensor)
        for axis, index in enumerate(indices_from_subtensor(node.inputs[1:], node.op.idx_list))
        if _is_data(index, values)
    ]
    if not pairs:
        return
    given: dict[Variable, Any] = {value: np.zeros(value.type.shape) for value in values}
    inputs = [*given, *(batch for _, batch in term.batches), term.length]
    outputs = [x for pair in pairs for x in pair]
    function = pytensor.function(inputs, outputs, mode=_OF_SHAPES, on_unused_input="ignore")
    for block in blocks_of(term.n_rows, [column for column, _ in term.batches]):
        count = block.stop - block.start
        rows = [c.read(block).astype(b.type.dtype, copy=False) for c, b in term.batches]
        with np.errstate(all="ignore"):
            found = function(*given.values(), *rows, np.int64(count))
        for index, length in zip(found[::2], found[1::2], strict=True):
            chosen = np.atleast_1d(index)
            yield chosen, int(length), block.start if len(chosen) == count else None


def _length(chosen_from: Variable, axis: int) -> Variable:
    """Return how many entries there are, without their values where the type tells it.

    Values at a position of zeros need not exist, as of the Cholesky factor of a covariance.
    """
    known = chosen_from.type.shape[axis]
    return chosen_from.shape[axis] if known is None else pt.constant(np.int64(known))


def _is_data(index: object, values: Sequence[Variable]) -> bool:
    if not isinstance(index, Variable) or index.type.dtype not in integer_dtypes:
        return False
    return not set(values) & set(ancestors([index]))
