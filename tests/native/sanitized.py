"""Tests on a library that watches memory: ``python tests/native/sanitized.py [ARGUMENTS]``.

These are ROOMS, unless arguments of pytest name others. The library is compiled with
AddressSanitizer and UBSan, and with MH_CHECKED: every piece of scratch has a block of its own. The
first mistake ends the process, with the place in the sources. Arrays of NumPy are watched as well.
"""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from pymc_minibatch_mh.native import compiler

ROOT = Path(__file__).parents[2]
#: Tests that compile copies of the sources are left out.
ROOMS = ["tests/native", *(f"--ignore=tests/native/test_{k}.py" for k in ("library", "sources"))]
OPTIONS = "-DMH_CHECKED -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined"
LIBRARIES = ("libasan.so", "libubsan.so")


def sanitizers(command: Iterable[str]) -> list[str]:
    """Return where a compiler has the libraries of its sanitizers; none if it lacks one of them."""
    found = []
    for name in LIBRARIES:
        asked = [*command, f"-print-file-name={name}"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        place = done.stdout.strip()
        # A compiler that does not have it answers with the name alone.
        found += [place] if os.path.isabs(place) else []
    return found if len(found) == len(LIBRARIES) else []


def environment(libraries: list[str]) -> dict[str, str]:
    """Return variables for a process with a library that is compiled with sanitizers."""
    return {
        "MH_CC_OPTIONS": OPTIONS,
        "LD_PRELOAD": " ".join(libraries),
        # Python itself and what it loads keep memory until the end.
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


def run(arguments: list[str]) -> int:
    """Run pytest on the library of the machine's own compiler, and return its exit status."""
    own = next(compiler.find_compilers(), None)
    libraries = sanitizers(own.command) if own else []
    if not libraries:
        raise SystemExit("no compiler has AddressSanitizer and UBSan: install gcc")
    os.environ["MH_CC_OPTIONS"] = OPTIONS
    compiler.build()  # here the compiler itself is not watched
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    watched = os.environ | environment(libraries)
    return subprocess.run(command, env=watched, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    given = sys.argv[1:]
    raise SystemExit(run(given if any(Path(one).exists() for one in given) else ROOMS + given))
