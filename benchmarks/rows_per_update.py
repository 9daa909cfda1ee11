"""Rows per update against the number of rows: a figure of docs/background/benchmarks.md.

    PYTHONPATH=.:tests:examples python -m benchmarks.rows_per_update

One chain of `sample` per step and size, default settings, on the logistic regressions of
``peers.py`` with 10 coefficients.
"""

from pathlib import Path

import arviz as az
import numpy as np
import pymc as pm

import pymc_minibatch_mh as mb
from benchmarks.models import logistic
from papers.drawing import draw
from papers.report import Curve, Panel
from pymc_minibatch_mh.steps.base import MinibatchStep

SIZES = 10_000, 31_623, 100_000, 316_228, 1_000_000
STEPS = mb.TunaMH, mb.PenaltyMH, mb.BarkerMinibatchMH, mb.AustereMH
COEFFICIENTS, TUNE, DRAWS = 10, 2_000, 10_000
FIGURE = Path(__file__).resolve().parents[1] / "docs" / "figures" / "rows_per_update.svg"


def measured(model: pm.Model, kind: type[MinibatchStep]) -> tuple[float, float]:
    """Return rows per update, and bulk ESS per update of the slowest coefficient."""
    step = kind(model=model, rng=1)
    run = {"draws": DRAWS, "tune": TUNE, "chains": 1, "random_seed": 1, "progressbar": False}
    trace = mb.sample(step, **run)
    slowest = min(float(each.min()) for each in az.ess(trace).dataset.values())
    return float(trace.sample_stats["n_obs"].mean()), slowest / DRAWS


def main() -> None:
    """Measure, print a table and draw the figure."""
    found = {kind.__name__: [] for kind in STEPS}
    for n_rows in SIZES:
        model = logistic(n_rows, COEFFICIENTS)
        for kind in STEPS:
            found[kind.__name__].append(measured(model, kind))
            print(f"{n_rows:>9,} {kind.__name__:<18}", *np.round(found[kind.__name__][-1], 3))
    panels = [
        Panel(
            "",
            "observations N",
            label,
            [
                Curve(name, SIZES, [float(f"{pair[k]:.4g}") for pair in pairs])
                for name, pairs in found.items()
            ],
            log_x=True,
            log_y=k == 0,
        )
        for k, label in enumerate(("rows per update", "effective draws per update"))
    ]
    draw(panels, FIGURE)


if __name__ == "__main__":
    main()
