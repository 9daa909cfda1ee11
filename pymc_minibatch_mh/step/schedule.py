"""Checks of a schedule of temperatures."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_minibatch_mh.errors import SettingError


def schedule_of(setting: Any, tune: bool) -> tuple[tuple[int, float], ...]:
    """Return the schedule that temperature= is, empty where it is one temperature.

    Raises
    ------
    SettingError
        If a schedule is no sequence of pairs (draw, K) with draws that ascend from 0 and K > 0, or
        if there is no warm-up for it.
    """
    if not isinstance(setting, list | tuple):
        return ()
    draws = [pair[0] for pair in setting if _is_stage(pair)]
    ascending = draws[:1] == [0] and draws == sorted(set(draws))
    if not ascending or len(draws) < len(setting):
        raise SettingError(
            f"temperature={setting!r} is no schedule of temperatures. Give pairs (draw, K) with "
            "draws that ascend from 0 and K above 0, such as [(0, 100), (400, 1)]."
        )
    if not tune:
        raise SettingError(
            f"temperature={setting!r} is a schedule for warm-up, which tune=False leaves out. Use "
            "tune=True, or one temperature."
        )
    return tuple((int(draw), float(temperature)) for draw, temperature in setting)


def _is_stage(pair: Any) -> bool:
    """Whether something is a pair (draw, K) with an integer of 0 or more and a number above 0."""
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        return False
    draw, temperature = pair
    numbers = int | float | np.integer | np.floating
    if any(isinstance(part, bool) or not isinstance(part, numbers) for part in pair):
        return False
    return isinstance(draw, int | np.integer) and bool(draw >= 0 and 0.0 < temperature < np.inf)


def require_warm_up_for(schedule: Sequence[tuple[int, float]], tune: int) -> None:
    """Refuse a warm-up that ends before the last temperature of a schedule is reached."""
    if schedule and tune < schedule[-1][0]:
        raise SettingError(
            f"temperature={list(schedule)!r} reaches its last temperature at draw "
            f"{schedule[-1][0]}, after a warm-up of tune={tune} draws has ended. Raise tune=, or "
            "shorten the schedule."
        )
