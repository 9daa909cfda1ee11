"""Candidates of a move of elements, as compiled iterations draw them."""

import numpy as np
from numba import njit, types

from grouped import step_of
from pymc_minibatch_mh.kernels import elements as kernels
from pymc_minibatch_mh.kernels.parts import Ends, find_rates, first_outside
from pymc_minibatch_mh.kernels.roles import VECTOR


@njit
def _draw_candidates(handle, kappa, limit, out):
    """Write the candidates of the move that lies in the memory of an iteration, then their end."""
    kept = kernels._keep_candidates(handle, kappa, limit)
    for k in range(kept.size):
        out[k] = kept[k]
    return kept.size


def test_rows_of_an_element_beyond_its_radius_are_no_candidates():
    """Their border and the elements of other factors propose them all the same."""
    step = step_of("logistic")
    workings = step.chain.kernel_state()
    parts, found = step.plan.parts.parts, workings.record.scratch
    rng = np.random.default_rng(1)
    for e in (found.e, found.new_e):
        e[:] = step.plan.elements.sd * rng.normal(size=e.size)
    found.norms[:] = 1.0, 2.0, 2.5
    found.new_e[3] = 1.01 * parts.radii[3]
    ends = Ends(found.e, found.new_e, tuple(found.norms))
    limit = find_rates(parts, ends, found.rates, found.outside)
    entry = workings.entry(_draw_candidates, types.float64, types.float64, VECTOR)
    kappa, out = 2_000.0 / limit, np.empty(10_000)
    rows = out[: entry(workings.address, kappa, limit, out)].astype(int)
    assert len(np.unique(rows)) > 20
    assert all(first_outside(parts, ends, row) < 0 for row in rows)
    within = step.plan.parts.ceilings(ends) * (parts.elements[:, 0] != 3)
    assert abs(rows.size - kappa * within.sum()) < 5.0 * np.sqrt(kappa * within.sum())
