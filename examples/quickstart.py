"""Sample a logistic regression with 325,724 rows by three subsampling Metropolis methods.

Run ``python examples/quickstart.py`` for a table on the terminal and the figure
``quickstart.png``, which compare the three with a stored run of PyMC's own NUTS; with ``--nuts``
that run is made anew (it takes about a quarter of an hour) and stored.
"""

import argparse
import json
import time
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
from flights import LateFlights, late_flights
from numpy.typing import NDArray
from scipy.special import expit
from xarray import DataTree

from pymc_minibatch_mh import AustereMH, BarkerMinibatchMH, PenaltyMH, overdispersed_initvals

REFERENCE_FILE = Path(__file__).with_name("flights_nuts.json")
FIGURE_FILE = Path("quickstart.png")

PRIOR_SD = 2.5
CHAINS = 2
TUNE = 2_000
DRAWS = 10_000
NUTS_TUNE = 300
NUTS_DRAWS = 4_000
SEED = 2013


@dataclass(frozen=True)
class Reference:
    """What is stored of the NUTS run; lists have one entry a coefficient, times are in seconds."""

    command: str
    versions: dict[str, str]
    chains: int
    tune: int
    draws: int
    setup_seconds: float
    sampling_seconds: float
    gradients_per_draw: float
    divergences: int
    max_rhat: float
    names: list[str]
    mean: list[float]
    sd: list[float]
    mcse_mean: list[float]
    mcse_sd: list[float]
    ess_bulk: list[float]
    ess_tail: list[float]


def late_departures(data: LateFlights) -> pm.Model:
    """Return the model: nothing in it knows of subsampling."""
    with pm.Model(coords={"coefficient": data.names}) as model:
        beta = pm.Normal("beta", 0, PRIOR_SD, dims="coefficient")
        pm.Bernoulli("late", logit_p=data.X @ beta, observed=data.late)
    return model


def run_nuts(data: LateFlights) -> Reference:
    """Sample the model with PyMC's NUTS, started at the mode.

    The fixed mass matrix is the Hessian at the mode, which is as good a one as this posterior
    has: NUTS is spared the adaptation of 27 scales and their correlations.
    """
    start = time.perf_counter()
    mode, hessian = _mode(data)
    with late_departures(data):
        step = pm.NUTS(scaling=np.linalg.inv(hessian), is_cov=True)
        sampling = time.perf_counter()
        trace = pm.sample(
            NUTS_DRAWS,
            tune=NUTS_TUNE,
            chains=CHAINS,
            cores=1,
            step=step,
            initvals={"beta": mode},
            nuts_sampler="pymc",
            random_seed=SEED,
            progressbar=False,
        )
    return Reference(
        command="python examples/quickstart.py --nuts",
        versions={name: version(name) for name in ("pymc", "pytensor", "arviz", "numpy", "numba")},
        chains=CHAINS,
        tune=NUTS_TUNE,
        draws=NUTS_DRAWS,
        setup_seconds=sampling - start,
        sampling_seconds=time.perf_counter() - sampling,
        gradients_per_draw=float(trace.sample_stats["n_steps"].mean()),
        divergences=int(trace.sample_stats["diverging"].sum()),
        max_rhat=float(_beta(az.rhat(trace)).max()),
        names=list(data.names),
        mean=_beta(trace.posterior.mean(("chain", "draw"))).tolist(),
        sd=_beta(trace.posterior.std(("chain", "draw"), ddof=1)).tolist(),
        mcse_mean=_beta(az.mcse(trace, method="mean")).tolist(),
        mcse_sd=_beta(az.mcse(trace, method="sd")).tolist(),
        ess_bulk=_beta(az.ess(trace, method="bulk")).tolist(),
        ess_tail=_beta(az.ess(trace, method="tail")).tolist(),
    )


def _mode(data: LateFlights) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mode of the posterior and the negative Hessian there, by Newton's method."""
    mode = np.zeros(data.X.shape[1])
    for _ in range(20):
        share = expit(data.X @ mode)
        gradient = data.X.T @ (data.late - share) - mode / PRIOR_SD**2
        hessian = (data.X.T * (share * (1 - share))) @ data.X + np.eye(len(mode)) / PRIOR_SD**2
        move = np.linalg.solve(hessian, gradient)
        mode += move
        if np.abs(move).max() < 1e-9:
            break
    return mode, hessian


def _beta(summary: Any) -> NDArray[np.float64]:
    return summary["beta"].to_numpy()


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nuts", action="store_true", help="run NUTS anew and store its summary")
    data = late_flights()
    if parser.parse_args().nuts:
        REFERENCE_FILE.write_text(json.dumps(asdict(run_nuts(data)), indent=1) + "\n")


if __name__ == "__main__":
    main()
