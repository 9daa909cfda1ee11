"""Whether the shape parameters of a model are better moved as logarithms or as reciprocals.

A shape that data do not tell from infinity, such as that of a negative binomial on counts that are
Poisson, has a posterior far from a normal one in its logarithm, and nearly a truncated normal one
in its reciprocal κ, where rows are smooth down to κ = 0. What coordinates are worth is measured:
the rows that an update would read, by bounds of a few rows around the mode of a subsample.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pymc_minibatch_mh.bounds.bounds_pass import BoundsPass
from pymc_minibatch_mh.errors import BoundsError, ModeError
from pymc_minibatch_mh.expansion.mode import COARSE_TOLERANCE
from pymc_minibatch_mh.expansion.target import Target
from pymc_minibatch_mh.expansion.taylor import surrogate_at
from pymc_minibatch_mh.model.reading.split import Split
from pymc_minibatch_mh.model.row.reciprocal import in_reciprocal, shapes_of

#: Rows whose mode stands for that of all, evenly spread.
FEW = 20_000
#: Factor and number of rows per update by which others have to be better than logarithms.
WORTH_A_MAP, WORTH_IN_ROWS = 2.0, 1.0
#: Reciprocals, and roots of them.
POWERS = (1, 2)
#: Shapes up to which each is tried.
MOST_SHAPES = 4


def with_best_shapes(
    own: Split,
    split: Split,
    point: Mapping[str, np.ndarray],
    compile_kwargs: Mapping[str, Any] | None,
) -> Target:
    """Return a model with the reciprocals of shapes as coordinates, where these are much better.

    Parameters
    ----------
    own
        The model in its own variables.
    split
        The same, or in other coordinates.
    point
        Where the search for the mode starts.
    compile_kwargs
        Passed on to :func:`pytensor.function`.
    """
    best, rows = Target(split, 2, 1.0, compile_kwargs), -1.0
    for name in shapes_of(own)[:MOST_SHAPES]:
        tried = (in_reciprocal(own, best.split, name, power) for power in POWERS)
        others = [Target(found, 2, 1.0, compile_kwargs) for found in tried if found is not None]
        if not others:
            continue
        rows = _forecast(best, point) if rows < 0.0 else rows
        forecasts = [_forecast(other, point) for other in others]
        least = int(np.argmin(forecasts))
        worth = rows - forecasts[least] > WORTH_IN_ROWS
        if worth and WORTH_A_MAP * forecasts[least] < rows:
            best, rows = others[least], forecasts[least]
    return best


def _forecast(target: Target, point: Mapping[str, np.ndarray]) -> float:
    """Return the rows that an update would read, infinite where that is not known."""
    functions, count = target.row_functions, target.source.n_rows
    if isinstance(functions, BoundsError):
        return np.inf
    rows = np.unique(np.linspace(0, count - 1, min(FEW, count)).astype(np.int64))
    start = target.split.ravel(point)
    try:
        mode = target.mode_of_few(start, rows, COARSE_TOLERANCE)
        support = target.split.lower, target.split.upper
        return BoundsPass(functions, surrogate_at(mode, 2, 1.0), support).forecast()
    except (BoundsError, ModeError):
        return np.inf
