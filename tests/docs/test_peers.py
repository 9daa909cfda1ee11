"""The comparison with other libraries: what is run, what is made of it, and what the page shows.

None of the other libraries is needed: what runs here is ours and PyMC's.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import peers_cell, peers_page, peers_problems, peers_pymc
from benchmarks.peers_run import Clock, OutOfTimeError, Task

TINY = peers_problems.Problem(
    "",
    "logistic",
    2_000,
    lambda: peers_problems.logistic(2_000, 2),
    ours=400,
    driver=1_000,
    nuts=50,
)


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


def test_seconds_to_enough_draws_include_imports_and_compilation():
    seconds = {"import": 1.0, "compile": 2.0, "setup": 3.0, "tune": 1.0, "sampling": 2.0}
    run = {"seconds": seconds, "draws": 1_000, "bulk": 500.0}
    assert peers_page.seconds_to_enough(run) == 1.0 + 2.0 + 3.0 + 1.0 + 1_000 * 2.0 / 500.0


def test_the_page_shows_what_is_stored():
    runs = json.loads(peers_page.RESULTS.read_text(encoding="utf-8"))["runs"]
    page = peers_page.PAGE.read_text(encoding="utf-8")
    assert page.count("<!-- peers -->") == 1
    assert peers_page.written(page, runs) == page
    assert peers_page.written(page, runs[:-1]) != page
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
