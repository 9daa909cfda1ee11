"""Holding bounds against all rows, before a chain relies on them."""

import numpy as np

from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.kernels.first_class import address_of
from pymc_minibatch_mh.kernels.poisson import table_of_move
from pymc_minibatch_mh.kernels.surrogate import Surrogate, pack
from pymc_minibatch_mh.steps import report
from pymc_minibatch_mh.surrogate.target import Target

#: Moves that an audit makes, each with all rows.
MOVES = 4


def audited(target: Target, surrogate: Surrogate, tables: Tables, rng: np.random.Generator) -> str:
    """Return what is wrong with bounds, or an empty string.

    Parameters
    ----------
    target
        The model.
    surrogate
        Control variates that the bounds belong to.
    tables
        The bounds.
    rng
        Draws moves between points of the Gaussian approximation.
    """
    metric = address_of(tables.compiled_metric)
    size = surrogate.centre.size
    for _ in range(MOVES):
        noise = rng.standard_normal((2, size))
        here, there = surrogate.centre + noise @ surrogate.factor.T
        best, m = table_of_move(here, there, metric, *pack(surrogate), tables.heads)
        if best < 0:
            continue
        move = here, there, surrogate.centre
        ratio, row = target.passes.largest_ratio(
            target.evaluate, move, tables.c[best], m, surrogate.inverse_temperature
        )
        if not ratio <= 1.0:
            return report.violation(target, row, here, there, ratio)
    return ""
