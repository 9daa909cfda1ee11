"""Sample a logistic regression with 325,724 rows by four subsampling Metropolis methods.

Run ``python examples/quickstart.py`` for a table on the terminal and the figure
``quickstart.png``, which compare the four with a stored run of PyMC's own NUTS. ``--nuts`` makes
that run anew, which takes about half an hour, and stores it. ``--figure FILE`` draws the seconds to
1,000 effective draws: it measures TunaMH, and takes nutpie and PyMC's NUTS from
``flights_speeds.json``. ``--rivals`` measures these two anew, which takes eight minutes.

All seconds are CPU seconds of the whole process, so that other work on the machine counts little.
"""

import argparse
import json
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
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
SPEEDS_FILE = Path(__file__).with_name("flights_speeds.json")
FIGURE_FILE = Path("quickstart.png")

PRIOR_SD = 2.5
CHAINS = 2
TUNE = 2_000
DRAWS = 10_000
NUTS_TUNE = 300
NUTS_DRAWS = 4_000
#: Draws of the runs that only measure the speed of NUTS, in nutpie and in PyMC.
RIVAL_DRAWS = 300
#: What the figure asks of each sampler.
EFFECTIVE = 1_000
SEED = 2013
LIBRARIES = ("pymc-minibatch-mh", "nutpie", "pymc", "pytensor", "arviz", "numpy", "numba")


#: The exact method first, then those with a controlled error.
METHODS = (TunaMH, BarkerMinibatchMH, PenaltyMH, AustereMH)
COLOURS = {
    "TunaMH": "#b3325f",
    "BarkerMinibatchMH": "#1f6fb2",
    "PenaltyMH": "#e2711d",
    "AustereMH": "#2a9d74",
    "nutpie": "#8d96a3",
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


def versions() -> dict[str, str]:
    """Return the versions of what is installed, which nutpie need not be."""
    found = {}
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


@dataclass(frozen=True)
class Speed:
    """CPU seconds of one sampler: of its preparation, warm-up and draws, and what they gave.

    Attributes
    ----------
    name
        The sampler.
    setup, warmup, sampling
        CPU seconds until the first update, of all chains' warm-up, and of all draws after it.
    ess
        Bulk effective sample size of the slowest coefficient, over all chains.
    date, load, versions
        When this was measured, how many processes wanted a core then, and what was installed.
    """

    name: str
    setup: float
    warmup: float
    sampling: float
    ess: float
    date: str = field(default_factory=lambda: datetime.now(UTC).date().isoformat())
    load: float = field(default_factory=lambda: round(os.getloadavg()[0], 1))
    versions: dict[str, str] = field(default_factory=versions)

    @property
    def seconds(self) -> float:
        """CPU seconds to 1,000 effective draws, preparation and warm-up included."""
        return self.setup + self.warmup + self.sampling * EFFECTIVE / self.ess


@dataclass(frozen=True)
class Outcome:
    """What is reported of one method; arrays with one entry a coefficient."""

    speed: Speed
    rows_per_update: float
    full_share: float
    max_rhat: float
    mean: NDArray[np.float64]
    sd: NDArray[np.float64]


@dataclass(frozen=True)
class Reference:
    """What is stored of the NUTS run; lists with one entry a coefficient."""

    command: str
    versions: dict[str, str]
    chains: int
    tune: int
    draws: int
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


def sample_by_nuts(data: LateFlights, draws: int) -> tuple[DataTree, float]:
    """Sample the model with PyMC's NUTS from the mode; the CPU seconds of the set-up beside.

    The fixed mass matrix is the Hessian at the mode, which is as good a one as this posterior
    has: NUTS is spared the adaptation of 27 scales and their correlations.
    """
    start = time.process_time()
    mode, hessian = _mode(data)
    with late_departures(data):
        step = pm.NUTS(scaling=np.linalg.inv(hessian), is_cov=True)
        setup = time.process_time() - start
        trace = pm.sample(
            draws,
            tune=NUTS_TUNE,
            chains=CHAINS,
            cores=1,
            step=step,
            initvals={"beta": mode},
            nuts_sampler="pymc",
            random_seed=SEED,
            progressbar=False,
            discard_tuned_samples=False,
        )
    return trace, setup


def run_nuts(data: LateFlights) -> Reference:
    """Sample the model long enough by NUTS to compare posteriors with it."""
    trace, _ = sample_by_nuts(data, NUTS_DRAWS)
    return Reference(
        command="python examples/quickstart.py --nuts",
        versions=versions(),
        chains=CHAINS,
        tune=NUTS_TUNE,
        draws=NUTS_DRAWS,
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


def sample_by_nutpie(data: LateFlights, draws: int) -> tuple[DataTree, float]:
    """Sample the model with nutpie and its defaults; the CPU seconds of the set-up beside."""
    nutpie = import_module("nutpie")
    start = time.process_time()
    compiled = nutpie.compile_pymc_model(late_departures(data))
    setup = time.process_time() - start
    sizes = {"draws": draws, "chains": CHAINS, "cores": 1}
    return nutpie.sample(compiled, **sizes, seed=SEED, progress_bar=False, save_warmup=True), setup


def run_rivals(data: LateFlights) -> list[Speed]:
    """Measure NUTS in nutpie and in PyMC; gradients tell how long warm-up was."""
    speeds = []
    for name, run in (("nutpie", sample_by_nutpie), ("NUTS", sample_by_nuts)):
        start = time.process_time()
        trace, setup = run(data, RIVAL_DRAWS)
        spent = time.process_time() - start - setup
        groups = ("warmup_sample_stats", "sample_stats")
        warmup, sampling = (float(trace[group]["n_steps"].sum()) for group in groups)
        each = spent / (warmup + sampling)
        ess = float(_beta(az.ess(trace, method="bulk")).min())
        speeds.append(Speed(name, setup, each * warmup, each * sampling, ess))
    return speeds


def store_speeds(speeds: list[Speed]) -> None:
    """Store what the figure shows, with how it was measured."""
    stored = {
        "command": "python examples/quickstart.py --rivals, then --figure",
        "chains": CHAINS,
        "tune": {"TunaMH": TUNE, "nutpie": "its default", "NUTS": NUTS_TUNE},
        "draws": {"TunaMH": DRAWS, "nutpie": RIVAL_DRAWS, "NUTS": RIVAL_DRAWS},
        "speeds": [asdict(speed) for speed in speeds],
    }
    SPEEDS_FILE.write_text(json.dumps(stored, indent=1) + "\n")


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
    start = time.process_time()
    with late_departures(data):
        step = method()
        # PyMC starts every chain of a given step at one point, and R-hat would then see less than
        # it should.
        initvals = overdispersed_initvals(step, CHAINS, random_seed=SEED)
        setup = time.process_time() - start
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
    return summarise(trace, method.__name__, setup, time.process_time() - start - setup)


def summarise(trace: DataTree, name: str, setup: float, spent: float) -> Outcome:
    """Reduce a trace with one update a draw, which is the default, to what is reported of it."""
    draws, warmup = trace.posterior, spent * TUNE / (TUNE + DRAWS)
    ess = float(_beta(az.ess(trace, method="bulk")).min())
    return Outcome(
        speed=Speed(name, setup, warmup, spent - warmup, ess),
        rows_per_update=float(trace.sample_stats["n_obs"].mean()),
        full_share=float(trace.sample_stats["full_pass"].mean()),
        max_rhat=float(_beta(az.rhat(trace)).max()),
        mean=_beta(draws.mean(("chain", "draw"))),
        sd=_beta(draws.std(("chain", "draw"), ddof=1)),
    )


def table(outcomes: list[Outcome], rivals: list[Speed], reference: Reference) -> str:
    """Return the outcomes as lines of text, one sampler a line, those of NUTS last."""
    head = (
        f"{'':18}{'setup':>8}{'draws':>8}{'min':>9}{'s to 1,000':>12}{'ESS':>8}{'rows per':>11}"
        f"{'full':>8}{'max':>8}{'means off':>11}{'sds off':>9}\n"
        f"{'sampler':18}{'s':>8}{'s':>8}{'ESS':>9}{'ESS':>12}{'per s':>8}{'update':>11}"
        f"{'passes':>8}{'R-hat':>8}{'by (sd)':>11}{'by':>9}"
    )
    mean, sd = np.array(reference.mean), np.array(reference.sd)
    lines = [
        f"{_in_columns(o.speed)}{o.rows_per_update:11,.0f}{o.full_share:8.1%}{o.max_rhat:8.3f}"
        f"{np.abs((o.mean - mean) / sd).max():11.3f}{np.abs(o.sd / sd - 1).max():9.1%}"
        for o in outcomes
    ]
    return "\n".join([head, "-" * 110, *lines, *map(_in_columns, rivals)])


def _in_columns(speed: Speed) -> str:
    return (
        f"{speed.name:18}{speed.setup:8.1f}{speed.sampling:8.1f}{speed.ess:9,.0f}"
        f"{speed.seconds:12,.1f}{speed.ess / speed.sampling:8,.0f}"
    )


def draw_figure(
    outcomes: list[Outcome], rivals: list[Speed], reference: Reference, rows: int
) -> Figure:
    """Draw the coefficients of all samplers, and their speeds."""
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(14, 8), layout="constrained")
        coefficients, speeds = figure.subplots(1, 2, width_ratios=[3, 2])
        _draw_coefficients(coefficients, outcomes, reference)
        draw_seconds(speeds, [*(o.speed for o in outcomes), *rivals])
        figure.suptitle(
            f"What makes flights late: {rows:,} flights, {len(reference.names)} coefficients",
            x=0.01,
            ha="left",
            fontsize=14,
            fontweight="bold",
        )
    return figure


def draw_seconds(axes: Axes, speeds: list[Speed]) -> None:
    """Draw bars of the seconds to 1,000 effective draws, with their ratios to the first."""
    bars = axes.barh(
        [s.name.replace("NUTS", "NUTS from the mode") for s in speeds],
        [s.seconds for s in speeds],
        height=0.62,
        color=[COLOURS[s.name] for s in speeds],
    )
    first, *others = speeds
    labels = [f"{first.seconds:.1f} s"]
    labels += [f"{s.seconds:,.0f} s: {s.seconds / first.seconds:.0f} times" for s in others]
    axes.bar_label(bars, labels, padding=4)
    axes.set_xlim(0, 1.35 * max(s.seconds for s in speeds))
    axes.invert_yaxis()
    axes.set_title("Seconds to 1,000 effective draws, preparation included")


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
    shifts = np.linspace(-0.24, 0.24, len(outcomes))
    for shift, outcome in zip(shifts, outcomes, strict=True):
        name = outcome.speed.name
        axes.plot(outcome.mean, at + shift, "o", ms=3.5, mew=0, color=COLOURS[name], label=name)
    axes.set_yticks(at, reference.names)
    axes.set_ylim(len(at) - 0.4, -0.6)
    axes.set_title("Posterior means of the coefficients")
    axes.set_xlabel("change of the log-odds of leaving late")
    axes.legend(loc="center left", bbox_to_anchor=(0, 0.72))


def load_reference() -> Reference:
    """Read the stored summary of the NUTS run."""
    return Reference(**json.loads(REFERENCE_FILE.read_text()))


def load_rivals() -> list[Speed]:
    """Read the stored speeds of nutpie and of PyMC's NUTS, which come last."""
    return [Speed(**found) for found in json.loads(SPEEDS_FILE.read_text())["speeds"]][-2:]


def main() -> None:
    """Compare the four methods with NUTS, or run NUTS anew."""
    parser = argparse.ArgumentParser(description="Four subsampling methods and NUTS.")
    parser.add_argument("--nuts", action="store_true", help="run NUTS anew and store its summary")
    parser.add_argument("--rivals", action="store_true", help="measure nutpie and NUTS anew")
    parser.add_argument("--figure", type=Path, help="draw TunaMH beside the two into this file")
    arguments = parser.parse_args()
    data = late_flights()
    if arguments.nuts:
        REFERENCE_FILE.write_text(json.dumps(asdict(run_nuts(data)), indent=1) + "\n")
    elif arguments.rivals:
        store_speeds(run_rivals(data))
    elif arguments.figure:
        speeds = [measure(TunaMH, data).speed, *load_rivals()]
        store_speeds(speeds)
        with plt.rc_context(STYLE):
            figure, axes = plt.subplots(figsize=(8, 1.9), layout="constrained")
            draw_seconds(axes, speeds)
            figure.savefig(arguments.figure)
    else:
        reference, rivals = load_reference(), load_rivals()
        outcomes = [measure(method, data) for method in METHODS]
        print(table(outcomes, rivals, reference))
        draw_figure(outcomes, rivals, reference, len(data.late)).savefig(FIGURE_FILE, dpi=160)
        print(f"\nFigure: {FIGURE_FILE}")


if __name__ == "__main__":
    main()
