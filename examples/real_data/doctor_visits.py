"""Visits to the doctor: negative binomial regression.

How often do people see a doctor, and does it depend on the share of the bill that they pay? The
data are 20,190 person-years of the RAND health insurance experiment, as in Cameron and Trivedi
(2005): table `randhie` of statsmodels.
"""

import pymc as pm
from statsmodels.datasets import randhie


def model() -> pm.Model:
    """Return the model."""
    people = randhie.load_pandas().data
    names = ["lncoins", "idp", "lpi", "fmde", "physlm", "disea", "hlthg", "hlthf", "hlthp"]
    predictors = people[names] - people[names].mean()
    predictors /= predictors.std()
    with pm.Model(coords={"predictor": names}) as found:
        intercept = pm.Normal("intercept", 1, 1)
        slope = pm.Normal("slope", 0, 0.5, dims="predictor")
        alpha = pm.Exponential("alpha", 1)
        mu = pm.math.exp(intercept + predictors.to_numpy() @ slope)
        pm.NegativeBinomial("visits", mu=mu, alpha=alpha, observed=people["mdvis"].astype(int))
    return found
