"""Operations that stand for stored rows, none of which holds them.

PyTensor's caches keep every operation until the process ends. So an operation knows its storage
weakly, and its output holds the storage, together with all copies of that output: rows live as long
as a graph on them does.
"""

from collections.abc import Iterable
from typing import Any
from weakref import ref

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.graph.traversal import ancestors
from pytensor.tensor.type import TensorType

from pymc_minibatch_mh.data.storage import Storage
from pymc_minibatch_mh.data.stored import StoredArray
from pymc_minibatch_mh.errors import SourceError


class WholeArrayError(SourceError, TypeError):
    """Stored data that were asked for as a whole.

    A TypeError too: where PyMC collects what was observed for a trace, it leaves such data out.
    """


class _OfStored(Op):
    """An operation without inputs on something that its output holds.

    Parameters
    ----------
    held
        The array, or the storage.
    """

    __props__ = ("_known",)

    def __init__(self, held: Any) -> None:
        self._known = ref(held)
        # A reference can be hashed later only if it was while the object lived.
        hash(self._known)

    @property
    def held(self) -> Any:
        """What the output holds."""
        found = self._known()
        assert found is not None
        return found

    def _applied(self, out: Variable) -> Apply:
        # Clones, deep copies and pickles of a variable take its tag along.
        out.tag.held = self.held
        return Apply(self, [], [out])

    def do_constant_folding(self, fgraph: Any, node: Apply) -> bool:
        """Leave rows where they are, and their number apart from others that are equal to it."""
        return False

    def __reduce__(self) -> tuple:
        return type(self), (self.held,)


class ReadStored(_OfStored):
    """Stand for a stored array in a model: small, whatever the length of the array.

    Parameters
    ----------
    array
        The array.
    """

    def __init__(self, array: StoredArray) -> None:
        super().__init__(array)

    def make_node(self) -> Apply:
        """Declare the array with the shape of its rows; their number is no part of its type."""
        array: StoredArray = self.held
        shape = (None, *array.shape[1:])
        return self._applied(TensorType(str(array.dtype), shape=shape)(name=array.name))

    def perform(self, node: Apply, inputs: list, output_storage: list) -> None:
        """Refuse to read the whole array, which need not fit into memory.

        Raises
        ------
        WholeArrayError
            Always.
        """
        raise WholeArrayError(
            f"{self.held.name!r} is data of Rows(...), of which PyMC itself would read all "
            f"{self.held.shape[0]:,} rows at once. Sample with a step of pymc_minibatch_mh, which "
            "reads them in blocks, and compute on the array itself what you need besides."
        )

    def infer_shape(self, node: Apply, shapes: list) -> list[tuple[Any, ...]]:
        """Return the shape without reading."""
        return [(NumberOfRows(self.held.storage)(), *self.held.shape[1:])]


class NumberOfRows(_OfStored):
    """The number of rows of a storage, which is another where some of them stand for all.

    Parameters
    ----------
    storage
        Where the rows lie.
    """

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)

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
