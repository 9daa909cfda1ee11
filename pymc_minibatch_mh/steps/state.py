"""The state of a chain, which PyMC saves and restores."""

from __future__ import annotations

from dataclasses import field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from pymc.step_methods.compound import BlockedStep, StepMethodState
from pymc.step_methods.state import WithSamplingState, dataclass_state

from pymc_minibatch_mh import steps
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.model.reading.inputs import model_of

#: Parts of a key that say something as they are; the others are digests.
IN_WORDS = ("method", "taylor_order", "temperature")

if TYPE_CHECKING:
    from pymc_minibatch_mh.expansion.target import Target
    from pymc_minibatch_mh.kernels.surrogate import Surrogate
    from pymc_minibatch_mh.proposals.base import Proposal
    from pymc_minibatch_mh.steps.decision import Decision
    from pymc_minibatch_mh.steps.freshness import WatchedModel


@dataclass_state
class MinibatchState(StepMethodState):
    """Everything of a chain that changes while it runs, and what it belongs to."""

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
    # Why the centre was not moved at the end of warm-up, until that has been told.
    unmoved: str
    updates_per_draw: int = field(metadata={"frozen": True})
    key: dict[str, str] = field(metadata={"frozen": True})


class RestorableStep(BlockedStep):
    """A step that takes a model and a state, and says what is wrong with them."""

    _state_class = MinibatchState

    # Set when the step is built.
    decision: Decision
    proposal: Proposal
    target: Target
    _watched: WatchedModel

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        """Find the model before PyMC asks for it."""
        settings["model"] = model_of(settings.get("model"))
        return super().__new__(cls, *args, **settings)

    def require_unchanged(self) -> None:
        """Refuse to go on with a model or with data that are not those of the step.

        Raises
        ------
        StaleDataError
            If they changed after the step was built; names what did.
        """
        self._watched.require_unchanged(type(self).__name__)

    @cached_property
    def key(self) -> dict[str, str]:
        """What the states of this step's chains belong to, the same in every process.

        The method and the settings of its test, the proposal, the order, the temperature, the
        model and the data: what -> digest, or what it is in words.
        """
        # Taken when a state is, it has to be that of the data which the step was built from.
        self.require_unchanged()
        own = {
            "method": type(self).__name__,
            "the settings of its test": self.decision.key,
            "its proposal": repr(self.proposal),
        }
        return own | steps.machinery.key_of(self.target)

    @property
    def sampling_state(self) -> MinibatchState:
        """Everything of a chain that changes while it runs, and what it belongs to.

        Raises
        ------
        SettingError
            Where it is set to the state of a step of another method, with other settings, or on
            another model or other data; names what differs.
        StaleDataError
            If this step's own data changed after it was built.
        """
        return WithSamplingState.sampling_state.fget(self)

    @sampling_state.setter
    def sampling_state(self, state: MinibatchState) -> None:
        self.require_unchanged()
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
    what = steps.machinery.first_difference(state.key, own.key)
    if what:
        pair = f" ({state.key[what]}, not {own.key[what]})" if what in IN_WORDS else ""
        raise SettingError(
            f"sampling_state= is of a step that differs in {what}{pair}. Build the step as the one "
            "whose state it is."
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
