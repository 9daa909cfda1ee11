"""The prior part as an expression of scalars, where it is a small one.

A prior of a few dozen parameters is a few dozen operations on numbers. As one function of floats
it is compiled and called in a fraction of the time that a graph of vectors takes, and its
derivatives are expressions as well.
"""

from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import ScalarOp
from pytensor.tensor.type import TensorType

from pymc_minibatch_mh.model.compiled.scalars import compiled_log_density, composite_of, in_order
from pymc_minibatch_mh.model.reading.derived import AS_SAMPLED
from pymc_minibatch_mh.model.reading.split import Split
from pymc_minibatch_mh.model.row.arithmetic import add, multiply
from pymc_minibatch_mh.model.row.cells import (
    Affine,
    Apply,
    Argument,
    Cell,
    Cells,
    Constant,
    Gather,
    LoweringError,
    Place,
)
from pymc_minibatch_mh.model.row.lower import Tensor, lower
from pymc_minibatch_mh.model.row.operations import numpy_of
from pymc_minibatch_mh.model.row.slopes import Slopes

#: Numbers in an array, and scalar operations in all, up to which a prior part is small.
MOST_ENTRIES, MOST_OPERATIONS = 200, 600


class ScalarPrior:
    """The prior part of a split model, as a function of its coordinates.

    Parameters
    ----------
    split
        The model.

    Raises
    ------
    LoweringError
        If the prior part is not small, goes through an operation that cannot be taken apart or
        differentiated twice, or depends on variables outside of the position.
    """

    def __init__(self, split: Split) -> None:
        self._size = split.size
        self._cells = Cells()
        if split.coordinates is not None:
            self._cells.sums = frozenset(split.coordinates.sums)
        self._root = _expression(self._cells, split)
        if sum(1 for _ in in_order([self._root])) > MOST_OPERATIONS:
            raise LoweringError(split.prior.owner.op, "is one of very many operations")
        slopes = Slopes(self._cells)
        gradient = [slopes.of(self._root, k) for k in range(split.size)]
        second = {
            pair: cell
            for pair in combinations_with_replacement(range(split.size), 2)
            if (cell := slopes.of(gradient[pair[0]], pair[1])) is not self._cells.zero
        }
        self._pairs = list(second)
        self._first_order = _Numbers([self._root, *gradient])
        self._second_order = _Numbers([self._root, *gradient, *second.values()])

    def compiled(self) -> Callable:
        """Compile the log-density (``LOGP``)."""
        return compiled_log_density(composite_of([self._root], self._size, []))

    def derivatives(
        self, position: np.ndarray, others: np.ndarray, *, hessian: bool
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Return value, gradient and Hessian; the Hessian is empty unless asked for."""
        if not hessian:
            found = self._first_order(position)
            return float(found[0]), found[1:], np.empty((0, 0))
        value, gradient, second = np.split(self._second_order(position), [1, 1 + self._size])
        products = np.zeros((self._size, self._size))
        for (i, j), number in zip(self._pairs, second, strict=True):
            products[i, j] = products[j, i] = number
        return float(value[0]), gradient, products


def _expression(cells: Cells, split: Split) -> Cell:
    """Return the prior part in arguments, one for each coordinate."""
    graph = FunctionGraph(outputs=[split.prior], clone=True, copy_inputs=False)
    AS_SAMPLED.rewrite(graph)
    (prior,) = graph.outputs
    above = list(ancestors([prior]))
    if split.other_values in above or not all(map(_is_small, above)):
        raise LoweringError(split.prior.owner and split.prior.owner.op, "is not small")
    position = np.empty(split.size, dtype=object)
    for k in range(split.size):
        position[k] = cells.coordinate(k)
    (root,) = np.ravel(lower(cells, prior, {split.position: Tensor(position, None)}).cells)
    return _in_arguments(cells, root)


def _is_small(variable: Variable) -> bool:
    if not isinstance(variable.type, TensorType):
        return True
    shape = variable.type.shape
    return None not in shape and int(np.prod(shape)) <= MOST_ENTRIES


def _in_arguments(cells: Cells, root: Cell) -> Cell:
    """Return an expression with sums of arguments in the place of linear forms."""
    known: dict[Cell, Cell] = {}
    for cell in in_order([root]):
        if isinstance(cell, Affine):
            parts = (
                multiply(cells, cells.constant(t.factor), *t.monomial, _coordinate(cells, t.place))
                for t in cell.terms
            )
            known[cell] = add(cells, *parts, cell.offset)
        elif isinstance(cell, Apply) and not cell.is_data:
            known[cell] = cells.node(cell.op, [known[x] for x in cell.inputs])
        else:
            known[cell] = cell
    return known[root]


def _coordinate(cells: Cells, place: Place) -> Cell:
    if isinstance(place, Gather):
        raise LoweringError("an index", "is not a constant")
    return cells.argument(place)


class _Numbers:
    """Expressions of arguments, evaluated operation by operation."""

    def __init__(self, outputs: Sequence[Cell]) -> None:
        places: dict[Cell, int] = {}
        self._leaves: list[tuple[int | None, Any]] = []
        self._operations: list[tuple[Callable, list[int]]] = []
        ordered = list(in_order(outputs))
        ordered.sort(key=lambda cell: isinstance(cell, Apply))
        for cell in ordered:
            if isinstance(cell, Argument):
                self._leaves.append((cell.number, None))
            elif isinstance(cell, Constant):
                self._leaves.append((None, np.asarray(cell.value)))
            elif isinstance(cell, Apply) and _has_numbers(cell.op):
                function = numpy_of(cell.op)
                self._operations.append((function, [places[x] for x in cell.inputs]))
            else:
                raise LoweringError(cell, "is no number")
            places[cell] = len(places)
        self._outputs = [places[cell] for cell in outputs]

    def __call__(self, arguments: np.ndarray) -> np.ndarray:
        values = [arguments[number] if number is not None else x for number, x in self._leaves]
        with np.errstate(all="ignore"):
            for function, places in self._operations:
                values.append(function(*(values[k] for k in places)))
        return np.array([float(values[k]) for k in self._outputs])


def _has_numbers(op: ScalarOp) -> bool:
    return getattr(op, "nfunc_spec", None) is not None or type(op).impl is not ScalarOp.impl
