"""Work on chunks of rows, on all cores, with a progress bar where it takes long."""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.progress import Progress

#: Seconds after which a pass shows its progress.
PATIENCE = 2.0


@dataclass(frozen=True)
class Consecutive:
    """The rows from `first` to before `last`, whose numbers are not made before they are used."""

    first: int
    last: int


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
    with ThreadPoolExecutor(os.cpu_count()) as pool, _progress(len(chunks), label) as advance:
        for result in pool.map(run, chunks):
            advance()
            yield result


@contextmanager
def _progress(total: int, label: str) -> Iterator[Callable[[], None]]:
    start, done = time.perf_counter(), 0
    bar = Progress(transient=True)
    bar.disable = not bar.console.is_terminal
    task = bar.add_task(label, total=total)

    def advance() -> None:
        nonlocal done
        done += 1
        if not bar.live.is_started and time.perf_counter() - start > PATIENCE:
            bar.start()
        bar.update(task, completed=done)

    try:
        yield advance
    finally:
        if bar.live.is_started:
            bar.stop()
