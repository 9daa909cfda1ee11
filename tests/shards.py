"""Parts of the slow tier that take about as long, each of which runs alone.

``pytest -n 2 -m slow --shard 3/12`` runs the third of twelve parts. ``minutes.json`` says how long
the slow tests of a file take one worker: files are shared out, the longest first, and those that
take longer than `LONGEST` in pieces, to which their tests belong by their names. A file that is not
in there belongs to a part by its name. To measure anew, run all parts with ``--junitxml``, and then
``PYTHONPATH=.:tests python -m shards REPORT.xml ...`` in the root of the repository.
"""

import json
import sys
from collections import Counter
from functools import cache
from math import ceil
from pathlib import Path
from xml.etree import ElementTree as ET
from zlib import crc32

MINUTES = Path(__file__).with_name("minutes.json")
#: Minutes of one worker that a part should not have in one piece, and parts that suffice.
LONGEST, PARTS = 20.0, 12


@cache
def known():
    """Return the minutes of files."""
    return json.loads(MINUTES.read_text(encoding="utf-8"))


def pieces_of(file):
    """Return the number of pieces of a file, and the minutes of each."""
    minutes = known().get(file, 0.0)
    pieces = max(1, ceil(minutes / LONGEST))
    return pieces, minutes / pieces


@cache
def shared_out(n):
    """Return the part of each piece of a file, and the minutes of each part."""
    pieces = [(pieces_of(file)[1], file, k) for file in known() for k in range(pieces_of(file)[0])]
    parts, minutes = {}, [0.0] * n
    for long, file, piece in sorted(pieces, reverse=True):
        parts[file, piece] = least = minutes.index(min(minutes))
        minutes[least] += long
    return parts, minutes


def part_of(node_id, n):
    """Return which of `n` parts, from 0 on, a test belongs to."""
    file = node_id.partition("::")[0]
    piece = crc32(node_id.encode()) % pieces_of(file)[0]
    return shared_out(n)[0].get((file, piece), crc32(file.encode()) % n)


def measured(reports):
    """Return the minutes of each file in JUnit reports, rounded up to a tenth."""
    seconds = Counter()
    for report in reports:
        for case in ET.parse(report).iter("testcase"):
            words = case.get("classname").split(".")
            last = max(k for k, word in enumerate(words) if word.startswith("test_"))
            seconds["/".join(words[: last + 1]) + ".py"] += float(case.get("time"))
    return {file: ceil(seconds[file] / 6.0) / 10.0 for file in sorted(seconds)}


if __name__ == "__main__":
    MINUTES.write_text(json.dumps(measured(sys.argv[1:]), indent=1) + "\n", encoding="utf-8")
