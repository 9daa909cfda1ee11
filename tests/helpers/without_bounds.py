"""Models whose observations have no bounds that can be derived."""

import numpy as np
import pymc as pm
from pymc.distributions.transforms import ordered


def marks_of_raters(rows=1_500, people=20, essays=30, in_order=False):
    """Return a cumulative probit of raters, who mark little.

    Each has a precision, and thresholds of its own. Unless they are in order, there are no bounds.
    """
    rng = np.random.default_rng(4)
    rater, essay = rng.integers(0, people, rows), rng.integers(0, essays, rows)
    start = np.array([-0.7, 0.0, 0.7])
    mark = np.digitize(rng.normal(size=essays)[essay] + rng.normal(size=rows), start)
    with pm.Model() as model:
        q, precision = pm.Normal("q", shape=essays), pm.Normal("precision", 0, 0.5, shape=people)
        several = {"initval": np.tile(start, (people, 1))}
        several |= {"transform": ordered} if in_order else {}
        c = pm.Normal("c", start, 1.0, shape=(people, 3), **several)
        eta = pm.math.exp(precision)[rater] * q[essay]
        pm.OrderedProbit("mark", eta=eta, cutpoints=c[rater], compute_p=False, observed=mark)
    return model
