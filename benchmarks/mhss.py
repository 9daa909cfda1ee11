"""MH-SS as its authors programmed it, and the steps of this package, on the authors' experiment.

    python -m venv PEER && PEER/bin/pip install PyMHSS tensorflow statsmodels jax plotnine
    PYTHONPATH=.:tests:examples python -m benchmarks.mhss PEER/bin/python

Prado, Nemeth, Sherlock (2024), doi:10.48550/arXiv.2407.19602, regress counts of the rate log(1 +
exp(xᵀθ)) on 30 standard normal features, with a flat prior. Chains are random walks of 1.5/√d
standard deviations in each direction, with PyMHSS's and this package's bounds of orders 1 and 2;
PyMHSS's factorized step has the walks of its tables. All have the same mode,
covariance and data. Of the rows that a draw takes by their bounds, those are evaluated for which
the first stage, by the expansion alone, accepts; of PyMHSS's runs that share is known on average.
Times are left out, as PyMHSS is written in Python. It runs in an environment of its own, as it
needs TensorFlow.
"""

import argparse
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt

from pymc_minibatch_mh import RandomWalk, ScalableSubsamplingMH, TunaMH, sample

PEER = Path(__file__).with_name("mhss_peer.py")
ROWS, FEATURES = (31_622, 100_000), 30
#: Length of the walk, in standard deviations times √d.
WALK = 1.5
HEAD = "step", "rows a draw", "acceptance", "ESS a draw", "ESS of 1,000 rows"


def data(rows: int, seed: int) -> dict[str, np.ndarray]:
    """Draw features, coefficients and counts as ``PyMHSS.simulate_data`` does."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, FEATURES))
    x[:, 0] = 1.0
    theta = rng.standard_normal(FEATURES) / np.sqrt(FEATURES)
    return {"x": x, "y": rng.poisson(np.log1p(np.exp(x @ theta))).astype(float)}


def print_line(name: str, costs: Sequence[float], draws: np.ndarray) -> None:
    """Print a line of the table: costs are rows of a draw, and acceptance."""
    rows, acceptance = costs
    ess = float(az.ess(draws[None]).min()) / len(draws)
    figures = f"{rows:,.1f}", f"{acceptance:.3f}", f"{ess:.4f}", f"{1_000 * ess / rows:.3f}"
    print("|", " | ".join([name, *figures]), "|", flush=True)


def measured(rows: int, draws: int, peers: Path, seed: int) -> None:
    """Print the table of one number of rows."""
    given = data(rows, seed)
    with pm.Model() as model:
        theta = pm.Flat("theta", shape=FEATURES)
        pm.Poisson("counts", pt.softplus(given["x"] @ theta), observed=given["y"].astype(int))
    walk = RandomWalk(scale=WALK / np.sqrt(FEATURES), adapt=False)
    steps = {
        f"ScalableSubsamplingMH, order {order}, the same walk": ScalableSubsamplingMH(
            model=model, taylor_order=order, proposal=walk
        )
        for order in (1, 2)
    } | {"TunaMH()": TunaMH(model=model)}
    reference = steps["TunaMH()"].plan.reference
    covariance = reference.factor @ reference.factor.T
    print(f"\nN = {rows:,}\n\n| {' | '.join(HEAD)} |\n|{' --- |' * len(HEAD)}")
    with TemporaryDirectory() as folder:
        stored = Path(folder) / "given.npz"
        np.savez(stored, **given, mode=reference.centre, V=covariance)
        command = [str(peers), str(PEER), str(stored), str(draws), str(WALK)]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        found = np.load(stored.with_name("found.npz"))
        for name in dict.fromkeys(key.partition("/")[0] for key in found.files):
            print_line(f"PyMHSS, {name}", found[f"{name}/costs"], found[f"{name}/draws"])
    for name, step in steps.items():
        trace = sample(step, draws, tune=1_000, chains=1, random_seed=seed, progressbar=False)
        stats = trace.sample_stats
        costs = [float(stats[stat].mean()) for stat in ("n_obs", "accepted_share")]
        print_line(name, costs, trace.posterior["theta"].to_numpy()[0])


def main() -> None:
    """Measure both numbers of rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("python", type=Path, help="of an environment with PyMHSS")
    parser.add_argument("--draws", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    for rows in ROWS:
        measured(rows, asked.draws, asked.python, asked.seed)


if __name__ == "__main__":
    main()
