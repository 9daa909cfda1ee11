"""The PyTensor operation that reads the rows of a batch."""

import numpy as np
import pytensor.tensor as pt
from numba import from_dtype
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import (
    numba_njit,
    register_funcify_default_op_cache_key,
)
from pytensor.tensor.type import TensorType

from pymc_minibatch_mh.data import dtype_once_read
from pymc_minibatch_mh.data.reading import load


class ReadRows(Op):
    """Read the rows of one data array by their numbers.

    Parameters
    ----------
    slot
        Where the array's address and strides start in the context vector.
    dtype
        Type that the array is stored in. Rows are converted as they are read: integers
        to int64, floats to float64.
    shape
        Shape of one row.
    """

    __props__ = ("slot", "dtype", "shape")

    def __init__(self, slot: int, dtype: str, shape: tuple[int, ...]) -> None:
        self.slot = slot
        self.dtype = dtype
        self.shape = shape

    @property
    def batch_dtype(self) -> str:
        """Type of the rows after reading."""
        return dtype_once_read(np.dtype(self.dtype))

    def make_node(self, rows: Variable, context: Variable) -> Apply:
        """Declare a batch of shape ``(len(rows), *shape)``."""
        out = TensorType(self.batch_dtype, shape=(None, *self.shape))()
        return Apply(self, [pt.as_tensor(rows), pt.as_tensor(context)], [out])

    def perform(self, node: Apply, inputs: list[np.ndarray], output_storage: list) -> None:
        """Refuse to run in Python: an address is only of use to compiled code."""
        raise TypeError(f"{self} reads memory by address and only runs in numba")

    def infer_shape(self, node: Apply, shapes: list) -> list[tuple]:
        """Return the shape of the batch without reading it."""
        return [(shapes[0][0], *self.shape)]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Declare that no gradient flows through the data."""
        return [[False], [False]]


@register_funcify_default_op_cache_key(ReadRows)
def _read_rows_in_numba(op: ReadRows, node: Apply | None, **_: object) -> object:
    slot = op.slot
    stored = from_dtype(np.dtype(op.dtype))
    batch_dtype = np.dtype(op.batch_dtype)

    if len(op.shape) == 0:

        @numba_njit
        def read_rows(rows, context):
            out = np.empty(rows.size, batch_dtype)
            for i in range(rows.size):
                out[i] = load(context[slot] + rows[i] * context[slot + 1], stored)
            return out

    elif len(op.shape) == 1:
        (width,) = op.shape

        @numba_njit
        def read_rows(rows, context):
            out = np.empty((rows.size, width), batch_dtype)
            for i in range(rows.size):
                start = context[slot] + rows[i] * context[slot + 1]
                for j in range(width):
                    out[i, j] = load(start + j * context[slot + 2], stored)
            return out

    else:
        height, width = op.shape

        @numba_njit
        def read_rows(rows, context):
            out = np.empty((rows.size, height, width), batch_dtype)
            for i in range(rows.size):
                start = context[slot] + rows[i] * context[slot + 1]
                for j in range(height):
                    for k in range(width):
                        where = start + j * context[slot + 2] + k * context[slot + 3]
                        out[i, j, k] = load(where, stored)
            return out

    return read_rows
