"""The state of a chain, which PyMC saves and restores."""

from dataclasses import field

import numpy as np
from pymc.step_methods.compound import StepMethodState
from pymc.step_methods.state import dataclass_state

from pymc_minibatch_mh.kernels.surrogate import Surrogate


@dataclass_state
class MinibatchState(StepMethodState):
    """Everything of a chain that changes while it runs."""

    adapting: bool
    started: bool
    settled: bool
    numbers: np.ndarray
    test_settings: np.ndarray
    surrogate: Surrogate
    window: np.ndarray
    total: np.ndarray
    window_sums: np.ndarray
    total_sums: np.ndarray
    warm_up_sum: np.ndarray
    warm_up_weight: float
    n_draws: int
    n_updates: int
    n_full: int
    n_accepted: int
    warned: bool
    violation: str
    updates_per_draw: int = field(metadata={"frozen": True})
