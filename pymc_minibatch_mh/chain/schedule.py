"""Temperatures that a chain goes through in warm-up, and where each of them holds.

Only a chain without control variates can: their sums hold the temperature they were made for. What
was prepared belongs to the last temperature, and is scaled to those before it
(:attr:`pymc_minibatch_mh.kernels.surrogate.Surrogate.relative`).
"""

from __future__ import annotations

import sys
from typing import NamedTuple

from pymc_minibatch_mh.kernels.surrogate import Surrogate

#: Pairs (draw, K): from which draw on which temperature holds; the first draw is 0.
Schedule = tuple[tuple[int, float], ...]


class Stage(NamedTuple):
    """Draws that are made at one temperature.

    Parameters
    ----------
    begin, end
        First draw, and the first of the next stage.
    temperature
        Temperature K of the log-likelihood; None for that of what was prepared.
    """

    begin: int
    end: int
    temperature: float | None


def stage_of(schedule: Schedule, n_draws: int, adapting: bool) -> Stage:
    """Return the stage of the next draw of a chain.

    Parameters
    ----------
    schedule
        The temperatures; empty for one alone.
    n_draws
        Draws that the chain has made.
    adapting
        Whether it is in warm-up, after which the last temperature holds in any case.
    """
    begun = [k for k, (draw, _) in enumerate(schedule) if draw <= n_draws]
    if not begun:
        return Stage(0, sys.maxsize, None)
    begin, temperature = schedule[begun[-1]]
    if len(begun) == len(schedule) or not adapting:
        return Stage(begin, sys.maxsize, None)
    return Stage(begin, schedule[len(begun)][0], temperature)


def tempered(surrogate: Surrogate, temperature: float | None) -> Surrogate:
    """Return control variates of order 0 at another temperature than they were prepared for."""
    if temperature is None:
        return surrogate
    beta = 1.0 / temperature
    relative = beta / surrogate.inverse_temperature
    return surrogate._replace(inverse_temperature=beta, relative=relative)
