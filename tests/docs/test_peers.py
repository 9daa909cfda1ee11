"""The comparison with other libraries: what is run, what is made of it, and what the page shows.

None of the other libraries is needed: what runs here is ours and PyMC's.
"""

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import peers, peers_cell, peers_page, peers_problems, peers_pymc
from benchmarks.peers_mode import NoModeError, mode
from benchmarks.peers_run import Clock, OutOfTimeError, Task

CELLS = [("a", "x"), ("a", "y"), ("b", "x")]
TINY = peers_problems.Problem(
    "",
    "logistic",
    2_000,
    lambda: peers_problems.logistic(2_000, 2),
    ours=400,
    driver=1_000,
    nuts=50,
)


def of(problem, sampler, **figures):
    """Return a stored run with a warm-up of a second and 1,000 draws in two."""
    seconds = {"import": 1.0, "compile": 2.0, "setup": 3.0, "tune": 1.0, "sampling": 2.0}
    return {
        "problem": problem, "sampler": sampler, "status": "ok", "cold": False, "budget": 60.0,
        "jobs": 1, "share": 1.0, "seconds": seconds | {"total": 9.0}, "draws": 1_000,
        "bulk": 500.0, "tail": 400.0, "mean": [0.0, 1.0], "sd": [1.0, 2.0], "peak": 300.0,
        "processor": "p", "versions": {"numpy": "2"}, "note": {},
    } | figures  # fmt: skip


def made(runs=(), cells=CELLS, repeats=3, status="ok"):
    """Return the cells that are run, one after the other, and all runs."""
    settings, runs, order = peers.Settings(None, cells, None, repeats=repeats), [*runs], []
    while (cell := peers.next_cell(runs, settings)) is not None:
        order.append(cell)
        runs.append(of(*cell, status=status, cold=not peers.of(runs, cell)))
    return order, runs


def test_the_script_names_all_problems_and_samplers():
    assert sorted(peers.PROBLEMS) == sorted(peers_problems.PROBLEMS)
    assert sorted(peers.SAMPLERS) == sorted(peers_cell.SAMPLERS)
    assert sorted(peers.SAMPLERS) == sorted([*peers_page.TITLES, peers.REFERENCE])
    assert {*peers_page.OURS, *peers_page.PEERS, "advi"} == set(peers_page.TITLES)


def test_cells_are_chosen_by_patterns():
    assert peers.cells_like(["flights:hmcecs-*"]) == [
        ("flights", f"hmcecs-{rows}") for rows in (30, 300, 100)
    ]
    assert len(peers.cells_like(["*"])) == len(peers.PROBLEMS) * len(peers.SAMPLERS)
    with pytest.raises(SystemExit, match=r"no cell is like flihgts:\*"):
        peers.cells_like(["flihgts:*"])


def test_turns_alternate_the_first_does_not_count_and_one_reference_is_enough():
    assert made(repeats=2)[0] == [*CELLS, *CELLS[::-1], *CELLS]
    assert made(repeats=2, status="limit")[0] == CELLS
    assert made(cells=[("a", "reference")])[0] == [("a", "reference")]


def test_a_cut_run_goes_on_where_it_was_and_failed_runs_are_made_again(tmp_path):
    file = tmp_path / "out.json"
    _, runs = made(repeats=1)
    peers.store([*runs[:4], of("b", "x", status="failed")], file)
    again = peers.stored(file)
    assert again == runs[:4]
    assert made(again, repeats=1)[0] == CELLS[1::-1]
    # Lines of the file are runs.
    assert len(file.read_text().splitlines()) == 1 + 5


def test_a_run_has_one_thread_its_own_caches_and_the_repository(tmp_path):
    given = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": "/wheels", "PYTENSOR_FLAGS": "a=b"}
    found = peers.environment(tmp_path, given)
    assert "PYTHONDONTWRITEBYTECODE" not in found
    assert {found[name] for name in peers.THREADS} == {"1"}
    assert found["PYTHONPATH"].split(":") == [
        str(peers.ROOT), str(peers.ROOT / "tests"), str(peers.ROOT / "examples"), "/wheels",
    ]  # fmt: skip
    assert found["PYTENSOR_FLAGS"] == f"a=b,base_compiledir={tmp_path / 'pytensor'}"
    assert found["JAX_ENABLE_X64"] == "1"


def test_a_clock_counts_nested_compilation_once():
    clock = Clock(1.0)
    with clock.compilation():
        with clock.compilation():
            time.sleep(0.02)
        clock.told(5.0)
    assert 0.02 <= clock.compiling < 0.5
    clock.told(5.0)
    # What is compiled takes nothing from the budget.
    assert clock.compiling > 5.0
    assert clock.left > 0.9


@pytest.mark.parametrize("name", ["driver", "tuna"])
def test_a_cell_of_ours_runs(name):
    found = peers_cell.measure(TINY, peers_cell.SAMPLERS[name], 60.0, 1)
    assert found["status"] == "ok"
    assert found["draws"] == (1_000 if name == "driver" else 400)
    assert 50 < found["bulk"] < 2_000
    assert len(found["mean"]) == len(found["sd"]) == 2
    seconds = found["seconds"]
    assert all(part >= 0.0 for part in seconds.values())
    assert 0.0 < seconds["sampling"] < seconds["total"]
    assert found["peak"] > 50.0
    json.dumps(found, allow_nan=False)


def task(**settings):
    problem = replace(TINY, **settings)
    return Task(problem, problem.data(), Clock(60.0), 1)


@pytest.mark.slow
def test_metropolis_moves_all_coordinates_at_once(monkeypatch):
    monkeypatch.setattr(peers_pymc, "METROPOLIS_TUNE", 200)
    monkeypatch.setattr(peers_pymc, "METROPOLIS_DRAWS", 300)
    run = peers_pymc.metropolis(task())
    moved = np.diff(run.draws["beta"], axis=0) != 0.0
    assert (moved[:, 0] == moved[:, 1]).all()
    assert 0.2 < moved.mean() < 0.6


def test_a_run_that_is_out_of_time_keeps_its_draws_or_says_so():
    asked = task(nuts=300)
    asked.clock.budget = -1e9
    with pytest.raises(OutOfTimeError):
        peers_pymc.nuts(asked)
    found = peers_cell.measure(TINY, peers_cell.SAMPLERS["pymc"], -1e9, 1)
    assert found["status"] == "limit"
    assert "bulk" not in found


def test_the_laplace_approximation_is_at_the_mode():
    start, covariance = peers_pymc.laplace(peers_pymc.model_of(task()), 1, Clock(60.0))
    x, y = TINY.data().values()
    p = 1.0 / (1.0 + np.exp(-x @ start["beta"]))
    gradient = x.T @ (y - p) - start["beta"] / 2.5**2
    exact = np.linalg.inv((x * (p * (1 - p))[:, None]).T @ x + np.eye(2) / 2.5**2)
    assert gradient @ exact @ gradient < 1e-6
    np.testing.assert_allclose(covariance, exact, rtol=1e-3)


def test_where_there_is_no_mode_none_is_returned():
    with pytest.raises(NoModeError, match="no mode was found"):
        mode(lambda x: (-float(x.sum()), -np.ones(2)), lambda x: -np.eye(2), np.zeros(2))


def test_draws_are_summed_up_in_the_order_of_the_unknowns():
    rng = np.random.default_rng(1)
    draws = {"b": rng.normal(3.0, 1.0, 500), "a": rng.normal([1.0, 2.0], 1.0, (500, 2))}
    found = peers_cell.summary(draws, ("a", "b"))
    np.testing.assert_allclose(found["mean"], [1.0, 2.0, 3.0], atol=0.2)
    assert 300 < found["bulk"] < 800
    assert peers_cell.summary({"a": np.ones(5)}, ("a",))["bulk"] is None
    assert peers_cell.summary({"a": np.ones(50)}, ("a",))["bulk"] == 1.0


def test_seconds_to_enough_draws_include_imports_and_compilation():
    assert peers_page.seconds_to_enough(of("a", "x")) == 1.0 + 2.0 + 3.0 + 1.0 + 1_000 * 2.0 / 500.0


FLIGHTS = [
    of("flights", "reference"),
    of("flights", "driver", cold=True, bulk=900.0),
    of("flights", "driver", mean=[0.02, 1.0], sd=[1.0, 1.9]),
    of("flights", "hmcecs-30", bulk=5_000.0, mean=[0.5, 1.0]),
    of("flights", "hmcecs-100", bulk=200.0),
    of("flights", "hmcecs-300", cold=True, bulk=1.3, mean=[3.0, 1.0]),
    of("flights", "hmcecs-300", bulk=9_000.0),
    of("flights", "numpyro", cold=True, status="limit", bulk=10.0),
    {"problem": "flights", "sampler": "pymc", "status": "limit", "cold": True, "budget": 60.0,
     "jobs": 1},
    {"problem": "flights", "sampler": "metropolis", "status": "inapplicable", "cold": True,
     "budget": 60.0, "jobs": 1},
]  # fmt: skip


def test_the_tables_are_made_of_medians_and_compare_with_what_is_right():
    page = peers_page.block(FLIGHTS)
    lines = {x.split(" | ")[0][2:]: x[2:-2].split(" | ") for x in page.splitlines() if "| " in x}
    ours = dict(zip(peers_page.HEADS, lines["`TunaMH`, `sample`"], strict=True))
    assert ours["bulk ESS"] == "500"
    assert ours["ESS/s, sampling"] == "250"
    assert (ours["means off by (sds)"], ours["sds off by"]) == ("0.020", "5.0%")
    assert ours["first run: import, compile"] == "3"
    assert lines["PyMC NUTS"][-1] == "> 60 s"
    assert lines["PyMC Metropolis"][-1] == "no mode"
    assert lines["NumPyro NUTS"][-1] == "207\\*"
    # HMCECS with 30 rows is quicker, and wrong; with 300 one chain of two stayed where it was.
    title = peers_problems.PROBLEMS["flights"].title
    assert lines[title] == [title, "250", "–", "100", "5", "2.5", "50", "11", "17"]


def test_the_page_shows_what_is_stored():
    runs = json.loads(peers_page.RESULTS.read_text(encoding="utf-8"))["runs"]
    page = peers_page.PAGE.read_text(encoding="utf-8")
    assert page.count("<!-- peers -->") == 1
    assert peers_page.written(page, runs) == page
    assert peers_page.written(page, FLIGHTS) != page
    summary = peers_page.SUMMARY.read_text(encoding="utf-8")
    found = peers_page.results(runs)
    assert summary == peers_page.headline(found, ratios=False)
    assert peers_page.headline(found) in page


def test_the_figure_shows_what_is_stored(tmp_path):
    runs = json.loads(peers_page.RESULTS.read_text(encoding="utf-8"))["runs"]
    panels = peers_page.panels(peers_page.results(runs))
    peers_page.draw(panels, tmp_path / "peers.svg")
    paths = [
        [
            x
            for x in Path(file).read_text(encoding="utf-8").splitlines()
            if x.startswith(("L ", "M "))
        ]
        for file in (tmp_path / "peers.svg", peers_page.FIGURE)
    ]
    assert paths[0] == paths[1]
