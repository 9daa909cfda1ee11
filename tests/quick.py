"""Tests of the rooms at or above a change, for ``.ci/run --quick``.

Run ``PYTHONPATH=.:tests python -m quick [COMMIT]`` in the root of the repository to list them, for
all that differs from a commit, by default the last one.
"""

import subprocess
import sys
from pathlib import Path

from test_architecture import ARROWS, PACKAGE, part_named

ROOT = Path(__file__).parents[1]


def rooms_above(rooms):
    """Return rooms, and all that import them."""
    found = set(rooms)
    while more := {room for room, asked in ARROWS.items() if asked & found} - found:
        found |= more
    return found


def tests_of(room):
    """Return where the tests of a room lie: they are named after it."""
    folder, file = Path("tests", *room.split(".")), Path("tests") / f"test_{room}.py"
    return [path.as_posix() for path in (folder, file) if (ROOT / path).exists()]


def selected(changed):
    """Return the tests to run for files that changed, none of which need be there any more."""
    rooms = {part_named(path.with_suffix("").parts[1:]) for path in changed if is_source(path)}
    found = {"tests/test_architecture.py"}.union(*map(tests_of, rooms_above(rooms)))
    found |= {path.as_posix() for path in changed if is_test(path) and (ROOT / path).exists()}
    inside = {path for path in found if any(p.as_posix() in found for p in Path(path).parents)}
    return sorted(found - inside)


def is_source(path):
    return path.parts[0] == PACKAGE and path.suffix in (".py", ".c", ".h")


def is_test(path):
    return path.parts[0] == "tests" and path.name.startswith("test_")


def changed_since(commit):
    """Return the files of the checkout that differ from a commit or are new."""
    names = []
    for command in (
        ["diff", "--name-only", commit],
        ["ls-files", "--others", "--exclude-standard"],
    ):
        done = subprocess.run(
            ["git", "-C", str(ROOT), *command], capture_output=True, text=True, check=True
        )
        names += done.stdout.splitlines()
    return [Path(name) for name in names]


if __name__ == "__main__":
    print("\n".join(selected(changed_since(*(sys.argv[1:] or ["HEAD"])))))
