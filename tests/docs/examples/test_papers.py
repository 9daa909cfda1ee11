"""The papers' experiments: their scripts, their stored results, and the page that shows them."""

import json
import re
import zipfile
from hashlib import sha256
from importlib import import_module
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

import papers
from papers import (
    abstracts,
    data,
    drawing,
    page,
    parts,
    prepare,
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
    Table,
    contours,
    curve,
    histogram,
    mean_sd,
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
#: A record of a run.
RUN = {
    "seconds": 60.0,
    "command": "c",
    **dict.fromkeys(("machine", "date", "commit", "data"), "that"),
}


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


def test_a_run_goes_on_after_its_last_part(tmp_path):
    kept = parts.keep_in(tmp_path / "run", "first")
    provenance.forget()
    provenance.note_digests(["digest"])
    assert parts.part("a", lambda: {"x": np.arange(3.0)})["x"].tolist() == [0.0, 1.0, 2.0]
    provenance.forget()
    kept = parts.keep_in(tmp_path / "run", "second")
    assert parts.part("a", _stop)["x"].tolist() == [0.0, 1.0, 2.0]
    parts.part("b", lambda: {"x": np.zeros(1)})
    assert kept.commits == {"first", "second"}
    assert kept.seconds > 0.0
    assert provenance.digests() == ["digest"]
    parts.discard()
    assert not (tmp_path / "run").exists()
    parts.keep_in(None)
    assert [parts.part("a", lambda: {"x": np.ones(1)})["x"][0] for _ in range(2)] == [1.0, 1.0]


def test_originals_are_known_by_their_checksums(monkeypatch, tmp_path):
    images = np.arange(5 * 4, dtype=np.uint8).reshape(5, 4)
    labels = np.array([1, 7, 9, 7, 1], np.uint8)
    files = {}
    for names in (prepare.MNIST[:2], prepare.MNIST[2:]):
        files[names[0]] = bytes(16) + images.tobytes()
        files[names[1]] = bytes(8) + labels.tobytes()
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name, content in files.items():
            archive.writestr(f"inside/{name}", content)
    with pytest.raises(ValueError, match="is not the original"):
        prepare.originals([tmp_path / "a.zip"])
    digests = {name: sha256(content).hexdigest() for name, content in files.items()}
    monkeypatch.setattr(prepare, "ORIGINALS", digests)
    made = prepare.digits(prepare.originals([tmp_path / "a.zip"]), 1, 7)
    assert made["y_train"].tolist() == [0, 1, 1, 0]
    assert np.array_equal(made["X_test"], images[labels != 9])


def test_covertype_is_read_from_its_columns():
    columns = len(prepare.MEASURED) + prepare.AREAS + prepare.SOILS + 1
    row = np.zeros((2, columns), int)
    row[:, 0], row[0, 11], row[1, 13], row[:, 53], row[:, -1] = 2_596, 1, 1, 1, (5, 2)
    text = ",".join(["name"] * columns) + "\n" + "\n".join(",".join(map(str, r)) for r in row)
    made = prepare.covertype({prepare.COVERTYPE: text.encode()})
    assert made["X"][:, 0].tolist() == [2_596, 2_596]
    assert made["wilderness"].tolist() == [2, 4]
    assert made["soil"].tolist() == [40, 40]
    assert made["cover_type"].tolist() == [5, 2]


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
    line = curve("line", np.arange(1_001), np.arange(1_001), sd=np.full(1_001, 2.0))
    assert (line.x[0], line.x[-1], len(line.x)) == (0, 1_000, 200)
    assert (line.low[0], line.high[-1], len(line.low)) == (-2.0, 1_002.0, 200)


def test_contours_enclose_their_share_of_the_mass():
    x = np.linspace(-4.0, 4.0, 161)
    density = np.exp(-0.5 * (x[:, None] ** 2 + x**2))
    (line,) = contours(x, x, density, [0.9])
    # A circle of radius √(2 log 10) has nine tenths of a normal distribution of the plane.
    assert np.hypot(line.x, line.y) == pytest.approx(np.sqrt(2.0 * np.log(10.0)), abs=0.02)


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


def drawn(lines, others, folder):
    """Return the SVG of two panels, whose lines are given as labels, in capitals if dashed."""
    panels = [
        Panel(
            "",
            "x",
            "y",
            [
                Curve(name.lower(), [1.0, 2.0], [1.0, 2.0], "dashed" if name.isupper() else "line")
                for name in names
            ],
        )
        for names in (lines, others)
    ]
    page.draw(panels, folder / "figure.svg")
    return (folder / "figure.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(("second", "legends"), [("abcd", 1), ("dcb", 1), ("Abcd", 2), ("bfg", 2)])
def test_panels_share_a_legend_where_labels_mean_the_same(tmp_path, second, legends):
    text = drawn("abcd", second, tmp_path)
    assert text.count('id="legend_') == legends
    assert text.count(">b</text>") == legends


def test_a_label_has_one_colour_in_all_panels(tmp_path):
    text = drawn("abc", "cxa", tmp_path)
    used = re.findall(r"stroke: (#\w{6}); stroke-width: 1.4", text)
    first, second, third = drawing.COLOURS[:3]
    # Lines of both panels, each followed by its legend; x takes the colour that is free.
    assert used == [first, second, third] * 2 + [third, second, first] * 2


def test_a_figure_in_its_range_is_not_repeated_where_a_table_has_it_beside_the_papers():
    table = Table("Rows", ["test", "published", "ours"], [["x", (182.3, 11.0), (169.0, 3.0)]])
    for published, figure, repeated in (
        ("182.3 ± 11.4", 169.0, False),
        ("182.3", 170.0, True),
        ("181", 169.0, True),
        ("169", 169.0, True),
    ):
        claim = Claim("figure", published, 150.0, 200.0, figure)
        text = page.block("x", Report("", [claim], [table], run=RUN))
        assert ("| figure |" in text) is repeated, published
    missed = Claim("figure", "182.3", 180.0, 200.0, 169.0)
    assert "| figure |" in page.block("x", Report("", [missed], [table], run=RUN))


def test_seconds_of_a_machine_are_stored_and_not_shown():
    head = ["test", "µs an update", "rows", "seconds an effective draw"]
    text = page.measurements(Table("Rows", head, [["x", 3.5, 100.0, 0.25]]))
    assert text == (
        "Rows:\n\n| test | rows | seconds an effective draw |\n| --- | --- | --- |\n"
        "| x | 100 | 0.25 |\n"
    )


def test_evaluated_rows_are_told_where_they_differ_and_lengths_of_runs_are_not():
    head = ["test", "trials", "rows", "evaluated"]
    rows = [["x", 2.0, (10.0, 1.0), 10.0], ["y", 2.0, (10.0, 1.0), 30.0]]
    text = page.measurements(Table("Rows", head, rows))
    assert text == (
        "Rows:\n\n| test | rows (evaluated) |\n| --- | --- |\n| x | 10 ± 1 |\n| y | 10 ± 1 (30) |\n"
    )


def test_readings_that_do_not_count_are_not_counted():
    reading = Claim("figure", "half", 180.0, 200.0, 169.0, chosen=True)
    text = page.block("x", Report("", [reading], run=RUN))
    assert ":::{dropdown} Figures beside the paper's\n" in text
    assert "| figure | half | 169, *set* |" in text
    # What a paper says in words is never left out.
    for published in ("half", "182.3, by time", "-"):
        reading = Claim("figure", published, 180.0, 200.0, 169.0, chosen=True)
        text = page.block("x", Report("", [reading], [Table("", [""], [["x", 169.0]])], run=RUN))
        assert ("| figure |" in text) is (published == "half")


def test_the_table_has_the_numbers_of_the_paper_and_what_missed():
    figures = [("a", "-", 0.5), ("b", "-", 2.0), ("c", "below 1", 0.5), ("d", "0.4 ± 0.1", 0.5)]
    claims = [Claim(what, published, None, 1.0, x) for what, published, x in figures]
    claims.append(Claim("e", "0.3", None, 1.0, 3.0, chosen=True))
    tables = [Table("Rows", ["test", "rows"], [["x", (1.0, 0.5)], ["y", None]])]
    text = page.block("x", Report("", claims, tables, run=RUN))
    assert "3 of 4 figures" in text
    assert "| b | - | 2, missed: ≤ 1 |\n| d | 0.4 ± 0.1 | 0.5 |\n| e | 0.3 | 3, *set* |" in text
    assert "| a |" not in text
    assert "| c |" not in text
    assert "Rows:\n\n| test | rows |\n| --- | --- |\n| x | 1 ± 0.5 |\n| y | - |" in text
    assert "`c`, 1 minutes, that, that, commit that, data that." in text


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


def test_a_block_tells_how_its_results_were_made():
    report = measured(import_module("papers.korattikara_bound").experiment, Size.SMOKE, 2)
    text = page.block("x", report)
    for key in ("command", "machine", "date", "commit", "data"):
        assert str(report.run[key]) in text
