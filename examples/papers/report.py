"""What an experiment found: claims, tables and curves, stored as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from contourpy import contour_generator
from numpy.typing import ArrayLike, NDArray

RESULTS = Path(__file__).parent / "results"
#: Points of a curve that are stored, and of a cloud.
POINTS, CLOUD = 200, 1_000

type Look = Literal["line", "dashed", "points", "contour", "published"]

#: A cell of a table: words, a number, or a mean and its standard deviation over trials.
type Cell = str | float | tuple[float, float] | None


@dataclass(frozen=True)
class Claim:
    """A figure of a paper, or one that ours must beat, and what was measured.

    Parameters
    ----------
    what
        What is measured, with its unit.
    published
        The paper's figure, as it is written there; "-" where there is none.
    low, high
        Where the measured figure has to lie.
    measured
        The figure that came out.
    sd
        Its standard deviation over trials, where there are some.
    chosen
        Whether the range, or a setting that decides the figure, was chosen after a look at it.
        Such a figure is shown, and counts neither as reached nor as missed.
    """

    what: str
    published: str
    low: float | None
    high: float | None
    measured: float
    sd: float | None = None
    chosen: bool = False

    @property
    def reached(self) -> bool:
        """Whether the measured figure lies where it has to."""
        above = self.low is None or self.measured >= self.low
        return above and (self.high is None or self.measured <= self.high)


@dataclass(frozen=True)
class Table:
    """A table: the paper's figures beside ours."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Curve:
    """A line or a cloud of points of a panel.

    Parameters
    ----------
    label
        Its name in the legend; lines of contours have none.
    x, y
        Its points.
    look
        "published" marks figures of the paper.
    low, high
        Ends of a band around y, or none.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    look: Look = "line"
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True)
class Panel:
    """Axes of a figure, and what is drawn on them."""

    title: str
    x: str
    y: str
    curves: Sequence[Curve]
    log_x: bool = False
    log_y: bool = False
    #: Ends of both axes, where panels share them.
    limits: Sequence[Sequence[float]] | None = None


@dataclass(frozen=True)
class Report:
    """All that one experiment found."""

    source: str
    claims: Sequence[Claim] = ()
    tables: Sequence[Table] = ()
    panels: Sequence[Panel] = ()
    #: What the run differed in from the published one, such as fewer trials.
    differences: Sequence[str] = ()
    #: How it was run, by :func:`papers.provenance.record`. The runner fills it in.
    run: dict[str, Any] = field(default_factory=dict)

    def write(self, file: Path) -> None:
        """Store the report."""
        file.parent.mkdir(exist_ok=True)
        text = json.dumps(asdict(self), indent=1, default=float, allow_nan=False)
        file.write_text(text + "\n", encoding="utf-8")

    @classmethod
    def read(cls, file: Path) -> Self:
        """Return a stored report."""
        stored = json.loads(file.read_text(encoding="utf-8"))
        panels = [
            Panel(**{**panel, "curves": [Curve(**curve) for curve in panel["curves"]]})
            for panel in stored.pop("panels")
        ]
        return cls(
            claims=[Claim(**claim) for claim in stored.pop("claims")],
            tables=[Table(**table) for table in stored.pop("tables")],
            panels=panels,
            **stored,
        )


def mean_sd(values: ArrayLike) -> tuple[float, float]:
    """Return mean and standard deviation over trials; 0 for the latter where there is one."""
    values = np.asarray(values, float)
    return float(values.mean()), float(values.std(ddof=1)) if values.size > 1 else 0.0


def curve(
    label: str, x: ArrayLike, y: ArrayLike, look: Look = "line", sd: ArrayLike | None = None
) -> Curve:
    """Return a curve, thinned to the points that are stored, with a band of ± sd around it."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    stored = CLOUD if look == "points" else POINTS
    kept = np.unique(np.linspace(0, x.size - 1, min(x.size, stored)).astype(int))

    def short(values: NDArray[np.float64]) -> list[float]:
        return [float(f"{value:.5g}") for value in values[kept]]

    if sd is None:
        return Curve(label, short(x), short(y), look)
    sd = np.asarray(sd, float)
    return Curve(label, short(x), short(y), look, short(y - sd), short(y + sd))


def contours(
    x: ArrayLike, y: ArrayLike, density: ArrayLike, inside: Sequence[float]
) -> list[Curve]:
    """Return the lines of equal density inside of which shares of the mass lie.

    Parameters
    ----------
    x, y : ndarray, shapes (n,) and (m,)
        Middles of the cells.
    density : ndarray, shape (n, m)
        The mass of each cell.
    inside
        Shares of the mass.
    """
    mass = np.sort(np.ravel(density))[::-1]
    levels = [mass[np.searchsorted(mass.cumsum(), share * mass.sum())] for share in inside]
    lines = contour_generator(np.asarray(x), np.asarray(y), np.asarray(density).T)
    found = [np.asarray(line, float) for z in levels for line in lines.lines(float(z))]
    return [curve("", line.T[0], line.T[1], "contour") for line in found]


def histogram(label: str, values: ArrayLike, bins: int = 40) -> Curve:
    """Return the share of values in each of some bins that are even on a logarithmic scale."""
    values = np.asarray(values, float).ravel()
    edges = np.geomspace(
        max(values.min(), 1.0), max(values.max(), values.min() + 1.0) * 1.001, bins
    )
    shares = np.histogram(values, edges)[0] / values.size
    middles = np.sqrt(edges[1:] * edges[:-1])
    return curve(label, middles[shares > 0], shares[shares > 0])
