"""A split model as compiled functions, each made when it is first asked for.

A prior part of a few dozen parameters is a few dozen operations on numbers. As one function of
floats it is compiled and called in a fraction of the time that a graph of vectors takes, and its
derivatives are expressions as well.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations_with_replacement, pairwise
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from numba import carray, njit, types
from pymc.logprob.utils import ParameterValueError
from pytensor.compile.mode import Mode, optdb
from pytensor.gradient import grad, pushforward
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import ScalarOp
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.exceptions import NotScalarConstantError
from pytensor.tensor.subtensor import Subtensor, get_constant_idx
from pytensor.tensor.type import TensorType
from scipy.linalg import qr, solve_triangular
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pymc_minibatch_mh.compiled.differences import Slopes
from pymc_minibatch_mh.compiled.form_rows import FormRows, PlacedFormRows, StoredFormRows
from pymc_minibatch_mh.compiled.graphs import (
    PRIOR_ADDRESSES,
    GraphRows,
    compiled_on_position,
    differentiable,
    numba_options,
    row_source,
)
from pymc_minibatch_mh.compiled.scalar_functions import (
    INTEGERS,
    LOG_PRIOR,
    NUMBERS,
    called_by_library,
    compiled_log_density,
    composite_of,
)
from pymc_minibatch_mh.data import Column
from pymc_minibatch_mh.errors import BoundsError, UnsupportedModelError
from pymc_minibatch_mh.expressions.arithmetic import add, multiply
from pymc_minibatch_mh.expressions.graph import (
    Affine,
    Apply,
    Argument,
    Constant,
    Expr,
    ExprGraph,
    Gather,
    LoweringError,
    Monomial,
    Place,
    places_of,
)
from pymc_minibatch_mh.expressions.lower import lower
from pymc_minibatch_mh.expressions.patterns import in_order
from pymc_minibatch_mh.functions.base import Function, numpy_of
from pymc_minibatch_mh.model.constant_data import AS_SAMPLED
from pymc_minibatch_mh.model.factorization import Factorization
from pymc_minibatch_mh.native.library import FunctionAt
from pymc_minibatch_mh.structure.random_effects import (
    ElementPrior,
    Elements,
    NotSeparableError,
    elements_of,
    prior_of_elements,
)
from pymc_minibatch_mh.structure.row_function import WAY_ON, LinearForm, RowFunction, row_functions

#: Type of the densities of elements: see ``mh.h``.
ELEMENT_DENSITY = types.void(NUMBERS, INTEGERS, NUMBERS)
#: Numbers in an array, and scalar operations in all, up to which a prior part is small.
MOST_ENTRIES, MOST_OPERATIONS = 200, 600
_REWRITES = RewriteDatabaseQuery(
    include=["canonicalize", "stabilize", "specialize", "local_check_parameter_to_ninf_switch"],
    exclude=["fusion", "inplace", "BlasOpt", "cxx_only"],
)
#: Step of the differences of gradients, which are compiled where a graph of all products is slow.
STEP = 1e-5
#: Run operation by operation, with the rewrites that keep numbers finite.
_STABLE = Mode(linker="py", optimizer=optdb.query(_REWRITES))
_AS_WRITTEN = Mode(linker="py", optimizer=AS_SAMPLED)


def compiled_slopes(
    factorization: Factorization, compile_kwargs: Mapping[str, Any] | None
) -> Callable:
    """Compile value and gradient of the prior part: (position, context) -> shape (1 + d,)."""
    prior, theta = factorization.prior, factorization.position
    with differentiable(factorization):
        gradient = grad(prior, theta, disconnected_inputs="ignore")
    both = pt.concatenate([prior[None], gradient])
    graph = compiled_on_position(factorization, both, compile_kwargs)

    @njit(nogil=True)
    def slopes(theta, context):
        (found,) = graph(theta, context)
        return found

    return slopes


class GraphPrior:
    """The prior part of a split model, as a graph."""

    def __init__(
        self, factorization: Factorization, compile_kwargs: Mapping[str, Any] | None = None
    ) -> None:
        self._split = factorization
        self._compile_kwargs = compile_kwargs

    def compiled(self) -> FunctionAt:
        """Compile the log-density (``mh_log_prior``)."""
        return self._compiled

    @cached_property
    def _compiled(self) -> FunctionAt:
        size, prior = self._split.size, self._split.prior
        graph = compiled_on_position(self._split, prior, self._compile_kwargs)

        def logp(theta, context):
            (value,) = graph(carray(theta, size), carray(context, PRIOR_ADDRESSES))
            return value.item()

        return called_by_library(logp, LOG_PRIOR, "mh_log_prior")

    def derivatives(
        self, position: np.ndarray, others: np.ndarray, *, hessian: bool
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Return value, gradient and Hessian; the Hessian is empty unless asked for."""
        if self._is_sparse or position.size > MOST_ENTRIES:
            return self._by_differences(position, others, hessian=hessian)
        # PyTensor's loops in Python take no empty arrays.
        directions = np.eye(position.size)[: position.size if hessian else 1]
        found = self._as_written(position, others, directions)
        if not all(np.isfinite(x).all() for x in found):
            found = self._stable(position, others, directions)
        value, gradient, products = found
        if not hessian:
            return float(value), gradient, np.empty((0, 0))
        # Without curvature of its own, as of Laplace priors alone, there is one product for all.
        return float(value), gradient, np.broadcast_to(products, directions.shape)

    @cached_property
    def _is_sparse(self) -> bool:
        """Whether it has sparse matrices, whose operations PyTensor has for one direction only."""
        return any(isinstance(v.type, SparseTensorType) for v in ancestors([self._split.prior]))

    def _by_differences(
        self, position: np.ndarray, others: np.ndarray, *, hessian: bool
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the same from a compiled gradient, with its differences as the Hessian."""
        context = Column("other variables", others[None], 0).address
        value, *gradient = self.slopes(position, context)
        if not hessian:
            return float(value), np.array(gradient), np.empty((0, 0))
        lines = [
            self.slopes(position + step, context)[1:] - self.slopes(position - step, context)[1:]
            for step in STEP * np.eye(position.size)
        ]
        products = np.array(lines) / (2.0 * STEP)
        return float(value), np.array(gradient), 0.5 * (products + products.T)

    @cached_property
    def slopes(self) -> Callable:
        """Value and gradient, compiled."""
        return compiled_slopes(self._split, self._compile_kwargs)

    @cached_property
    def _as_written(self) -> Callable:
        # Nothing is compiled or rewritten for graphs that are evaluated a few dozen times.
        return self._in_python(_AS_WRITTEN)

    @cached_property
    def _stable(self) -> Callable:
        return self._in_python(_STABLE)

    @cached_property
    def gradient(self) -> Variable:
        """Graph of the gradient; UnsupportedModelError if an operation has no derivative."""
        with differentiable(self._split):
            return grad(self._split.prior, self._split.position, disconnected_inputs="ignore")

    def _in_python(self, mode: Mode) -> Callable:
        factorization, gradient = self._split, self.gradient
        theta, others = factorization.position, factorization.other_values
        direction = pt.vector("direction", dtype="float64", shape=(factorization.size,))
        with differentiable(factorization):
            product = pushforward(gradient, theta, direction, disconnected_outputs="ignore")
        directions = pt.matrix("directions", dtype="float64", shape=(None, factorization.size))
        outputs = [factorization.prior, gradient, vectorize_graph(product, {direction: directions})]
        function = pytensor.function(
            [theta, others, directions], outputs, mode=mode, on_unused_input="ignore"
        )

        def quiet(*inputs: np.ndarray) -> list[np.ndarray]:
            try:
                with np.errstate(all="ignore"):
                    return list(function(*inputs))
            except ParameterValueError:
                # A scale that has underflowed to zero: samplers read it as a density of zero.
                nothing = np.full(inputs[0].shape, np.nan)
                return [np.array(-np.inf), nothing, np.full(inputs[2].shape, np.nan)]

        return quiet


class ScalarPrior:
    """The prior part of a split model, as a function of its coordinates.

    Raises a LoweringError if it is not small, goes through an operation that cannot be taken apart
    or differentiated twice, or depends on variables outside of the position.
    """

    def __init__(self, factorization: Factorization) -> None:
        self._size = factorization.size
        self._exprs = ExprGraph()
        self._root = _expression(self._exprs, factorization)
        if sum(1 for _ in in_order([self._root])) > MOST_OPERATIONS:
            raise LoweringError(factorization.prior.owner.op, "is one of very many operations")
        slopes = Slopes(self._exprs)
        gradient = [slopes.of(self._root, k) for k in range(factorization.size)]
        second = {
            pair: expr
            for pair in combinations_with_replacement(range(factorization.size), 2)
            if (expr := slopes.of(gradient[pair[0]], pair[1])) is not self._exprs.zero
        }
        self._pairs = list(second)
        self._first_order = _Numbers([self._root, *gradient])
        self._second_order = _Numbers([self._root, *gradient, *second.values()])

    def compiled(self) -> FunctionAt:
        """Compile the log-density (``mh_log_prior``)."""
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


def _expression(exprs: ExprGraph, factorization: Factorization) -> Expr:
    """Return the prior part in arguments, one for each coordinate."""
    graph = FunctionGraph(outputs=[factorization.prior], clone=True, copy_inputs=False)
    AS_SAMPLED.rewrite(graph)
    (prior,) = graph.outputs
    above = list(ancestors([prior]))
    if factorization.other_values in above or not all(map(_is_small, above)):
        raise LoweringError(
            factorization.prior.owner and factorization.prior.owner.op, "is not small"
        )
    position = np.empty(factorization.size, dtype=object)
    for k in range(factorization.size):
        position[k] = exprs.coordinate(k)
    (root,) = np.ravel(lower(exprs, prior, {factorization.position: position}))
    return _in_arguments(exprs, root)


def _is_small(variable: Variable) -> bool:
    if not isinstance(variable.type, TensorType):
        return True
    shape = variable.type.shape
    return None not in shape and int(np.prod(shape)) <= MOST_ENTRIES


def _in_arguments(exprs: ExprGraph, root: Expr) -> Expr:
    """Return an expression with sums of arguments in the place of linear forms."""
    known: dict[Expr, Expr] = {}
    for expr in in_order([root]):
        if isinstance(expr, Affine):
            parts = (
                multiply(exprs, exprs.constant(t.factor), *t.monomial, _coordinate(exprs, t.place))
                for t in expr.terms
            )
            known[expr] = add(exprs, *parts, expr.offset)
        elif isinstance(expr, Apply) and not expr.is_data:
            known[expr] = exprs.node(expr.op, [known[x] for x in expr.inputs])
        else:
            known[expr] = expr
    return known[root]


def _coordinate(exprs: ExprGraph, place: Place) -> Expr:
    if isinstance(place, Gather):
        raise LoweringError("an index", "is not a constant")
    return exprs.argument(place)


class _Numbers:
    """Expressions of arguments, evaluated operation by operation."""

    def __init__(self, outputs: Sequence[Expr]) -> None:
        places: dict[Expr, int] = {}
        self._leaves: list[tuple[int | None, Any]] = []
        self._operations: list[tuple[Callable, list[int]]] = []
        ordered = list(in_order(outputs))
        ordered.sort(key=lambda expr: isinstance(expr, Apply))
        for expr in ordered:
            if isinstance(expr, Argument):
                self._leaves.append((expr.number, None))
            elif isinstance(expr, Constant):
                self._leaves.append((None, np.asarray(expr.value)))
            elif isinstance(expr, Apply) and _has_numbers(expr.op):
                function = numpy_of(expr.op)
                self._operations.append((function, [places[x] for x in expr.inputs]))
            else:
                raise LoweringError(getattr(expr, "op", expr), "is no number")
            places[expr] = len(places)
        self._outputs = [places[expr] for expr in outputs]

    def __call__(self, arguments: np.ndarray) -> np.ndarray:
        values = [arguments[number] if number is not None else x for number, x in self._leaves]
        with np.errstate(all="ignore"):
            for function, places in self._operations:
                values.append(function(*(values[k] for k in places)))
        return np.array([float(values[k]) for k in self._outputs])


def _has_numbers(op: ScalarOp) -> bool:
    # Functions of this package are left to compiled graphs, where Python cannot compute them.
    known = type(op).impl not in (ScalarOp.impl, Function.impl)
    return known or getattr(op, "nfunc_spec", None) is not None


#: Unknowns of a system of equations that is solved, at most.
MOST_UNKNOWNS = 200
#: Rounding errors of a sum, relative to the sum of its terms without signs.
ROUNDED = 64 * 2.220446049250313e-16

#: Equation of a direction v: class of coordinates that v is the same in -> coefficient.
Equation = dict[int, float]


def unread_directions(
    factorization: Factorization, functions: Sequence[RowFunction] | BoundsError
) -> np.ndarray:
    """Return a basis of the directions along which no row changes and a step moves, shape (n, d).

    A row reads linear forms of the position, whose coefficients are data. A direction that all
    forms take to zero, whatever the data are, changes no row: that of a coordinate that is in no
    form, or one that raises a location and lowers all effects that it is added to. Of rows that are
    graphs only coordinates are known, where the position enters them through pieces of it, cut at
    constants.

    First are those of single coordinates, in their order. Directions that cannot be told are left
    out. `functions` are the rows as functions of a few linear forms, or why they are none.
    """
    if isinstance(functions, BoundsError):
        return np.eye(factorization.size)[_not_in(_pieces(factorization), factorization)]
    forms = [form for function in functions for form in function.arguments]
    parts = [part for form in forms for part in _parts(form)]
    labels = _classes(parts, factorization.size)
    equations = [_equation(part, labels) for part in parts]
    # Variables of other steps stay where they are.
    equations += [{int(own): 1.0} for own in labels[: factorization.first]]
    solutions = list(_solutions(equations, set(labels.tolist())))
    found = np.zeros((len(solutions), factorization.size))
    for line, solution in zip(found, solutions, strict=True):
        for own, weight in solution.items():
            line[labels == own] = weight
    order = sorted(range(len(found)), key=lambda j: (np.count_nonzero(found[j]) > 1, j))
    return found[order]


def _parts(form: LinearForm) -> list[list[Monomial]]:
    """Return the terms of a form by the data that they are multiplied by."""
    parts = defaultdict[Hashable, list[Monomial]](list)
    for term in form.terms:
        parts[frozenset(Counter(term.monomial).items())].append(term)
    return list(parts.values())


def _classes(parts: Sequence[Sequence[Monomial]], size: int) -> np.ndarray:
    """Return the class of every coordinate, the same for those that data choose from."""
    places = [places_of(term.place) for part in parts for term in part]
    pairs = [pair for chosen in places for pair in pairwise(chosen)]
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    links = coo_array((np.ones(len(pairs)), tuple(ends)), shape=(size, size))
    _, labels = connected_components(links, directed=False)
    return np.asarray(labels)


def _equation(part: Sequence[Monomial], labels: np.ndarray) -> Equation:
    """Return the sum of terms with the same data as an equation, without cancelled ones."""
    total, sizes = defaultdict[int, float](float), defaultdict[int, float](float)
    for term in part:
        own = int(labels[places_of(term.place)[0]])
        total[own] += term.factor
        sizes[own] += abs(term.factor)
    return {own: x for own, x in total.items() if abs(x) > ROUNDED * sizes[own]}


def _solutions(equations: Sequence[Equation], unknowns: set[int]) -> Iterator[Equation]:
    """Yield a basis of the solutions of all equations, first the unknowns in none of them."""
    zero: set[int] = set()
    while True:
        left = [{k: x for k, x in e.items() if k not in zero} for e in equations]
        pinned = {k for e in left if len(e) == 1 for k in e}
        if not pinned:
            break
        zero |= pinned
    bound = sorted({k for e in left for k in e})
    for k in sorted(unknowns - zero - set(bound)):
        yield {k: 1.0}
    if not 0 < len(bound) <= MOST_UNKNOWNS:
        return
    matrix = np.array([[e.get(k, 0.0) for k in bound] for e in left if e])
    for solution in _null_space(matrix):
        # Equation by equation: one with small coefficients counts as much as the others.
        if (np.abs(matrix @ solution) <= ROUNDED * (np.abs(matrix) @ np.abs(solution))).all():
            yield dict(zip(bound, solution, strict=True))


def _null_space(matrix: np.ndarray) -> Iterator[np.ndarray]:
    """Yield solutions of a system of equations, each with one of the free unknowns alone."""
    triangle, pivots = qr(
        matrix / np.abs(matrix).max(axis=1, keepdims=True), mode="r", pivoting=True
    )
    diagonal = np.abs(np.diag(triangle))
    rank = int((diagonal > ROUNDED * len(pivots) * diagonal[0]).sum())
    solved = solve_triangular(triangle[:rank, :rank], -triangle[:rank, rank:])
    for j, unknown in enumerate(pivots[rank:]):
        solution = np.zeros(len(pivots))
        solution[pivots[:rank]] = solved[:, j]
        solution[unknown] = 1.0
        # Sums and differences have simple weights; rounding must not make up others.
        simple = np.round(solution * 720720.0) / 720720.0
        yield np.where(np.abs(simple - solution) <= ROUNDED, simple, solution)


def _not_in(pieces: Iterator[slice], factorization: Factorization) -> np.ndarray:
    unread = np.ones(factorization.size, dtype=bool)
    unread[: factorization.first] = False
    for piece in pieces:
        unread[piece] = False
    return np.flatnonzero(unread)


def _pieces(factorization: Factorization) -> Iterator[slice]:
    """Yield the pieces of the position that rows which are graphs depend on."""
    for variable in ancestors([term.logp for term in factorization.terms]):
        node = variable.owner
        if node is None or factorization.position not in node.inputs:
            continue
        piece = slice(None)
        if isinstance(node.op, Subtensor) and node.inputs.count(factorization.position) == 1:
            try:
                (piece,) = get_constant_idx(node.op.idx_list, node.inputs)
            except NotScalarConstantError:
                piece = slice(None)
        yield piece


#: Compiled rows where they lie in this process, and the prior part.
PlacedRows = PlacedFormRows | StoredFormRows | GraphRows
Prior = ScalarPrior | GraphPrior


class CompiledModel:
    """The parts of a split model, compiled, wherever the rows lie."""

    def __init__(
        self, factorization: Factorization, compile_kwargs: Mapping[str, Any] | None
    ) -> None:
        self.factorization = factorization
        if compile_kwargs is not None:
            # Refused here if invalid, whether or not a graph is compiled with them.
            numba_options(compile_kwargs)
        self.compile_kwargs = compile_kwargs

    @cached_property
    def row_functions(self) -> list[RowFunction] | BoundsError:
        """Rows as functions of a few linear forms, or why they are none."""
        try:
            return row_functions(self.factorization)
        except BoundsError as reason:
            return reason

    @cached_property
    def unread(self) -> np.ndarray:
        """Directions along which no row changes and a step moves, shape (n, d)."""
        return unread_directions(self.factorization, self.row_functions)

    @cached_property
    def rows(self) -> FormRows | GraphRows:
        """Rows by their linear forms if they have some, else as a graph of all parameters.

        Raises an UnsupportedModelError if they have none and are stored: a graph reads rows in
        memory.
        """
        if not isinstance(self._forms, str):
            return self._forms
        source = row_source(self.factorization)
        if not source.in_memory:
            raise UnsupportedModelError(
                f"{self._forms.removesuffix(WAY_ON).rstrip()} Data of Rows(...) need a likelihood "
                "for which bounds can be derived. Give the model arrays in memory, and use "
                "BarkerMinibatchMH() or PenaltyMH()."
            )
        return GraphRows(self.factorization, source, self.compile_kwargs)

    def require_derivatives(self) -> None:
        """Refuse an operation without derivatives, by graphs alone, before any is compiled.

        Raises an UnsupportedModelError that names it.
        """
        if isinstance(self.rows, GraphRows):
            _ = self.rows.derivatives
        if isinstance(self.prior, GraphPrior):
            _ = self.prior.gradient

    @property
    def why_graph(self) -> str:
        """Why rows are a graph of all parameters; empty where they are functions of forms."""
        return self._forms if isinstance(self._forms, str) else ""

    @cached_property
    def _forms(self) -> FormRows | str:
        if isinstance(self.row_functions, BoundsError):
            return str(self.row_functions)
        try:
            return FormRows(self.row_functions, self.factorization.size)
        except LoweringError as error:
            # An operation whose derivatives only PyTensor's own graph has.
            return str(error)

    @cached_property
    def element_prior(self) -> ElementPrior:
        """Elements that data choose and their prior; NotSeparableError where they depend."""
        if isinstance(self.row_functions, BoundsError):
            raise NotSeparableError(str(self.row_functions))
        found = elements_of(self.factorization, self.row_functions)
        return prior_of_elements(self.factorization, found)

    @property
    def elements(self) -> Elements:
        """The elements that data choose; NotSeparableError where they are not independent."""
        return self.element_prior.elements

    @cached_property
    def element_densities(self) -> list[FunctionAt]:
        """The prior of each element of each factor, compiled (``mh_element_density``)."""
        return [self._of_elements(graph) for graph in self.element_prior.densities]

    def _of_elements(self, density: Variable) -> FunctionAt:
        size = self.factorization.size
        graph = compiled_on_position(self.factorization, density, self.compile_kwargs)

        def densities(theta, context, out):
            (value,) = graph(carray(theta, size), carray(context, PRIOR_ADDRESSES))
            for k in range(value.size):
                out[k] = value[k]

        return called_by_library(densities, ELEMENT_DENSITY, "mh_element_density")

    @cached_property
    def prior_slopes(self) -> Callable:
        """Value and gradient of the prior part, compiled: (position, context) -> shape (1 + d,)."""
        if isinstance(self.prior, GraphPrior):
            return self.prior.slopes
        return compiled_slopes(self.factorization, self.compile_kwargs)

    @cached_property
    def prior(self) -> Prior:
        """The prior part as one expression of scalars if it is small, else as a graph."""
        try:
            return ScalarPrior(self.factorization)
        except LoweringError:
            return GraphPrior(self.factorization, self.compile_kwargs)
