"""An approximate step on what an exact one has prepared."""

import numpy as np

from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.penalty import PenaltyMH, penalty_decision


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
    other = object.__new__(PenaltyMH)
    # What states of the other step belong to is not what states of this one do.
    other.__dict__.update({name: v for name, v in step.__dict__.items() if name != "key"})
    other.rng = rng
    other.decision = penalty_decision()
    other.tables = None
    other._surrogate, other._calibration = other._calibrated(step._surrogate)
    other._test_settings = other._settings_at(other._surrogate, other._calibration, None)
    other._known_violation = ""
    other._connect()
    other._reset(other.tune)
    return other
