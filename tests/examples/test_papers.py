"""The papers' experiments: their scripts, their stored results, and the page that shows them."""

import json
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import papers
from every import every
from papers import page
from papers.report import RESULTS, Claim, Curve, Panel, Report, curve, histogram, mean_sd
from papers.runner import Size, measured

SCRIPTS = sorted(
    file.stem
    for file in Path(papers.__file__).parent.glob("*.py")
    if "def experiment(" in file.read_text(encoding="utf-8")
)
#: The experiment that the fast tests run, at its smallest size.
SMOKE = "seita_mixture"
STORED = sorted(file.stem for file in RESULTS.glob("*.json"))


def found(script):
    """Run an experiment at its smallest size, and check what it found in form."""
    report = measured(import_module(f"papers.{script}").experiment, Size.SMOKE, 1)
    assert report.claims or report.tables
    for each in report.tables:
        assert all(len(row) == len(each.head) for row in each.rows)
    for claim in report.claims:
        assert np.isfinite(claim.measured), claim
    for panel in report.panels:
        assert all(np.isfinite([c.x, c.y]).all() and len(c.x) > 0 for c in panel.curves)
    return report


def test_an_experiment_runs_from_data_to_page(tmp_path):
    report = found(SMOKE)
    rows = next(claim for claim in report.claims if claim.what == "Barker: rows a test")
    # The move decides how many rows are read, not how many there are.
    assert rows.reached
    file = tmp_path / "stored.json"
    report.write(file)
    stored = Report.read(file)
    assert page.block("stored", stored) == page.block("stored", report)
    assert f"| Barker: rows a test | {rows.published} | {page.measured(rows)} |" in page.block(
        "x", report
    )


# PyTensor keeps no file of a function that holds a large table of data.
@pytest.mark.filterwarnings("ignore:.*Cannot cache compiled:numba.core.errors.NumbaWarning")
@pytest.mark.slow
@pytest.mark.parametrize("script", [script for script in SCRIPTS if script != SMOKE])
def test_experiments_run(script):
    found(script)


@every("script", SCRIPTS)
def test_results_are_stored_with_command_and_seed(script):
    stored = json.loads((RESULTS / f"{script}.json").read_text(encoding="utf-8"))
    assert stored["run"]["command"].startswith(f"python -m papers.{script} --full")
    assert stored["run"].keys() == {"command", "seed", "seconds", "python", "versions"}


def test_the_pages_show_the_stored_results():
    files = {path: path.read_text(encoding="utf-8") for path in page.INCLUDED.glob("*.md")}
    assert files == page.written()
    pages = "".join(path.read_text(encoding="utf-8") for path in page.PAGES.glob("*.md"))
    assert sorted(re.findall(r"{include} results/(\w+).md", pages)) == SCRIPTS == STORED


def test_all_of_it_takes_four_hours_at_most():
    reports = [Report.read(RESULTS / f"{script}.json") for script in SCRIPTS]
    assert sum(report.run["seconds"] for report in reports) <= 4 * 3_600


def test_another_result_would_show(monkeypatch, tmp_path):
    report = Report.read(RESULTS / f"{SMOKE}.json")
    first, *others = report.claims
    changed = Claim(first.what, first.published, first.low, first.high, 1e6)
    Report(report.source, [changed, *others], run=report.run).write(tmp_path / f"{SMOKE}.json")
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    (text,) = page.written().values()
    assert "| 1,000,000, missed: 140 to 215 |" in text


def test_a_claim_is_reached_between_its_limits():
    for limits, reached, missed in (
        ((1.0, 2.0), (1.0, 2.0), (0.99, 2.01, np.nan)),
        ((None, 2.0), (-5.0,), (2.01,)),
        ((1.0, None), (9.0,), (0.99,)),
    ):
        assert all(Claim("", "", *limits, x).reached for x in reached), limits
        assert not any(Claim("", "", *limits, x).reached for x in missed), limits


def test_numbers_are_written_with_the_digits_that_count():
    numbers = (0.0, 182.34, 65_758.9, -1_307.0, 0.0047, 5.4e-8, 3e7)
    words = "0", "182.3", "65,759", "-1,307", "0.0047", "5.40e-8", "3.00e7"
    assert tuple(map(page.number, numbers)) == words


def test_means_are_given_with_deviations_over_trials():
    assert mean_sd([1.0, 3.0]) == (2.0, pytest.approx(np.sqrt(2.0)))
    assert mean_sd([1.0]) == (1.0, 0.0)
    assert page.spread(182.31, 11.42) == "182.3 ± 11"
    assert page.spread(2.0, 0.0) == "2"


def test_long_curves_are_thinned_evenly():
    line = curve("line", np.arange(1_001), np.arange(1_001))
    assert (line.x[0], line.x[-1], len(line.x)) == (0, 1_000, 200)


def test_histograms_share_out_all_values():
    values = np.random.default_rng(1).lognormal(5.0, 1.0, 1_000)
    assert sum(histogram("", values).y) == pytest.approx(1.0)
    assert sum(histogram("", np.full(10, 100)).y) == pytest.approx(1.0)


def test_figures_are_drawn_alike_from_the_same_results(tmp_path):
    lines = [Curve("a", [1.0, 10.0], [1.0, 2.0]), Curve("b", [1.0], [2.0], "points")]
    panel = Panel("rows", "x", "y", lines, log_x=True)
    for name in ("one.svg", "two.svg"):
        page.draw([panel] * 4, tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_the_table_has_the_numbers_of_the_paper_and_what_missed():
    figures = [("a", "-", 0.5), ("b", "-", 2.0), ("c", "below 1", 0.5), ("d", "0.4 ± 0.1", 0.5)]
    claims = [Claim(what, published, None, 1.0, x) for what, published, x in figures]
    text = page.block("x", Report("", claims, run={"seconds": 60.0, "command": "c"}))
    assert "3 of 4 figures" in text
    assert "| b | - | 2, missed: ≤ 1 |\n| d | 0.4 ± 0.1 | 0.5 |" in text
    assert "| a |" not in text
    assert "| c |" not in text
