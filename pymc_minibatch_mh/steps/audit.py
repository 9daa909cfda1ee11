"""Holding bounds against all rows, before a chain relies on them."""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from pymc_minibatch_mh.bounds.tables import TOTAL, Tables
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.expansion.target import Target
from pymc_minibatch_mh.kernels.first_class import address_of
from pymc_minibatch_mh.kernels.poisson import table_of_move
from pymc_minibatch_mh.kernels.surrogate import Surrogate, pack
from pymc_minibatch_mh.steps import report

#: Moves that an audit makes, each with all rows, and changes of rows that it asks for at most
#: where the bounds were derived: those of a user are proven by nothing else.
MOVES, CHANGES = 4, 1_000_000

#: Where a move begins and ends, the table that serves it, and its M.
Move = tuple[np.ndarray, np.ndarray, int, float]


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

    Raises
    ------
    SettingError
        If the metric of given bounds is negative.
    """
    moves = MOVES
    if tables.verified:
        moves = int(np.clip(CHANGES // target.source.n_rows, 1, MOVES))
    for here, there, best, m in islice(_moves(surrogate, tables, rng), moves):
        move = here, there, surrogate.centre
        ratio, row = target.passes.largest_ratio(
            target.evaluate, move, tables.c[best], m, surrogate.inverse_temperature
        )
        if not ratio <= 1.0:
            return report.violation(target, row, here, there, ratio)
    return ""


def sizes_of_moves(surrogate: Surrogate, tables: Tables, rng: np.random.Generator) -> list[float]:
    """Return C M of moves between points of the Gaussian approximation, where it is bounded."""
    moves = _moves(surrogate, tables, rng)
    return [float(tables.heads[best, TOTAL] * m) for _, _, best, m in moves]


def _moves(surrogate: Surrogate, tables: Tables, rng: np.random.Generator) -> Iterator[Move]:
    metric = address_of(tables.compiled_metric)
    for _ in range(MOVES):
        noise = rng.standard_normal((2, surrogate.centre.size))
        here, there = surrogate.centre + noise @ surrogate.factor.T
        best, m = table_of_move(here, there, metric, *pack(surrogate), tables.heads)
        if m < 0.0:
            raise SettingError(
                f"bounds=Bounds(c, metric) has a metric of {m:g} for a move, which bounds nothing. "
                "Give one that is never negative."
            )
        if best >= 0:
            yield here, there, best, m
