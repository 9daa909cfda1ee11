"""Sample a logistic regression with 325,724 rows by four subsampling Metropolis methods.

Run ``python examples/quickstart.py`` for a table on the terminal and the figure
``quickstart.png``, which compare the four with a stored run of PyMC's own NUTS; with ``--nuts``
that run is made anew, which takes about half an hour on one core, and stored. With ``--bars FILE``
the speeds and costs are drawn into a file of their own.
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
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import expit
from xarray import DataTree

from flights import LateFlights, late_flights
from pymc_minibatch_mh import (
    AustereMH,
    BarkerMinibatchMH,
    PenaltyMH,
    TunaMH,
    overdispersed_initvals,
)

REFERENCE_FILE = Path(__file__).with_name("flights_nuts.json")
FIGURE_FILE = Path("quickstart.png")

PRIOR_SD = 2.5
CHAINS = 2
TUNE = 2_000
DRAWS = 10_000
NUTS_TUNE = 300
NUTS_DRAWS = 4_000
SEED = 2013


#: The exact method first, then those with a controlled error.
METHODS = (TunaMH, BarkerMinibatchMH, PenaltyMH, AustereMH)
COLOURS = {
    "TunaMH": "#b3325f",
    "BarkerMinibatchMH": "#1f6fb2",
    "PenaltyMH": "#e2711d",
    "AustereMH": "#2a9d74",
    "NUTS": "#5b6472",
}
STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#b8bcc4",
    "axes.grid": True,
    "axes.grid.axis": "x",
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "font.size": 9,
    "grid.color": "#e6e8ec",
    "legend.frameon": False,
    "ytick.left": False,
}


@dataclass(frozen=True)
class Outcome:
    """What is reported of one sampler; times in seconds, arrays with one entry a coefficient."""

    name: str
    setup_seconds: float
    sampling_seconds: float
    rows_per_update: float
    full_share: float
    ess: float
    max_rhat: float
    mean: NDArray[np.float64]
    sd: NDArray[np.float64]
    mcse: NDArray[np.float64]


@dataclass(frozen=True)
class Reference:
    """What is stored of the NUTS run; times in seconds, lists with one entry a coefficient."""

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


def measure(method: type, data: LateFlights) -> Outcome:
    """Sample the model by one method with its default settings."""
    start = time.perf_counter()
    with late_departures(data):
        step = method()
        # PyMC starts every chain of a given step at one point, and R-hat would then see less than
        # it should.
        initvals = overdispersed_initvals(step, CHAINS, random_seed=SEED)
        sampling = time.perf_counter()
        trace = pm.sample(
            DRAWS,
            tune=TUNE,
            chains=CHAINS,
            cores=1,
            step=step,
            initvals=initvals,
            random_seed=SEED,
            progressbar=False,
            compute_convergence_checks=False,
        )
    end = time.perf_counter()
    return summarise(trace, method.__name__, sampling - start, end - sampling)


def summarise(trace: DataTree, name: str, setup_seconds: float, sampling_seconds: float) -> Outcome:
    """Reduce a trace with one update a draw, which is the default, to what is reported of it."""
    draws = trace.posterior
    return Outcome(
        name=name,
        setup_seconds=setup_seconds,
        sampling_seconds=sampling_seconds,
        rows_per_update=float(trace.sample_stats["n_obs"].mean()),
        full_share=float(trace.sample_stats["full_pass"].mean()),
        ess=float(_beta(az.ess(trace, method="bulk")).min()),
        max_rhat=float(_beta(az.rhat(trace)).max()),
        mean=_beta(draws.mean(("chain", "draw"))),
        sd=_beta(draws.std(("chain", "draw"), ddof=1)),
        mcse=_beta(az.mcse(trace, method="mean")),
    )


def table(outcomes: list[Outcome], reference: Reference) -> str:
    """Return the outcomes as lines of text, one sampler a line, NUTS last."""
    head = (
        f"{'':18}{'setup':>8}{'sampling':>10}{'rows per':>11}{'full':>8}{'min':>9}{'ESS':>8}"
        f"{'max':>8}{'means off':>11}{'sds off':>9}\n"
        f"{'sampler':18}{'s':>8}{'s':>10}{'update':>11}{'passes':>8}{'ESS':>9}{'per s':>8}"
        f"{'R-hat':>8}{'by (sd)':>11}{'by':>9}"
    )
    mean, sd = np.array(reference.mean), np.array(reference.sd)
    lines = [
        f"{o.name:18}{o.setup_seconds:8.1f}{o.sampling_seconds:10.1f}{o.rows_per_update:11,.0f}"
        f"{o.full_share:8.1%}{o.ess:9,.0f}{o.ess / o.sampling_seconds:8,.0f}{o.max_rhat:8.3f}"
        f"{np.abs((o.mean - mean) / sd).max():11.3f}{np.abs(o.sd / sd - 1).max():9.1%}"
        for o in outcomes
    ]
    ess = min(reference.ess_bulk)
    nuts = (
        f"{'NUTS (stored)':18}{reference.setup_seconds:8.1f}{reference.sampling_seconds:10.1f}"
        f"{'':11}{'':8}{ess:9,.0f}{ess / reference.sampling_seconds:8,.1f}"
        f"{reference.max_rhat:8.3f}"
    )
    return "\n".join([head, "-" * 100, *lines, nuts])


def draw_figure(outcomes: list[Outcome], reference: Reference, rows: int) -> Figure:
    """Draw the coefficients, how far the samplers are from NUTS, and what they cost."""
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(14, 8), layout="constrained")
        grid = figure.add_gridspec(2, 3, width_ratios=[3.2, 2.4, 1.9])
        coefficients = figure.add_subplot(grid[:, 0])
        distances = figure.add_subplot(grid[:, 1], sharey=coefficients)
        _draw_coefficients(coefficients, outcomes, reference)
        _draw_distances(distances, outcomes, reference)
        _draw_speeds(figure.add_subplot(grid[0, 2]), outcomes, reference)
        _draw_costs(figure.add_subplot(grid[1, 2]), outcomes, reference, rows)
        figure.suptitle(
            f"What makes flights late: {rows:,} flights, {len(reference.names)} coefficients",
            x=0.01,
            ha="left",
            fontsize=14,
            fontweight="bold",
        )
    return figure


def draw_bars(outcomes: list[Outcome], reference: Reference, rows: int) -> Figure:
    """Draw the speeds and costs of all samplers side by side."""
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(9, 2.4), layout="constrained")
        _draw_speeds(left, outcomes, reference)
        _draw_costs(right, outcomes, reference, rows)
        right.tick_params(labelleft=False)
    return figure


def _draw_speeds(axes: Axes, outcomes: list[Outcome], reference: Reference) -> None:
    speeds = {o.name: o.ess / o.sampling_seconds for o in outcomes}
    speeds["NUTS"] = min(reference.ess_bulk) / reference.sampling_seconds
    _draw_bars(axes, speeds, "Effective draws per second")


def _draw_costs(axes: Axes, outcomes: list[Outcome], reference: Reference, rows: int) -> None:
    costs = {o.name: o.rows_per_update for o in outcomes}
    costs["NUTS"] = reference.gradients_per_draw * rows
    _draw_bars(axes, costs, "Observations evaluated per draw")


def _draw_coefficients(axes: Axes, outcomes: list[Outcome], reference: Reference) -> None:
    at = np.arange(len(reference.names))
    mean, sd = np.array(reference.mean), np.array(reference.sd)
    axes.axvline(0, color="#b8bcc4", linewidth=0.8, zorder=0)
    axes.hlines(
        at,
        mean - 1.96 * sd,
        mean + 1.96 * sd,
        color=COLOURS["NUTS"],
        alpha=0.3,
        linewidth=9,
        label="NUTS, 95 % interval",
    )
    for shift, outcome in zip(_shifts(outcomes), outcomes, strict=True):
        axes.plot(
            outcome.mean, at + shift, "o", markersize=3.5, **_look(outcome), label=outcome.name
        )
    axes.set_yticks(at, reference.names)
    axes.set_ylim(len(at) - 0.4, -0.6)
    axes.set_title("Posterior means of the coefficients")
    axes.set_xlabel("change of the log-odds of leaving late")
    axes.legend(loc="center left", bbox_to_anchor=(0, 0.72))


def _draw_distances(axes: Axes, outcomes: list[Outcome], reference: Reference) -> None:
    at = np.arange(len(reference.names))
    mean, sd = np.array(reference.mean), np.array(reference.sd)
    noise = 1.96 * np.array(reference.mcse_mean) / sd
    axes.fill_betweenx(at, -noise, noise, color=COLOURS["NUTS"], alpha=0.2, linewidth=0)
    axes.axvline(0, color="#b8bcc4", linewidth=0.8, zorder=0)
    for shift, outcome in zip(_shifts(outcomes), outcomes, strict=True):
        axes.errorbar(
            (outcome.mean - mean) / sd,
            at + shift,
            xerr=1.96 * outcome.mcse / sd,
            fmt="o",
            markersize=3.5,
            linewidth=1,
            **_look(outcome),
        )
    axes.tick_params(labelleft=False)
    axes.set_title("Distance from the means of NUTS")
    axes.set_xlabel("posterior sds; lines and grey band: 95 % Monte Carlo intervals")


def _draw_bars(axes: Axes, values: dict[str, float], title: str) -> None:
    bars = axes.barh(
        list(values), list(values.values()), height=0.62, color=[COLOURS[name] for name in values]
    )
    labels = [f"{value:,.0f}" if value >= 10 else f"{value:.1f}" for value in values.values()]
    axes.bar_label(bars, labels, padding=4)
    axes.set_xscale("log")
    # A bar on a log axis has no natural foot; a decade below the smallest leaves all to be seen.
    axes.set_xlim(min(values.values()) / 10, max(values.values()) * 12)
    axes.minorticks_off()
    axes.invert_yaxis()
    axes.set_title(title)


def _shifts(outcomes: list[Outcome]) -> NDArray[np.float64]:
    return np.linspace(-0.24, 0.24, len(outcomes))


def _look(outcome: Outcome) -> dict[str, Any]:
    return {"color": COLOURS[outcome.name], "markeredgewidth": 0}


def load_reference() -> Reference:
    """Read the stored summary of the NUTS run."""
    return Reference(**json.loads(REFERENCE_FILE.read_text()))


def main() -> None:
    """Compare the four methods with NUTS, or run NUTS anew."""
    parser = argparse.ArgumentParser(description="Four subsampling methods and NUTS.")
    parser.add_argument("--nuts", action="store_true", help="run NUTS anew and store its summary")
    parser.add_argument("--bars", type=Path, help="draw speeds and costs alone into this file, too")
    arguments = parser.parse_args()
    data = late_flights()
    if arguments.nuts:
        REFERENCE_FILE.write_text(json.dumps(asdict(run_nuts(data)), indent=1) + "\n")
        return
    reference = load_reference()
    outcomes = [measure(method, data) for method in METHODS]
    print(table(outcomes, reference))
    draw_figure(outcomes, reference, len(data.late)).savefig(FIGURE_FILE, dpi=160)
    if arguments.bars:
        draw_bars(outcomes, reference, len(data.late)).savefig(arguments.bars)
    print(f"\nFigure: {FIGURE_FILE}")


if __name__ == "__main__":
    main()
