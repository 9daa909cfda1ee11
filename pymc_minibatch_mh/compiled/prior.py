"""The prior part as a compiled density with derivatives.

A prior part of a few dozen parameters is a few dozen operations on numbers. As a scalar function it
is compiled and called in a fraction of the time of a vector graph, and its derivatives are
expressions as well.
"""

import operator
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import combinations_with_replacement
from threading import Lock
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from numba import carray
from pymc.logprob.utils import ParameterValueError
from pytensor.compile.mode import Mode, optdb
from pytensor.gradient import grad, pushforward
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.graph.traversal import ancestors
from pytensor.scalar import basic as scalar
from pytensor.scalar.basic import ScalarOp
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.type import TensorType

from pymc_minibatch_mh.compiled.differences import PartialDerivatives
from pymc_minibatch_mh.compiled.gradient_differences import hessian_by_differences
from pymc_minibatch_mh.compiled.graphs import (
    NO_DERIVATIVE,
    PRIOR_ADDRESSES,
    CompileOptions,
    compiled_on_position,
    require_differentiable,
)
from pymc_minibatch_mh.compiled.scalar_functions import (
    LOG_PRIOR,
    WRITTEN_DENSITY,
    called_by_library,
    compiled_log_density,
    make_composite,
)
from pymc_minibatch_mh.data import Column
from pymc_minibatch_mh.expressions.arithmetic import add_exprs, multiply_exprs
from pymc_minibatch_mh.expressions.graph import (
    REAL,
    Affine,
    Apply,
    Argument,
    Constant,
    Expr,
    ExprGraph,
    Gather,
    LoweringError,
)
from pymc_minibatch_mh.expressions.lower import lower_graph
from pymc_minibatch_mh.expressions.patterns import (
    affines_in,
    n_exprs,
    operands_first,
    with_leaves,
)
from pymc_minibatch_mh.functions.base import Function, is_vectorized
from pymc_minibatch_mh.model.constant_data import AS_SAMPLED
from pymc_minibatch_mh.model.factorization import Factorization
from pymc_minibatch_mh.native.library import FunctionAt

#: Maximum number of entries per array, of scalar operations, and of terms in sums of coordinates,
#: each of which has a derivative, in a small prior part.
MAX_ENTRIES, MAX_OPERATIONS, MAX_TERMS = 1_000, 2_000, 8_000
#: Maximum number of coordinates of a prior part whose Hessian is a graph, evaluated in Python: its
#: products with all directions take milliseconds each, and its gradient is not evaluated alone.
MAX_COORDINATES = 60
_REWRITES = RewriteDatabaseQuery(
    include=["canonicalize", "stabilize", "specialize", "local_check_parameter_to_ninf_switch"],
    exclude=["fusion", "inplace", "BlasOpt", "cxx_only"],
)
#: Mode that applies rewrites for numerical stability and evaluates in Python.
_STABLE = Mode(linker="py", optimizer=optdb.query(_REWRITES))
_AS_WRITTEN = Mode(linker="py", optimizer=AS_SAMPLED)


class GraphPrior:
    """Prior part of a factorization, as a graph."""

    def __init__(self, factorization: Factorization, compile_kwargs: CompileOptions = None) -> None:
        self._split = factorization
        self._compile_kwargs = compile_kwargs
        self._log_prior: FunctionAt | None = None
        self._direction = pt.vector("direction", dtype="float64", shape=(factorization.size,))

    def compiled(self) -> FunctionAt:
        """Compile the log-density (``mh_log_prior``)."""
        if self._log_prior is None:
            self._log_prior = self._compile_log_prior()
        return self._log_prior

    def _compile_log_prior(self) -> FunctionAt:
        size, prior = self._split.size, self._split.prior
        graph = compiled_on_position(self._split, prior, self._compile_kwargs)

        def write_value(theta, context, out):
            (value,) = graph(carray(theta, size), carray(context, PRIOR_ADDRESSES))
            out[0] = value.item()

        self._writer = called_by_library(write_value, WRITTEN_DENSITY, "mh_element_density")
        written = self._writer.source.ctypes

        def log_prior(theta, context):
            # An error in Python code leaves the value as it is here: no density.
            value = np.full(1, np.nan)
            written(theta, context, value.ctypes)
            return value[0]

        return called_by_library(log_prior, LOG_PRIOR, "mh_log_prior")

    def derivatives(
        self, position: np.ndarray, others: np.ndarray, *, hessian: bool
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient and Hessian; the Hessian is empty unless requested."""
        if self._product is None or position.size > MAX_COORDINATES:
            return self._by_differences(position, others, hessian=hessian)
        # PyTensor's loops in Python reject empty arrays, so at least one direction is passed.
        directions = np.eye(position.size)[: position.size if hessian else 1]
        found = self._as_written(position, others, directions)
        if not all(np.isfinite(x).all() for x in found):
            found = self._stable_function(position, others, directions)
        value, gradient, products = found
        if not hessian:
            return float(value), gradient, np.empty((0, 0))
        # A constant zero Hessian (Laplace priors only) gives one product for all directions.
        return float(value), gradient, np.broadcast_to(products, directions.shape)

    @cached_property
    def _product(self) -> Variable | None:
        """Graph of the Hessian times `direction`; None for sparse matrices, or without derivatives.

        PyTensor cannot batch Hessian products with sparse matrices.
        """
        if any(isinstance(v.type, SparseTensorType) for v in ancestors([self._split.prior])):
            return None
        inputs = self._split.position, self._direction
        try:
            return pushforward(self.gradient, *inputs, disconnected_outputs="ignore")
        except NO_DERIVATIVE:
            return None

    def _by_differences(
        self, position: np.ndarray, others: np.ndarray, *, hessian: bool
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Value and gradient from compiled code, and Hessian from differences of gradients."""
        context = Column("other variables", others[None], 0).address
        value, *gradient = self.slopes(position, context)
        if not hessian:
            return float(value), np.array(gradient), np.empty((0, 0))
        products = hessian_by_differences(lambda x: self.slopes(x, context)[1:], position)
        return float(value), np.array(gradient), products

    @cached_property
    def slopes(self) -> Callable:
        """Compiled value and gradient: (position, context) -> shape (1 + d,)."""
        both = pt.concatenate([self._split.prior[None], self.gradient])
        graph = compiled_on_position(self._split, both, self._compile_kwargs)
        return lambda theta, context: graph(theta, context)[0]

    @cached_property
    def _as_written(self) -> Callable:
        # Graphs that are evaluated only a few dozen times are neither compiled nor rewritten.
        return self._in_python(_AS_WRITTEN)

    @cached_property
    def _stable_function(self) -> Callable:
        return self._in_python(_STABLE)

    @cached_property
    def gradient(self) -> Variable:
        """Graph of the gradient; UnsupportedModelError if an operation has no derivative."""
        with require_differentiable(self._split):
            return grad(self._split.prior, self._split.position, disconnected_inputs="ignore")

    def _in_python(self, mode: Mode) -> Callable:
        factorization, product = self._split, self._product
        theta, others = factorization.position, factorization.other_values
        directions = pt.matrix("directions", dtype="float64", shape=(None, factorization.size))
        products = vectorize_graph(product, {self._direction: directions})
        outputs = [factorization.prior, self.gradient, products]
        function = pytensor.function(
            [theta, others, directions], outputs, mode=mode, on_unused_input="ignore"
        )
        # Chains are threads, and PyTensor's functions hold the values of one call.
        lock = Lock()

        def call_quietly(*inputs: np.ndarray) -> list[np.ndarray]:
            try:
                with lock, np.errstate(all="ignore"):
                    return list(function(*inputs))
            except ParameterValueError:
                # A scale may underflow to zero: samplers treat this as zero density.
                nothing = np.full(inputs[0].shape, np.nan)
                return [np.array(-np.inf), nothing, np.full(inputs[2].shape, np.nan)]

        return call_quietly


class ScalarPrior:
    """Prior part as a scalar function of its coordinates; LoweringError if there is none."""

    def __init__(self, factorization: Factorization) -> None:
        self._size = factorization.size
        self._exprs = ExprGraph()
        self._root = _prior_expression(self._exprs, factorization)
        # A prior without numbers is refused before its derivatives are made.
        _ScalarEvaluator([self._root], self._size)
        slopes = PartialDerivatives(self._exprs)
        first = [self._root, *(slopes.of(self._root, k) for k in range(self._size))]
        self._first_order = _ScalarEvaluator(first, self._size)
        second = {
            pair: expr
            for pair in combinations_with_replacement(range(self._size), 2)
            if (expr := slopes.of(first[1 + pair[0]], pair[1])) is not self._exprs.zero
        }
        self._pairs = np.array(list(second), dtype=np.int64).reshape(-1, 2).T
        self._second_order = _ScalarEvaluator([*first, *second.values()], self._size)

    def compiled(self) -> FunctionAt:
        """Compile the log-density (``mh_log_prior``)."""
        return compiled_log_density(make_composite([self._root], self._size, []))

    def slopes(self, position: np.ndarray, _: np.ndarray) -> np.ndarray:
        """Value and gradient: (position, context) -> shape (1 + d,)."""
        return self._first_order(position)

    def derivatives(
        self, position: np.ndarray, others: np.ndarray, *, hessian: bool
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient and Hessian; the Hessian is empty unless requested."""
        if not hessian:
            found = self._first_order(position)
            return float(found[0]), found[1:], np.empty((0, 0))
        value, gradient, second = np.split(self._second_order(position), [1, 1 + self._size])
        products = np.zeros((self._size, self._size))
        rows, columns = self._pairs
        products[rows, columns] = products[columns, rows] = second
        return float(value[0]), gradient, products


def _prior_expression(exprs: ExprGraph, factorization: Factorization) -> Expr:
    graph = FunctionGraph(outputs=[factorization.prior], clone=True, copy_inputs=False)
    AS_SAMPLED.rewrite(graph)
    (prior,) = graph.outputs
    above = list(ancestors([prior]))
    if factorization.other_values in above or not all(map(_is_small, above)):
        raise LoweringError(factorization.prior.owner_op, "is not small")
    (root,) = np.ravel(lower_graph(exprs, prior, factorization.position))
    n_terms = sum(len(x.terms) for x in affines_in(root))
    if n_exprs(root) > MAX_OPERATIONS or n_terms > MAX_TERMS:
        raise LoweringError(factorization.prior.owner_op, "is one of very many operations")
    return with_leaves(exprs, root, {x: _as_argument(exprs, x) for x in affines_in(root)})


def _is_small(variable: Variable) -> bool:
    shape = variable.type.shape if isinstance(variable.type, TensorType) else ()
    return None not in shape and int(np.prod(shape)) <= MAX_ENTRIES


def _as_argument(exprs: ExprGraph, affine: Affine) -> Expr:
    parts = []
    for term in affine.terms:
        if isinstance(term.place, Gather):
            raise LoweringError("an index", "is not a constant")
        factor = exprs.constant(term.factor)
        parts.append(multiply_exprs(exprs, factor, *term.monomial, exprs.argument(term.place)))
    return add_exprs(exprs, *parts, affine.offset)


class _ScalarEvaluator:
    """Evaluation of expressions in Python; LoweringError if an operation has no implementation."""

    def __init__(self, outputs: Sequence[Expr], n_arguments: int) -> None:
        order = list(operands_first(outputs))
        constants = [x for x in order if isinstance(x, Constant)]
        self._constants = [float(x.value) if x.dtype == REAL else x.value for x in constants]
        #: Indices of values: of constants, of arguments, and of results in the order of the steps.
        slots: dict[Expr, int] = {x: n_arguments + k for k, x in enumerate(constants)}
        slots |= {x: x.number for x in order if isinstance(x, Argument)}
        self._steps = []
        for expr in order:
            if isinstance(expr, Apply) and _has_numbers(expr.op):
                self._steps.append((_number_function(expr), [slots[x] for x in expr.inputs]))
                slots[expr] = n_arguments + len(constants) + len(self._steps) - 1
            elif expr not in slots:
                raise LoweringError(getattr(expr, "op", expr), "is no number")
        self._outputs = [slots[x] for x in outputs]

    def __call__(self, arguments: np.ndarray) -> np.ndarray:
        values = [*arguments.tolist(), *self._constants]
        with np.errstate(all="ignore"):
            for function, slots in self._steps:
                values.append(function(*[values[k] for k in slots]))
        return np.array([values[k] for k in self._outputs], dtype=np.float64)


#: Operations on two of Python's numbers, which take half the time of NumPy's. Python would raise an
#: error for a division by zero.
_OF_TWO: dict[type[ScalarOp], Callable[[Any, Any], Any]] = {
    scalar.Add: operator.add,
    scalar.Mul: operator.mul,
}


def _number_function(expr: Apply) -> Callable[..., Any]:
    """Operation on numbers, in double precision without the loops for arrays."""
    if expr.dtype != REAL or any(x.dtype != REAL for x in expr.inputs):
        return expr.numpy
    if len(expr.inputs) == 2 and type(expr.op) in _OF_TWO:
        return _OF_TWO[type(expr.op)]
    if isinstance(expr.op, scalar.TrueDiv):
        return np.true_divide
    return expr.op.impl if is_vectorized(expr.op) else expr.numpy


def _has_numbers(op: ScalarOp) -> bool:
    # An operation without an implementation in Python needs a compiled graph.
    known = type(op).impl not in (ScalarOp.impl, Function.impl)
    return known or getattr(op, "nfunc_spec", None) is not None


Prior = ScalarPrior | GraphPrior
