"""How far a trace is from a reference, in posterior standard deviations."""

from dataclasses import dataclass

import arviz as az
import numpy as np
from scipy.stats import norm

from helpers.zoo import coordinates
from law.statistical.budget import TRACE_LEVEL

#: Largest accepted distances of a mean, in posterior sd, and of a relative sd.
MEAN, SD = 0.1, 0.05


@dataclass(frozen=True)
class Distance:
    """Largest distances over the coordinates, and what Monte Carlo error alone explains."""

    mean: float
    sd: float
    mean_noise: float
    sd_noise: float
    #: Chance that Monte Carlo error alone exceeds an accepted distance, over all coordinates.
    alarm: float

    @property
    def small(self):
        """Whether both distances are accepted."""
        return self.mean < MEAN and self.sd < SD

    @property
    def seen(self):
        """Whether distances of the accepted size stand out from Monte Carlo error."""
        standing_out = 3.0 * self.mean_noise < MEAN and 3.0 * self.sd_noise < SD
        return standing_out and self.alarm < TRACE_LEVEL


def gaps(own, figures):
    """Return how far mean and sd of draws are from a reference, and the Monte Carlo errors."""
    off = abs(own.mean() - figures["mean"]), abs(own.std(ddof=1) - figures["sd"])
    errors = [
        np.hypot(float(az.mcse(own, method=kind)), figures[f"mcse_{kind}"])
        for kind in ("mean", "sd")
    ]
    return [*off, *errors]


def distance(trace, reference):
    """Compare a trace with figures of a reference, coordinate by coordinate."""
    draws = coordinates(trace)
    assert set(draws) == set(reference)
    rows = np.array([gaps(x, reference[name]) for name, x in draws.items()])
    rows /= np.array([[reference[name]["sd"]] for name in draws])
    alarm = 2.0 * norm.sf([MEAN, SD] / rows[:, 2:]).sum()
    return Distance(*np.max(rows, axis=0), alarm)
