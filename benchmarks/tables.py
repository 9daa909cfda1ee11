"""Data of real tables, for the models of the benchmarks; NumPy is all it imports."""

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flights import DATA_FOLDER_VARIABLE, late_flights, load_table

Array = NDArray[np.float64]
#: Columns of the regression of late flights that vary within a destination.
SLOPES = ("hour", "hour squared", "season cos", "season sin", "humidity", "wind", "root rain")


def destinations(n_rows: int) -> tuple[Array, NDArray[np.int8], NDArray[np.int64]]:
    """Return 7 columns of some flights, whether they left late, and their destinations."""
    table = load_table()
    flights = late_flights(table=table)
    chosen = np.sort(np.random.default_rng(1).permutation(len(flights.late))[:n_rows])
    x = flights.X[:, [flights.names.index(name) for name in SLOPES]]
    group = table.dest.astype(np.int64)
    return x[chosen], flights.late[chosen], group[chosen]


def covertype(n_rows: int) -> tuple[Array, NDArray[np.int8]]:
    """Return a design of 10 measurements and indicators, and whether a row is of class 2.

    One wilderness area and one soil are left out, and what is constant among the chosen rows.
    Measurements are standardised.
    """
    with np.load(Path(os.environ[DATA_FOLDER_VARIABLE]) / "covtype.npz") as stored:
        chosen = np.random.default_rng(1).permutation(len(stored["X"]))[:n_rows]
        x, area, soil, cover = (
            stored[name][chosen] for name in ("X", "wilderness", "soil", "cover_type")
        )
    scaled = (x - x.mean(axis=0)) / x.std(axis=0)
    # The most common ones are what the others are compared with.
    kinds = [
        codes[:, None] == np.delete(np.unique(codes), np.bincount(codes)[np.unique(codes)].argmax())
        for codes in (area, soil)
    ]
    indicators = np.column_stack(kinds).astype(float)
    return np.column_stack([np.ones(n_rows), scaled, indicators]), (cover == 2).astype(np.int8)
