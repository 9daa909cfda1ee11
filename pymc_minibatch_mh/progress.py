"""One line of progress with the current stage of preparation, for interactive use.

The line appears in terminals, and in notebooks that show PyMC's bars; logs and pipes stay quiet. A
process has a single line, shared by nested stages.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from threading import Timer
from typing import ClassVar

from rich import get_console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

#: Seconds before the line appears. Imports before it may take as long, and the screen should not
#: be empty for more than two seconds.
SECONDS_BEFORE_LINE = 1.0
#: Refreshes per second: few, so that they hardly slow preparation, which may be timed.
REFRESHES_PER_SECOND = 4.0
#: Minimum estimate in seconds for showing the time left.
MIN_SECONDS_LEFT = 5.0


@contextmanager
def show_progress(stage: str) -> Iterator[None]:
    """Show the stages of a block that takes more than :data:`SECONDS_BEFORE_LINE`."""
    if _Line.current is not None or not is_watched():
        report_stage(stage)
        yield
        number_parts()
        return
    line = _Line.current = _Line(stage)
    try:
        yield
    finally:
        _Line.current = None
        line.close()


def report_stage(stage: str, text: str = "") -> None:
    """Show the current stage, such as ``report_stage("Newton", "23/60, distance 4.1")``."""
    if _Line.current is not None:
        _Line.current.set_text(f"{stage} {text}".rstrip())


def number_parts(*stages: str) -> None:
    """Number the parts of a model's compilation in the progress line, from the current stage on.

    Each of the `stages` begins a part; without stages the numbering stops.
    """
    if _Line.current is not None:
        _Line.current.parts = stages
        _Line.current.part = 1


def show_compiling(active: bool) -> None:
    """Show compilation instead of the stage that needs it, or end this display."""
    if _Line.current is not None:
        _Line.current.compile(active)


@contextmanager
def count_parts(label: str, total: int) -> Iterator[Callable[[], None]]:
    """Show the progress of `total` parts beside the current stage, and the time left if it is long.

    Yields a function that counts one part. Nested counts are ignored: the line shows the outer
    count.
    """
    with show_progress(label) if _Line.current is None else nullcontext():
        line = _Line.current
        line = None if line is None or line.counts else line
        done, began = 0, time.monotonic()

        def count_part() -> None:
            nonlocal done
            done += 1
            if line is not None:
                left = (time.monotonic() - began) * (total - done) / done
                line.count(label, done / total, left)

        if line is None:
            yield count_part
            return
        line.counts = True
        try:
            yield count_part
        finally:
            line.counts = False


def time_left(seconds: float) -> str:
    """Text such as ", about 40 s left"; empty for short times."""
    if seconds < MIN_SECONDS_LEFT:
        return ""
    amount = f"{seconds:.0f} s" if seconds < 100.0 else f"{seconds / 60.0:.0f} min"
    return f", about {amount} left"


class _Line:
    """The line of progress; a timer starts it, because a long compilation reports nothing."""

    current: ClassVar["_Line | None"] = None

    def __init__(self, stage: str) -> None:
        self._stage = self._text = stage
        self._compiles = self.counts = False
        self.parts: tuple[str, ...] = ()
        self.part = 1
        self._display = Progress(
            SpinnerColumn(),
            # Without markup, because names of variables may look like rich's markup.
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=get_console(),
            transient=True,
            refresh_per_second=REFRESHES_PER_SECOND,
        )
        self._task = self._display.add_task(stage, total=None)
        self._timer = Timer(SECONDS_BEFORE_LINE, self._display.start)
        self._timer.daemon = True
        self._timer.start()

    def set_text(self, stage: str) -> None:
        self._stage = self._text = stage
        if stage in self.parts:
            self.part = 1 + self.parts.index(stage)
        self._show_line()

    def count(self, label: str, share: float, left: float) -> None:
        beside = "" if label == self._stage else f" – {label[0].lower()}{label[1:]}"
        self._text = f"{self._stage}{beside} {share:.0%}{time_left(left)}"
        self._show_line()

    def compile(self, active: bool) -> None:
        self._compiles = active
        self._show_line()

    def _show_line(self) -> None:
        part = f" ({self.part} of {len(self.parts)})" if self.parts else ""
        words = f"Compiling functions for this model, once{part}"
        self._update_display(words if self._compiles else self._text)

    def _update_display(self, text: str) -> None:
        self._display.update(self._task, description=text)

    def close(self) -> None:
        self._timer.cancel()
        self._timer.join()
        if self._display.live.is_started:
            self._display.stop()


def is_watched() -> bool:
    """Whether a line would be visible: not in logs, nor if another bar is shown."""
    if hasattr(sys.stdout, "rich_proxied_file"):
        return False
    console = get_console()
    if console.is_jupyter:
        # Without its notebook widgets, rich shows a warning instead of a line.
        return find_spec("ipywidgets") is not None
    return console.is_interactive
