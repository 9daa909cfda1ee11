"""Iterations from draws of a trace, of steps that move effects each by itself.

An iteration moves every unknown by tests of its own, of which none stands for all. It is measured
as a whole: how moments change in it, and how far each row changes between its ends against the
ceiling that holds for any two ends.
"""

from itertools import product

import numpy as np
import xarray as xr

from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.diagnostics.bias import ValueDraws, point_of, positions_of
from pymc_minibatch_mh.plan.violations import largest_of_parts
from pymc_minibatch_mh.steps.base import MinibatchStep


def iterated(step: MinibatchStep, draws: ValueDraws, pairs: int, chain: Chain) -> xr.Dataset:
    """Make an iteration from draws that lie evenly in all chains, and read all rows for each.

    The entries of the dataset are pairs of a draw and that after an iteration, at least so many,
    with places in the trace as ``chain`` and ``draw``. Tests are exact, so that no acceptance
    probability is in error, and every iteration counts as one move that was made.
    """
    positions, factorization, plan = positions_of(draws, step), step.target.factorization, step.plan
    assert plan.elements is not None
    assert plan.parts is not None
    each = -(-pairs // len(positions))
    places = ((np.arange(each) + 0.5) / each * positions.shape[1]).astype(int)
    found = []
    for number, draw in product(range(len(positions)), places.tolist()):
        others = factorization.ravel_others(point_of(draws, number, draw))
        here = np.ascontiguousarray(positions[number, draw], dtype=np.float64)
        chain.place(here, others)
        there = chain.advance(1).positions[0]
        ratio, worst = largest_of_parts(step.target, plan.elements, plan.parts, here, there)
        term, row = step.target.term_and_row(worst) if worst >= 0 else ("", -1)
        found.append(
            {"chain": number, "draw": draw, "position": here, "proposal": there,
             "bound_ratio": ratio, "bound_term": term, "bound_row": row}
        )  # fmt: skip
    columns = {name: np.array([one[name] for one in found]) for name in found[0]}
    columns |= {"acceptance": np.ones(len(found))}
    columns |= dict.fromkeys(("acceptance_error", "acceptance_error_mcse"), np.zeros(len(found)))
    return xr.Dataset(
        {name: (("pair", "dimension")[: x.ndim], x) for name, x in columns.items()},
        {"dimension": factorization.coordinate_names},
    )
