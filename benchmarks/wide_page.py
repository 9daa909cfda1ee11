"""The figure of docs/background/wide.md: rows and time against d, from stored runs of ``peers.py``.

``PYTHONPATH=.:tests:examples python -m benchmarks.wide_page`` draws it from ``wide.json``.
"""

import json
from pathlib import Path

from papers.drawing import draw
from papers.report import Curve, Panel

HERE = Path(__file__).resolve().parent
RESULTS, FIGURE = HERE / "wide.json", HERE.parent / "docs" / "figures" / "wide.svg"
CURVES = {
    "TunaMH": ("driver",),
    "TunaMH, without a copy": ("without-copy",),
    "NumPyro HMCECS": ("hmcecs-30", "hmcecs-100", "hmcecs-300"),
    "nutpie": ("nutpie",),
}
#: Effective draws below which a chain has not moved enough to tell its speed.
LEAST_ESS = 100


def seconds(run):
    """Return the time of an effective draw after warm-up."""
    return run["seconds"]["sampling"] / run["bulk"]


def points(runs, samplers):
    """Return d, rows per update and time per effective draw of the fastest of some samplers."""
    best = {}
    for run in runs:
        if run["sampler"] in samplers and (run.get("bulk") or 0.0) >= LEAST_ESS:
            size = len(run["mean"])
            if size not in best or seconds(run) < seconds(best[size]):
                best[size] = run
    return [
        (d, best[d]["note"]["rows per update"], float(f"{seconds(best[d]):.4g}"))
        for d in sorted(best)
    ]


def main():
    """Draw the figure."""
    runs = json.loads(RESULTS.read_text(encoding="utf-8"))["runs"]
    found = {name: list(zip(*points(runs, of), strict=True)) for name, of in CURVES.items()}
    labels = "rows read per update", "seconds per effective draw"
    panels = [
        Panel(
            "",
            "coefficients d",
            label,
            [Curve(name, columns[0], columns[k + 1]) for name, columns in found.items()],
            log_x=True,
            log_y=True,
        )
        for k, label in enumerate(labels)
    ]
    draw(panels, FIGURE)


if __name__ == "__main__":
    main()
