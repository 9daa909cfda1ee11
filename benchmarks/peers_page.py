"""Tables and figure of the comparison with other libraries, from the results of ``peers.py``.

    PYTHONPATH=.:tests:examples python benchmarks/peers_page.py

Nothing of what is between the marks in the page is written by hand.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.peers import PROBLEMS, REFERENCE, Record
from benchmarks.peers_problems import PROBLEMS as DESCRIBED
from papers.drawing import draw
from papers.page import table
from papers.report import Curve, Panel

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "peers.json"
DOCS = HERE.parent / "docs"
PAGE, FIGURE = HERE / "README.md", DOCS / "figures" / "peers.svg"
#: The first table without ratios, which the documentation includes.
SUMMARY = DOCS / "background" / "peers.md"
MARKED = re.compile(r"<!-- peers -->\n.*?<!-- end -->", re.DOTALL)
#: Sampler -> its title, in the order of the tables.
TITLES = {
    "driver": "`TunaMH`, `sample`",
    "tuna": "`TunaMH`, `pm.sample`",
    "without-copy": "`TunaMH`, `sample`, without a copy",
    "penalty": "`PenaltyMH`, `pm.sample`",
    "barker": "`BarkerMinibatchMH`, `pm.sample`",
    "hmcecs-30": "NumPyro HMCECS, 30 rows",
    "hmcecs-100": "NumPyro HMCECS, 100 rows",
    "hmcecs-300": "NumPyro HMCECS, 300 rows",
    "numpyro": "NumPyro NUTS",
    "nutpie": "nutpie",
    "pymc": "PyMC NUTS",
    "metropolis": "PyMC Metropolis",
    "advi": "PyMC ADVI",
}
OURS = ("driver", "without-copy", "tuna", "penalty", "barker")
HMCECS = ("hmcecs-30", "hmcecs-100", "hmcecs-300")
NUTS = ("numpyro", "nutpie", "pymc")
#: Those that are compared with: ADVI's draws are not of the posterior.
PEERS = (*HMCECS, *NUTS, "metropolis")
ENOUGH = 1_000
#: Bulk ESS below which a run does not tell whether it agrees with the long chain.
LEAST_ESS = 100
#: Problems of the figure, which differ in the number of rows alone.
GROWING = tuple(f"logistic-10-1e{power}" for power in (4, 5, 6, 7))
HEADS = (
    "sampler", "import", "compile", "set-up", "warm-up", "sampling", "draws", "bulk ESS",
    "tail ESS", "ESS/s, sampling", "ESS/s, whole", "means off by (sds)", "sds off by",
    "peak (MiB)", "first run: import, compile", "to 1,000",
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """The runs of one sampler on one problem, beside the runs that are compared with."""

    #: All runs of the cell.
    runs: Sequence[Record]
    #: The run of the long chain, if there is one.
    reference: Record | None

    @property
    def counted(self) -> Sequence[Record]:
        """The runs with draws and filled caches, or the first one where it was not repeated."""
        return [run for run in self.drawn if not run["cold"]] or self.drawn

    @property
    def drawn(self) -> Sequence[Record]:
        """The runs with draws."""
        return [run for run in self.runs if run.get("bulk")]

    @property
    def finished(self) -> bool:
        """Whether all runs that count made all their draws."""
        return bool(self.counted) and all(run["status"] == "ok" for run in self.counted)

    def of(self, figure: Callable[[Record], float]) -> float:
        """Return the median of a figure over the runs."""
        return median(map(figure, self.counted))

    @property
    def bulk(self) -> float:
        """The smallest bulk ESS."""
        return self.of(lambda run: run["bulk"])

    @property
    def speed(self) -> float:
        """ESS a second of sampling."""
        return self.of(lambda run: run["bulk"] / run["seconds"]["sampling"])

    @property
    def whole_speed(self) -> float:
        """ESS a second of the whole process."""
        return self.of(lambda run: run["bulk"] / run["seconds"]["total"])

    @property
    def to_enough(self) -> float:
        """Seconds to 1,000 effective draws, imports and compilation included."""
        return self.of(seconds_to_enough)

    @property
    def means_off(self) -> float:
        """The largest error of a mean, in posterior standard deviations."""
        return self.of(lambda run: self._off(run)[0])

    @property
    def sds_off(self) -> float:
        """The largest relative error of a standard deviation."""
        return self.of(lambda run: self._off(run)[1])

    def _off(self, run: Record) -> tuple[float, float]:
        """Return the largest errors of a mean and of a standard deviation in a run."""
        assert self.reference is not None
        mean, sd = np.array(self.reference["mean"]), np.array(self.reference["sd"])
        means = np.abs(np.array(run["mean"]) - mean) / sd
        return float(means.max()), float(np.abs(np.array(run["sd"]) / sd - 1.0).max())

    @property
    def right(self) -> bool:
        """Whether all runs agree with the long chain, as far as ESS tells, with whatever caches.

        A chain that stays at one point has an ESS by which everything agrees.
        """
        if not self.drawn or self.reference is None:
            return False
        return all(
            run["bulk"] >= LEAST_ESS
            and max(self._off(run)) <= max(0.1, 5.0 / float(np.sqrt(run["bulk"])))
            for run in self.drawn
        )


def seconds_to_enough(run: Record) -> float:
    """Return what a run takes to 1,000 effective draws, from the start of its process on."""
    seconds = run["seconds"]
    before = sum(seconds[part] for part in ("import", "compile", "setup", "tune"))
    return before + ENOUGH * seconds["sampling"] / run["bulk"]


type Results = dict[tuple[str, str], Cell]


def results(runs: Sequence[Record]) -> Results:
    """Return the cells that were run."""
    found: Results = {}
    for problem in PROBLEMS:
        of_problem = [run for run in runs if run["problem"] == problem]
        drawn = [run for run in of_problem if run["sampler"] == REFERENCE and run.get("bulk")]
        for sampler in TITLES:
            own = [run for run in of_problem if run["sampler"] == sampler]
            if own:
                found[problem, sampler] = Cell(own, drawn[0] if drawn else None)
    return found


def number(x: float) -> str:
    """Return a number with three digits, or in full where it is larger."""
    if x >= 1000.0:
        return f"{x:,.0f}"
    return f"{float(f'{x:.3g}'):g}" if x < 100.0 else f"{x:.0f}"


def line(sampler: str, cell: Cell) -> list[str]:
    """Return a row of the table of a problem."""
    if not cell.counted:
        last = cell.runs[-1]
        why = "no mode" if last["status"] == "inapplicable" else f"> {last['budget']:.0f} s"
        if last["status"] == "failed":
            why = "failed"
        return [TITLES[sampler], *["–"] * (len(HEADS) - 2), why]
    star = "" if cell.finished else "\\*"
    parts = ("import", "compile", "setup", "tune", "sampling")
    cold = [run for run in cell.runs if run["cold"]]
    known = cell.reference is not None
    return [
        TITLES[sampler],
        *(number(cell.of(lambda run, part=part: run["seconds"][part])) for part in parts),
        number(cell.of(lambda run: run["draws"])) + star,
        number(cell.bulk),
        number(cell.of(lambda run: run["tail"])),
        number(cell.speed),
        number(cell.whole_speed),
        f"{cell.means_off:.3f}" if known else "–",
        f"{cell.sds_off:.1%}" if known else "–",
        number(cell.of(lambda run: run["peak"])),
        number(sum(cold[0]["seconds"][part] for part in parts[:2])) if cold else "–",
        number(cell.to_enough) + star,
    ]


def best(found: Results, problem: str, samplers: Sequence[str], figure: str) -> Cell | None:
    """Return the best of some samplers; of ours and HMCECS those that agree with the long chain."""
    cells = {s: found[problem, s] for s in samplers if (problem, s) in found}
    checked = (*OURS, *HMCECS)
    right = [c for s, c in cells.items() if c.counted and (c.right or s not in checked)]
    sign = 1.0 if figure == "to_enough" else -1.0
    return min(right, key=lambda cell: sign * getattr(cell, figure), default=None)


def headline(found: Results, *, ratios: bool = True) -> str:
    """Return the table of ours beside the best of each kind of peer."""
    headers = [
        "problem", "`sample`", "`pm.sample`", "HMCECS", "NUTS", "`sample` to HMCECS",
        "`sample` to NUTS", "ours to 1,000", "best peer to 1,000",
    ]  # fmt: skip
    rows = []
    for problem in dict.fromkeys(problem for problem, _ in found):
        speeds = [
            None if cell is None else cell.speed
            for cell in (
                best(found, problem, kind, "speed")
                for kind in (("driver",), ("tuna",), HMCECS, NUTS)
            )
        ]
        seconds = [
            None if cell is None else cell.to_enough
            for cell in (best(found, problem, kind, "to_enough") for kind in (OURS, PEERS))
        ]
        found_ratios = [speeds[0] / x if speeds[0] and x else None for x in speeds[2:]]
        figures = [*speeds, *(found_ratios if ratios else []), *seconds]
        cells = ["–" if x is None else number(x) for x in figures]
        rows.append([DESCRIBED[problem].title, *cells])
    kept = [head for head in headers if ratios or " to " not in head or "1,000" in head]
    return table(kept, rows)


def block(runs: Sequence[Record]) -> str:
    """Return all that the page has between its marks."""
    found = results(runs)
    figure = f"![Seconds to 1,000 draws](../docs/figures/{FIGURE.name})\n"
    parts = [about(runs), headline(found), figure]
    for problem in dict.fromkeys(problem for problem, _ in found):
        rows = [line(s, found[problem, s]) for s in TITLES if (problem, s) in found]
        parts.append(f"{DESCRIBED[problem].title}:\n\n" + table(HEADS, rows))
    return "\n".join(parts)


def about(runs: Sequence[Record]) -> str:
    """Return a sentence on how the runs were made."""
    known = next(run for run in runs if "versions" in run)
    versions = ", ".join(f"{name} {value}" for name, value in known["versions"].items())
    budgets = sorted({f"{run['budget']:.0f}" for run in runs}, key=float)
    jobs = sorted({str(run["jobs"]) for run in runs}, key=int)
    processors = sorted({run["processor"] for run in runs if "processor" in run})
    shares = [run["share"] for run in runs if "share" in run]
    return (
        f"{len(runs)} runs, {' or '.join(jobs)} at a time, on {' and '.join(processors)}; budget "
        f"{' or '.join(budgets)} s; each had {median(shares):.0%} of its core in the median, and "
        f"{min(shares):.0%} at least ({versions}).\n"
    )


def panels(found: Results) -> list[Panel]:
    """Return the figure: seconds to 1,000 effective draws, and ESS a second, against N."""
    kinds = {
        "TunaMH, sample": ("driver",), "TunaMH, pm.sample": ("tuna",), "NumPyro HMCECS": HMCECS,
        "NumPyro NUTS": ("numpyro",), "nutpie": ("nutpie",), "PyMC NUTS": ("pymc",),
        "PyMC Metropolis": ("metropolis",), "PyMC ADVI": ("advi",),
    }  # fmt: skip
    titles = {
        "to_enough": ("Imports and compilation included", "seconds to 1,000 effective draws"),
        "speed": ("Sampling", "effective draws a second"),
    }
    found_panels = []
    for figure, (title, label) in titles.items():
        curves = []
        for name, samplers in kinds.items():
            points = [
                (DESCRIBED[problem].rows, float(f"{getattr(cell, figure):.4g}"))
                for problem in GROWING
                if (cell := best(found, problem, samplers, figure)) is not None
            ]
            # Draws of ADVI are independent, and cost nothing.
            if points and not (name == "PyMC ADVI" and figure == "speed"):
                x, y = zip(*points, strict=True)
                curves.append(Curve(name, x, y, "dashed" if name == "PyMC ADVI" else "line"))
        found_panels.append(Panel(title, "rows N", label, curves, log_x=True, log_y=True))
    return found_panels


def written(page: str, runs: Sequence[Record]) -> str:
    """Return the page with the results in it."""
    text = f"<!-- peers -->\n\n{block(runs)}\n<!-- end -->"
    return MARKED.sub(lambda _: text, page)


def main() -> None:
    """Write the page, the table of ratios and the figure."""
    runs = json.loads(RESULTS.read_text(encoding="utf-8"))["runs"]
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), runs), encoding="utf-8")
    SUMMARY.write_text(headline(results(runs), ratios=False), encoding="utf-8")
    draw(panels(results(runs)), FIGURE)


if __name__ == "__main__":
    main()
