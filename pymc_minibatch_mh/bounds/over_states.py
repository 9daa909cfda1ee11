"""Bounds of rows with log-sums over states, from few features: see ``native/over_states.c``."""

from itertools import combinations_with_replacement

import numpy as np

from pymc_minibatch_mh.bounds.geometry import Geometry
from pymc_minibatch_mh.bounds.jets import ZERO, Jets
from pymc_minibatch_mh.bounds.remainder import pair_of
from pymc_minibatch_mh.compiled.state_rows import numbers_of, states_record
from pymc_minibatch_mh.expressions.state_sums import StateSums
from pymc_minibatch_mh.functions.interval import Array
from pymc_minibatch_mh.native.library import LaidOut, function
from pymc_minibatch_mh.structure.row_function import RowData

#: Relative excess of a Gram matrix of predictors, far above the rounding errors of its root.
ABOVE_ROUNDING = 1e-12


def state_bounds(
    split: StateSums, data: RowData, geometry: Geometry, radius: float, order: int
) -> Array:
    """Bounds of Taylor remainders of some rows, for β = 1, in the joint length of a move."""
    rows, m = data.rows.size, len(geometry.norms)
    if radius == np.inf:
        return np.full(rows, np.inf)
    with np.errstate(all="ignore"):
        slopes, thirds = _derivatives_at_centre(split, data, geometry)
        suprema = _suprema(split, data, geometry, radius)
    numbers = np.stack(
        [
            np.broadcast_to(np.asarray(data.value(x), dtype=np.float64), rows)
            for states in split.sums
            for x in numbers_of(states)
        ],
        axis=1,
    )
    record = LaidOut("mh_state_rows", states_record(split, m))
    bounds = np.empty(rows)
    arrays = slopes, thirds, suprema, _root_of_gram(geometry, rows), np.ascontiguousarray(numbers)
    function("mh_bound_states")(record, rows, *arrays, radius, order, bounds)
    return bounds


def _derivatives_at_centre(
    split: StateSums, data: RowData, geometry: Geometry
) -> tuple[Array, Array]:
    """Value, gradient and Hessian of all functions, and their third derivatives."""
    m, jets = len(geometry.norms), Jets(data, geometry.centres, 3)
    orders = ([0, 1, 2], [3])
    arrays_of_orders = []
    for some in orders:
        indices = [k for n in some for k in combinations_with_replacement(range(m), n)]
        array = np.zeros((data.rows.size, len(split.functions), len(indices)))
        for f, expr in enumerate(split.functions):
            jet = jets.of(expr)
            for k, index in enumerate(indices):
                enclosed = jet.get(index, ZERO)
                array[:, f, k] = 0.5 * (enclosed.lo + enclosed.hi)
        arrays_of_orders.append(array)
    return arrays_of_orders[0], arrays_of_orders[1]


def _suprema(split: StateSums, data: RowData, geometry: Geometry, radius: float) -> Array:
    """Suprema of second, third and fourth derivatives of all functions along unit directions."""
    jets = Jets(data, geometry.argument_boxes(radius), 4)
    suprema = np.empty((data.rows.size, len(split.functions), 3))
    for f, expr in enumerate(split.functions):
        jet = jets.of(expr)
        for order in (2, 3, 4):
            largest = {k: value.magnitude for k, value in jet.items() if len(k) == order}
            suprema[:, f, order - 2] = np.fmin(*pair_of(largest, geometry, order, 1.0))
    return np.where(np.isnan(suprema), np.inf, suprema)


def _root_of_gram(geometry: Geometry, rows: int) -> Array:
    """Factors S, shape (rows, m, m): predictors along z change by S z, with S Sᵀ their products."""
    m = len(geometry.norms)
    norms = np.stack([np.broadcast_to(n, rows) for n in geometry.norms], axis=1)
    if m == 1:
        return norms[:, :, None].copy()
    gram = geometry.gram_matrix(rows)
    gram[:, range(m), range(m)] += ABOVE_ROUNDING * norms**2
    values, vectors = np.linalg.eigh(gram)
    # Errors of small eigenvalues are relative to the largest one.
    values = np.maximum(values, 0.0) + ABOVE_ROUNDING * values[:, -1:]
    return np.ascontiguousarray(vectors * np.sqrt(values)[:, None, :])
