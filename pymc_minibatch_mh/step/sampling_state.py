"""The state of a step, which PyMC saves and restores."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from pymc.step_methods.compound import StepMethodState
from pymc.step_methods.state import dataclass_state

from pymc_minibatch_mh.chain.state import ChainState
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.preparation.file import first_difference

#: Parts of a key that say something as they are; the others are digests.
IN_WORDS = ("method", "taylor_order", "temperature")


@dataclass_state
class MinibatchState(StepMethodState):
    """Everything of a chain that changes while it runs, and what it belongs to."""

    chain_state: ChainState
    updates_per_draw: int = field(metadata={"frozen": True})
    key: dict[str, str] = field(metadata={"frozen": True})


def require_fitting(state: Any, own: MinibatchState) -> None:
    """Refuse a state that is not one of a step's own.

    Raises
    ------
    SettingError
        Names what differs.
    """
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
    what = first_difference(state.key, own.key)
    if what:
        pair = f" ({state.key[what]}, not {own.key[what]})" if what in IN_WORDS else ""
        raise SettingError(
            f"sampling_state= is of a step that differs in {what}{pair}. Build the step as the one "
            "whose state it is."
        )
    kept, given = own.chain_state.shapes(), state.chain_state.shapes()
    wrong = [name for name in kept if given[name] != kept[name]]
    if wrong:
        raise SettingError(
            f"sampling_state= has {wrong[0]!r} of shape {given[wrong[0]]} instead of "
            f"{kept[wrong[0]]}, so it is of another model, method or proposal. Build the step as "
            "the one whose state it is."
        )
