"""Arrays that are mapped files, opened again by their paths where a pickle is read."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast
from zipfile import is_zipfile

import numpy as np

from pymc_minibatch_mh.data.files import SourceFile
from pymc_minibatch_mh.errors import SettingError, SourceError


def open_npy(name: str, path: str | Path) -> np.ndarray:
    """Map a file of NumPy's own format.

    Raises
    ------
    SettingError
        If it holds something else than one array of numbers.
    SourceError
        If it is missing, or shorter than it says.
    """
    file = SourceFile.at(path)
    if is_zipfile(path):
        raise SettingError(
            f"{name!r}, {file.path}, is an archive of several arrays, which cannot be mapped. "
            "Store each by np.save."
        )
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except (EOFError, OSError, ValueError) as error:
        if "Python objects" in str(error):
            raise SettingError(
                f"{name!r}, {file.path}, holds Python objects. Store numbers."
            ) from error
        raise SourceError(
            f"{name!r}, {file.path} with {file.size:,} bytes, cannot be mapped: {error}. Write it "
            "again by np.save."
        ) from error


def mapped_file(array: np.ndarray) -> SourceFile | None:
    """Return the file that an array lies in, None where it lies in memory."""
    whole = _map_of(array)
    return None if whole is None else SourceFile.at(str(whole.filename))


def _map_of(array: np.ndarray) -> np.memmap | None:
    """Return the map that an array is, or is a view of: the innermost one knows its offset."""
    found, base = None, cast(object, array)
    while isinstance(base, np.ndarray):
        # What is written to a map of mode "c" lies in memory alone.
        if isinstance(base, np.memmap) and base.filename is not None and base.mode != "c":
            found = base
        base = base.base
    return found


@dataclass(frozen=True)
class FileMap:
    """Where a mapped array lies.

    Parameters
    ----------
    path
        Of the file.
    offset
        Where its first number lies, in bytes.
    dtype
    shape
    strides
        In bytes.
    """

    path: str
    offset: int
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, array: np.ndarray) -> Self | np.ndarray:
        """Return where an array lies, or the array itself if that is in memory."""
        whole = _map_of(array)
        if whole is None:
            return array
        ahead = array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        offset = whole.offset + ahead
        path = str(Path(str(whole.filename)).absolute())
        return cls(path, offset, array.dtype, array.shape, array.strides)

    def opened(self) -> np.ndarray:
        """Map the array again.

        Raises
        ------
        SourceError
            If the file is missing or too short.
        """
        # Strides may be negative: the numbers lie on both sides of the first one.
        steps = [(n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True)]
        low = self.offset + sum(step for step in steps if step < 0)
        high = self.offset + sum(step for step in steps if step > 0) + self.dtype.itemsize
        file = SourceFile.at(self.path)
        if file.size < high:
            raise SourceError(
                f"the file {self.path} has {file.size:,} bytes, and {high:,} are needed of it. "
                "Build Rows(...), the model and the step again on the file as it shall be."
            )
        raw: Any = np.memmap(self.path, mode="r", offset=low, shape=(high - low,))
        return np.ndarray(self.shape, self.dtype, raw, self.offset - low, self.strides)
