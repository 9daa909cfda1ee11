"""The frozen state of a chain that an audit measures.

What a chain learned in warm-up is not in its trace, and the step in hand has it only if that chain
ran last in this very process.
"""

from typing import NamedTuple

import numpy as np
import xarray as xr

from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.diagnostics.audit.value_draws import ValueDraws
from pymc_minibatch_mh.step.base import MinibatchStep

#: Draws of warm-up where a trace does not tell: PyMC's default.
USUAL_TUNE = 1_000


class FrozenChain(NamedTuple):
    """A chain after warm-up, and the label of the one in the trace whose state it has, or None."""

    chain: Chain
    number: int | None

    @property
    def origin(self) -> str:
        """Where it is from, in words."""
        if self.number is None:
            return "adapted anew, on draws of the trace"
        return f"chain {self.number}, as it ended"


def frozen_as_sampled(
    step: MinibatchStep, trace: xr.DataTree, draws: ValueDraws, rng: np.random.Generator
) -> FrozenChain:
    """Return a chain in the state that a chain of a trace was frozen in.

    If the step is not left in that of a chain of the trace, warm-up is run anew, as long as it
    was, on draws of the trace.

    Raises
    ------
    StaleDataError
        If the model's data changed after the step was built.
    """
    step.require_unchanged()
    number = chain_in_hand(step, trace)
    if number is not None:
        return FrozenChain(step.chain.copy(), number)
    count = int(trace["posterior"].attrs.get("tuning_steps", USUAL_TUNE))
    split, chain = step.target.split, Chain(step.program, rng, step.adapts)
    points = draws.random_points(count, rng)
    chain.adapt_on((split.ravel(point), split.ravel_others(point)) for point in points)
    return FrozenChain(chain, None)


def chain_in_hand(step: MinibatchStep, trace: xr.DataTree) -> int | None:
    """Return the label of the chain whose frozen state a step is still in, or None."""
    drawn = trace["posterior"].attrs.get("tuning_steps", USUAL_TUNE) + trace.posterior.sizes["draw"]
    if step.chain.state.adapting or step.chain.state.n_draws != drawn:
        return None
    last = trace["sample_stats"]["scaling"].isel(draw=-1)
    # Adapted in warm-up to all digits, the scale tells chains apart; the last one ran last.
    for chain in reversed(last["chain"].to_numpy()):
        if (last.sel(chain=chain).to_numpy() == step.chain.scaling).any():
            return int(chain)
    return None
