"""Rows that a model refers to without holding them."""

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.shape import Shape
from pytensor.tensor.subtensor import Subtensor

from pymc_minibatch_mh.data import Column
from pymc_minibatch_mh.data.storage import Storage
from pymc_minibatch_mh.data.stored import BLOCK_ROWS, ArrayStorage, StoredArray
from pymc_minibatch_mh.errors import SettingError, refuse
from pymc_minibatch_mh.model.reading.group_numbers import largest_group
from pymc_minibatch_mh.model.reading.sources import Sources, seen_by_numpy
from pymc_minibatch_mh.model.reading.stored_operations import (
    NumberOfRows,
    ReadStored,
    stored_array,
    stored_arrays,
)


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
    """Refuse a term whose rows lie partly elsewhere, or that needs all of them at once.

    Parameters
    ----------
    name
        The observed variable.
    columns
        The data arrays that are read by rows.
    batch : Variable
        The log-likelihood of a batch of rows.

    Raises
    ------
    UnsplittableModelError
        Naming the array.
    """
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
                "of the same Rows",
                "Put all data of a likelihood into one Rows(...).",
            )
        if column.axis:
            raise refuse(
                name,
                f"reads {column.name!r} along its axis {column.axis}",
                "Rows of Rows(...) lie on the first axis: transpose the array.",
            )


def require_rows_subsampled(model: pm.Model, rest: Sequence[Variable]) -> None:
    """Refuse stored data in what is evaluated as a whole.

    Raises
    ------
    UnsplittableModelError
        Naming the variable.
    """
    for variable in rest:
        stored = stored_arrays([variable, model.rvs_to_values.get(variable, variable)])
        if stored:
            raise refuse(
                str(variable.name),
                f"uses {stored[0].name!r}, data of Rows(...), and is no observed variable that "
                "this step subsamples",
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


class Rows(Sources):
    """Observations that lie in files, or in memory, and that a model refers to without a copy.

    A model is written as always, with ``rows.data("X")`` in the place of the array ``X``. The
    steps of this package then read the rows in blocks where all of them are needed, and draw the
    few rows that an update needs ahead of time. Everything else that would evaluate the model
    with all rows, such as ``pm.NUTS``, is refused.

    Parameters
    ----------
    **arrays
        Name -> array, its rows on the first axis: a NumPy array, ``np.memmap``, or what NumPy sees
        without a copy, such as a column of pandas or Polars, or an array of xarray. All have the
        same length N; none is copied.

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
        self._hold(ArrayStorage({name: seen_by_numpy(name, x) for name, x in arrays.items()}))

    @classmethod
    def of(cls, storage: Storage) -> Self:
        """Return the rows of a storage of your own: see :class:`~data.storage.Storage`."""
        rows = object.__new__(cls)
        rows._hold(storage)
        return rows

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
        """What tells these rows from others: digests, or sizes and times of files."""
        return self.storage.stamp

    def data(self, name: str) -> Any:
        """Return what stands for an array in a model, shape (N, ...).

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

        It is found in one pass over blocks of rows, and known afterwards as long as the rows are
        the same.

        Parameters
        ----------
        name
            Name of the array, of integers, or of floats that are integers.

        Raises
        ------
        SettingError
            If there is no such array.
        SourceError
            If a number is no integer of 0 or more, or is not below the number of rows, as
            identifiers are; names the row, where it lies and the number. Or if rows cannot be read.

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
