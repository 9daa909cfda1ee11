"""The papers' experiments: their scripts, their stored results, and the page that shows them."""

import json
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

import papers
from papers import (
    abstracts,
    data,
    page,
    provenance,
    recorded,
    runner,
    zhang_chi,
)
from papers.report import (
    RESULTS,
    Claim,
    Curve,
    Panel,
    Report,
)
from papers.runner import Size, measured

SCRIPTS = sorted(
    file.stem
    for file in Path(papers.__file__).parent.glob("*.py")
    if "def experiment(" in file.read_text(encoding="utf-8")
)
#: The experiment that the fast tests run, at its smallest size.
SMOKE = "seita_mixture"
STORED = sorted(file.stem for file in RESULTS.glob("*.json"))
#: Scripts whose small results the fast tests compare.
FAST = "korattikara_bound", "zhang_slopes"


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


@pytest.mark.slow
def test_an_experiment_runs_from_data_to_page(tmp_path):
    report = found(SMOKE)
    rows = next(claim for claim in report.claims if claim.what == "Barker: rows a test")
    # The move decides how many rows are read, not how many there are.
    assert rows.reached
    file = tmp_path / "stored.json"
    report.write(file)
    stored = Report.read(file)
    assert page.block("stored", stored) == page.block("stored", report)
    assert f"| Barker | 182.3 ± 11 | {page.measured(rows)} |" in page.block("x", report)


# PyTensor keeps no file of a function that holds a large table of data.
@pytest.mark.filterwarnings("ignore:.*Cannot cache compiled:numba.core.errors.NumbaWarning")
@pytest.mark.slow
@pytest.mark.parametrize("script", [script for script in SCRIPTS if script != SMOKE])
def test_experiments_run(script):
    found(script)


@pytest.mark.parametrize("script", SCRIPTS)
def test_results_are_stored_with_their_record(script):
    run = json.loads((RESULTS / f"{script}.json").read_text(encoding="utf-8"))["run"]
    assert re.match(rf"python -m papers.{script} --(full|published)", run["command"])
    assert run.keys() == provenance.KEYS


def test_a_record_tells_commit_date_machine_and_data():
    report = measured(import_module("papers.korattikara_bound").experiment, Size.SMOKE, 1)
    run = report.run
    assert run.keys() == provenance.KEYS
    assert re.fullmatch(r"[0-9a-f]{12}(, with changes)?|unknown", run["commit"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", run["date"])
    assert re.fullmatch(r".+, \d+ cores", run["machine"])
    assert run["data"] == "none"


def test_data_are_told_apart():
    def seen(*columns):
        provenance.forget()
        for column in columns:
            with pm.Model() as model:
                mu = pm.Normal("mu")
                pm.Normal("y", column * mu, observed=np.arange(3.0))
            provenance.note_data(model)
        return provenance.digests()

    one, other = np.ones(3), np.array([1.0, 1.0, 2.0])
    assert seen(one) == seen(one, one) != seen(other)
    assert len(seen(one, other)) == 3


def test_stored_results_are_never_those_of_stand_ins(monkeypatch, tmp_path):
    monkeypatch.setattr(data, "_required", True)
    for folder in ("", str(tmp_path)):
        monkeypatch.setenv(data.FOLDER, folder)
        with pytest.raises(data.MissingDataError, match=r"mnist_1v7.npz .*papers.prepare"):
            data.ones_and_sevens()
    monkeypatch.delenv(data.FOLDER)
    monkeypatch.setattr(data, "_required", False)
    assert data.stored("covtype.npz") is None
    # Both spellings that store results ask for the real data.
    for option, required in (("--full", True), ("--published", True), ("--quick", False)):
        monkeypatch.setattr("sys.argv", ["script", option])
        monkeypatch.setattr(runner, "measured", _stop)
        with pytest.raises(StopIteration):
            runner.main(recorded.small)
        assert data._required is required


def _stop(*_):
    raise StopIteration


def same_as_recorded(script, monkeypatch):
    """Compare small results with stored ones; :mod:`papers.recorded` writes them anew."""
    monkeypatch.setenv(data.FOLDER, "")
    stored = json.loads(recorded.FILE.read_text(encoding="utf-8"))
    assert sorted(stored) == sorted(recorded.SCRIPTS)
    assert recorded.small(script) == pytest.approx(stored[script], rel=1e-6)


# Samplers are the same as when the results were stored, so that these are not stale.
@pytest.mark.parametrize("script", FAST)
def test_small_results_are_those_recorded(script, monkeypatch):
    same_as_recorded(script, monkeypatch)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*Cannot cache compiled:numba.core.errors.NumbaWarning")
@pytest.mark.parametrize("script", [script for script in recorded.SCRIPTS if script not in FAST])
def test_slower_small_results_are_those_recorded(script, monkeypatch):
    same_as_recorded(script, monkeypatch)


def test_the_pages_show_the_stored_results():
    files = {path: path.read_text(encoding="utf-8") for path in page.INCLUDED.glob("*.md")}
    assert files == page.written()
    pages = "".join(path.read_text(encoding="utf-8") for path in page.PAGES.glob("*.md"))
    included = sorted(re.findall(r"{include} results/(\w+).md", pages))
    assert included == sorted(["abstracts", "mode", *SCRIPTS])
    assert SCRIPTS == STORED


def test_another_result_would_show(monkeypatch, tmp_path):
    report = Report.read(RESULTS / f"{SMOKE}.json")
    first, *others = report.claims
    changed = Claim(first.what, first.published, first.low, first.high, 1e6)
    Report(report.source, [changed, *others], run=report.run).write(tmp_path / f"{SMOKE}.json")
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    assert "| 1,000,000, missed: 140 to 215 |" in page.written()[page.INCLUDED / f"{SMOKE}.md"]


def test_a_claim_is_reached_between_its_limits():
    for limits, reached, missed in (
        ((1.0, 2.0), (1.0, 2.0), (0.99, 2.01, np.nan)),
        ((None, 2.0), (-5.0,), (2.01,)),
        ((1.0, None), (9.0,), (0.99,)),
    ):
        assert all(Claim("", "", *limits, x).reached for x in reached), limits
        assert not any(Claim("", "", *limits, x).reached for x in missed), limits


def test_figures_are_drawn_alike_from_the_same_results(tmp_path):
    lines = [Curve("a", [1.0, 10.0], [1.0, 2.0]), Curve("b", [1.0], [2.0], "points")]
    panel = Panel("rows", "x", "y", lines, log_x=True)
    for name in ("one.svg", "two.svg"):
        page.draw([panel] * 4, tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def says(name, words):
    """Return whether the page of a paper says something."""
    return words in " ".join((page.PAGES / f"{name}.md").read_text(encoding="utf-8").split())


def test_drawn_rows_cost_as_much_as_the_page_says():
    by_time, by_rows = (abstracts.column("korattikara_risk", 0, k) for k in (2, 3))
    levels = [name for name in by_time if name.startswith("ε") and name != "ε = 0.0"]
    cost = [by_rows[name] / by_time[name] for name in levels]
    assert says("korattikara", f"rows take {min(cost):.1f} to {max(cost):.1f} times as long")
    assert says("korattikara", "ε = .01 is slower than all rows, and two ratios are missed by time")
    assert [name for name in levels if by_time[name] < 1.0] == ["ε = 0.01"]
    ratios = [c for c in abstracts.stored("korattikara_risk").claims if "in the time" in c.what]
    assert sum(not ratio.reached for ratio in ratios) == 2


def test_choices_of_chi_cost_as_much_as_the_page_says():
    costs = [abstracts.column("zhang_chi", table, place) for table in (0, 1) for place in (5, 6)]
    for cost in costs:
        near = [cost[name] for name in ("0", zhang_chi.RULE, zhang_chi.AUTO)]
        assert max(near) <= 1.1 * min(near)
    assert says("zhang", "the same rows and seconds for an effective draw, within a tenth")
    rows = costs[2].values()
    assert max(rows) / min(rows) == pytest.approx(4.0, rel=0.05)
    assert says("zhang", "values need up to four times as many rows")
    derived = abstracts.claim("zhang_chi", "rows an effective draw with the derived χ")
    assert derived.measured == pytest.approx(2.5, rel=0.05)
    assert says("zhang", "it needs two and a half times the rows of the rule")
