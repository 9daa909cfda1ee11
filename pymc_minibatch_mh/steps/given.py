"""A step that users hand over, and the model behind it."""

from typing import Any

import pymc as pm

from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.steps.base import MinibatchStep


def step_of(step: Any) -> MinibatchStep:
    """Return the step that was given.

    Raises
    ------
    SettingError
        If it is none of this package's.
    """
    if not isinstance(step, MinibatchStep):
        raise SettingError(
            f"step={type(step).__name__} is no step method of this package. Pass the one that "
            "pm.sample() gets, such as a TunaMH()."
        )
    return step


def model_behind(step: MinibatchStep) -> pm.Model:
    """Return the model that a step was built on, from the context if the step has lost it.

    Raises
    ------
    SettingError
        If the step was pickled and the model of the context is none or another one.
    """
    try:
        _, given = step.__getnewargs_ex__()
    except AttributeError:
        return _matching_context(step)
    return given["model"]


def _matching_context(step: MinibatchStep) -> pm.Model:
    model = pm.Model.get_context(error_if_none=False)
    parts = step.target.split
    needed = {block.name for block in (*parts.blocks, *parts.others)}
    if model is None or needed != {v.name for v in model.value_vars}:
        raise SettingError(
            f"step={type(step).__name__} has left its model in another process. Call this inside "
            "of 'with model:', with that model."
        )
    return model
