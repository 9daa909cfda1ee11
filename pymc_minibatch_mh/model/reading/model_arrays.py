"""What the log-density of a model is computed from: constants and shared variables."""

from collections.abc import Iterator, Sequence

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.op import HasInnerGraph

from pymc_minibatch_mh.data.storage import Storage
from pymc_minibatch_mh.model.reading.batch import data_values
from pymc_minibatch_mh.model.reading.stored_operations import stored_array


class ModelArrays:
    """The arrays that graphs are computed from, each with a name for messages.

    They are the user's own arrays, or PyTensor's, and may change. A pickle leaves them behind: in
    another process nobody can change them.
    """

    def __init__(self) -> None:
        self._names: dict[Variable, str] = {}
        self._seen: set[Variable] = set()

    def __reduce__(self) -> tuple[type, tuple[()]]:
        """Pickle nothing."""
        return type(self), ()

    def add(self, graphs: Sequence[Variable], owner: str) -> None:
        """Collect what graphs are computed from.

        Parameters
        ----------
        graphs
            Variables; what they share with graphs that were added before keeps its name.
        owner
            What an array without a name is called after.
        """
        waiting = list(reversed(graphs))
        while waiting:
            variable = waiting.pop()
            if variable in self._seen:
                continue
            self._seen.add(variable)
            stored = stored_array(variable)
            if stored is not None:
                self._names[variable] = stored.name
            elif isinstance(variable, Constant | SharedVariable):
                kind = "data array" if getattr(variable.type, "ndim", 0) else "number"
                self._names[variable] = variable.name or f"a {kind} of {owner}"
            elif variable.owner is not None:
                waiting += reversed([*variable.owner.inputs, *_inner(variable.owner.op)])

    def named(self) -> Iterator[tuple[str, np.ndarray | Storage]]:
        """Yield the arrays as they are now, each once; of stored ones, where they lie."""
        known: dict[int, np.ndarray | Storage] = {}
        for variable, name in self._names.items():
            for array in _arrays_of(variable):
                if id(array) not in known:
                    known[id(array)] = array
                    yield name, array


def _inner(op: object) -> Sequence[Variable]:
    """Return the graphs inside of an operation, where arrays of the user can hide."""
    core = getattr(op, "core_op", op)
    return core.inner_outputs if isinstance(core, HasInnerGraph) else ()


def _arrays_of(variable: Variable) -> Sequence[np.ndarray | Storage]:
    stored = stored_array(variable)
    if stored is not None:
        return [stored.storage]
    shared = isinstance(variable, SharedVariable)
    held = variable.get_value(borrow=True) if shared else variable.data
    if isinstance(held, np.ndarray | np.generic):
        return [data_values(variable)]
    parts = (getattr(held, name, None) for name in ("data", "indices", "indptr"))
    return [part for part in parts if isinstance(part, np.ndarray)]
