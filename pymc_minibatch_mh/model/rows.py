"""Rows that a model refers to without holding them, wherever they are.

PyTensor's caches keep every operation until the process ends. So an operation knows its storage
weakly, and its output holds the storage, together with all copies of that output: rows live as long
as a graph on them does.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self
from weakref import ref

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.shape import Shape
from pytensor.tensor.subtensor import Subtensor
from pytensor.tensor.type import TensorType

from pymc_minibatch_mh.data import Column
from pymc_minibatch_mh.data.files import open_npy
from pymc_minibatch_mh.data.source import (
    BLOCK_ROWS,
    ArrayStorage,
    Block,
    Storage,
    StoredArray,
    map_blocks,
)
from pymc_minibatch_mh.errors import SettingError, SourceError, refuse
from pymc_minibatch_mh.progress import counting


class WholeArrayError(SourceError, TypeError):
    """Stored data that were asked for as a whole.

    A TypeError too: where PyMC collects what was observed for a trace, it leaves such data out.
    """


class _OfStored(Op):
    """An operation without inputs on something that its output holds."""

    __props__ = ("_known",)

    def __init__(self, held: Any) -> None:
        self._known = ref(held)
        # A reference can be hashed later only if it was while the object lived.
        hash(self._known)

    @property
    def held(self) -> Any:
        """The value of the output."""
        found = self._known()
        assert found is not None
        return found

    def _applied(self, out: Variable) -> Apply:
        # Clones, deep copies and pickles of a variable keep its tag.
        out.tag.held = self.held
        return Apply(self, [], [out])

    def do_constant_folding(self, fgraph: Any, node: Apply) -> bool:
        """Leave rows where they are, and their number apart from others that are equal to it."""
        return False

    def __reduce__(self) -> tuple:
        return type(self), (self.held,)


class ReadStored(_OfStored):
    """Stand for a stored array in a model: small, whatever the length of the array."""

    def make_node(self) -> Apply:
        """Declare the array with the shape of its rows; their number is no part of its type."""
        array: StoredArray = self.held
        shape = (None, *array.shape[1:])
        return self._applied(TensorType(str(array.dtype), shape=shape)(name=array.name))

    def perform(self, node: Apply, inputs: list, output_storage: list) -> None:
        """Refuse to read the whole array, which need not fit into memory."""
        raise WholeArrayError(
            f"{self.held.name!r} is data of Rows(...), and PyMC itself would read all "
            f"{self.held.shape[0]:,} rows at once. Sample with a step of pymc_minibatch_mh, which "
            "reads them in blocks, and compute anything else from the array itself."
        )

    def infer_shape(self, node: Apply, shapes: list) -> list[tuple[Any, ...]]:
        """Return the shape without reading."""
        return [(NumberOfRows(self.held.storage)(), *self.held.shape[1:])]


class NumberOfRows(_OfStored):
    """The number of rows of a storage, which is another where some of them stand for all."""

    def make_node(self) -> Apply:
        """Declare a number."""
        return self._applied(pt.lscalar())

    def perform(self, node: Apply, inputs: list, output_storage: list) -> None:
        """Return the number."""
        output_storage[0][0] = np.asarray(self.held.n_rows)


def stored_array(variable: Variable) -> StoredArray | None:
    """Return the stored array that a variable of a model stands for, if it does."""
    op = variable.owner.op if variable.owner is not None else None
    return op.held if isinstance(op, ReadStored) else None


def stored_arrays(graphs: Iterable[Variable]) -> list[StoredArray]:
    """Return the stored arrays that graphs depend on."""
    found = (stored_array(variable) for variable in ancestors(list(graphs)))
    return [array for array in found if array is not None]


_STORE = "Store numbers 0, 1, 2 and so on, as np.unique(..., return_inverse=True) gives them"


def said_of(number: float) -> str:
    """Explain the number of a missing group, as a further sentence."""
    if number != -1:
        return ""
    return " -1 is pandas' code for a missing category: drop its rows, or number it as a group."


def largest_group(storage: Storage, name: str) -> int:
    """Return the largest number of a group, read in one pass over blocks of rows."""
    largest, where, n_rows = -1, 0, storage.n_rows
    starts = range(0, n_rows, BLOCK_ROWS)
    blocks: list[Block] = [
        (slice(k, min(k + BLOCK_ROWS, n_rows)), partial(_largest_of, name)) for k in starts
    ]
    # A cluster keeps shared work as long as it is referred to, which None cannot be.
    answers = map_blocks(storage, [name], _largest_of, blocks)
    with counting(f"Counting the groups of {name!r}", len(blocks)) as advance:
        for first, (number, row, is_one) in zip(starts, answers, strict=True):
            if not is_one:
                raise SourceError(
                    f"{name!r} is {number} in {storage.where(first + row)}, which is not a group "
                    f"number. {_STORE}.{said_of(number)}"
                )
            if number > largest:
                largest, where = int(number), first + row
            advance()
    if largest >= n_rows:
        raise SourceError(
            f"{name!r} is {largest} in {storage.where(where)}, but there are only {n_rows:,} "
            f"rows: most of so many groups would be empty. {_STORE}, or declare the intended "
            "number of groups."
        )
    return largest


def _largest_of(
    name: str, _shared: None, arrays: Mapping[str, np.ndarray]
) -> tuple[int | float, int, bool]:
    """Return the first number that is no group's, or else the largest, its row and which it is."""
    numbers = arrays[name]
    numbers = numbers.reshape(len(numbers), -1)
    wrong = numbers < 0
    if numbers.dtype.kind == "f":
        # Also NaN, for which no comparison holds.
        wrong = ~((numbers >= 0) & (numbers == np.floor(numbers)) & np.isfinite(numbers))
    place = np.argmax(wrong if wrong.any() else numbers)
    row, column = np.unravel_index(place, numbers.shape)
    return numbers[row, column].item(), int(row), not wrong.any()


def with_declared_lengths(batch: Variable) -> Variable:
    """Return the log-likelihood of a batch with numbers for the lengths that types declare.

    A density can ask how many categories there are by the shape of what it computes of all rows,
    of which nothing else is then needed.
    """
    if not stored_arrays([batch]):
        return batch
    lengths = {v: length for v in ancestors([batch]) if (length := _declared(v)) is not None}
    return clone_replace([batch], lengths)[0]


def _declared(length: Variable) -> Variable | None:
    of_shape = isinstance(length.owner_op, Subtensor) and length.ndim == 0
    if not of_shape or not isinstance(length.owner.inputs[0].owner_op, Shape):
        return None
    found = pt.get_underlying_scalar_constant_value(length, raise_not_constant=False)
    return None if found is length else pt.constant(found, dtype=length.dtype)


def require_one_storage(name: str, columns: Sequence[Column], batch: Variable) -> None:
    """Refuse a term whose rows lie partly elsewhere, or that needs all of them at once."""
    whole = stored_arrays([batch])
    if whole:
        raise refuse(
            name,
            f"needs all rows of {whole[0].name!r} at once, which is data of Rows(...)",
            "Compute such a summary from the data alone, before the model.",
        )
    stored = [column for column in columns if isinstance(column.values, StoredArray)]
    if not stored:
        return
    storage = stored[0].values.storage
    for column in columns:
        if not isinstance(column.values, StoredArray) or column.values.storage is not storage:
            raise refuse(
                name,
                f"uses {stored[0].name!r}, data of Rows(...), and {column.name!r}, which is not "
                "in the same Rows",
                "Put all data of a likelihood into one Rows(...).",
            )
        if column.axis:
            raise refuse(
                name,
                f"reads {column.name!r} along its axis {column.axis}",
                "Rows of Rows(...) lie on the first axis: transpose the array.",
            )


def require_rows_subsampled(model: pm.Model, rest: Sequence[Variable]) -> None:
    """Refuse stored data in graphs that are evaluated as a whole."""
    for variable in rest:
        stored = stored_arrays([variable, model.rvs_to_values.get(variable, variable)])
        if stored:
            raise refuse(
                str(variable.name),
                f"uses {stored[0].name!r}, data of Rows(...), but is not an observed variable "
                "that this step subsamples",
                "Name it in observed=[...], or compute what it needs before the model.",
            )


def blocks_of(n_rows: int, columns: Sequence[Column]) -> Iterator[slice]:
    """Yield the rows that are read at a time: all at once where they are in memory."""
    stored = any(isinstance(column.values, StoredArray) for column in columns)
    step = BLOCK_ROWS if stored else max(n_rows, 1)
    for first in range(0, n_rows, step):
        yield slice(first, min(first + step, n_rows))


def with_rows(graph: Variable, rows: slice | np.ndarray) -> Variable:
    """Return a graph of stored data as one of some of the rows, which it then holds."""
    held = {}
    for v in ancestors([graph]):
        array = stored_array(v)
        if array is not None:
            read = np.ascontiguousarray(array.read(rows))
            held[v] = pt.constant(read).type.filter_variable(pt.constant(read))
            count = len(read)
    for v in ancestors([graph]):
        if v.owner is not None and isinstance(v.owner.op, NumberOfRows):
            held[v] = pt.constant(np.int64(count))
    return clone_replace([graph], held, rebuild_strict=False)[0] if held else graph


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
        If there is no array, or one is not numeric, has no rows or another number of them.

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
        self._hold(ArrayStorage({name: _seen_by_numpy(name, x) for name, x in arrays.items()}))

    @classmethod
    def of(cls, storage: Storage) -> Self:
        """Return the rows of a custom storage: see :class:`~data.source.Storage`."""
        rows = object.__new__(cls)
        rows._hold(storage)
        return rows

    @classmethod
    def from_npy(cls, **paths: str | Path) -> Self:
        """Return rows of files that ``np.save`` wrote; they are mapped into memory.

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

        Chunks are decoded as a whole, and the last ones stay in memory, at most 256 MiB or twice
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
            If Zarr is not installed, there is no such array, or one is not numeric, has no rows or
            another number of them.
        SourceError
            If an array cannot be opened, or a chunk is missing.
        """
        try:
            from pymc_minibatch_mh.data.zarr import ZarrStorage  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise _not_installed("from_zarr", "zarr", error) from error
        return cls.of(ZarrStorage(source, names, missing_are_fill))

    @classmethod
    def from_parquet(
        cls, source: Any, columns: Mapping[str, str | Sequence[str]] | None = None
    ) -> Self:
        """Return rows of Parquet files, which the extra ``arrow`` reads.

        Row groups are decoded as a whole, and the last ones stay in memory, at most 256 MiB or
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
            If PyArrow is not installed, a column is not there, is not numeric or has another type
            in another file.
        SourceError
            If a file cannot be opened, or a column has empty entries.
        """
        try:
            from pymc_minibatch_mh.data.parquet import ParquetStorage  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise _not_installed("from_parquet", "arrow", error) from error
        return cls.of(ParquetStorage(source, columns))

    @classmethod
    def from_dask(cls, **arrays: Any) -> Self:
        """Return rows of arrays of Dask, which the extra ``dask`` installs.

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
            If Dask is not installed, there is no array, or one is not numeric, has no rows or
            another number of them.
        """
        try:
            from pymc_minibatch_mh.data.dask import DaskStorage  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise _not_installed("from_dask", "dask", error) from error
        return cls.of(DaskStorage(arrays))

    def _hold(self, storage: Storage) -> None:
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
        """Identity of these rows: digests, or sizes and times of files."""
        return self.storage.stamp

    def data(self, name: str) -> Any:
        """Return the placeholder of an array in a model, shape (N, ...).

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
        """Return the number of groups that an array numbers from 0 on: its largest number + 1.

        One pass over blocks of rows finds it; it is then known as long as the rows are the same.

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
        # Files that are others are told by reading, not by their stamp, which is that of before.
        self.storage.read([name], slice(0, 1))
        stamp = self.stamp
        known = self._largest.get(name)
        if known is None or known[0] != stamp:
            known = self._largest[name] = stamp, largest_group(self.storage, name)
        return known[1] + 1

    def _require_name(self, called: str, name: str) -> None:
        if name not in self.storage.fields:
            raise SettingError(f"{called}({name!r}) names no array. Choose from {self.names}.")

    def __repr__(self) -> str:
        arrays = " and ".join(_described(name, f) for name, f in self.storage.fields.items())
        return f"Rows of {arrays}: {self.n_rows:,} rows"


def _described(name: str, field: Any) -> str:
    columns = f", {' x '.join(map(str, field.shape))} columns" if field.shape else ""
    return f"{name!r} ({field.dtype}{columns})"


def _not_installed(called: str, extra: str, error: ModuleNotFoundError) -> SettingError:
    return SettingError(
        f"Rows.{called}() needs {error.name!r}, which is not installed. Install it: python -m pip "
        f"install 'pymc-minibatch-mh[{extra}]'."
    )


def _seen_by_numpy(name: str, values: Any) -> np.ndarray:
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
