"""Work on chunks of rows, on all cores; where it takes long, it says how far it is."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_minibatch_mh.progress import counting


@dataclass(frozen=True)
class Consecutive:
    """The rows from `first` to before `last`, whose numbers are not made before they are used."""

    first: int
    last: int


def chunks_of(n_rows: int, step: int, start: int = 0) -> list[Consecutive]:
    """Return all rows from `start` on, some consecutive ones at a time."""
    starts = range(start, n_rows, step)
    return [Consecutive(first, min(first + step, n_rows)) for first in starts]


def on_all_cores(
    work: Callable[[Any], Any], chunks: list[Any], label: str = "Reading all rows"
) -> Iterator[Any]:
    """Yield what `work` returns for each chunk of row numbers, in their order."""

    def run(chunk: Any) -> Any:
        if isinstance(chunk, Consecutive):
            chunk = np.arange(chunk.first, chunk.last, dtype=np.int64)
        return work(chunk)

    if len(chunks) == 1:
        yield run(chunks[0])
        return
    with ThreadPoolExecutor(os.cpu_count()) as pool, counting(label, len(chunks)) as advance:
        for result in pool.map(run, chunks):
            advance()
            yield result
