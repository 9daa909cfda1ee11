"""Write the stored results into the page of the documentation, with their figures.

cd examples && python -m papers.page
"""

import re
from collections.abc import Sequence
from pathlib import Path

from papers.drawing import draw
from papers.report import RESULTS, Cell, Claim, Report

DOCS = Path(__file__).parents[2] / "docs"
PAGE, FIGURES = DOCS / "papers.md", DOCS / "figures" / "papers"
#: What stands between the marks of an experiment is written here, the rest of the page by hand.
MARKED = re.compile(r"<!-- results (\w+) -->\n.*?<!-- end -->", re.DOTALL)
CLAIMS = ["claim", "published", "asked", "measured", ""]


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


def cell(value: Cell | Sequence[float]) -> str:
    """Return a cell of a table."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return number(value) if isinstance(value, int | float) else spread(*value)


def asked(claim: Claim) -> str:
    """Return where a claim has to lie."""
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


def block(name: str, report: Report) -> str:
    """Return what the page says of an experiment."""
    minutes = report.run["seconds"] / 60.0
    parts = [f"`{report.run['command']}`, {number(float(f'{minutes:.2g}'))} minutes.\n"]
    if report.differences:
        parts.append("".join(f"- {each.rstrip('.')}.\n" for each in report.differences))
    if report.claims:
        rows = [
            [c.what, c.published, asked(c), spread(c.measured, c.sd), "" if c.reached else "missed"]
            for c in report.claims
        ]
        parts.append(table(CLAIMS, rows))
    for each in report.tables:
        rows = [list(map(cell, row)) for row in each.rows]
        parts.append(f"{each.caption}:\n\n" + table(each.head, rows))
    if report.panels:
        parts.append(f"![{report.source}](figures/papers/{name}.svg)\n")
    return "\n".join(parts)


def written(page: str) -> str:
    """Return the page with all stored results in it."""

    def replaced(match: re.Match[str]) -> str:
        name = match[1]
        report = Report.read(RESULTS / f"{name}.json")
        return f"<!-- results {name} -->\n\n{block(name, report)}\n<!-- end -->"

    return MARKED.sub(replaced, page)


def main() -> None:
    """Write the page and all figures."""
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    for file in sorted(RESULTS.glob("*.json")):
        report = Report.read(file)
        if report.panels:
            draw(report.panels, FIGURES / f"{file.stem}.svg")


if __name__ == "__main__":
    main()
