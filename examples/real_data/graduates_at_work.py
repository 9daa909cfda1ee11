"""Graduates at work: counts out of a total.

How many graduates of a college work? Each college and year of the College Scorecard has its number
of graduates, and a beta-binomial distribution allows for differences between colleges. Table
`scorecard` of the package causaldata.
"""

import pymc as pm
from causaldata import scorecard


def model() -> pm.Model:
    """Return the model."""
    table = scorecard.load_pandas().data
    table = table.dropna(subset=["count_working", "count_not_working", "pred_degree_awarded_ipeds"])
    total = (table["count_working"] + table["count_not_working"]).to_numpy().astype(int)
    table, total = table[total > 0], total[total > 0]
    degrees = ["Less than two-year", "Two-year degree", "Four-year+ degree"]
    degree = table["pred_degree_awarded_ipeds"].astype(str).map(degrees.index).to_numpy()
    year = (table["year"].to_numpy() - 2010.0) / 5.0
    with pm.Model(coords={"degree": degrees}) as found:
        level = pm.Normal("level", 1, 1, dims="degree")
        trend = pm.Normal("trend", 0, 0.5, dims="degree")
        alikeness = pm.HalfNormal("alikeness", 100)
        p = pm.math.sigmoid(level[degree] + trend[degree] * year)
        pm.BetaBinomial(
            "working",
            n=total,
            alpha=p * alikeness,
            beta=(1 - p) * alikeness,
            observed=table["count_working"].to_numpy().astype(int),
        )
    return found
