"""The prior part as an expression of scalars, where it is a small one.

A prior of a few dozen parameters is a few dozen operations on numbers. As one function of floats
it is compiled and called in a fraction of the time that a graph of vectors takes, and its
derivatives are expressions as well.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import combinations_with_replacement

import numpy as np
from pymc.logprob.utils import local_check_parameter_to_ninf_switch
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import dfs_rewriter
from pytensor.graph.traversal import ancestors
from pytensor.tensor.type import TensorType

from pymc_minibatch_mh.likelihood.cells import (
    Affine,
    Apply,
    Argument,
    Cell,
    Cells,
    Constant,
    LoweringError,
)
from pymc_minibatch_mh.likelihood.composite import numpy_of
from pymc_minibatch_mh.likelihood.derived import inlined
from pymc_minibatch_mh.likelihood.lower import Tensor, lower
from pymc_minibatch_mh.likelihood.split import Split
from pymc_minibatch_mh.row.scalars import compiled_log_density, composite_of, in_order
from pymc_minibatch_mh.row.slopes import Slopes

#: Numbers in an array, and scalar operations in all, up to which a prior part is small.
MOST_ENTRIES, MOST_OPERATIONS = 200, 600

_READ = dfs_rewriter(local_check_parameter_to_ninf_switch, inlined)


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
        self._root = _expression(self._cells, split)
        if sum(1 for _ in in_order([self._root])) > MOST_OPERATIONS:
            raise LoweringError(split.prior.owner.op, "is one of very many operations")
        self._slopes = Slopes(self._cells)
        self._gradient = [self._slopes.of(self._root, k) for k in range(split.size)]
        # Found here, so that what cannot be differentiated is known before it is asked for.
        self._second = {
            pair: cell
            for pair in combinations_with_replacement(range(split.size), 2)
            if (cell := self._slopes.of(self._gradient[pair[0]], pair[1])) is not self._cells.zero
        }

    def compiled(self) -> Callable:
        """Compile the log-density (``LOGP``)."""
        return self._compiled

    @cached_property
    def _compiled(self) -> Callable:
        return compiled_log_density(composite_of([self._root], self._size, []))

    def derivatives(
        self, position: np.ndarray, others: np.ndarray, *, hessian: bool
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Return value, gradient and Hessian; the Hessian is empty unless asked for."""
        second = self._second if hessian else {}
        values = _numbers([self._root, *self._gradient, *second.values()], position)
        products = np.zeros((self._size, self._size) if hessian else (0, 0))
        for (i, j), value in zip(second, values[1 + self._size :], strict=True):
            products[i, j] = products[j, i] = value
        return values[0], np.array(values[1 : 1 + self._size]), products


def _expression(cells: Cells, split: Split) -> Cell:
    """Return the prior part in arguments, one for each coordinate."""
    graph = FunctionGraph(outputs=[split.prior], clone=True, copy_inputs=False)
    _READ.rewrite(graph)
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
            terms = [cells.times(cells.constant(t.factor), _product(cells, t.monomial)) for t in cell.terms]
            known[cell] = cell
        elif isinstance(cell, Apply) and not cell.is_data:
            known[cell] = cells.node(cell.op, [known[x] for x in cell.inputs])
        else:
            known[cell] = cell
    return known[root]


def _numbers(outputs: Sequence[Cell], arguments: np.ndarray) -> list[float]:
    """Return the values of expressions, operation by operation."""
    known: dict[Cell, np.ndarray] = {}
    with np.errstate(all="ignore"):
        for cell in in_order(outputs):
            if isinstance(cell, Argument):
                known[cell] = arguments[cell.number]
            elif isinstance(cell, Constant):
                known[cell] = np.asarray(cell.value)
            else:
                known[cell] = numpy_of(cell.op)(*(known[x] for x in cell.inputs))
    return [float(known[cell]) for cell in outputs]
