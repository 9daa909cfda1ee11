"""The tables of tests/docs/inputs/README.md: every input, its error and its message.

``PYTHONPATH=.:tests python -m docs.tools.inputs_page`` writes them anew from what the package
does; numbers that the page leaves open stay open.
"""

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from docs.inputs.case import FOLDER, NUMBER, Case, Shared
from docs.inputs.catalogue import CASES
from helpers.models import poisson
from helpers.zoo import METHODS

PAGE = Path(__file__).parents[2] / "tests" / "docs" / "inputs" / "README.md"
MARKERS = ("<!-- inputs: begin -->\n", "<!-- inputs: end -->")
HEAD = "| input | error | message |\n| --- | --- | --- |\n"
#: Marks that Markdown would take for its own.
MARKS = "\\*_[]<>`"
#: Name of the error and message; no error and no message of an input that is accepted.
Outcome = tuple[str, str]
ACCEPTED: Outcome = ("accepted", "")


def outcome(case: Case, shared: Shared) -> Outcome:
    """Give an input to the package, and return what becomes of it."""
    try:
        case.call(shared)
    except Exception as error:
        return type(error).__name__, str(error).replace(str(shared.folder), FOLDER)
    return ACCEPTED


def agrees(found: Outcome, written: Outcome) -> bool:
    """Whether an outcome is the one that is written, numbers that are left open apart."""
    pattern = re.escape(written[1]).replace(re.escape(NUMBER), r" *-?[\d.]+(e[-+]\d+)? *")
    return found[0] == written[0] and re.fullmatch(pattern, found[1], re.DOTALL) is not None


def on_the_page(page: str) -> dict[str, Outcome]:
    """Return what the page says: name of a case -> error and message."""
    said = {}
    for part in between(page).split("\n## ")[1:]:
        title, _, rows = part.partition("\n")
        for row in re.findall(r"^\| `(.*)` \| (.*?) \| (.*) \|$", rows, re.MULTILINE):
            written, error, message = (cell.replace("\\|", "|") for cell in row)
            for mark in MARKS:
                message = message.replace(f"\\{mark}", mark)
            said[f"{title}: {written}"] = (error.strip("`"), message.strip())
    return said


def table(outcome_of: Callable[[Case], Outcome]) -> str:
    """Return the tables, one for every section."""
    parts = []
    for section in dict.fromkeys(case.section for case in CASES):
        rows = [line(case, *outcome_of(case)) for case in CASES if case.section == section]
        parts.append(f"\n## {section}\n\n{HEAD}{''.join(rows)}")
    return "".join(parts) + "\n"


def line(case: Case, error: str, message: str) -> str:
    """Return the row of the table about one case."""
    for mark in MARKS:
        message = message.replace(mark, f"\\{mark}")
    named = error if (error, message) == ACCEPTED else f"`{error}`"
    cells = (f"`{case.written}`", named, message)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def between(page: str) -> str:
    """Return what a page has between the markers."""
    return page.split(MARKERS[0])[1].split(MARKERS[1], maxsplit=1)[0]


def main() -> None:
    """Write the tables into the page."""
    page, model = PAGE.read_text(encoding="utf-8"), poisson()
    said = on_the_page(page)
    with tempfile.TemporaryDirectory() as folder:
        shared = Shared(model, lambda: METHODS["TunaMH"](model=model), Path(folder))

        def outcome_of(case: Case) -> Outcome:
            found, written = outcome(case, shared), said.get(case.name, ACCEPTED)
            return written if agrees(found, written) else found

        text = table(outcome_of)
    before, after = page.split(MARKERS[0])[0], page.split(MARKERS[1])[1]
    PAGE.write_text(before + MARKERS[0] + text + MARKERS[1] + after, encoding="utf-8")


if __name__ == "__main__":
    main()
