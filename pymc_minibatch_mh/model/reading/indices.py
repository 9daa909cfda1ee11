"""Indices of rows outside of what they choose from, which compiled code would not notice."""

from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor.subtensor import AdvancedSubtensor, indices_from_subtensor
from pytensor.tensor.type import integer_dtypes

from pymc_minibatch_mh.data import Column
from pymc_minibatch_mh.data.stored import StoredArray, StoredRows
from pymc_minibatch_mh.errors import UnsplittableModelError
from pymc_minibatch_mh.model.reading.batch import BatchTerm
from pymc_minibatch_mh.model.reading.stored import blocks_of
from pymc_minibatch_mh.progress import counting

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
    with closing(_chosen(term, values)) as chosen:
        for found in chosen:
            wrong = (found.entries < -found.length) | (found.entries >= found.length)
            if wrong.any():
                raise _out_of_range(term.name, found, wrong)


class Chosen(NamedTuple):
    """Entries that some rows choose.

    Parameters
    ----------
    entries
        Their numbers.
    length
        How many entries there are to choose from.
    before
        Number of the first row; None where all rows share the index.
    columns
        The data that the index is computed from.
    """

    entries: np.ndarray
    length: int
    before: int | None
    columns: list[Column]


def _out_of_range(name: str, found: Chosen, wrong: np.ndarray) -> UnsplittableModelError:
    first = np.unravel_index(np.argmax(wrong), wrong.shape)
    stored = tuple(c for c in found.columns if isinstance(c.values, StoredArray))
    row, index = "", "the index"
    if found.before is not None:
        number = found.before + int(first[0])
        row = f" in row {number}{StoredRows(stored).place(number) if stored else ''}"
    if stored:
        index = ", ".join(repr(column.name) for column in stored)
    return UnsplittableModelError(
        f"{name!r} chooses entry {found.entries[first]}{row} of something that has {found.length} "
        f"entries. Correct {index}, which counts from 0."
    )


def _chosen(term: BatchTerm, values: Sequence[Variable]) -> Generator[Chosen]:
    """Yield what indices that are data choose; rows that are stored are read in blocks."""
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
    outputs = [x for pair in pairs for x in pair]
    # Of stored rows no more is read than indices are made of.
    above = set(ancestors(outputs))
    read = [(column, batch) for column, batch in term.batches if batch in above]
    columns = [_columns_of(index, read) for index, _ in pairs]
    inputs = [*given, *(batch for _, batch in read), term.length]
    function = pytensor.function(inputs, outputs, mode=_OF_SHAPES, on_unused_input="ignore")
    blocks = list(blocks_of(term.n_rows, [column for column, _ in read]))
    with counting("Checking the indices", len(blocks)) as advance:
        for block in blocks:
            count = block.stop - block.start
            rows = [c.read(block).astype(b.type.dtype, copy=False) for c, b in read]
            with np.errstate(all="ignore"):
                found = function(*given.values(), *rows, np.int64(count))
            for index, length, of in zip(found[::2], found[1::2], columns, strict=True):
                chosen = np.atleast_1d(index)
                yield Chosen(chosen, int(length), block.start if len(chosen) == count else None, of)
            advance()


def _columns_of(index: Variable, read: Sequence[tuple[Column, Variable]]) -> list[Column]:
    above = set(ancestors([index]))
    return [column for column, batch in read if batch in above]


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
