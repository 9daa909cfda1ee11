"""Write what the pages of the documentation include of the stored results, and their figures.

cd examples && python -m papers.page
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from papers import abstracts
from papers.drawing import draw
from papers.report import RESULTS, Cell, Claim, Report, Table

DOCS = Path(__file__).parents[2] / "docs"
PAGES, FIGURES = DOCS / "background" / "papers", DOCS / "figures" / "papers"
#: One file per experiment, which the page of its paper includes.
INCLUDED = PAGES / "results"
CLAIMS = ["figure", "published", "measured"]
#: Columns that the pages leave out, because they depend on the machine: costs of updates and runs.
TIMED = (
    "seconds a trial",
    "seconds a chain",
    "ms a draw",
    "µs an update",
    "microseconds of one core",
)
#: Columns with the lengths of runs, which are stored and left out as well.
LENGTHS = "trials", "draws", "updates a trial"
#: Columns that pages put into the column before, in brackets, where both differ.
EVALUATED = "evaluated", "all rows evaluated"
#: Experiments whose figure the page of the paper shows at its head.
LEADS = "seita_mixture", "korattikara_risk", "zhang_regression"


def number(x: float) -> str:
    """Return a number with four digits, or in thousands in full."""
    if x == 0.0 or 1e-3 <= abs(x) < 1e3:
        return f"{float(f'{x:.4g}'):g}"
    if 1e3 <= abs(x) < 1e7:
        return f"{x:,.0f}"
    return f"{x:.2e}".replace("e-0", "e-").replace("e+0", "e")


def spread(mean: float, sd: float | None) -> str:
    """Return a mean, with its standard deviation where there is one."""
    return f"{number(mean)} ± {number(float(f'{sd:.2g}'))}" if sd else number(mean)


def expected(claim: Claim) -> str:
    """Return the expected range of a claim."""
    if claim.low is None or claim.high is None:
        limits = (("≤", claim.high), ("≥", claim.low))
        return " ".join(f"{sign} {number(limit)}" for sign, limit in limits if limit is not None)
    if claim.low == claim.high:
        return number(claim.low)
    return f"{number(claim.low)} to {number(claim.high)}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def measured(claim: Claim) -> str:
    """Return the measured figure, and the expected range if it lies outside or was set."""
    figure = spread(claim.measured, claim.sd)
    if claim.chosen:
        return f"{figure}, *set*"
    return figure if claim.reached else f"{figure}, missed: {expected(claim)}"


def is_number(published: str) -> bool:
    """Return whether a paper gives a number, and not an ordering such as "below 1"."""
    return published.removeprefix("about ").lstrip("-")[:1].isdigit()


def is_in_tables(claim: Claim, tables: Sequence[Table]) -> bool:
    """Return whether a line of a table has a claim's figure, beside the paper's if it counts."""
    wanted = {cell(claim.measured)}
    if claim.chosen and not (claim.published == "-" or is_number(claim.published)):
        return False
    if not claim.chosen:
        published = claim.published.removeprefix("about ").split(" ± ")[0].replace(",", "")
        try:
            wanted.add(cell(float(published)))
        except ValueError:
            return False
    lines = [{cell(value).split(" ± ")[0] for value in row} for each in tables for row in each.rows]
    # Where both are equal, a line with that number may be about anything.
    return (claim.chosen or len(wanted) == 2) and any(wanted <= line for line in lines)


def cell(value: Cell) -> str:
    """Return what a cell of a table says."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return number(value) if isinstance(value, int | float) else spread(*value)


def measurements(each: Table) -> str:
    """Return a table of measurements, without costs of the machine and lengths of runs."""
    lines = [list(each.head), *([cell(value) for value in row] for row in each.rows)]
    left_out = [k for k, name in enumerate(each.head) if name.startswith(TIMED) or name in LENGTHS]
    for k in {*range(1, len(each.head))} - {*left_out}:
        if each.head[k] in EVALUATED:
            left_out.append(k)
            for line in lines:
                line[k - 1] = together(line[k - 1], line[k])
    head, *rows = ([line[k] for k in range(len(line)) if k not in left_out] for line in lines)
    return f"{each.caption}:\n\n{table(head, rows)}"


def together(first: str, second: str) -> str:
    """Return a cell for two columns; the second is told where its mean differs."""
    if first.partition(" ± ")[0] == second.partition(" ± ")[0]:
        return first
    return f"{first} ({second})"


def dropdown(title: str, content: str) -> str:
    """Return a part of a page that is folded at first."""
    return f":::{{dropdown}} {title}\n{content}:::\n"


def made(run: Mapping[str, Any]) -> str:
    """Return how a result was made."""
    minutes = number(float(f"{run['seconds'] / 60.0:.2g}"))
    where = f"{run['machine']}, {run['date']}, commit {run['commit']}, data {run['data']}"
    return f"`{run['command']}`, {minutes} minutes, {where}."


def block(name: str, report: Report) -> str:
    """Return the results of an experiment: its figure, and folded tables beside the paper.

    The first has every figure that missed its expected range, and figures beside the paper's, or
    that do not count, which no other table has.
    """
    parts = []
    if report.panels and name not in LEADS:
        parts.append(f"![{report.source}](../../figures/papers/{name}.svg)\n")
    shown = [
        c
        for c in report.claims
        if not (c.chosen or c.reached)
        or ((c.chosen or is_number(c.published)) and not is_in_tables(c, report.tables))
    ]
    if shown:
        counted = [claim.reached for claim in report.claims if not claim.chosen]
        title = f"{sum(counted)} of {len(counted)} figures in the expected range"
        if not counted:
            title = "Figures beside the paper's"
        rows = [[c.what, c.published, measured(c)] for c in shown]
        parts.append(dropdown(title, table(CLAIMS, rows)))
    if report.tables:
        tables = "\n".join(map(measurements, report.tables))
        parts.append(dropdown("All measurements", tables))
    differences = "".join(f" {each.rstrip('.')}." for each in report.differences)
    parts.append(f"{made(report.run)}{differences}\n")
    return "\n".join(parts)


def written() -> dict[Path, str]:
    """Return the files that the pages include, with their text."""
    stored = sorted(RESULTS.glob("*.json"))
    files = {INCLUDED / f"{file.stem}.md": block(file.stem, Report.read(file)) for file in stored}
    files[INCLUDED / "abstracts.md"] = table(["claim", "result"], abstracts.lines())
    return files | {INCLUDED / "mode.md": abstracts.of_the_mode()}


def main() -> None:
    """Write all files and figures."""
    INCLUDED.mkdir(exist_ok=True)
    for included, text in written().items():
        included.write_text(text, encoding="utf-8")
    for file in sorted(RESULTS.glob("*.json")):
        report = Report.read(file)
        if report.panels:
            draw(report.panels, FIGURES / f"{file.stem}.svg")


if __name__ == "__main__":
    main()
