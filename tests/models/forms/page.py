"""The page that lists all forms, each with the line of PyMC that it is about."""

import re
from pathlib import Path

PAGE = Path(__file__).with_name("README.md")
MARKERS = ("<!-- forms: begin -->\n", "<!-- forms: end -->")


def between(page: str, markers: tuple[str, str]) -> str:
    """Return what a page has between two markers."""
    return page.split(markers[0])[1].split(markers[1], maxsplit=1)[0]


def _written() -> dict[str, str]:
    found = {}
    for part in between(PAGE.read_text(encoding="utf-8"), MARKERS).split("\n## ")[1:]:
        section, *lines = part.splitlines()
        for line in lines:
            if (known := re.match(r"\| (.+?) \| `(.+?)` \|", line)) is not None:
                name, written = (text.replace("\\|", "|") for text in known.groups())
                found[f"{section}: {name}"] = written
    return found


#: The key of a form -> its line. A new form's name and line are written on the page by hand.
WRITTEN = _written()
