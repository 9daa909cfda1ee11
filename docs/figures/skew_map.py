"""Draw proposals by the map of third order beside normal ones, for a scale and an effect.

Run ``PYTHONPATH=. python -m docs.figures.skew_map`` for ``docs/figures/skew_map.svg``.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from docs.figures.bound import COLOURS, STYLE, Array, write
from pymc_minibatch_mh.native.skew_map import SkewMap
from pymc_minibatch_mh.reference.full_data import Derivatives
from pymc_minibatch_mh.reference.skewness import independent_acceptance, variational

FIGURE_FILE = Path(__file__).with_suffix(".svg")
DRAWS, SHOWN = 20_000, 300
#: Shape of the gamma density of the variance exp(s); mean and precision of the data on the effect.
SHAPE, MEAN, PRECISION = 1.5, 0.6, 0.3


def log_density(position: Array) -> Array:
    """Log-density of a log variance s and of an effect a ~ N(0, exp(s)), with data on a."""
    s, a = position[..., 0], position[..., 1]
    effect = -0.5 * (s + a**2 * np.exp(-s)) - 0.5 * PRECISION * (a - MEAN) ** 2
    return SHAPE * s - np.exp(s) + effect


def slopes(position: Array) -> Derivatives:
    """Derivatives of the log-density."""
    s, a = position
    inverse, variance = np.exp(-s), np.exp(s)
    gradient = [
        SHAPE - variance - 0.5 + 0.5 * a**2 * inverse,
        -a * inverse - PRECISION * (a - MEAN),
    ]
    cross = a * inverse
    hessian = [[-variance - 0.5 * a**2 * inverse, cross], [cross, -inverse - PRECISION]]
    return Derivatives(float(log_density(position)), np.array(gradient), np.array(hessian))


def draw() -> Figure:
    """Draw contours of the posterior, and proposals by the normal distribution and by the map."""
    found = variational(slopes, 2)
    assert found is not None
    order, nothing = np.arange(2), np.zeros((2, 2, 2))
    cases = {
        "normal proposals": SkewMap.of_thirds(order, found.mean, found.factor, nothing, 0.0),
        "by the map": SkewMap.of_thirds(order, found.mean, found.factor, found.thirds, 0.0),
    }
    with plt.rc_context(STYLE | {"svg.hashsalt": "skew_map"}):
        figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.4), sharey=True, layout="constrained")
        for ax, colour, (name, one) in zip(axes, COLOURS, cases.items(), strict=False):
            _draw_case(ax, colour, name, one)
        axes[0].set_ylabel("effect")
    return figure


def _draw_case(ax: Axes, colour: str, name: str, one: SkewMap) -> None:
    white = np.random.default_rng(3).standard_normal((DRAWS, 2))
    placed = [one.to_position(w) for w in white]
    places, volumes = np.array([x for x, _ in placed]), np.array([v for _, v in placed])
    weights = log_density(places) - volumes + 0.5 * np.sum(white**2, axis=1)
    grid = np.stack(np.meshgrid(np.linspace(-4.5, 2.5, 200), np.linspace(-4, 5, 200)), axis=-1)
    height = log_density(grid)
    levels = height.max() - np.array([6.0, 3.5, 1.7, 0.5])
    ax.plot(*places[:SHOWN].T, "o", color=colour, markersize=1.6, alpha=0.5, markeredgewidth=0)
    ax.contour(
        *np.moveaxis(grid, -1, 0),
        height,
        levels,
        colors="#5b6472",
        linestyles="solid",
        linewidths=0.9,
    )
    ax.set(xlim=(-4.5, 2.5), ylim=(-4, 5), xlabel="log variance of the effect")
    ax.set_title(f"{name}: {independent_acceptance(weights):.0%} accepted")


if __name__ == "__main__":
    write(draw(), FIGURE_FILE)
    print(f"Figure: {FIGURE_FILE}")
