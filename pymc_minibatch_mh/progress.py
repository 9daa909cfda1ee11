"""One line on the current stage of preparation, where it takes long and somebody watches.

It is shown in terminals, and in notebooks as PyMC's own bars are; logs and pipes stay quiet. There
is one such line in a process at a time, which inner stages share.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from threading import Timer
from typing import ClassVar

from rich import get_console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

#: Seconds after which the line appears.
PATIENCE = 2.0
#: Times a second that it is drawn: seldom, as preparation may be timed.
PER_SECOND = 4.0


@contextmanager
def showing(stage: str) -> Iterator[None]:
    """Show the stages of a block, from :data:`PATIENCE` seconds on, and remove them at its end."""
    if _Line.current is not None or not is_watched():
        report(stage)
        yield
        return
    line = _Line.current = _Line(stage)
    try:
        yield
    finally:
        _Line.current = None
        line.close()


def report(stage: str, text: str = "") -> None:
    """Show the current stage, such as ``report("Newton", "23/60, distance 4.1")``."""
    if _Line.current is not None:
        _Line.current.say(f"{stage} {text}".rstrip())


@contextmanager
def counting(label: str, total: int) -> Iterator[Callable[[], None]]:
    """Show beside the current stage the share of `total` parts; yields a function that counts."""
    with showing(label) if _Line.current is None else nullcontext():
        line, done = _Line.current, 0

        def advance() -> None:
            nonlocal done
            done += 1
            if line is not None:
                line.count(label, done / total)

        yield advance


class _Line:
    """The line, which a timer starts: a compiler that takes a minute reports nothing."""

    current: ClassVar["_Line | None"] = None

    def __init__(self, stage: str) -> None:
        self._stage = stage
        self._display = Progress(
            SpinnerColumn(),
            # Names of variables may look like rich's markup.
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=get_console(),
            transient=True,
            refresh_per_second=PER_SECOND,
        )
        self._task = self._display.add_task(stage, total=None)
        self._timer = Timer(PATIENCE, self._display.start)
        self._timer.daemon = True
        self._timer.start()

    def say(self, stage: str) -> None:
        self._stage = stage
        self._draw(stage)

    def count(self, label: str, share: float) -> None:
        beside = "" if label == self._stage else f" – {label[0].lower()}{label[1:]}"
        self._draw(f"{self._stage}{beside} {share:.0%}")

    def _draw(self, text: str) -> None:
        self._display.update(self._task, description=text)

    def close(self) -> None:
        self._timer.cancel()
        self._timer.join()
        if self._display.live.is_started:
            self._display.stop()


def is_watched() -> bool:
    """Whether a line would be seen: not in logs, nor beside a bar that is already there."""
    if hasattr(sys.stdout, "rich_proxied_file"):
        return False
    console = get_console()
    if console.is_jupyter:
        # Without its widgets, rich shows a warning instead of a line.
        return find_spec("ipywidgets") is not None
    return console.is_interactive
