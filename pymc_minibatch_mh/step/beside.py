"""An approximate step on what an exact one has prepared."""

from dataclasses import replace

import numpy as np

from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.chain.program import Program
from pymc_minibatch_mh.step.base import MinibatchStep
from pymc_minibatch_mh.step.penalty import PenaltyMH, penalty_method


def penalty_beside(step: MinibatchStep, rng: np.random.Generator) -> PenaltyMH:
    """Return a :class:`PenaltyMH` that shares rows, sums and settings with another step.

    Nothing is searched for or compiled again. It has a chain of its own, and needs no bounds.

    Parameters
    ----------
    step
        A step, which is not changed.
    rng
        Generator of the new step.
    """
    method = penalty_method()
    prepared = replace(step.prepared, needs=method.needs, tables=None, violation=None).completed()
    other = object.__new__(PenaltyMH)
    # What states of the other step belong to is not what states of this one do.
    other.__dict__.update({name: v for name, v in step.__dict__.items() if name != "key"})
    own = step.program
    settings = own.proposal, own.updates_per_draw, (), own.moves_without_rows
    other.program = Program(prepared, method, *settings)
    other.chain = Chain(other.program, rng, other.adapts)
    return other
