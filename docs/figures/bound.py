"""Draw the certified bound of a row's remainder beside what the remainder does.

Run ``python docs/figures/bound.py`` for ``docs/figures/bound.svg``. The bounds are the package's;
the changes of the remainders are computed here from the models' formulas, without it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import expit

from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.native.bound_tables import table_of_move
from pymc_minibatch_mh.steps.base import MinibatchStep

type Array = NDArray[np.float64]
#: From the number of a row and positions, shape (k, d), to the row's remainders, shape (k,).
type Remainder = Callable[[int, Array], Array]

FIGURE_FILE = Path(__file__).with_suffix(".svg")
ROWS = 20_000
SHOWN = 3
MOVES = 36
#: Where a line through the posterior is followed to, in posterior standard deviations.
REACH = 2.6
#: Where the moves along it start.
START = -1.0

COLOURS = ("#1f6fb2", "#e2711d", "#2a9d74")
STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#b8bcc4",
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9.5,
    "font.size": 8,
    "grid.color": "#e6e8ec",
    "legend.frameon": False,
    "svg.hashsalt": "bound",
    "xtick.color": "#5b6472",
    "ytick.color": "#5b6472",
}


@dataclass(frozen=True)
class Case:
    """A model, its step, and what its rows' remainders are by the model's formula."""

    title: str
    step: MinibatchStep
    remainder: Remainder
    #: Unit direction, in whitened coordinates, in which a row's arguments change most.
    steepest: Callable[[int], Array]


def logistic() -> Case:
    """Logistic regression: one argument η a row."""
    rng = np.random.default_rng(2024)
    X = np.column_stack([np.ones(ROWS), rng.uniform(-1, 1, (ROWS, 2))])
    y = (rng.random(ROWS) < expit(X @ [-0.5, 1.0, 0.5])).astype(np.int8)
    with pm.Model():
        beta = pm.Normal("beta", 0, 2.5, shape=3)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
        step = TunaMH()
    centre = step.reference.centre

    def remainder(i: int, positions: Array) -> Array:
        at, eta = X[i] @ centre, positions @ X[i]
        p, h = expit(at), eta - at
        change = y[i] * h - np.logaddexp(0, eta) + np.logaddexp(0, at)
        return change - (y[i] - p) * h + 0.5 * p * (1 - p) * h**2

    return Case(
        "Logistic regression", step, remainder, lambda i: _unit(step.reference.factor.T @ X[i])
    )


def student() -> Case:
    """Robust regression: two arguments a row, μ and log σ."""
    rng = np.random.default_rng(2025)
    X = np.column_stack([np.ones(ROWS), rng.uniform(-1, 1, ROWS)])
    y = X @ [0.5, 1.0] + 1.2 * rng.standard_t(4, ROWS)
    with pm.Model():
        b = pm.Normal("b", 0, 5, shape=2)
        sigma = pm.HalfNormal("sigma", 3)
        pm.StudentT("y", nu=4, mu=X @ b, sigma=sigma, observed=y)
        step = TunaMH()
    centre = step.reference.centre

    def value(mu: Array, log_sigma: Array, i: int) -> Array:
        return -log_sigma - 2.5 * np.log1p(((y[i] - mu) * np.exp(-log_sigma)) ** 2 / 4)

    def remainder(i: int, positions: Array) -> Array:
        mu, v = X[i] @ centre[:2], centre[2]
        h, k = positions[:, :2] @ X[i] - mu, positions[:, 2] - v
        s = np.exp(-v)
        z = (y[i] - mu) * s
        g1, g2 = -5 * z / (4 + z**2), -5 * (4 - z**2) / (4 + z**2) ** 2
        taylor = -s * g1 * h - (1 + z * g1) * k
        taylor += 0.5 * s**2 * g2 * h**2 + s * (g1 + z * g2) * h * k
        taylor += 0.5 * z * (g1 + z * g2) * k**2
        return value(mu + h, v + k, i) - value(mu, v, i) - taylor

    def steepest(i: int) -> Array:
        factor = step.reference.factor
        return _unit(_unit(factor.T @ [*X[i], 0.0]) - _unit(factor.T @ [0.0, 0.0, 1.0]))

    return Case("Student-t regression", step, remainder, steepest)


def _unit(vector: Array) -> Array:
    return vector / np.linalg.norm(vector)


def bounds(step: MinibatchStep, starts: Array, ends: Array, rows: list[int]) -> Array:
    """Return c_i M(θ, θ') for every move and row."""
    result = np.full((len(starts), len(rows)), np.nan)
    tables = step.tables
    assert tables is not None
    for k, (start, end) in enumerate(zip(starts, ends, strict=True)):
        table, m = table_of_move(tables.arrays, step.reference, start, end)
        if table >= 0:
            result[k] = tables.c[table, rows] * m
    return result


def draw() -> Figure:
    """Draw both models: three rows along a line, and moves between draws."""
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(10.5, 5.4), layout="constrained")
        grid = figure.add_gridspec(2, SHOWN + 1, width_ratios=[1] * SHOWN + [1.35])
        for line, case in enumerate((logistic(), student())):
            rng = np.random.default_rng(7)
            rows = _rows(case)
            along = [figure.add_subplot(grid[line, k]) for k in range(SHOWN)]
            _draw_line(along, case, rows)
            _draw_moves(figure.add_subplot(grid[line, SHOWN]), case, rows, rng)
    return figure


def _rows(case: Case) -> list[int]:
    """Return rows with a small, a middling and a large bound."""
    tables = case.step.tables
    assert tables is not None
    order = np.argsort(tables.c[0])
    return [int(order[int(q * (ROWS - 1))]) for q in (0.1, 0.5, 0.98)]


def _draw_line(axes: list[Axes], case: Case, rows: list[int]) -> None:
    reference = case.step.reference
    t = np.linspace(-REACH, REACH, 37)
    for k, (ax, row, colour) in enumerate(zip(axes, rows, COLOURS, strict=True)):
        line = reference.factor @ case.steepest(row)
        start, ends = reference.centre + START * line, reference.centre + t[:, None] * line
        certified = bounds(case.step, np.tile(start, (len(t), 1)), ends, [row])[:, 0]
        change = case.remainder(row, ends) - case.remainder(row, start[None])
        exponent = int(np.floor(np.log10(certified.max())))
        edge, change = certified / 10.0**exponent, change / 10.0**exponent
        ax.fill_between(t, -edge, edge, color=colour, alpha=0.13, linewidth=0)
        ax.plot(t, edge, t, -edge, color=colour, linewidth=0.8, alpha=0.7)
        ax.plot(t, change, color=colour, linewidth=2)
        ax.plot(START, 0, "o", color=colour, markersize=5, markeredgecolor="white")
        ax.set_title(f"row {row:,}" if k else f"{case.title}, row {row:,}")
        ax.set_ylabel(rf"change of $r_i$, in $10^{{{exponent}}}$")
        ax.set_xlabel("end of the move, in posterior sds")


def _draw_moves(ax: Axes, case: Case, rows: list[int], rng: np.random.Generator) -> None:
    reference = case.step.reference
    noise = rng.standard_normal((2, MOVES, reference.centre.size))
    starts = reference.centre + noise[0] @ reference.factor.T
    ends = reference.centre + (0.5 * noise[0] + np.sqrt(0.75) * noise[1]) @ reference.factor.T
    certified = bounds(case.step, starts, ends, rows)
    for k, (row, colour) in enumerate(zip(rows, COLOURS, strict=True)):
        change = np.abs(case.remainder(row, ends) - case.remainder(row, starts))
        look = {"color": colour, "alpha": 0.7, "markeredgewidth": 0}
        ax.loglog(change, certified[:, k], "o", markersize=3, label=f"row {row:,}", **look)
    high = 3 * np.nanmax(certified)
    low = np.nanmin(certified) / 30
    ax.fill_between([low, high], low, [low, high], color="#5b6472", alpha=0.12, linewidth=0)
    ax.plot([low, high], [low, high], color="#5b6472", linewidth=0.8)
    ax.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    ax.text(0.95, 0.06, "violated", color="#5b6472", ha="right", transform=ax.transAxes)
    ax.minorticks_off()
    ax.set_title(f"{MOVES} moves between draws")
    ax.set_xlabel("true change")
    ax.set_ylabel("certified bound")


def write(figure: Figure, file: Path) -> None:
    """Write a figure as SVG, its coordinates rounded to a hundredth of a point."""
    text = StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    # The scale of glyphs is one number that needs all its digits.
    long = re.compile(r"(?<!scale\()(?<![\d.])\d+\.\d{4,}")
    file.write_text(
        "\n".join(
            long.sub(lambda match: f"{float(match[0]):.2f}", line).strip()
            for line in text.getvalue().splitlines()
        )
        + "\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    write(draw(), FIGURE_FILE)
    print(f"Figure: {FIGURE_FILE}")
