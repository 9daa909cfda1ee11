"""The tables of README.md, from the cases that the tests hold the package to.

Run ``PYTHONPATH=tests python -m inputs.table`` in the root of the repository to write them anew.
"""

from pathlib import Path

from inputs.case import Case
from inputs.catalogue import CASES

PAGE = Path(__file__).with_name("README.md")
MARKERS = ("<!-- inputs: begin -->\n", "<!-- inputs: end -->")
HEAD = "| input | error | message |\n| --- | --- | --- |\n"


def table() -> str:
    """Return the tables, one for every section."""
    parts = []
    for section in dict.fromkeys(case.section for case in CASES):
        rows = [line(case) for case in CASES if case.section == section]
        parts.append(f"\n## {section}\n\n{HEAD}{''.join(rows)}")
    return "".join(parts) + "\n"


def line(case: Case) -> str:
    """Return the row of the table about one case."""
    accepted = case.error is None
    error = "accepted" if accepted else f"`{case.error.__name__}`"
    cells = (f"`{case.written}`", error, "" if accepted else as_text(case.message))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def as_text(message: str) -> str:
    """Return a message such that Markdown shows it letter by letter."""
    for mark in "\\*_[]<>`":
        message = message.replace(mark, f"\\{mark}")
    return message


def between(page: str) -> str:
    """Return what a page has between the markers."""
    return page.split(MARKERS[0])[1].split(MARKERS[1], maxsplit=1)[0]


def main() -> None:
    """Write the tables into the page."""
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.split(MARKERS[0])[0], page.split(MARKERS[1])[1]
    PAGE.write_text(before + MARKERS[0] + table() + MARKERS[1] + after, encoding="utf-8")


if __name__ == "__main__":
    main()
