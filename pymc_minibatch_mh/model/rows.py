"""Observations that a model refers to without holding them in memory."""

from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import numpy as np

from pymc_minibatch_mh.data.files import open_npy
from pymc_minibatch_mh.data.source import (
    BLOCK_ROWS,
    ArrayStorage,
    Block,
    Storage,
    StoredArray,
    map_blocks,
)
from pymc_minibatch_mh.errors import SettingError, SourceError
from pymc_minibatch_mh.model.stored_ops import ReadStored, explain_missing_group
from pymc_minibatch_mh.progress import count_parts


class Rows:
    """Observations in files or in memory, to which a model refers without a copy.

    Write the model as usual, with ``rows.data("X")`` instead of the array ``X``. Steps of this
    package read all rows in blocks, and fetch the few rows of coming updates ahead of time.
    Everything else that would evaluate the model with all rows, such as ``pm.NUTS``, raises an
    error.

    Parameters
    ----------
    **arrays
        Name -> array, its rows on the first axis: a NumPy array, ``np.memmap``, or any array that
        NumPy views without a copy, such as a column of pandas or Polars, or an array of xarray.
        All have the same length N.

    Raises
    ------
    SettingError
        If there is no array, or an array is not numeric, is empty or differs in length.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> import pymc_minibatch_mh as mb
    >>> X, y = np.random.default_rng(1).standard_normal((5_000, 2)), np.zeros(5_000, dtype=int)
    >>> rows = mb.Rows(X=X, y=y)
    >>> with pm.Model():
    ...     beta = pm.Normal("beta", 0, 1, shape=2)
    ...     y = pm.Bernoulli("y", logit_p=rows.data("X") @ beta, observed=rows.data("y"))
    >>> rows
    Rows of 'X' (float64, 2 columns) and 'y' (int64): 5,000 rows
    """

    def __init__(self, **arrays: Any) -> None:
        self._store_as(ArrayStorage({name: _as_numpy_array(name, x) for name, x in arrays.items()}))

    @classmethod
    def of(cls, storage: Storage) -> Self:
        """Rows of a custom storage: see :class:`~data.source.Storage`."""
        rows = object.__new__(cls)
        rows._store_as(storage)
        return rows

    @classmethod
    def from_npy(cls, **paths: str | Path) -> Self:
        """Memory-mapped rows of files that ``np.save`` wrote.

        Parameters
        ----------
        **paths
            Name -> path of a ``.npy`` file, its rows on the first axis.

        Raises
        ------
        SettingError
            If there is no array, or an array is not numeric, is empty or differs in length.
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
        """Rows of Zarr arrays; requires the extra ``zarr``.

        Chunks are decoded as a whole, and the latest stay in memory, at most 256 MiB or twice
        the largest. Updates draw rows from all over the arrays, so small chunks of about 10,000
        rows are fastest.

        Parameters
        ----------
        source : path, zarr.Group or dict
            A group or its path, or name -> array or its path.
        names
            Names of arrays of the group, or name -> path inside of the group; by default all
            arrays of the group.
        missing_are_fill
            Whether missing chunks hold only the fill value, because Zarr need not write those;
            otherwise they raise an error, because data may be lost.

        Raises
        ------
        SettingError
            If Zarr is not installed, there is no such array, or an array is not numeric, is empty
            or differs in length.
        SourceError
            If an array cannot be opened, or a chunk is missing.
        """
        return cls.of(_import_storage("zarr", "zarr").ZarrStorage(source, names, missing_are_fill))

    @classmethod
    def from_parquet(
        cls, source: Any, columns: Mapping[str, str | Sequence[str]] | None = None
    ) -> Self:
        """Rows of Parquet files; requires the extra ``arrow``.

        Row groups are decoded as a whole, and the latest stay in memory, at most 256 MiB or
        twice the largest. Updates draw rows from all over the files, so small row groups of about
        10,000 rows are fastest.

        Parameters
        ----------
        source : path, sequence of paths or pyarrow.dataset.Dataset
            A file, several in order, a folder (all its files in the order of their names), or a
            dataset.
        columns
            Name of an array -> its column or columns, in order, such as ``{"X": ["x1", "x2"],
            "y": "y"}``. Columns of several types get the type that holds them all. By default each
            column is one array.

        Raises
        ------
        SettingError
            If PyArrow is not installed, or a column is missing, is not numeric or differs in type
            between files.
        SourceError
            If a file cannot be opened, or a column has empty entries.
        """
        return cls.of(_import_storage("parquet", "arrow").ParquetStorage(source, columns))

    @classmethod
    def from_dask(cls, **arrays: Any) -> Self:
        """Rows of Dask arrays; requires the extra ``dask``.

        Dask's scheduler computes them, a client of ``distributed`` if there is one. Only the
        requested rows travel.

        Parameters
        ----------
        **arrays
            Name -> array of known chunks, its rows on the first axis. A row has to have the same
            numbers at each read.

        Raises
        ------
        SettingError
            If Dask is not installed, there is no array, or an array is not numeric, is empty or
            differs in length.
        """
        return cls.of(_import_storage("dask", "dask").DaskStorage(arrays))

    def _store_as(self, storage: Storage) -> None:
        self.storage = storage
        self._variables: dict[str, Any] = {}
        self._largest: dict[str, tuple[str, int]] = {}

    @property
    def n_rows(self) -> int:
        """Number of rows N."""
        return self.storage.n_rows

    @property
    def names(self) -> list[str]:
        """Names of the arrays."""
        return list(self.storage.fields)

    @property
    def stamp(self) -> str:
        """Identity of these rows: digests, or sizes and modification times of files."""
        return self.storage.stamp

    def data(self, name: str) -> Any:
        """Placeholder of an array in a model, shape (N, ...).

        Parameters
        ----------
        name
            Its name.

        Raises
        ------
        SettingError
            If there is no such array.
        """
        self._require_name("data", name)
        if name not in self._variables:
            array = StoredArray(self.storage, name)
            self._variables[name] = ReadStored(array)()
        return self._variables[name]

    def n_groups(self, name: str) -> int:
        """Number of groups in an array of group numbers: its largest number + 1.

        It is computed from all rows, block by block, and cached while the rows are unchanged.

        Parameters
        ----------
        name
            Name of the array, of integers, or of floats that are integers.

        Raises
        ------
        SettingError
            If there is no such array.
        SourceError
            If a number is not an integer of 0 or more, or not below the number of rows, for example
            an identifier; the message names the row, its place and the number. Or if rows cannot
            be read.

        Examples
        --------
        >>> import numpy as np
        >>> import pymc_minibatch_mh as mb
        >>> mb.Rows(g=np.array([0, 3, 1, 3, 0])).n_groups("g")
        4
        """
        self._require_name("n_groups", name)
        # Reading raises an error if files were replaced; the stamp alone would not show it.
        self.storage.read([name], slice(0, 1))
        stamp = self.stamp
        known = self._largest.get(name)
        if known is None or known[0] != stamp:
            known = self._largest[name] = stamp, find_largest_group(self.storage, name)
        return known[1] + 1

    def _require_name(self, called: str, name: str) -> None:
        if name not in self.storage.fields:
            raise SettingError(f"{called}({name!r}) names no array. Choose from {self.names}.")

    def __repr__(self) -> str:
        arrays = " and ".join(_describe_array(name, f) for name, f in self.storage.fields.items())
        return f"Rows of {arrays}: {self.n_rows:,} rows"


def _describe_array(name: str, field: Any) -> str:
    columns = f", {' x '.join(map(str, field.shape))} columns" if field.shape else ""
    return f"{name!r} ({field.dtype}{columns})"


def _import_storage(module: str, extra: str) -> Any:
    """Module of a storage class; SettingError if libraries of the extra are not installed."""
    try:
        return import_module(f"pymc_minibatch_mh.data.{module}")
    except ModuleNotFoundError as error:
        raise SettingError(
            f"Rows.from_{module}() needs {error.name!r}, which is not installed. Install it: "
            f"python -m pip install 'pymc-minibatch-mh[{extra}]'."
        ) from error


def _as_numpy_array(name: str, values: Any) -> np.ndarray:
    """NumPy view of another library's array, without a copy."""
    if np.ma.is_masked(values):
        raise SettingError(
            f"{name!r} has masked entries, whose values are missing. Drop their rows from all "
            "arrays."
        )
    if isinstance(values, np.ndarray):
        return values
    what = f"Rows({name}=...) is of type {type(values).__name__}"
    # Lazy arrays raise an error, because they would be computed again at every access.
    if getattr(values, "__dask_graph__", lambda: None)() is not None:
        raise SettingError(f"{what}, which Dask computes. Give its array to Rows.from_dask().")
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
            f"{what}, which NumPy cannot view without a copy ({why}). Copy it yourself: "
            f"{name}.to_numpy()."
        ) from error
    return array


_STORE_GROUP_NUMBERS = (
    "Store numbers 0, 1, 2 and so on, as np.unique(..., return_inverse=True) gives them"
)


def find_largest_group(storage: Storage, name: str) -> int:
    """Largest group number, from one pass over blocks of rows."""
    largest, where, n_rows = -1, 0, storage.n_rows
    starts, call = range(0, n_rows, BLOCK_ROWS), partial(_largest_group, name)
    blocks: list[Block] = [(slice(k, min(k + BLOCK_ROWS, n_rows)), call) for k in starts]
    # The shared argument must allow weak references, and None does not: pass the function.
    answers = map_blocks(storage, [name], _largest_group, blocks)
    with count_parts(f"Counting the groups of {name!r}", len(blocks)) as advance:
        for first, (number, row, is_one) in zip(starts, answers, strict=True):
            if not is_one:
                raise SourceError(
                    f"{name!r} is {number} in {storage.where(first + row)}, which is not a group "
                    f"number. {_STORE_GROUP_NUMBERS}.{explain_missing_group(number)}"
                )
            if number > largest:
                largest, where = int(number), first + row
            advance()
    if largest >= n_rows:
        raise SourceError(
            f"{name!r} is {largest} in {storage.where(where)}, but there are only {n_rows:,} "
            f"rows: most of so many groups would be empty. {_STORE_GROUP_NUMBERS}, or declare "
            "the intended number of groups."
        )
    return largest


def _largest_group(
    name: str, _shared: None, arrays: Mapping[str, np.ndarray]
) -> tuple[int | float, int, bool]:
    """First invalid group number, or else the largest; its row; and whether it is valid."""
    numbers = arrays[name]
    numbers = numbers.reshape(len(numbers), -1)
    wrong = numbers < 0
    if numbers.dtype.kind == "f":
        # The negated comparison also catches NaN.
        wrong = ~((numbers >= 0) & (numbers == np.floor(numbers)) & np.isfinite(numbers))
    place = np.argmax(wrong if wrong.any() else numbers)
    row, column = np.unravel_index(place, numbers.shape)
    return numbers[row, column].item(), int(row), not wrong.any()
