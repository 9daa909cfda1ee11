"""Checks for out-of-range indices, which compiled code would not notice.

Indices in memory may count from the end, as in NumPy. Indices of stored rows may not: nobody has
checked all of them, and -1 is pandas' code for a missing category.
"""

import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
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
from pymc_minibatch_mh.data.source import Block, StoredArray, StoredRows, map_blocks
from pymc_minibatch_mh.errors import UnsupportedModelError
from pymc_minibatch_mh.model.independence import Likelihood
from pymc_minibatch_mh.model.stored_ops import explain_missing_group, row_blocks
from pymc_minibatch_mh.progress import count_parts

#: Mode without compilation, which computes no values where shapes suffice.
_OF_SHAPES = Mode(linker="py", optimizer="fast_compile")


def require_indices_in_range(term: Likelihood, values: Sequence[Variable]) -> None:
    """Raise an error if an observation of the term has an out-of-range index."""
    indices = _term_indices(term, values)
    if indices is None:
        return
    blocks = list(row_blocks(term.n_rows, indices.columns))
    with (
        count_parts("Checking the indices", len(blocks)) as advance,
        closing(indices.wrong_in(blocks)) as found,
    ):
        for block, wrong in zip(blocks, found, strict=True):
            if wrong is not None:
                raise _index_error(term.name, wrong, block.start, indices)
            advance()


class OutOfRangeIndex(NamedTuple):
    """An out-of-range index: its number, value, axis length, and row (None if common to all)."""

    number: int
    entry: int
    length: int
    row: int | None


#: Functions of PyTensor have one memory for their results, and blocks are checked in threads.
_IN_PYTENSOR = threading.Lock()


@dataclass(frozen=True, eq=False)
class TermIndices:
    """Indices of a term's rows as graphs of data, which can be evaluated where data are stored.

    `chosen` holds triples: an index, its smallest allowed value and the length of its axis.
    """

    chosen: Sequence[tuple[Variable, Variable, Variable]]
    given: Sequence[Variable]
    columns: Sequence[Column]
    batches: Sequence[Variable]
    count: Variable

    def __reduce__(self) -> tuple:
        stored = [Column(column.name, None, column.axis) for column in self.columns]
        return TermIndices, (self.chosen, self.given, stored, self.batches, self.count)

    @cached_property
    def _index_function(self) -> Any:
        inputs = [*self.given, *self.batches, self.count]
        outputs = [x for bounded in self.chosen for x in bounded]
        return pytensor.function(inputs, outputs, mode=_OF_SHAPES, on_unused_input="ignore")

    def wrong_in(self, blocks: Sequence[slice]) -> Generator[OutOfRangeIndex | None]:
        """First out-of-range index of each block."""
        stored = [column.values for column in self.columns]
        if not (stored and isinstance(stored[0], StoredArray)):
            for block in blocks:
                rows = [column.read(block) for column in self.columns]
                yield self.first_wrong(rows, block.stop - block.start)
            return
        names = [array.name for array in stored]
        calls: list[Block] = [
            (rows, partial(_raise_first_wrong, names, rows.stop - rows.start)) for rows in blocks
        ]
        yield from map_blocks(stored[0].storage, dict.fromkeys(names), self, calls)

    def first_wrong(self, rows: Sequence[np.ndarray], count: int) -> OutOfRangeIndex | None:
        """First out-of-range index among rows in memory."""
        given = [np.zeros(value.type.shape) for value in self.given]
        pairs = zip(rows, self.batches, strict=True)
        typed = [values.astype(batch.type.dtype, copy=False) for values, batch in pairs]
        with np.errstate(all="ignore"), _IN_PYTENSOR:
            found = self._index_function(*given, *typed, np.int64(count))
        bounded = zip(found[::3], found[1::3], found[2::3], strict=True)
        for number, (index, lowest, length) in enumerate(bounded):
            entries = np.atleast_1d(index)
            wrong = (entries < lowest) | (entries >= length)
            if wrong.any():
                first = np.unravel_index(np.argmax(wrong), wrong.shape)
                row = int(first[0]) if len(entries) == count else None
                return OutOfRangeIndex(number, int(entries[first]), int(length), row)
        return None

    def columns_of(self, number: int) -> tuple[Column, ...]:
        """Columns in storage that an index is computed from."""
        above = set(ancestors([self.chosen[number][0]]))
        pairs = zip(self.columns, self.batches, strict=True)
        made_of = (column for column, batch in pairs if batch in above)
        return tuple(column for column in made_of if isinstance(column.values, StoredArray))


def _raise_first_wrong(
    names: Sequence[str], count: int, indices: TermIndices, arrays: Mapping[str, np.ndarray]
) -> OutOfRangeIndex | None:
    return indices.first_wrong([arrays[name] for name in names], count)


def _index_error(
    name: str, wrong: OutOfRangeIndex, first: int, indices: TermIndices
) -> UnsupportedModelError:
    stored = indices.columns_of(wrong.number)
    row, index = "", "the index"
    if wrong.row is not None:
        number = first + wrong.row
        row = f" in row {number}{StoredRows(stored).place(number) if stored else ''}"
    if stored:
        index = ", ".join(repr(column.name) for column in stored)
    return UnsupportedModelError(
        f"{name!r} uses entry {wrong.entry}{row} of an array with {wrong.length} entries. Correct "
        f"{index}, which counts from 0.{explain_missing_group(wrong.entry) if stored else ''}"
    )


def _term_indices(term: Likelihood, values: Sequence[Variable]) -> TermIndices | None:
    stored = {batch for column, batch in term.batches if isinstance(column.values, StoredArray)}
    chosen = []
    for node in toposort([term.logp]):
        if not isinstance(node.op, AdvancedSubtensor):
            continue
        array = node.inputs[0]
        for axis, index in enumerate(indices_from_subtensor(node.inputs[1:], node.op.idx_list)):
            if not isinstance(index, Variable) or index.type.dtype not in integer_dtypes:
                continue
            above = set(ancestors([index]))
            if above.isdisjoint(values):
                # Use the type's length if known: the array may be undefined at zero parameters.
                static = array.type.shape[axis]
                length = array.shape[axis] if static is None else pt.constant(np.int64(static))
                from_start = not stored.isdisjoint(above)
                chosen.append((index, pt.zeros_like(length) if from_start else -length, length))
    if not chosen:
        return None
    # Only the columns behind indices are read.
    above = set(ancestors([x for bounded in chosen for x in bounded]))
    read = [(column, batch) for column, batch in term.batches if batch in above]
    columns, batches = [column for column, _ in read], [batch for _, batch in read]
    return TermIndices(chosen, list(values), columns, batches, term.length)
