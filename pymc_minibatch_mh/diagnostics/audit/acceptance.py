"""Acceptance of the audited moves beside the acceptance that a trace tells of itself.

Draws that are not of the step's posterior may lie where every move is rejected. Nothing moves from
there, so that nothing drifts; but the chain of the trace moved, as its stats say.

Both rates are means of numbers in [0, 1], p of n and p' of n' effective ones. If they have one
expectation, then by Chernoff's bound both lie as far on their sides of it with a probability of

    exp(-n KL(p | m) - n' KL(p' | m)),    m = (n p + n' p')/(n + n'),

at most: of any distribution, rare rejections included, where a normal approximation would not do.
"""

from typing import NamedTuple

import arviz as az
import numpy as np
import xarray as xr
from scipy.special import rel_entr

from pymc_minibatch_mh.diagnostics.audit.measure import Measured

#: By how much warm-up that ran anew may lower the rate: two chains adapt to different proposals.
ANEW = 0.5


class Accepted(NamedTuple):
    """Two rates of acceptance.

    Parameters
    ----------
    pairs, trace
        Of the audited moves, and of the updates of the trace.
    least
        Rate that the audited moves have at least, if they are of the chain of the trace.
    log_chance
        Bound of the log probability of such a difference, where there should be none.
    """

    pairs: float
    trace: float
    least: float
    log_chance: float


def accepted(
    measured: Measured, trace: xr.DataTree, number: int | None, times: np.ndarray
) -> Accepted:
    """Compare what audited moves accept with what the chains of a trace did.

    Parameters
    ----------
    measured
        The moves; those that ended in a violated bound are left out.
    trace
        Its stats tell the share of the updates that were accepted, at the last temperature.
    number
        The chain whose frozen state proposed; None for a warm-up that was run anew, whose moves
        may be accepted more often, and half as often.
    times
        Integrated autocorrelation times between draws, of all moments of all coordinates: a chain
        that stays in a tail for long is rejected there again and again.
    """
    rates = measured.there["mean"]
    rates = rates[np.isfinite(rates)]
    own = float(rates.mean()) if rates.size else 0.0
    shares = _shares(trace, number)
    # Steps of this package beside each other have their stats there, too: one of them is this one.
    of_steps = [float(share.mean()) for share in shares]
    k = int(np.argmin(np.abs(np.array(of_steps) - own)))
    theirs, size = of_steps[k], shares[k].size
    slowest = float(np.max(times, initial=1.0, where=np.isfinite(times)))
    effective = min(float(az.ess(shares[k], method="mean")), size / slowest)
    least = theirs if number is not None else ANEW * theirs
    chance = 0.0
    if number is not None or own < least:
        # Moves from draws that depend on each other say less than their number.
        chance = _log_chance(own, min(rates.size, effective), least, effective)
    return Accepted(own, theirs, least, chance)


def _shares(trace: xr.DataTree, number: int | None) -> list[np.ndarray]:
    """Return the shares of updates that were accepted, shape (chain, draw), of each step."""
    share, temperature = (trace["sample_stats"][name] for name in ("accepted_share", "temperature"))
    if number is not None:
        share, temperature = share.sel(chain=[number]), temperature.sel(chain=[number])
    chains, draws = share.sizes["chain"], share.sizes["draw"]
    values = share.to_numpy().reshape(chains, draws, -1)
    temperatures = temperature.to_numpy().reshape(chains, draws, -1)
    last = (temperatures == temperatures[:, -1:]).all(axis=(0, 2))
    return list(np.moveaxis(values[:, last], -1, 0))


def _log_chance(rate: float, count: float, other: float, other_count: float) -> float:
    mean = (count * rate + other_count * other) / (count + other_count)
    return -(count * _divergence(rate, mean) + other_count * _divergence(other, mean))


def _divergence(rate: float, mean: float) -> float:
    return float(rel_entr(rate, mean) + rel_entr(1.0 - rate, 1.0 - mean))
