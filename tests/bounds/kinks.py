"""Models with kinks and jumps, and changes of their remainders, computed from PyMC's densities."""

from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bounds.certified import derivatives
from pymc_minibatch_mh.bounds.bounds_pass import WORTH_A_COPY, BoundsPass
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.structure.row_function import RowData, row_functions

ROWS = 400
#: Standard deviations of the posterior that rows are bounded in.
WIDTH = 0.05


class AlwaysCopied(BoundsPass):
    """Bounds with a whitened copy, however few rows an update evaluates."""

    def _forecast_total(self, trials):
        return max(super()._forecast_total(trials), WORTH_A_COPY)


def check_loss(u, tau):
    """Loss of quantile regression, written as in papers."""
    return u * (tau - pt.lt(u, 0.0))


def normal(y, mu, sigma=1.0):
    """Log-density up to a constant, with kinks in its mean."""
    return -0.5 * ((y - mu) / sigma) ** 2


#: Log-densities of an observation y with covariate x, as functions of two parameters.
KINKED = {
    "asymmetric Laplace": lambda y, x, a, b: pm.logp(
        pm.AsymmetricLaplace.dist(q=0.8, mu=a + b * x, b=1.3), y
    ),
    "asymmetric Laplace with a scale": lambda y, x, a, b: pm.logp(
        pm.AsymmetricLaplace.dist(q=0.3, mu=a + 0.4 * x, b=pt.exp(b)), y
    ),
    "Laplace": lambda y, x, a, b: pm.logp(pm.Laplace.dist(a + b * x, 0.7), y),
    "Laplace with a scale": lambda y, x, a, b: pm.logp(pm.Laplace.dist(a * x, pt.exp(b)), y),
    "check loss": lambda y, x, a, b: -check_loss(y - a - b * x, 0.9),
    "check loss by a maximum": lambda y, x, a, b: (
        -pt.maximum(0.9 * (y - a - b * x), -0.1 * (y - a - b * x))
    ),
    "check loss by a switch": lambda y, x, a, b: (
        -pt.switch(y > a + b * x, 0.9 * (y - a - b * x), -0.1 * (y - a - b * x))
    ),
    "hinge of known slope": lambda y, x, a, b: normal(y, b + 1.5 * pt.maximum(x - a, 0.0)),
    "hinge by a switch": lambda y, x, a, b: normal(y, pt.switch(x > a, b * (x - a), 0.0)),
    "clipped mean": lambda y, x, a, b: normal(y, pt.clip(a + b * x, -0.5, 0.5)),
    "place of a jump": lambda y, x, a, b: normal(y, pt.switch(x > a, b, -0.3)),
    "jump in the scale": lambda y, x, a, b: pm.logp(
        pm.Normal.dist(0.2, pt.exp(pt.switch(x >= a, b, 0.5))), y
    ),
    "kink that is no plane": lambda y, x, a, b: normal(y, pt.abs(pt.exp(a) * x - b)),
    "two kinks": lambda y, x, a, b: -pt.abs(y - a - pt.maximum(b * x, 0.1)),
    "support vectors": lambda y, x, a, b: -pt.maximum(0.0, 0.3 - pt.sign(y) * (a + b * x)),
}
#: Those whose kink is no hyperplane, so that rows have no direction to it.
CURVED = {"kink that is no plane"}


@cache
def kinked(name, order=2):
    """Return a model's row function and the tables of bounds around a centre, and the centre."""
    rng = np.random.default_rng(list(KINKED).index(name))
    x, y = rng.uniform(-1.0, 1.0, ROWS), rng.normal(0.0, 1.0, ROWS)
    with pm.Model() as model:
        a, b = pm.Normal("a"), pm.Normal("b")
        pm.CustomDist(
            "y", x, a, b, logp=lambda value, *taken: KINKED[name](value, *taken), observed=y
        )
    parts = factorize(model, model.free_RVs, ["y"], initial_point=model.initial_point())
    (function,) = row_functions(parts)
    centre = rng.normal(0.1, 0.3, 2)
    factor = WIDTH * np.array([[1.0, 0.0], [0.4, 0.7]])
    reference = Reference(
        centre, factor, np.linalg.inv(factor), np.zeros(2), np.zeros((2, 2)), order, 1.0
    )
    bounds = AlwaysCopied([function], reference, (parts.lower, parts.upper))
    density = model.compile_logp(vars=[model["y"]], sum=False)

    def log_likelihood(position):
        return density({"a": position[0], "b": position[1]})[0]

    return function, reference, bounds.tables(), log_likelihood


def remainders(function, reference, log_likelihood, position):
    """Return the remainder of each row: its log-density minus its Taylor polynomial."""
    data = RowData(function, np.arange(ROWS))
    matrices = [data.coefficients(form, 2) for form in function.arguments]
    middle = [(matrix * reference.centre).sum(axis=1) for matrix in matrices]
    jet = derivatives(function, data, [np.broadcast_to(u, ROWS) for u in middle], reference.order)
    away = [(matrix * (position - reference.centre)).sum(axis=1) for matrix in matrices]
    polynomial = log_likelihood(reference.centre).copy()
    for index, slope in jet.items():
        if len(index) == 1:
            polynomial += slope * away[index[0]]
        elif len(index) == 2:
            share = 0.5 if index[0] == index[1] else 1.0
            polynomial += share * slope * away[index[0]] * away[index[1]]
    return log_likelihood(position) - polynomial
