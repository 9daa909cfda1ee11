"""Homes of veterans: logistic regression with an effect per birthplace.

Did cheap mortgages make veterans home owners? The data are 214,144 men born around the draft of the
Korean war, with service, race, quarter of birth and 52 places of birth: table `mortgages` of the
package causaldata, after Fetter (2013).
"""

import pandas as pd
import pymc as pm
from causaldata import mortgages


def model() -> pm.Model:
    """Return the model."""
    men = mortgages.load_pandas().data
    place, places = pd.factorize(men["bpl"], sort=True)
    age = men["qob_minus_kw"].to_numpy() / 40.0
    with pm.Model(coords={"place": places}) as found:
        level = pm.Normal("level", 0, 1)
        tau = pm.HalfNormal("tau", 0.5)
        level_of = pm.Normal("level_of", level, tau, dims="place")
        veteran = pm.Normal("veteran", 0, 1)
        nonwhite = pm.Normal("nonwhite", 0, 1)
        trend = pm.Normal("trend", 0, 1, shape=3)
        logit = level_of[place] + veteran * men["vet_wwko"].to_numpy()
        logit += nonwhite * men["nonwhite"].to_numpy()
        logit += trend[0] * age + trend[1] * age**2 + trend[2] * age**3
        pm.Bernoulli("owner", logit_p=logit, observed=men["home_ownership"])
    return found
