"""Validation of numbers and choices in user settings."""

import math
from typing import Any

import numpy as np

from pymc_minibatch_mh.errors import SettingError


def is_number(value: Any) -> bool:
    """Whether a setting is a real number."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def check_positive(name: str, value: Any, or_else: str = "Give a number above 0.") -> float:
    """Validate a positive finite number; `or_else` completes the message with a remedy."""
    if is_number(value) and 0.0 < float(value) < math.inf:
        return float(value)
    raise SettingError(f"{name}={value!r} is not a positive number. {or_else}")


def check_integer(name: str, value: Any, least: int = 1) -> int:
    """Validate an integer of at least `least`."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= least:
        return int(value)
    raise SettingError(f"{name}={value!r} is not an integer of {least} or more. Give one.")


def check_row_count(name: str, value: Any) -> int:
    """Validate a number of observations."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise SettingError(
        f"{name}={value!r} is not a number of observations. Give an integer of 0 or more."
    )


def check_flag(name: str, value: Any) -> bool:
    """Validate a boolean."""
    if not isinstance(value, bool | np.bool_):
        raise SettingError(f"{name}={value!r} is neither True nor False. Give one of them.")
    return bool(value)


def check_choice(name: str, value: Any, known: tuple[str, ...]) -> str:
    """Validate a choice among known names."""
    if value not in known:
        *others, last = map(repr, known)
        raise SettingError(f"{name}={value!r} is unknown. Use {', '.join(others)} or {last}.")
    return str(value)


def as_floats(name: str, given: Any) -> tuple[float, ...]:
    """Validate a sequence of numbers."""
    try:
        return tuple(float(number) for number in given)
    except (TypeError, ValueError) as error:
        raise SettingError(f"{name}={given!r} is not a sequence of numbers. Give one.") from error
