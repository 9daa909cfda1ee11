"""PyTensor operations for stored arrays, and graphs that contain them.

PyTensor's caches keep every operation until the process ends. So an operation has a weak reference
to its storage, and its output variable a strong one, shared by all copies of the output: a storage
lives as long as a graph that reads it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from weakref import ref

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.shape import Shape
from pytensor.tensor.subtensor import Subtensor
from pytensor.tensor.type import TensorType

from pymc_minibatch_mh.data import Column
from pymc_minibatch_mh.data.source import BLOCK_ROWS, StoredArray
from pymc_minibatch_mh.errors import SourceError, refusal_message


class WholeArrayError(SourceError, TypeError):
    """Stored data that would be read into memory as a whole.

    It is also a TypeError, so that PyMC omits such data when it collects observations for a trace.
    """


class _StoredOp(Op):
    """Operation without inputs whose output variable holds an object."""

    __props__ = ("_known",)

    def __init__(self, held: Any) -> None:
        self._known = ref(held)
        # A weak reference can be hashed later only if it was hashed while the object lived.
        hash(self._known)

    @property
    def held(self) -> Any:
        """The object that the output variable holds."""
        found = self._known()
        assert found is not None
        return found

    def _apply_with_tag(self, out: Variable) -> Apply:
        # Clones, deep copies and pickles of a variable keep its tag, and so the object.
        out.tag.held = self.held
        return Apply(self, [], [out])

    def do_constant_folding(self, fgraph: Any, node: Apply) -> bool:
        """Never fold: folding would load all rows and merge this length with equal constants."""
        return False

    def __reduce__(self) -> tuple:
        return type(self), (self.held,)


class ReadStored(_StoredOp):
    """Placeholder of a stored array in a model; it holds none of the data."""

    def make_node(self) -> Apply:
        """Output variable; its type has the shape of a row, but not the number of rows."""
        array: StoredArray = self.held
        shape = (None, *array.shape[1:])
        return self._apply_with_tag(TensorType(str(array.dtype), shape=shape)(name=array.name))

    def perform(self, node: Apply, inputs: list, output_storage: list) -> None:
        """Raise an error instead of reading the whole array."""
        raise WholeArrayError(
            f"{self.held.name!r} is data of Rows(...), and PyMC itself would read all "
            f"{self.held.shape[0]:,} rows at once. Sample with a step of pymc_minibatch_mh, which "
            "reads them in blocks, and compute anything else from the array itself."
        )

    def infer_shape(self, node: Apply, shapes: list) -> list[tuple[Any, ...]]:
        """Shape of the array, without reading it."""
        return [(NumberOfRows(self.held.storage)(), *self.held.shape[1:])]


class NumberOfRows(_StoredOp):
    """Number of rows of a storage; a minibatch replaces it by its own length."""

    def make_node(self) -> Apply:
        """Node with a scalar output, int64."""
        return self._apply_with_tag(pt.lscalar())

    def perform(self, node: Apply, inputs: list, output_storage: list) -> None:
        """Store the number of rows."""
        output_storage[0][0] = np.asarray(self.held.n_rows)


def stored_array(variable: Variable) -> StoredArray | None:
    """Stored array behind a variable of a model, or None."""
    return variable.owner_op.held if isinstance(variable.owner_op, ReadStored) else None


def stored_arrays(graphs: Iterable[Variable]) -> list[StoredArray]:
    """Stored arrays that graphs depend on."""
    found = (stored_array(variable) for variable in ancestors(list(graphs)))
    return [array for array in found if array is not None]


def with_declared_lengths(batch: Variable) -> Variable:
    """Log-likelihood of a minibatch with lengths that are known from types as constants."""
    if not stored_arrays([batch]):
        return batch
    lengths = {v: length for v in ancestors([batch]) if (length := _declared_length(v)) is not None}
    return clone_replace([batch], lengths)[0]


def _declared_length(length: Variable) -> Variable | None:
    of_shape = isinstance(length.owner_op, Subtensor) and length.ndim == 0
    if not of_shape or not isinstance(length.owner.inputs[0].owner_op, Shape):
        return None
    found = pt.get_underlying_scalar_constant_value(length, raise_not_constant=False)
    return None if found is length else pt.constant(found, dtype=length.dtype)


def require_one_storage(name: str, columns: Sequence[Column], batch: Variable) -> None:
    """Raise an error if a term mixes storages, or needs all stored rows at once."""
    whole = stored_arrays([batch])
    if whole:
        raise refusal_message(
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
            raise refusal_message(
                name,
                f"uses {stored[0].name!r}, data of Rows(...), and {column.name!r}, which is not "
                "in the same Rows",
                "Put all data of a likelihood into one Rows(...).",
            )
        if column.axis:
            raise refusal_message(
                name,
                f"reads {column.name!r} along its axis {column.axis}",
                "Rows of Rows(...) lie on the first axis: transpose the array.",
            )


def require_rows_subsampled(rest: Mapping[str, Sequence[Variable]]) -> None:
    """Raise an error if graphs of a variable that is not subsampled depend on stored data."""
    for name, graphs in rest.items():
        stored = stored_arrays(graphs)
        if stored:
            raise refusal_message(
                name,
                f"uses {stored[0].name!r}, data of Rows(...), but is not an observed variable "
                "that this step subsamples",
                "Name it in observed=[...], or compute what it needs before the model.",
            )


def row_blocks(n_rows: int, columns: Sequence[Column]) -> Iterator[slice]:
    """Blocks of rows to read at a time; a single block if they are in memory."""
    stored = any(isinstance(column.values, StoredArray) for column in columns)
    step = BLOCK_ROWS if stored else max(n_rows, 1)
    for first in range(0, n_rows, step):
        yield slice(first, min(first + step, n_rows))


def with_rows(graph: Variable, rows: slice | np.ndarray) -> Variable:
    """Graph with stored data replaced by constants that hold some of their rows."""
    held = {}
    for v in ancestors([graph]):
        array = stored_array(v)
        if array is not None:
            read = np.ascontiguousarray(array.read(rows))
            held[v] = pt.constant(read).type.filter_variable(pt.constant(read))
            count = len(read)
    for v in ancestors([graph]):
        if isinstance(v.owner_op, NumberOfRows):
            held[v] = pt.constant(np.int64(count))
    return clone_replace([graph], held, rebuild_strict=False)[0] if held else graph


def explain_missing_group(number: float) -> str:
    """Hint about -1, the code of a missing group; empty for any other number."""
    if number != -1:
        return ""
    return " -1 is pandas' code for a missing category: drop its rows, or number it as a group."
