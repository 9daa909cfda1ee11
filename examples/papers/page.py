"""Write what the pages of the documentation include of the stored results, and their figures.

cd examples && python -m papers.page
"""

from collections.abc import Sequence
from pathlib import Path

from papers.drawing import draw
from papers.report import RESULTS, Claim, Report

DOCS = Path(__file__).parents[2] / "docs"
PAGES, FIGURES = DOCS / "background" / "papers", DOCS / "figures" / "papers"
#: One file per experiment, which the page of its paper includes.
INCLUDED = PAGES / "results"
CLAIMS = ["figure", "published", "measured"]


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
    """Return the measured figure, and the expected range if it lies outside."""
    figure = spread(claim.measured, claim.sd)
    return figure if claim.reached else f"{figure}, missed: {expected(claim)}"


def is_number(published: str) -> bool:
    """Return whether a paper gives a number, and not an ordering such as "below 1"."""
    return published.removeprefix("about ").lstrip("-")[:1].isdigit()


def block(name: str, report: Report) -> str:
    """Return the results of an experiment: its figure, and a folded table beside the paper.

    The table has the paper's numbers, and every figure that missed its expected range.
    """
    parts = []
    if report.panels:
        parts.append(f"![{report.source}](../../figures/papers/{name}.svg)\n")
    shown = [c for c in report.claims if is_number(c.published) or not c.reached]
    if shown:
        reached = sum(c.reached for c in report.claims)
        title = f"{reached} of {len(report.claims)} figures in the expected range"
        rows = table(CLAIMS, [[c.what, c.published, measured(c)] for c in shown])
        parts.append(f":::{{dropdown}} {title}\n{rows}:::\n")
    minutes = number(float(f"{report.run['seconds'] / 60.0:.2g}"))
    differences = "".join(f" {each.rstrip('.')}." for each in report.differences)
    parts.append(f"`{report.run['command']}`, {minutes} minutes.{differences}\n")
    return "\n".join(parts)


def written() -> dict[Path, str]:
    """Return the files that the pages include, with their text."""
    stored = sorted(RESULTS.glob("*.json"))
    return {INCLUDED / f"{file.stem}.md": block(file.stem, Report.read(file)) for file in stored}


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
