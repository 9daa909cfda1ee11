"""Arrays that several processes read from one piece of memory: a file that each of them maps."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from weakref import finalize

import numpy as np


def _remove(folder: Path, creator: int) -> None:
    # A forked process has a copy of the object, whose end is not that of the files.
    if os.getpid() == creator:
        shutil.rmtree(folder, ignore_errors=True)


class MappedArrays:
    """Arrays in a folder of files, which are there as long as this object is.

    A pickle of it holds the folder's name alone. Where it is read, nothing is copied: pages of a
    file that is mapped are in memory once, whatever the number of processes.

    Parameters
    ----------
    arrays
        Name -> array.

    Raises
    ------
    OSError
        If they cannot be written.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="pymc_minibatch_mh_"))
        finalize(self, _remove, self._folder, os.getpid())
        for name, array in arrays.items():
            np.save(self._folder / f"{name}.npy", array, allow_pickle=False)

    def __getstate__(self) -> Path:
        return self._folder

    def __setstate__(self, folder: Path) -> None:
        # The process that has written the files removes them.
        self._folder = folder

    def read(self) -> dict[str, np.ndarray]:
        """Return the arrays; what is written to them is this process's own.

        Raises
        ------
        FileNotFoundError
            If the object that has written them is no more.
        """
        found = {
            path.stem: np.load(path, mmap_mode="c", allow_pickle=False)
            for path in sorted(self._folder.glob("*.npy"))
        }
        if not found:
            raise FileNotFoundError(f"no arrays are left in {self._folder}")
        return {name: array.view(np.ndarray) for name, array in found.items()}
