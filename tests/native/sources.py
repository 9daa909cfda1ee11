"""Copies of the C sources that are edited, and Python in a process of its own that runs them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from pymc_minibatch_mh.native import compiler

TESTS = Path(__file__).parents[1]
LOAD = "from pymc_minibatch_mh.native import library; library.load_library()"


class Sources:
    """A folder with a copy of the sources, and of what was compiled of them but the library.

    Parameters
    ----------
    folder : Path
        Where the copy is made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        objects = folder / ".objects"
        objects.mkdir(parents=True, exist_ok=True)
        for path in compiler.FOLDER.glob("*.[ch]"):
            shutil.copy(path, folder)
        if own := next(compiler.find_compilers(), None):
            for path in compiler.compile_units(own):
                shutil.copy(path, objects)

    def edit(self, file: str, old: str, new: str) -> None:
        """Replace a text that a file has once."""
        path = self.folder / file
        text = path.read_text("utf-8")
        assert text.count(old) == 1, (file, old, text.count(old))
        path.write_text(text.replace(old, new), "utf-8")

    def libraries(self) -> list[Path]:
        """Return the libraries that were compiled."""
        return sorted(self.folder.glob("libmh-*"))

    def environment(self, **variables: str) -> dict[str, str]:
        """Return the environment of a process that runs the copy."""
        path = os.pathsep.join([str(TESTS), str(TESTS.parent)])
        own = {"MH_SOURCES": str(self.folder), "PYTHONPATH": path}
        return os.environ | own | variables

    def start(self, code: str = LOAD, **variables: str) -> subprocess.Popen:
        """Start Python on the copy, and return at once."""
        return subprocess.Popen(
            [sys.executable, "-c", code], env=self.environment(**variables), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, code: str = LOAD, **variables: str) -> str:
        """Run Python on the copy, and return what it prints, or the error that it ends with."""
        out, err = self.start(code, **variables).communicate()
        return out + err.partition("\nImportError: ")[2] if "ImportError" in err else out + err
