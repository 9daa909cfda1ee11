"""Write the gallery of the documentation: one page and one forest plot per model, and the overview.

    cd examples
    python -m uv run python -m real_data.page

Words come from the docstrings of the models' modules, figures from ``results/``.
"""

import ast
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from papers.drawing import COLOURS, STYLE, save
from papers.page import table
from real_data import CHAINS, DRAWS, NAMES, NUTS_DRAWS, TUNE

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs"
PAGES, FIGURES = DOCS / "gallery", DOCS / "figures" / "gallery"
#: Entries of a variable that the forest plot shows.
ENTRIES = 12
INCHES, AROUND = 0.2, 0.45
#: Effective draws below which chains have not converged.
CONVERGED = 100.0
#: Sampler -> its name in the plot, and where its intervals lie beside an entry's line.
SAMPLERS = {"tuna": ("TunaMH", -0.16), "nuts": ("NUTS", 0.16)}

NOT_CONVERGED = " NUTS had not converged."

type Result = dict[str, Any]
#: Entry -> mean, 5 %, 95 % and effective sample size.
type Entries = Mapping[str, list[float]]


def stored(name: str) -> Result:
    """Return the figures of a model that were stored."""
    text = (HERE / "results" / f"{name}.json").read_text(encoding="utf-8")
    result: Result = json.loads(text)
    return result


def docstring(name: str) -> tuple[str, str]:
    """Return the title of a model, and the description of its data."""
    text = ast.get_docstring(ast.parse((HERE / f"{name}.py").read_text(encoding="utf-8")))
    assert text is not None
    title, body = text.split("\n\n", 1)
    return title.removesuffix("."), body


def number(x: float) -> str:
    """Return a positive number with two digits, or in full from 100 on."""
    return f"{float(f'{x:.3g}'):,.0f}" if x >= 100.0 else f"{float(f'{x:.2g}'):g}"


def least_ess(entries: Entries) -> float:
    """Return the effective sample size of the slowest unknown."""
    return min(ess for *_, ess in entries.values())


def speeds(result: Result) -> tuple[float, float]:
    """Return effective draws per second of TunaMH and of NUTS, warm-up included."""
    tuna = least_ess(result["tuna"]) / result["seconds"]
    return tuna, least_ess(result["nuts"]) / result["nuts_seconds"]


def by_variable(entries: Entries) -> dict[str, list[str]]:
    """Return the first labels of each variable."""
    found: dict[str, list[str]] = {}
    for label in entries:
        found.setdefault(label.split("[")[0], []).append(label)
    return {name: labels[:ENTRIES] for name, labels in found.items()}


def draw_forest(result: Result, file: Path) -> None:
    """Write the forest plot: means and 90 % intervals of both samplers, a panel per variable."""
    variables = by_variable(result["tuna"])
    heights = [INCHES * len(labels) + AROUND for labels in variables.values()]
    with plt.rc_context(STYLE):
        figure = Figure(figsize=(7.0, sum(heights) + 0.35), layout="constrained")
        axes = figure.subplots(len(heights), squeeze=False, height_ratios=heights)[:, 0]
        for ax, labels in zip(axes, variables.values(), strict=True):
            _draw_entries(ax, result, labels)
        handles, names = axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper right", ncols=2)
        save(figure, file)


def _draw_entries(ax: Axes, result: Result, labels: list[str]) -> None:
    for colour, (sampler, (name, beside)) in zip(COLOURS, SAMPLERS.items(), strict=False):
        mean, low, high, _ = zip(*(result[sampler][label] for label in labels), strict=True)
        y = [k + beside for k in range(len(labels))]
        ax.hlines(y, low, high, color=colour, linewidth=1.6)
        ax.plot(mean, y, "o", color=colour, markersize=3, label=name)
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.5, -0.5)
    ax.locator_params(axis="x", nbins=7)


def page(name: str) -> str:
    """Return the page of a model."""
    result, (title, body) = stored(name), docstring(name)
    shown = by_variable(result["tuna"])
    left_out = len(result["tuna"]) - sum(map(len, shown.values()))
    note = f", the first {ENTRIES} of each variable" if left_out else ""
    short = "" if least_ess(result["nuts"]) >= CONVERGED else NOT_CONVERGED
    run = result["run"]
    return f"""\
# {title}

{body}

```{{literalinclude}} ../../examples/real_data/{name}.py
:language: python
:start-at: import
```

![Posterior of TunaMH and NUTS](../figures/gallery/{name}.svg)

Posterior means and 90 % intervals{note}.{short}

`{run["command"]}`, {run["date"]}, data {run["data"]}.
"""


def overview() -> str:
    """Return the page that lists all models."""
    rows = []
    for name in NAMES:
        result, (title, _) = stored(name), docstring(name)
        tuna, nuts = speeds(result)
        subject, kind = title.split(": ")
        figures = [number(x) for x in (result["rows_per_update"], tuna, nuts)]
        figures[-1] += "" if least_ess(result["nuts"]) >= CONVERGED else "\\*"
        figures += [
            number(result[before] + result[sampling])
            for before, sampling in (("prepared", "seconds"), ("nuts_compilation", "nuts_seconds"))
        ]
        size = (f"{result['rows']:,}", str(result["unknowns"]))
        rows.append([f"[{subject}]({name}.md), {kind}", *size, *figures])
    speed = ["`TunaMH`, ESS/s", "NUTS, ESS/s", "`TunaMH`, s", "NUTS, s"]
    head = ["model", "observations", "parameters", "evaluated per update", *speed]
    entries = "\n".join(NAMES)
    used = stored(NAMES[0])["run"]["versions"]
    versions = ", ".join(f"{name} {of}" for name, of in used.items())
    return f"""\
# Gallery

Each page has the code of a model, and its posterior by `TunaMH` and by NUTS. The data come from
packages on PyPI.

{table(head, rows)}
ESS/s is the effective sample size of the slowest parameter per second of warm-up and sampling. The
last two columns have all seconds: of preparation or compilation, warm-up and sampling.

\\* NUTS had not converged in this short run, so its ESS/s is an upper bound.

Two chains of each model ran in turn, on a shared machine of two cores. nutpie's NUTS made
{NUTS_DRAWS} draws after {NUTS_DRAWS} of warm-up, and `TunaMH`, compiled before, {DRAWS:,} after
{TUNE:,}:

```python
from pymc_minibatch_mh import TunaMH, sample

trace = sample(TunaMH(model=model()), {DRAWS:_}, tune={TUNE:_}, chains={CHAINS})
```

In `examples/`, `python -m uv run --group gallery python -m real_data.run NAME` repeats a run
({versions}).

`tests/models/gallery/README.md` has 25 models of PyMC's gallery and manual.

```{{toctree}}
:hidden:

{entries}
```
"""


def written() -> dict[Path, str]:
    """Return all pages by their files."""
    return {PAGES / "index.md": overview(), **{PAGES / f"{name}.md": page(name) for name in NAMES}}


def main() -> None:
    """Write the pages and the figures."""
    PAGES.mkdir(exist_ok=True)
    for file, text in written().items():
        file.write_text(text, encoding="utf-8")
    for name in NAMES:
        draw_forest(stored(name), FIGURES / f"{name}.svg")


if __name__ == "__main__":
    main()
