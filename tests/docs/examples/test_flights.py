"""The flights of the quickstart: one table from two sources, and a regression that is sound."""

import json
import os
import re
from dataclasses import fields
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.special import expit

import flights
import quickstart

ROWS = 325_724
PRIOR_SD = 2.5


@pytest.fixture(scope="module")
def table() -> flights.FlightTable:
    return flights.load_table()


@pytest.fixture(scope="module")
def regression(table) -> flights.LateFlights:
    return flights.late_flights(table=table)


def mode_and_hessian(data: flights.LateFlights) -> tuple[np.ndarray, np.ndarray]:
    mode = np.zeros(data.X.shape[1])
    for _ in range(8):
        share = expit(data.X @ mode)
        hessian = (data.X.T * (share * (1 - share))) @ data.X + np.eye(mode.size) / PRIOR_SD**2
        mode += np.linalg.solve(hessian, data.X.T @ (data.late - share) - mode / PRIOR_SD**2)
    return mode, hessian


def test_table_has_every_flight_with_a_delay_and_weather(table):
    assert table.X.shape == (ROWS, len(flights.COLUMNS))
    assert table.columns.tolist() == flights.COLUMNS
    assert len(table.carrier_names) == 16
    assert len(table.dest_names) == 104
    assert np.isfinite(table.X).all()
    for name in ("dep_delay", "arr_delay", "air_time", "month", "carrier", "dest"):
        assert getattr(table, name).shape == (ROWS,)


def test_stored_table_equals_the_one_built_from_the_package():
    folder = os.environ.get(flights.DATA_FOLDER_VARIABLE)
    if not folder:
        pytest.skip(f"{flights.DATA_FOLDER_VARIABLE} names no folder with a stored table")
    stored, built = flights.read_table(Path(folder) / flights.TABLE_FILE), flights.build_table()
    for field in fields(flights.FlightTable):
        left, right = getattr(stored, field.name), getattr(built, field.name)
        assert left.dtype == right.dtype, field.name
        np.testing.assert_array_equal(left, right, err_msg=field.name)


def test_table_is_built_where_the_folder_has_none(monkeypatch, tmp_path):
    monkeypatch.setenv(flights.DATA_FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(flights, "build_table", lambda: "built")
    assert flights.load_table() == "built"


@pytest.mark.parametrize("coefficients", [12, 27])
def test_design_matrix(table, coefficients):
    data = flights.late_flights(coefficients, table=table)
    assert data.X.shape == (ROWS, coefficients)
    assert data.X.dtype == np.float64
    assert data.late.dtype == np.int8
    assert len(set(data.names)) == coefficients
    assert (data.X[:, 0] == 1).all()
    for column in data.X[:, 1:].T:
        if not np.isin(column, (0, 1)).all():
            np.testing.assert_allclose([column.mean(), column.std()], [0, 1], atol=1e-9)


def test_stored_reference_is_of_this_regression(regression):
    reference = json.loads(Path(flights.__file__).with_name("flights_nuts.json").read_text())
    mode, hessian = mode_and_hessian(regression)
    sd = np.sqrt(np.diag(np.linalg.inv(hessian)))
    assert tuple(reference["names"]) == regression.names
    # With so many rows the posterior is nearly normal; the smallest carriers are a little skewed.
    np.testing.assert_allclose((np.array(reference["mean"]) - mode) / sd, 0, atol=0.2)
    np.testing.assert_allclose(np.array(reference["sd"]) / sd, 1, atol=0.05)
    assert min(reference["ess_bulk"]) >= 5_000
    assert reference["max_rhat"] < 1.01


def speeds():
    stored = json.loads(quickstart.SPEEDS_FILE.read_text())
    return {one["name"]: quickstart.Speed(**one) for one in stored["speeds"]}


def test_seconds_to_effective_draws_include_preparation_and_warm_up():
    speed = quickstart.Speed("x", setup=2.0, warmup=3.0, sampling=10.0, ess=500.0)
    assert speed.seconds == 2.0 + 3.0 + 20.0


def test_pages_tell_the_stored_speeds():
    found = speeds()
    assert list(found) == ["TunaMH", "nutpie", "NUTS"]
    root = Path(__file__).parents[3]
    readme, home, page = (
        " ".join((root / name).read_text().split())
        for name in ("README.md", "docs/index.md", "docs/background/benchmarks.md")
    )
    told = r"`TunaMH` is (\d+) times as fast as nutpie, and (\d+) times as fast as NUTS"
    words = re.search(told, readme)
    ratios = [found[name].seconds / found["TunaMH"].seconds for name in ("nutpie", "NUTS")]
    assert [int(word) for word in words.groups()] == pytest.approx(ratios, rel=0.05)
    assert words[0] in home
    for name, one in found.items():
        row = re.search(rf"\| `?{name}[^|]* \|" + r" ([\d.,]+) \|" * 4, page)
        told = [float(value.replace(",", "")) for value in row.groups()]
        rate = one.ess / one.sampling
        assert told == pytest.approx([one.setup, one.warmup, rate, one.seconds], rel=0.05)


def test_the_figure_has_a_linear_axis_from_zero_with_seconds_and_ratios():
    axes = plt.figure().subplots()
    quickstart.draw_seconds(axes, list(speeds().values()))
    assert axes.get_xscale() == "linear"
    assert axes.get_xlim()[0] == 0.0
    said = [text.get_text() for text in axes.texts]
    assert re.fullmatch(r"[\d.]+ s", said[0])
    assert all(re.fullmatch(r"[\d,.]+ s: \d+ times", text) for text in said[1:])
    plt.close("all")
