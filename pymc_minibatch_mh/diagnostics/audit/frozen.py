"""The frozen state of a chain that an audit measures.

What a chain learned in warm-up is not in its trace, and the step in hand has it only if that chain
ran last in this very process.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import xarray as xr

from pymc_minibatch_mh.diagnostics.audit.value_draws import ValueDraws
from pymc_minibatch_mh.steps.base import MinibatchStep

#: Draws of warm-up where a trace does not tell: PyMC's default.
USUAL_TUNE = 1_000


@contextmanager
def frozen_as_sampled(
    step: MinibatchStep, trace: xr.DataTree, draws: ValueDraws, rng: np.random.Generator
) -> Iterator[str]:
    """Put a step into the state that a chain of a trace was frozen in, and back afterwards.

    Yields what the state is. If the step is not left in that of a chain of the trace, warm-up is
    run anew, as long as it was, on draws of the trace.
    """
    saved = step.sampling_state
    chain = chain_in_hand(step, trace)
    try:
        if chain is None:
            count = int(trace["posterior"].attrs.get("tuning_steps", USUAL_TUNE))
            step.adapt_on(draws.random_points(count, rng), rng)
            yield "adapted anew, on draws of the trace"
        else:
            yield f"chain {chain}, as it ended"
    finally:
        step.sampling_state = saved


def chain_in_hand(step: MinibatchStep, trace: xr.DataTree) -> int | None:
    """Return the label of the chain whose frozen state a step is still in, or None."""
    drawn = trace["posterior"].attrs.get("tuning_steps", USUAL_TUNE) + trace.posterior.sizes["draw"]
    if step.adapting or step.n_draws != drawn:
        return None
    scaling = step.proposal.scaling(step.numbers)
    last = trace["sample_stats"]["scaling"].isel(draw=-1)
    # Adapted in warm-up to all digits, the scale tells chains apart; the last one ran last.
    for chain in reversed(last["chain"].to_numpy()):
        if (last.sel(chain=chain).to_numpy() == scaling).any():
            return int(chain)
    return None
