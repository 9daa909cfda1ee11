"""Where rows can be: arrays that NumPy sees, and files and arrays of other libraries.

A library is imported when its rows are asked for, so that none has to be installed.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from pymc_minibatch_mh.data.files import open_npy
from pymc_minibatch_mh.data.storage import ArrayStorage, Storage
from pymc_minibatch_mh.errors import SettingError


class Sources:
    """The ways to rows that lie somewhere else than in memory."""

    @classmethod
    @abstractmethod
    def of(cls, storage: Storage) -> Self:
        """Return the rows of a storage."""

    @classmethod
    def from_npy(cls, **paths: str | Path) -> Self:
        """Return rows of files that ``np.save`` has written, which are mapped and not read.

        Parameters
        ----------
        **paths
            Name -> path of a ``.npy`` file, its rows on the first axis.

        Raises
        ------
        SettingError
            If there is no array, or one is not numeric, has no rows or another number of them.
        SourceError
            If a file is missing, or shorter than it says.
        """
        return cls.of(ArrayStorage({name: open_npy(name, path) for name, path in paths.items()}))

    @classmethod
    def from_zarr(
        cls,
        source: Any,
        names: Sequence[str] | Mapping[str, str] | None = None,
        *,
        missing_are_fill: bool = False,
    ) -> Self:
        """Return rows of arrays of Zarr, which the extra ``zarr`` installs.

        Chunks are decoded as a whole and the last ones are kept, at most 256 MiB or twice the
        largest. Rows are drawn one by one from all over the arrays: small chunks, of some 10,000
        rows, are read fastest.

        Parameters
        ----------
        source : path, zarr.Group or dict
            A group or its path, or name -> array or its path.
        names
            Names of arrays of the group, or name -> path inside of the group; by default all
            arrays of the group.
        missing_are_fill
            Zarr need not write chunks that hold nothing but the fill value. Whether that is what
            missing chunks mean; otherwise they are refused, as they can be lost data.

        Raises
        ------
        SettingError
            If Zarr is not installed, there is no such array, or one is not numeric, has no rows or
            another number of them.
        SourceError
            If an array cannot be opened, or a chunk is missing.
        """
        try:
            from pymc_minibatch_mh.data.zarr_storage import ZarrStorage  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise _not_installed("from_zarr", "zarr", error) from error
        return cls.of(ZarrStorage(source, names, missing_are_fill))

    @classmethod
    def from_parquet(
        cls, source: Any, columns: Mapping[str, str | Sequence[str]] | None = None
    ) -> Self:
        """Return rows of Parquet files, which the extra ``arrow`` reads.

        Row groups are decoded as a whole and the last ones are kept, at most 256 MiB or twice the
        largest. Rows are drawn one by one from all over the files: small row groups, of some
        10,000 rows, are read fastest.

        Parameters
        ----------
        source : path, sequence of paths or pyarrow.dataset.Dataset
            A file, several in order, a folder of which all files are read in the order of their
            names, or a dataset.
        columns
            Name of an array -> the column that it is, or the columns that it has, in order, such
            as ``{"X": ["x1", "x2"], "y": "y"}``. Columns of several types have the type that holds
            them all. By default each column is an array of its own.

        Raises
        ------
        SettingError
            If PyArrow is not installed, a column is not there, is not numeric or has another type
            in another file.
        SourceError
            If a file cannot be opened, or a column has empty entries.
        """
        try:
            from pymc_minibatch_mh.data.parquet_storage import ParquetStorage  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise _not_installed("from_parquet", "arrow", error) from error
        return cls.of(ParquetStorage(source, columns))

    @classmethod
    def from_dask(cls, **arrays: Any) -> Self:
        """Return rows of arrays of Dask, which the extra ``dask`` installs.

        They are computed by the scheduler that Dask has: a client of ``distributed``, where there
        is one. Only the rows that are asked for travel.

        Parameters
        ----------
        **arrays
            Name -> array of known chunks, its rows on the first axis. Two reads of a row have to
            give the same numbers.

        Raises
        ------
        SettingError
            If Dask is not installed, there is no array, or one is not numeric, has no rows or
            another number of them.
        """
        try:
            from pymc_minibatch_mh.data.dask_storage import DaskStorage  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise _not_installed("from_dask", "dask", error) from error
        return cls.of(DaskStorage(arrays))


def _not_installed(called: str, extra: str, error: ModuleNotFoundError) -> SettingError:
    return SettingError(
        f"Rows.{called}() needs {error.name!r}, which is not installed. Install it: python -m pip "
        f"install 'pymc-minibatch-mh[{extra}]'."
    )


def seen_by_numpy(name: str, values: Any) -> np.ndarray:
    """Return an array, or the array that values of another library are without a copy."""
    if np.ma.is_masked(values):
        raise SettingError(
            f"{name!r} has masked entries, whose values are missing. Drop their rows from all "
            "arrays."
        )
    if isinstance(values, np.ndarray):
        return values
    what = f"Rows({name}=...) is of type {type(values).__name__}"
    # Lazily computed arrays give a new array every time.
    if getattr(values, "__dask_graph__", lambda: None)() is not None:
        raise SettingError(f"{what}, which Dask computes. Give Rows.from_dask() its array.")
    if not hasattr(values, "__array__") or type(values).__module__.startswith(("zarr", "h5py")):
        raise SettingError(
            f"{what}. Give an array of real numbers, rows on the first axis, or Rows.from_zarr(), "
            "Rows.from_parquet() or Rows.from_npy() its path."
        )
    try:
        array = np.asarray(values, copy=False)
    except (RuntimeError, TypeError, ValueError) as error:
        why = str(error).splitlines()[0].rstrip(".")
        raise SettingError(
            f"{what}, which NumPy cannot see without a copy ({why}). Copy it yourself: "
            f"{name}.to_numpy()."
        ) from error
    return array
