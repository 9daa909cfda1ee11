"""Parts of a long run, kept on disk: a run that was stopped goes on after its last part.

A part is a dictionary of arrays under a name. Parts of other seeds and sizes lie in other folders;
to compute one anew, delete its file. A run that comes to its end removes all. Each part tells its
commit, seconds and data, which the record of the run puts together.
"""

import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from papers import provenance

type Part = Mapping[str, NDArray[np.float64]]

FOLDER = Path(__file__).parent / "parts"
_COMMIT, _SECONDS, _DATA = "commit of the part", "seconds of the part", "data of the part"


class Parts:
    """A folder of parts, or none, if each is computed whenever it is asked for.

    Parameters
    ----------
    folder
        Where parts are kept.
    commit
        The commit that new ones are computed at.
    """

    def __init__(self, folder: Path | None = None, commit: str = "") -> None:
        self.folder, self.commit = folder, commit
        self.commits: set[str] = set()
        self.seconds = 0.0

    def part(self, name: str, compute: Callable[[], Part]) -> Part:
        """Return the part of a name: the kept one, or a new one, which is then kept."""
        if self.folder is None:
            return compute()
        file = self.folder / f"{name}.npz"
        if not file.exists():
            began = time.perf_counter()
            computed = compute()
            self._keep(file, computed, time.perf_counter() - began)
        with np.load(file, allow_pickle=False) as stored:
            found = dict(stored)
        self.commits.add(str(found.pop(_COMMIT)))
        self.seconds += float(found.pop(_SECONDS))
        provenance.note_digests(map(str, found.pop(_DATA)))
        return found

    def _keep(self, file: Path, part: Part, seconds: float) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        # A run that is stopped while it writes leaves no half of a part behind.
        unfinished = file.with_suffix(f".{os.getpid()}.npz")
        told = {
            _COMMIT: np.array(self.commit),
            _SECONDS: np.array(seconds),
            _DATA: np.array(provenance.digests(), str),
        }
        np.savez(unfinished, allow_pickle=False, **part, **told)
        unfinished.replace(file)


#: The parts of the experiment that runs.
_current = Parts()


def keep_in(folder: Path | None, commit: str = "") -> Parts:
    """Keep the parts of the experiment that runs next in a folder."""
    global _current
    _current = Parts(folder, commit)
    return _current


def discard() -> None:
    """Remove the parts of a run that is stored: another run shall compute its own."""
    if _current.folder is not None and _current.folder.exists():
        shutil.rmtree(_current.folder)


def part(name: str, compute: Callable[[], Part]) -> Part:
    """Return a part of the experiment that runs: see :class:`Parts`."""
    return _current.part(name, compute)
