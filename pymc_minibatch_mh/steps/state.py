"""The state of a chain, which PyMC saves and restores."""

from dataclasses import field, fields
from typing import Any, Self

import numpy as np
from pymc.step_methods.compound import BlockedStep, StepMethodState
from pymc.step_methods.state import WithSamplingState, dataclass_state

from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.kernels.surrogate import Surrogate
from pymc_minibatch_mh.likelihood.given import model_of


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


class RestorableStep(BlockedStep):
    """A step that takes a model and a state, and says what is wrong with them."""

    _state_class = MinibatchState

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        """Find the model before PyMC asks for it."""
        settings["model"] = model_of(settings.get("model"))
        return super().__new__(cls, *args, **settings)

    @property
    def sampling_state(self) -> MinibatchState:
        """Everything of a chain that changes while it runs.

        Raises
        ------
        SettingError
            Where it is set to the state of a step with other settings or of another size, which
            compiled code would not notice.
        """
        return WithSamplingState.sampling_state.fget(self)

    @sampling_state.setter
    def sampling_state(self, state: MinibatchState) -> None:
        _require_fitting(state, self.sampling_state)
        WithSamplingState.sampling_state.fset(self, state)


def _require_fitting(state: Any, own: MinibatchState) -> None:
    if not isinstance(state, MinibatchState):
        raise SettingError(
            f"sampling_state={type(state).__name__} is no state of this step. Give one that "
            "step.sampling_state returned."
        )
    if state.updates_per_draw != own.updates_per_draw:
        raise SettingError(
            f"updates_per_draw={own.updates_per_draw} is not that of the sampling state, "
            f"{state.updates_per_draw}. Build the step as the one whose state it is."
        )
    kept, given = _arrays(own), _arrays(state)
    wrong = [name for name in kept if np.shape(given[name]) != np.shape(kept[name])]
    if wrong:
        raise SettingError(
            f"sampling_state= has {wrong[0]!r} of shape {np.shape(given[wrong[0]])} instead of "
            f"{np.shape(kept[wrong[0]])}, so it is of another model, method or proposal. Build the "
            "step as the one whose state it is."
        )


def _arrays(state: MinibatchState) -> dict[str, Any]:
    own = {f.name: getattr(state, f.name) for f in fields(state)}
    surrogate = own.pop("surrogate")
    return {name: x for name, x in own.items() if isinstance(x, np.ndarray)} | surrogate._asdict()
