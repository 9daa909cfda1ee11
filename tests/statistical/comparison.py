"""How far a trace is from a reference, in posterior standard deviations."""

from dataclasses import dataclass

import arviz as az
import numpy as np
from scipy.stats import norm

from statistical.budget import TRACE_LEVEL
from zoo import coordinates

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


def distance(trace, reference):
    """Compare a trace with figures of a reference, coordinate by coordinate."""
    rows = []
    draws = coordinates(trace)
    assert set(draws) == set(reference)
    for name, own in draws.items():
        figures = reference[name]
        sd = figures["sd"]
        rows.append(
            (
                abs(own.mean() - figures["mean"]) / sd,
                abs(own.std(ddof=1) / sd - 1.0),
                np.hypot(float(az.mcse(own, method="mean")), figures["mcse_mean"]) / sd,
                np.hypot(float(az.mcse(own, method="sd")), figures["mcse_sd"]) / sd,
            )
        )
    noise = np.array(rows)[:, 2:]
    alarm = 2.0 * norm.sf([MEAN, SD] / noise).sum()
    return Distance(*np.max(rows, axis=0), alarm)
