"""Rows in memory: arrays that keep their type, their layout and their place."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.data.contents import digest
from pymc_minibatch_mh.errors import SettingError


def native_type(what: str, dtype: np.dtype) -> np.dtype:
    """Return a stored type in this machine's byte order; SettingError if compiled code lacks it."""
    if dtype.kind not in "fiub":
        raise SettingError(
            f"{what} has type {dtype}. Give real numbers: floats, integers or bools."
        )
    if dtype.kind == "f" and dtype.itemsize not in (4, 8):
        raise SettingError(
            f"{what} has type {dtype}, but compiled code reads only floats of 32 or 64 bits. "
            "Store it as float32 or float64."
        )
    return dtype.newbyteorder("=")


def require_names(what: str, names: Collection[str]) -> None:
    """Raise a SettingError that names the source, if it has no arrays."""
    if not names:
        raise SettingError(f"{what} has no arrays. Name some, such as X and y.")


def common_length(lengths: Mapping[str, int]) -> int:
    """Return the length of all arrays; SettingError if they have no rows, or lengths differ."""
    first, length = next(iter(lengths.items()))
    for what, n_rows in lengths.items():
        if not n_rows:
            raise SettingError(f"{what} has no rows. Give an array with at least one.")
    for what, n_rows in lengths.items():
        if n_rows != length:
            raise SettingError(
                f"{what} has {n_rows:,} rows, and {first} has {length:,}. Give arrays of equal "
                "length."
            )
    return length


def dtype_once_read(dtype: np.dtype) -> str:
    """Return the type that numbers of a stored type have in a batch of rows."""
    return {"f": "float64", "b": "bool"}.get(dtype.kind, "int64")


@dataclass(frozen=True, eq=False)
class Column:
    """A data array of the model, or a `StoredArray`, and the axis along which its rows lie."""

    name: str
    values: Any
    axis: int

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one row."""
        return (*self.values.shape[: self.axis], *self.values.shape[self.axis + 1 :])

    @property
    def rows_first(self) -> np.ndarray:
        """The array with its rows on axis 0, as a view."""
        return np.moveaxis(self.values, self.axis, 0)

    def read(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return some rows, on axis 0."""
        if isinstance(self.values, np.ndarray):
            return self.rows_first[rows]
        return self.values.read(rows)

    @property
    def address(self) -> np.ndarray:
        """Start of the rows in memory, and the stride of every axis, int64."""
        view = self.rows_first
        return np.array([view.ctypes.data, *view.strides], dtype=np.int64)

    def digest(self) -> str:
        """Digest of the shape, the type and every row of the array."""
        if isinstance(self.values, np.ndarray):
            return digest(self.rows_first)
        return str(self.values.stamp)


class ArrayRows:
    """The rows of all subsampled terms, held in memory and numbered through all terms.

    Compiled code reaches them by the `context`, int64: the address of `others`, values that all
    rows share and that change between updates, then the address of each column, from its slot on.
    """

    #: Whether the rows have addresses before they are read.
    in_memory = True

    def __init__(
        self,
        columns: Sequence[Column],
        term_lengths: Sequence[int],
        n_others: int = 0,
        others: np.ndarray | None = None,
    ) -> None:
        self.columns = tuple(columns)
        self.term_starts = np.concatenate([[0], np.cumsum(term_lengths)]).astype(np.int64)
        self.others = np.zeros(n_others) if others is None else others
        self.others_address = Column("other variables", self.others[None], 0).address
        addresses = [self.others_address, *(column.address for column in self.columns)]
        starts = np.cumsum([0, *(len(address) for address in addresses)])[:-1]
        self.slots = starts[1:]
        self.context = np.concatenate(addresses)

    @property
    def n_rows(self) -> int:
        """Number of rows over all terms."""
        return int(self.term_starts[-1])

    @property
    def nbytes(self) -> int:
        """Size of the data in bytes."""
        return sum(column.values.nbytes for column in self.columns)

    def place(self, row: int) -> str:
        """Return the file that a stored row lies in, in brackets; empty for rows in memory."""
        return ""

    @property
    def stamp(self) -> str:
        """Identity of stored rows; empty if the trace holds the observed data."""
        return ""


#: Types that numbers may be stored in; compiled code knows them by their places here.
STORED = tuple(map(np.dtype, ("f8", "f4", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")))
_F8, _F4, _I1, _I2, _I4, _I8, _U1, _U2, _U4, _U8 = range(10)


@intrinsic
def load(typing_context, address, dtype):  # numba fixes the names and forbids annotations here
    """Read one scalar of type `dtype` at `address` (int64).

    Numba's arrays carry their layout in their type: kernels would be compiled anew for each model.
    """
    scalar = dtype.dtype
    signature = scalar(types.int64, dtype)

    def generate(context, builder, _signature, arguments):
        stored = context.get_data_type(scalar)
        pointer = builder.inttoptr(arguments[0], ir.PointerType(stored))
        return context.unpack_value(builder, scalar, pointer)

    return signature, generate


@intrinsic
def prefetch(typing_context, address):  # numba fixes the names and forbids annotations here
    """Prefetch the memory at an address (int64), without waiting for it."""
    signature = types.void(types.int64)

    def generate(context, builder, _signature, arguments):
        pointer = builder.inttoptr(arguments[0], cgutils.voidptr_t)
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        # To be read, likely more than once, and a number rather than an instruction.
        builder.call(function, [pointer, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return signature, generate


@compiled()
def read_number(address, code):
    """Read a number as float64, by the place of its type in ``STORED``."""
    if code == _F8:
        return load(address, np.float64)
    if code == _F4:
        return np.float64(load(address, np.float32))
    if code == _I8:
        return np.float64(load(address, np.int64))
    if code == _I1:
        return np.float64(load(address, np.int8))
    if code == _I2:
        return np.float64(load(address, np.int16))
    if code == _I4:
        return np.float64(load(address, np.int32))
    if code == _U1:
        return np.float64(load(address, np.uint8))
    if code == _U2:
        return np.float64(load(address, np.uint16))
    if code == _U4:
        return np.float64(load(address, np.uint32))
    if code == _U8:
        return np.float64(load(address, np.uint64))
    return 1.0 if load(address, np.uint8) != 0 else 0.0


#: Rows that are asked for before the first of them is read: they may lie anywhere in memory.
_AHEAD = 12


@compiled(inlined=True)
def _ask_for(start, entry_stride, count):
    # A cache line has 64 bytes; the last number may lie in one more.
    for j in range(0, count, max(64 // max(abs(entry_stride), 1), 1)):
        prefetch(start + j * entry_stride)
    prefetch(start + (count - 1) * entry_stride)


@compiled()
def read_block(rows, address, stride, entry_stride, code, out, first, count):
    """Read `count` evenly spaced numbers of some rows into columns of `out`, from `first` on.

    Row 0 begins at `address`; from row to row are `stride` bytes and from number to number of a row
    `entry_stride`. The `code` is the place of their type in ``STORED``.
    """
    for i in range(min(_AHEAD, rows.size)):
        _ask_for(address + rows[i] * stride, entry_stride, count)
    for i in range(rows.size):
        if i + _AHEAD < rows.size:
            _ask_for(address + rows[i + _AHEAD] * stride, entry_stride, count)
        start = address + rows[i] * stride
        # Counted from 0, as the compiler only then knows that no index is negative.
        line = out[i, first : first + count]
        if code == _F8 and entry_stride == 8:
            for j in range(line.size):
                line[j] = load(start + 8 * j, np.float64)
        else:
            for j in range(line.size):
                line[j] = read_number(start + j * entry_stride, code)


def read_entries(column: Column, rows: np.ndarray, entry: tuple[int, ...]) -> np.ndarray:
    """Return one entry of some rows of a data array as float64, shape (n,)."""
    start, stride, *inner = map(int, column.address)
    start += sum(k * step for k, step in zip(entry, inner, strict=True))
    out = np.empty((rows.size, 1))
    read_block(rows, start, stride, 0, STORED.index(column.values.dtype), out, 0, 1)
    return out[:, 0]
