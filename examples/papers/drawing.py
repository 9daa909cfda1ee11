"""Draw the panels of a report as one figure."""

import math
import textwrap
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from papers.report import Curve, Panel

COLUMNS, WIDTH, HEIGHT = 3, 3.5, 2.7
#: Letters of a line of a title; a wider one would be cut, or lie over the next panel.
TITLE = 44
#: Points of a panel that are a cloud; fewer are measurements, each to be seen.
CLOUD = 100
#: Decades of an axis on which powers of ten alone would leave too few labels.
FEW_DECADES = 2.0
COLOURS = ("#1f6fb2", "#e2711d", "#2a9d74", "#a23b72", "#6b7280", "#c9a227", "#3d3d8f", "#8a5a44")
#: The colour of what is not measured: contours of a density, and published figures.
INK = "#22262e"
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
    "legend.fontsize": 6.5,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "papers",
}
#: Labels beyond which a legend lies below its panel, and how.
MANY = 3
BELOW: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.24), "ncols": 2}
#: Width of a single panel with a legend beside it, in that of a panel.
BESIDE = 1.7
#: Inches of a letter of a legend, and of what stands before the letters of a label.
LETTER, HANDLE = 0.055, 0.45
LOOKS: dict[str, dict[str, Any]] = {
    "line": {"linewidth": 1.4},
    "dashed": {"linewidth": 1.1, "linestyle": "--"},
    "points": {"linestyle": "none", "marker": "o", "markersize": 2, "alpha": 0.5, "mew": 0},
    "contour": {"linewidth": 0.8, "zorder": 3},
    "published": {"linestyle": "none", "marker": "D", "markersize": 4, "zorder": 5},
}


def draw(panels: Sequence[Panel], file: Path) -> None:
    """Write the panels to an SVG file, at most three beside each other."""
    columns = 2 if len(panels) == 4 else min(COLUMNS, len(panels))
    lines = math.ceil(len(panels) / columns)
    with plt.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH * columns, HEIGHT * lines), layout="constrained")
        clouds: dict[tuple[str, str], Axes] = {}
        colours: dict[str, str] = {}
        for k, panel in enumerate(panels):
            first = clouds.get((panel.x, panel.y)) if _is_cloud(panel) else None
            ax = figure.add_subplot(lines, columns, k + 1, sharex=first, sharey=first)
            if _is_cloud(panel):
                clouds.setdefault((panel.x, panel.y), ax)
            _draw_panel(ax, panel, colours)
        _add_legends(figure)
        save(figure, file)


def save(figure: Figure, file: Path) -> None:
    """Write a figure to an SVG file, the same bytes each time."""
    file.parent.mkdir(exist_ok=True)
    figure.savefig(file, metadata={"Date": None, "Creator": None})
    # Lines of the file end without spaces, as everywhere in the repository.
    lines_written = file.read_text(encoding="utf-8").splitlines()
    file.write_text("\n".join(map(str.rstrip, lines_written)) + "\n", encoding="utf-8")


def _is_cloud(panel: Panel) -> bool:
    """Return whether a panel shows draws: those of the same coordinates share their axes."""
    return any(curve.look == "points" and len(curve.x) >= CLOUD for curve in panel.curves)


def _draw_panel(ax: Axes, panel: Panel, colours: dict[str, str]) -> None:
    """Draw the curves of a panel, in the colours that their labels have elsewhere in the figure."""
    worn = [colours[curve.label] for curve in panel.curves if curve.label in colours]
    free = cycle([colour for colour in COLOURS if colour not in worn] or COLOURS)
    colour, before = INK, ""
    for curve in panel.curves:
        # Points belong to the line before them.
        if curve.look in ("contour", "published"):
            colour = INK
        elif curve.look != "points" or before not in ("line", "dashed"):
            colour = colours.get(curve.label) or colours.setdefault(curve.label, next(free))
        before = curve.look
        _draw_curve(ax, curve, colour)
    ax.set(xlabel=panel.x, ylabel=panel.y)
    ax.set_title(textwrap.fill(panel.title, TITLE))
    if panel.log_x:
        ax.set_xscale("log")
        _label_few_decades(ax.xaxis, ax.get_xlim())
    else:
        ax.locator_params(axis="x", nbins=6)
    if panel.log_y:
        ax.set_yscale("log")
        _label_few_decades(ax.yaxis, ax.get_ylim())
    if panel.limits:
        across, up = panel.limits
        ax.set(xlim=across, ylim=up)


def _add_legends(figure: Figure) -> None:
    """Add a legend to each panel, or one for all where many labels mean the same in each."""
    of_panels = [
        dict(zip(*ax.get_legend_handles_labels()[::-1], strict=True)) for ax in figure.axes
    ]
    lines = {label: line for panel in reversed(of_panels) for label, line in panel.items()}
    looks = {(label, _look(line)) for panel in of_panels for label, line in panel.items()}
    told_apart = len(looks) == len(lines) == len({look for _, look in looks})
    labels = list(map(len, of_panels))
    if max(labels) > MANY and min(labels) > 1 and told_apart:
        _add_shared_legend(figure, lines)
        return
    for ax, panel in zip(figure.axes, of_panels, strict=True):
        if len(panel) > 1:
            # One of many lines would lie on the curves.
            ax.legend(**(BELOW if len(panel) > MANY else {}))


def _add_shared_legend(figure: Figure, lines: dict[str, Any]) -> None:
    """Add a legend beside a single panel, or below all of several."""
    if len(figure.axes) == 1:
        figure.set_figwidth(BESIDE * WIDTH)
        figure.legend(lines.values(), lines.keys(), loc="outside right upper")
    else:
        across = figure.get_figwidth() / (LETTER * max(map(len, lines)) + HANDLE)
        columns = min(int(across), math.ceil(len(lines) / 2))
        figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=columns)


def _look(line: Any) -> tuple[str, str, str]:
    return line.get_color(), line.get_linestyle(), line.get_marker()


def _label_few_decades(axis: Axis, ends: tuple[float, float]) -> None:
    """Label 1, 2 and 5 of each of few decades, and nothing between."""
    if math.log10(ends[1] / ends[0]) <= FEW_DECADES:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_formatter(NullFormatter())


def _draw_curve(ax: Axes, curve: Curve, colour: str) -> None:
    look = LOOKS[curve.look]
    if curve.look == "points" and len(curve.x) < CLOUD:
        look = look | {"markersize": 4, "alpha": 0.9}
    ax.plot(curve.x, curve.y, color=colour, label=curve.label or None, **look)
    if curve.low:
        ax.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.18, linewidth=0)
