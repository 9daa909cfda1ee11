"""The sentences of a page: of its paragraphs, items, definitions and cells of tables."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
#: What is no prose: code and its output, formulas, images, markers and lines under headings.
NO_PROSE = re.compile(r"```.*?```|\$\$.*?\$\$|!\[.*?\]\(.*?\)|<!--.*?-->", re.DOTALL)
ITEM = re.compile(r"^(?:[-*]|\d+\.|:)\s+")
RULER = re.compile(r"^\|[\s|:-]+\|$")
END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][)*_])|(?<=[.!?][)*_]{2}))(?<!et al\.)\s+(?=[^a-z])")


def section_of(page, heading):
    """Return the text of a page under a heading, or the whole page without one."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if heading is None:
        return text
    level = heading.split(" ")[0]
    after = text.split(f"\n{heading}\n", 1)[1]
    return re.split(rf"\n#{{1,{len(level)}}} ", after)[0]


def plain(text):
    """Return a text on one line."""
    return " ".join(text.split())


def sentences(page, heading=None):
    """Return the sentences of a section, and the rows of its tables, each on one line."""
    found = []
    for block in re.split(r"\n\s*\n", NO_PROSE.sub("\n\n", section_of(page, heading))):
        lines = [line for line in block.strip().splitlines() if not line.startswith("#")]
        if lines and lines[0].startswith("|"):
            # The first two lines are the names of columns and a ruler.
            found += [plain(line) for line in lines[2:] if not RULER.match(line)]
        else:
            for part in _parts(lines):
                found += [s for s in END.split(plain(part)) if s]
    return found


def _parts(lines):
    """Join the lines of each item of a list."""
    parts = []
    for line in lines:
        if ITEM.match(line) or not parts:
            parts.append(ITEM.sub("", line))
        else:
            parts[-1] += " " + line
    return parts
