"""What an experiment found: claims, tables and curves, stored as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

RESULTS = Path(__file__).parent / "results"
#: Points of a curve that are stored.
POINTS = 200

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
    """

    what: str
    published: str
    low: float | None
    high: float | None
    measured: float
    sd: float | None = None

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
    """A line or a cloud of points of a panel."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    look: Literal["line", "dashed", "points"] = "line"


@dataclass(frozen=True)
class Panel:
    """Axes of a figure, and what is drawn on them."""

    title: str
    x: str
    y: str
    curves: Sequence[Curve]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Report:
    """All that one experiment found."""

    source: str
    claims: Sequence[Claim] = ()
    tables: Sequence[Table] = ()
    panels: Sequence[Panel] = ()
    #: What the run differed in from the published one, such as fewer trials.
    differences: Sequence[str] = ()
    #: How it was run: command, seed, seconds, versions. The runner fills it in.
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
    label: str, x: ArrayLike, y: ArrayLike, look: Literal["line", "dashed", "points"] = "line"
) -> Curve:
    """Return a curve, thinned to the points that are stored."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    kept = np.unique(np.linspace(0, x.size - 1, min(x.size, POINTS)).astype(int))

    def short(values: NDArray[np.float64]) -> list[float]:
        return [float(f"{value:.5g}") for value in values[kept]]

    return Curve(label, short(x), short(y), look)


def histogram(label: str, values: ArrayLike, bins: int = 40) -> Curve:
    """Return the share of values in each of some bins that are even on a logarithmic scale."""
    values = np.asarray(values, float).ravel()
    edges = np.geomspace(
        max(values.min(), 1.0), max(values.max(), values.min() + 1.0) * 1.001, bins
    )
    shares = np.histogram(values, edges)[0] / values.size
    middles = np.sqrt(edges[1:] * edges[:-1])
    return curve(label, middles[shares > 0], shares[shares > 0])
