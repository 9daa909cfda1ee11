"""Work on chunks of rows: on all cores, or where the rows are; it says how far it is."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from pymc_minibatch_mh.data import ArrayRows
from pymc_minibatch_mh.data.stored import StoredRows
from pymc_minibatch_mh.progress import counting
from pymc_minibatch_mh.threads import in_threads

READING = "Reading all rows"
#: Rows for which it is not worth to begin another chunk.
LEAST = 32_768


@dataclass(frozen=True)
class Consecutive:
    """The rows from `first` to before `last`, whose numbers are not made before they are used."""

    first: int
    last: int

    @property
    def numbers(self) -> np.ndarray:
        """Their numbers, int64."""
        return np.arange(self.first, self.last, dtype=np.int64)


#: Some rows.
Chunk = Consecutive | np.ndarray


def chunks_of(
    n_rows: int, step: int, start: int = 0, cuts: Sequence[int] = (), whole: int = 1
) -> list[Consecutive]:
    """Return all rows from `start` on, some consecutive ones at a time.

    Parameters
    ----------
    n_rows
        Number of all rows.
    step
        Most rows at a time.
    start
        First row.
    cuts
        Where rows begin that lie elsewhere than those before: no chunk has rows of both, unless
        few of either.
    whole
        Chunks begin at a multiple of this after `start`, which divides `step`.
    """
    ends, least = [start], min(LEAST, step)
    for cut in (start + (place - start) // whole * whole for place in cuts if place > start):
        if cut - ends[-1] >= least and n_rows - cut >= least:
            ends.append(cut)
    ends.append(n_rows)
    return [
        Consecutive(first, min(first + step, end))
        for begin, end in pairwise(ends)
        for first in range(begin, end, step)
    ]


class RowWork(Protocol):
    """What finds something of rows; it is pickled to where stored rows are."""

    def of_rows(self, rows: np.ndarray, asked: Any) -> Any:
        """Return what is asked of rows by their numbers, which are read here."""

    def of_read(self, read: ArrayRows, asked: Any) -> Any:
        """Return what is asked of rows that were read, in whatever process."""


def over_rows(
    work: RowWork, source: ArrayRows, asked: Sequence[tuple[Chunk, Any]], label: str = READING
) -> Iterator[Any]:
    """Yield what `work` finds of chunks of rows, in their order, where the rows are.

    Parameters
    ----------
    work
        What finds it.
    source
        The rows.
    asked
        Chunks, and what is asked of each; the rows of a chunk in their order.
    label
        What is said while it takes long.
    """
    if not (isinstance(source, StoredRows) and source.has_workers):
        yield from on_all_cores(lambda one: work.of_rows(_numbers(one[0]), one[1]), asked, label)
        return
    parts = [slice(x.first, x.last) if isinstance(x, Consecutive) else x for x, _ in asked]
    results = source.computed(work, parts, [what for _, what in asked])
    if len(asked) == 1:
        yield from results
        return
    with counting(label, len(asked)) as advance:
        for found in results:
            advance()
            yield found


def _numbers(chunk: Chunk) -> np.ndarray:
    return chunk.numbers if isinstance(chunk, Consecutive) else chunk


def on_all_cores(
    work: Callable[[Any], Any], chunks: Sequence[Any], label: str = READING
) -> Iterator[Any]:
    """Yield what `work` returns for each chunk, in their order."""
    if len(chunks) == 1:
        yield work(chunks[0])
        return
    with counting(label, len(chunks)) as advance, closing(in_threads(work, chunks)) as results:
        for result in results:
            advance()
            yield result
