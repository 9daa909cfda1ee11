"""Reading numbers of any type where they lie in memory."""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.data.arrays import Column

#: Types that numbers may be stored in; their places here are what compiled code knows them by.
STORED = tuple(map(np.dtype, ("f8", "f4", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")))
_F8, _F4, _I1, _I2, _I4, _I8, _U1, _U2, _U4, _U8 = range(10)


@intrinsic
def load(typing_context, address, dtype):  # numba fixes the names and forbids annotations here
    """Read one scalar of type `dtype` at `address` (int64).

    Numba arrays carry their layout in their type, which would compile every kernel anew for every
    model. An address and strides do not.
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
    """Ask for what lies at an address (int64), without waiting for it."""
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


@compiled()
def read_block(rows, address, stride, entry_stride, code, out, first, count):
    """Read `count` evenly spaced numbers of some rows into columns of `out`, from `first` on.

    Parameters
    ----------
    rows : ndarray of int64, shape (n,)
        Row numbers.
    address, stride
        Where row 0 begins, and bytes from row to row.
    entry_stride
        Bytes from number to number in a row.
    code
        Place of their type in ``STORED``.
    out : ndarray, shape (n, columns)
        Overwritten there.
    """
    for i in range(rows.size):
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
