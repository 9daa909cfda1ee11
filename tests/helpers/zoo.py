"""Methods that tests ask alike, and how they sample."""

import numpy as np
import pymc as pm
import pytensor
import pytest

from pymc_minibatch_mh import (
    AustereMH,
    BarkerMinibatchMH,
    BarkerPaperMH,
    ConfidenceMH,
    ConfidenceScanMH,
    FactorizedMH,
    FireflyMH,
    PenaltyMH,
    PoissonMH,
    ScalableSubsamplingMH,
    TunaMH,
    TunaPaperMH,
)
from pymc_minibatch_mh import sample as sample_in_blocks

APPROXIMATE = {cls.__name__: cls for cls in (AustereMH, BarkerMinibatchMH, ConfidenceMH, PenaltyMH)}
EXACT = {cls.__name__: cls for cls in (FactorizedMH, FireflyMH, ScalableSubsamplingMH, TunaMH)}
METHODS = APPROXIMATE | EXACT
#: One method of either kind at once, and the others where there is time.
SOME_METHODS = [
    pytest.param(name, marks=[] if name in ("TunaMH", "BarkerMinibatchMH") else [pytest.mark.slow])
    for name in METHODS
]
#: What needs the ranges of log-likelihoods, which only `bounded` has of the shared models.
RANGED = {"PoissonMH": PoissonMH}
#: Other rules for methods above, as published.
PAPERS = {step.__name__: step for step in (BarkerPaperMH, ConfidenceScanMH, TunaPaperMH)}


#: Variables that are compared on the log scale, on which they are about normal.
POSITIVE = ("sigma", "scale", "alpha", "nu", "phi", "tau")


def coordinates(trace):
    """Return the draws of every coordinate: name -> array of shape (chains, draws)."""
    draws = {}
    for name, values in trace.posterior.data_vars.items():
        cells = values.to_numpy().reshape(*values.shape[:2], -1)
        cells = np.log(cells) if name in POSITIVE else cells
        draws |= {f"{name}[{k}]": cells[..., k] for k in range(cells.shape[2])}
    return draws


#: Draws of a chain that are sooner computed in Python than what computes them is compiled.
FEW_DRAWS = 600


def sample(model, step, draws, tune, chains=2, **settings):
    """Sample without messages and without checks."""
    # PyMC would have what a trace is computed by compiled, for few draws.
    few = {"linker": "py", "cxx": ""} if draws + tune <= FEW_DRAWS else {}
    with pytensor.config.change_flags(**few), model:
        return pm.sample(
            draws,
            tune=tune,
            chains=chains,
            step=step,
            **{"cores": 1, "quiet": True, "compute_convergence_checks": False, **settings},
        )


def drawn(model, step, draws, tune, chains=2, **settings):
    """Draw the same, without PyMC's loop around every draw, which takes ten times an update."""
    with model:
        return sample_in_blocks(
            step,
            draws,
            tune=tune,
            chains=chains,
            **{"progressbar": False, "compute_convergence_checks": False, **settings},
        )
