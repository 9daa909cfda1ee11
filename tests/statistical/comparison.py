"""How far a trace is from a reference, in posterior standard deviations."""

from dataclasses import dataclass

import arviz as az
import numpy as np

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

    @property
    def small(self):
        """Whether both distances are accepted."""
        return self.mean < MEAN and self.sd < SD

    @property
    def seen(self):
        """Whether distances of the accepted size stand out by three standard errors."""
        return 3.0 * self.mean_noise < MEAN and 3.0 * self.sd_noise < SD


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
    return Distance(*np.max(rows, axis=0))
