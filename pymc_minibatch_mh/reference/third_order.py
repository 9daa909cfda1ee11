"""Cubic terms of the expansion of rows with one linear predictor, for order 3."""

from collections.abc import Sequence

import numpy as np

from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.expressions.kinks import kinks_of
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.reference.full_data import FullData
from pymc_minibatch_mh.structure.row_function import RowFunction

#: Maximum number of coordinates, as a sum over rows takes their cube of numbers; and of
#: coefficients of a row, for an order that is chosen by forecast.
MAX_SIZE, MAX_COEFFICIENTS = 128, 16


def objection_to_third_order(functions: Sequence[RowFunction] | BoundsError, size: int) -> str:
    """Reason against expansions of third order, or ""."""
    if size > MAX_SIZE:
        return f"the model has {size} parameters, more than {MAX_SIZE}"
    if isinstance(functions, BoundsError):
        return "observations are no functions of linear predictors"
    for function in functions:
        if len(function.arguments) != 1 or function.states is not None:
            return f"{function.name!r} has several linear predictors in an observation"
        if kinks_of(function.exprs, function.root):
            return f"{function.name!r} has kinks"
    return ""


def has_few_coefficients(functions: Sequence[RowFunction] | BoundsError) -> bool:
    """Whether third derivatives of all rows are summed, and evaluated, quickly."""
    if isinstance(functions, BoundsError):
        return False
    counts = (sum(len(form.terms) for form in f.arguments) for f in functions)
    return max(counts, default=0) <= MAX_COEFFICIENTS


def with_cubic_terms(reference: Reference, full_data: FullData) -> Reference:
    """The same control variates with third derivatives of all rows at the centre."""
    lines, thirds = _lines_of(full_data.thirds(reference.centre))
    return reference._replace(lines=lines, thirds=thirds)


def _lines_of(tensor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Runs of nonzero entries at a <= b <= c, divided by the number of equal terms of the sum."""
    lines, values = [], [np.empty(0)]
    for a, b in np.argwhere(tensor.any(axis=2)):
        entries = np.flatnonzero(tensor[a, b])
        for run in np.split(entries, np.flatnonzero(np.diff(entries) > 1) + 1):
            c = np.arange(run[0], run[-1] + 1)
            lines.append((a, b, run[0], run[-1] + 1))
            equal = np.where((a == b) & (b == c), 6.0, np.where((a == b) | (b == c), 2.0, 1.0))
            values.append(tensor[a, b, c] / equal)
    return np.reshape(lines, (-1, 4)).astype(np.int64), np.concatenate(values)
