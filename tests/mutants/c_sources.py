"""Plausible mistakes in the C sources: ``c_sources.txt`` lists them, and says how to add one.

A mistake is made in a copy of the sources, of which only the unit that it is in is compiled anew.
The test that kills it runs in a process that loads the copy's library.
"""

import gc
import os
import re
import subprocess
import sys
from multiprocessing import get_context
from pathlib import Path
from runpy import run_path
from typing import NamedTuple
from unittest import mock

import pytest

from native.sources import TESTS, Sources
from pymc_minibatch_mh.native import compiler

#: Exit status of pytest when a test has failed; a negative one is that of a signal, as when memory
#: was read that is not there.
FAILED, NOT_RUN = 1, 99
LONGEST = 600.0
#: Imported once, by the process that those of the tests are forked from: what the package and its
#: tests import of others. The package is not: it has the library loaded.
SLOW_TO_IMPORT = [
    "pytest", "arviz", "cffi.cparser", "mpmath", "numba.np.npyimpl", "psutil", "pymc",
    "pytensor.link.numba.dispatch", "pytensor.xtensor", "scipy.stats",
]  # fmt: skip


class Change(NamedTuple):
    """A text that a file has once, blanks aside, in a function if one is named; and another."""

    file: str
    function: str
    old: str
    new: str

    def apply(self, folder: Path) -> None:
        """Make the change. Raises a LookupError if the text is not there, or more than once."""
        path = folder / self.file
        text = path.read_text("utf-8")
        start, end = self._inside(text)
        words = map(re.escape, self.old.split())
        found = [*re.finditer(r"\s+".join(words), text[start:end])]
        if len(found) != 1:
            raise LookupError(f"{self.file} has {self.old!r} {len(found)} times")
        first, last = start + found[0].start(), start + found[0].end()
        path.write_text(text[:first] + self.new + text[last:], "utf-8")

    def _inside(self, text: str) -> tuple[int, int]:
        """Return where the function begins and ends."""
        if not self.function:
            return 0, len(text)
        head = re.search(rf"^\w[^;{{}}]*\b{self.function}\([^;{{}}]*\)\s*{{", text, re.MULTILINE)
        if head is None:
            raise LookupError(f"{self.file} has no function {self.function}")
        line = text.index("\n", head.end())
        # A short function is one line.
        end = line if text[line - 1] == "}" else text.index("\n}", head.end())
        return head.start(), end


class Mutant(NamedTuple):
    """A mistake: what it breaks, the changes that make it, and the test that fails under it."""

    name: str
    breaks: str
    changes: tuple[Change, ...]
    killer: str
    slow: bool

    @property
    def target(self) -> str:
        """The function that is changed, or the file."""
        return self.changes[0].function or self.changes[0].file


def mutant_of(head: str, body: str) -> Mutant:
    """Read the two lines of a mistake."""
    name, breaks = head.removeprefix("* ").split(": ", 1)
    place, rest = body.strip().split(": ", 1)
    made, killer = rest.rsplit(" | ", 1)
    file, _, function = place.partition("/")
    changes = []
    for change in made.split(" ;; "):
        old, new = change.split(" -> ")
        changes.append(Change(file, function, old, new))
    return Mutant(name, breaks, tuple(changes), killer, slow=not head.startswith("* "))


def catalogue() -> list[Mutant]:
    """Read the list of mistakes."""
    lines = Path(__file__).with_name("c_sources.txt").read_text("utf-8").splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    return [mutant_of(*pair) for pair in zip(lines[::2], lines[1::2], strict=True)]


def compiled(changes: tuple[Change, ...], folder: Path, **variables: str) -> Sources:
    """Return a copy of the sources with some changes, compiled."""
    sources = Sources(folder)
    for change in changes:
        change.apply(folder)
    with mock.patch.dict(os.environ, sources.environment(**variables)):
        run_path(compiler.__file__)["build"]()
    return sources


def survives(changes: tuple[Change, ...], killer: str, folder: Path, **variables: str) -> bool:
    """Return whether a test passes under some changes, and variables of the environment.

    Raises a RuntimeError where it can neither pass nor fail.
    """
    # What is compiled is not watched by a sanitizer, which is loaded into every process.
    own = {name: value for name, value in variables.items() if name != "LD_PRELOAD"}
    env = compiled(changes, folder, **own).environment(**variables)
    output = folder / "output.txt"
    command = ["-q", "-m", "", "-p", "no:cacheprovider", f"tests/{killer}"]
    status = (_status_of_new if variables else _status)(command, env, output)
    if status is not None and status > FAILED:
        raise RuntimeError(f"{killer} did not run:\n{output.read_text('utf-8')}")
    return status == 0


def _status_of_new(command: list[str], env: dict[str, str], output: Path) -> int | None:
    """Return the exit status of pytest in a new process, None if it runs for ever."""
    with output.open("w") as file:
        try:
            return subprocess.run(
                [sys.executable, "-m", "pytest", *command], env=env, cwd=TESTS.parent, stdout=file,
                stderr=subprocess.STDOUT, timeout=LONGEST, check=False,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            return None


def _status(command: list[str], env: dict[str, str], output: Path) -> int | None:
    """Return the same of a process that has what is slow to import, where forking is safe."""
    if sys.platform != "linux":
        return _status_of_new(command, env, output)
    started = get_context("forkserver")
    started.set_forkserver_preload(SLOW_TO_IMPORT)
    process = started.Process(target=_run_tests, args=(command, env, str(output)))
    process.start()
    process.join(LONGEST)
    if process.is_alive():
        process.kill()
        process.join()
        return None
    return process.exitcode


def _run_tests(command: list[str], env: dict[str, str], output: str) -> None:
    """Run pytest in this process, which ends with its status."""
    status = NOT_RUN
    gc.freeze()  # what was imported before: no collection goes through it, nor copies its pages
    try:
        file = os.open(output, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, 1)
        os.dup2(file, 2)
        os.environ.update(env)
        # What this module has imported, before the library.
        compiler.FOLDER = Path(env["MH_SOURCES"])
        assert "pymc_minibatch_mh.native.library" not in sys.modules
        os.chdir(TESTS.parent)
        status = int(pytest.main(command))
        sys.stdout.flush()
    finally:
        os._exit(status)
