import dataclasses
import io
import re

import numpy as np
import pytest
from numba import njit
from rich.console import Console
from rich.live import Live

from pymc_minibatch_mh import progress
from pymc_minibatch_mh.progress import count_parts, number_parts, report_stage, show_progress
from pymc_minibatch_mh.reference.full_data import on_all_cores


@pytest.fixture
def console_of(monkeypatch):
    """Make what is reported appear at once, on a console of some kind."""

    def use(**kind):
        console = Console(file=io.StringIO(), width=100, **kind)
        monkeypatch.setattr(progress, "get_console", lambda: console)
        monkeypatch.setattr(progress, "SECONDS_BEFORE_LINE", 0.0)
        return console

    return use


@pytest.fixture
def terminal(console_of):
    return console_of(force_terminal=True)


def collected(monkeypatch):
    """Collect the texts of the line instead of drawing them."""
    texts = []
    console = Console(file=io.StringIO(), force_terminal=True)
    monkeypatch.setattr(progress, "get_console", lambda: console)
    monkeypatch.setattr(progress, "SECONDS_BEFORE_LINE", 3_600.0)
    monkeypatch.setattr(progress._Line, "_update_display", lambda _, text: texts.append(text))
    return texts


@pytest.fixture
def said(monkeypatch):
    return collected(monkeypatch)


def appeared():
    """Wait until the line is there."""
    progress._Line.current._timer.join()


def shown(console):
    """Return what a console was sent, without colours and movements of the cursor."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", console.file.getvalue())


def test_a_terminal_shows_the_first_and_the_last_that_is_done_and_nothing_afterwards(terminal):
    with show_progress("Searching for the mode"):
        appeared()
        # Names in brackets are no markup.
        report_stage("Newton for beta[red] and beta[/red]", "23/60, distance 4.1")
    assert "Searching for the mode 0:00:00" in shown(terminal)
    assert "beta[red] and beta[/red] 23/60, distance 4.1 0:00:00" in shown(terminal)
    # Back to the start of the line, up, and erased.
    assert terminal.file.getvalue().endswith("\r\x1b[1A\x1b[2K")


@pytest.mark.parametrize(
    "kind", [{"force_terminal": False}, {"force_terminal": True, "force_interactive": False}]
)
def test_logs_and_pipes_stay_quiet(console_of, kind):
    console = console_of(**kind)
    with (
        show_progress("Searching for the mode"),
        count_parts("Evaluating all observations", 2) as advance,
    ):
        report_stage("Newton", "1/60")
        advance()
        assert progress._Line.current is None
    assert shown(console) == ""


@pytest.mark.parametrize("widgets", [True, False])
def test_notebooks_show_the_line_where_they_have_widgets(console_of, monkeypatch, widgets):
    console_of(force_jupyter=True)
    monkeypatch.setattr(progress, "SECONDS_BEFORE_LINE", 3_600.0)
    monkeypatch.setattr(progress, "find_spec", lambda _: object() if widgets else None)
    with show_progress("Searching for the mode"):
        assert (progress._Line.current is not None) == widgets


def test_a_bar_that_is_already_there_is_left_alone(terminal, monkeypatch):
    # Live displays, such as the bar of pm.sample(), replace this process's output by their own.
    monkeypatch.setattr("sys.stdout", io.StringIO())
    bar = Live("the bar of pm.sample()", console=Console(force_terminal=True))
    with bar, show_progress("Searching for the mode"):
        assert progress._Line.current is None
    assert terminal.file.getvalue() == ""


def test_what_is_begun_inside_is_told_in_the_same_line(said):
    with show_progress("Explaining"):
        line = progress._Line.current
        with show_progress("Searching for the mode"):
            assert progress._Line.current is line
            report_stage("Newton", "1/60")
        assert progress._Line.current is line
    assert said == ["Searching for the mode", "Newton 1/60"]


def test_an_error_takes_the_line_with_it(terminal):

    @show_progress("Searching for the mode")
    def fail():
        appeared()
        raise ValueError("as in the test")

    with pytest.raises(ValueError, match="as in the test"):
        fail()
    assert progress._Line.current is None
    report_stage("Newton", "1/60")
    assert "Newton" not in shown(terminal)


def added(x):
    return x + 1.0


def test_functions_that_are_compiled_are_named_instead_of_the_stage_that_needs_them(monkeypatch):
    said = collected(monkeypatch)
    with show_progress("Explaining"):
        report_stage("Newton", "1/60")
        njit(added)(1.0)
        with show_progress("Reading the model"):
            number_parts("Reading the model", "Bounding", "Preparing updates")
            report_stage("Bounding")
            njit(added)(1.0)
            report_stage("Newton")
            njit(added)(1.0)
        njit(added)(1.0)
    once = "Compiling functions for this model, once"
    assert said == [
        *["Newton 1/60", once, "Newton 1/60"],
        *["Reading the model", "Bounding", f"{once} (2 of 3)", "Bounding"],
        *["Newton", f"{once} (2 of 3)", "Newton", once, "Newton"],
    ]


@pytest.mark.parametrize(
    ("taken", "left"),
    [(1.0, ""), (10.0, ", about 30 s left"), (100.0, ", about 5 min left")],
    ids=["short", "seconds", "minutes"],
)
def test_long_work_says_how_much_time_is_left(monkeypatch, taken, left):
    said, times = collected(monkeypatch), iter([0.0, taken])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(times))
    with show_progress("Explaining"), count_parts("Pilot", 4) as advance:
        advance()
    assert said == [f"Explaining – pilot 25%{left}"]


def test_a_pass_says_how_far_it_is_beside_what_it_is_for(said):
    chunks = [np.arange(3), np.arange(3, 5)]
    with show_progress("Newton 2/60"):
        assert list(on_all_cores(np.sum, chunks)) == [3, 7]
        report_stage("Bounding all observations")
        assert list(on_all_cores(np.sum, chunks, "Bounding all observations")) == [3, 7]
    assert said == [
        "Newton 2/60 – evaluating all observations 50%",
        "Newton 2/60 – evaluating all observations 100%",
        "Bounding all observations",
        "Bounding all observations 50%",
        "Bounding all observations 100%",
    ]


def test_passes_inside_of_counted_work_leave_its_share_in_the_line(said):
    with show_progress("Audit"), count_parts("Evaluating pairs", 2) as pair:
        for _ in range(2):
            with count_parts("Reading all rows", 4) as row:
                row()
            pair()
    with show_progress("Audit"), count_parts("Reading all rows", 4) as row:
        row()
    assert said == [
        "Audit – evaluating pairs 50%",
        "Audit – evaluating pairs 100%",
        "Audit – reading all rows 25%",
    ]


def test_preparing_a_step_says_what_it_does(said, prepared):
    step = prepared("logistic", "TunaMH")
    with show_progress("Reading the model"):
        step.target.expand(np.zeros(3), np.random.default_rng(0))
        dataclasses.replace(step.plan, tables=None).completed()
    assert {
        "Searching for the mode",
        "Expanding the log-likelihood",
        "Bounding all observations",
    } <= {*said}
