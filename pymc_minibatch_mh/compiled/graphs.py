"""Graphs compiled to functions for the library, and observations as graphs of all parameters.

PyTensor caches the compiled graphs. Their wrappers, a few lines that take pointers, are compiled in
each process.
"""

import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from functools import cache, cached_property
from inspect import signature
from typing import Any, Self

import numpy as np
import pytensor
import pytensor.tensor as pt
from llvmlite import ir
from numba import carray, from_dtype, types
from numba.extending import intrinsic
from pymc.pytensorf import rewrite_pregrad
from pytensor.compile.mode import Mode, get_mode
from pytensor.gradient import NullTypeGradError, grad, pushforward
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.graph.replace import clone_replace
from pytensor.graph.utils import MethodNotDefined
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_default_op_cache_key
from pytensor.tensor.type import TensorType

from pymc_minibatch_mh.compiled.scalar_functions import (
    INTEGERS,
    NUMBERS,
    called_by_library,
    without_reordering,
)
from pymc_minibatch_mh.data import ArrayRows, Column, dtype_in_batch
from pymc_minibatch_mh.data.source import StoredRows
from pymc_minibatch_mh.errors import SettingError, UnsupportedModelError
from pymc_minibatch_mh.model.factorization import Factorization
from pymc_minibatch_mh.model.independence import Likelihood
from pymc_minibatch_mh.native.forms import RowSpace
from pymc_minibatch_mh.native.library import FunctionAt

_log = logging.getLogger("pymc")

#: Signatures of the compiled graphs of observations: see ``mh.h``.
GRAPH_DIFFERENCES = types.void(
    NUMBERS, NUMBERS, NUMBERS, INTEGERS, INTEGERS, INTEGERS, NUMBERS, NUMBERS
)
GRAPH_DERIVATIVES = types.void(NUMBERS, INTEGERS, INTEGERS, INTEGERS, types.int64, NUMBERS, NUMBERS)


@intrinsic
def load_scalar(
    typing_context, address, dtype
):  # numba fixes the names and forbids annotations here
    """Read a scalar of type `dtype` at `address` (int64)."""
    scalar = dtype.dtype
    signature = scalar(types.int64, dtype)

    def generate_code(context, builder, _signature, arguments):
        stored = context.get_data_type(scalar)
        pointer = builder.inttoptr(arguments[0], ir.PointerType(stored))
        return context.unpack_value(builder, scalar, pointer)

    return signature, generate_code


class ReadRows(Op):
    """Operation that reads rows of a data array; entry `slot` of the context is its address."""

    __props__ = ("slot", "dtype", "shape")

    def __init__(self, slot: int, dtype: str, shape: tuple[int, ...]) -> None:
        self.slot = slot
        self.dtype = dtype
        self.shape = shape

    def make_node(self, rows: Variable, context: Variable) -> Apply:
        """Node whose output holds the rows, shape ``(len(rows), *shape)``."""
        out = TensorType(dtype_in_batch(np.dtype(self.dtype)), shape=(None, *self.shape))()
        return Apply(self, [pt.as_tensor(rows), pt.as_tensor(context)], [out])

    def perform(self, node: Apply, inputs: list[np.ndarray], output_storage: list) -> None:
        """Raise an error: only compiled code can use an address."""
        raise TypeError(f"{self} reads memory by address and only runs in numba")

    def infer_shape(self, node: Apply, shapes: list) -> list[tuple]:
        """Shape of the batch, without reading it."""
        return [(shapes[0][0], *self.shape)]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Declaration that no gradient flows through the data."""
        return [[False], [False]]


@register_funcify_default_op_cache_key(ReadRows)
def _read_rows_in_numba(op: ReadRows, node: Apply | None, **_: object) -> object:
    dtype = np.dtype(op.dtype)
    stored, batch_dtype = from_dtype(dtype), np.dtype(dtype_in_batch(dtype))
    # A row with fewer than two axes is treated as a matrix with a single row or entry.
    height, width = (1, 1, *op.shape)[-2:]
    shape, first = op.shape, op.slot
    n_axes, last = len(shape), first + 1 + len(shape)

    @numba_njit
    def read_rows(rows, context):
        out = np.empty((rows.size, height, width), batch_dtype)
        along = context[last] if n_axes > 0 else 0
        down = context[last - 1] if n_axes > 1 else 0
        for i in range(rows.size):
            start = context[first] + rows[i] * context[first + 1]
            for j in range(height):
                for k in range(width):
                    out[i, j, k] = load_scalar(start + j * down + k * along, stored)
        return out.reshape((rows.size, *shape))

    return read_rows


#: Index of the context entry with the address of the values that all rows share.
OTHERS_SLOT = 0
#: Number of context entries that a graph of the prior part reads: an address and two strides.
PRIOR_ADDRESSES = 3
#: Start of PyTensor's warning about Python code inside of a compiled graph.
OBJECT_MODE = "Numba will use object mode"
#: Keyword arguments of :func:`pytensor.function`, from the user.
CompileOptions = Mapping[str, Any] | None


def row_source(factorization: Factorization) -> ArrayRows:
    """Data arrays of all terms, each once."""
    found: dict[tuple[int, int], Column] = {}
    for column, _ in (pair for term in factorization.terms for pair in term.batches):
        found.setdefault((id(column.values), column.axis), column)
    n_others, columns = factorization.other_values.type.shape[0], tuple(found.values())
    if any(not isinstance(column.values, np.ndarray) for column in columns):
        return StoredRows(columns, n_others)
    return ArrayRows(columns, [term.n_rows for term in factorization.terms], n_others)


def read_others(factorization: Factorization, context: Variable) -> Variable:
    """Variable that reads the values outside of the position, by their address in the context."""
    read = ReadRows(OTHERS_SLOT, "float64", factorization.other_values.type.shape)
    return read(np.zeros(1, dtype=np.int64), context)[0]


def term_names(factorization: Factorization) -> str:
    """Names of the subsampled variables, for messages."""
    return ", ".join(repr(term.name) for term in factorization.terms)


#: Errors that PyTensor raises if an operation has no derivative.
NO_DERIVATIVE = (MethodNotDefined, NotImplementedError, NullTypeGradError)
#: Half-width of differences along a move, relative to its length: moves are as long as standard
#: deviations of the posterior, in which an observation is almost a polynomial.
SHARE_OF_MOVE = 2.0**-7


def derivative_along(graph: Variable, position: Variable, way: Variable) -> Variable:
    """Derivative along a move; by central differences if an operation has no derivative."""
    try:
        return pushforward(graph, position, way)
    except NO_DERIVATIVE:
        moved, step = position.type(), SHARE_OF_MOVE * way
        (graph,) = clone_replace([graph], {position: moved})
        above, below = (clone_replace([graph], {moved: position + x})[0] for x in (step, -step))
        return (above - below) / (2.0 * SHARE_OF_MOVE)


@contextmanager
def require_differentiable(factorization: Factorization) -> Iterator[None]:
    """Raise UnsupportedModelError, which names the operation, if a derivative is missing."""
    try:
        yield
    except NO_DERIVATIVE as error:
        raise UnsupportedModelError(
            f"{term_names(factorization)}: the operation {_operation_in_message(error)} has no "
            "derivative, which control variates and the search for the mode need. Use another "
            "parameterisation, or sample with pm.Slice()."
        ) from error


def _operation_in_message(error: Exception | Warning | str) -> str:
    if isinstance(error, MethodNotDefined):
        return str(error.args[-1])
    named = re.search(r"(?:of the|implemented for|to run) (\w+)", str(error))
    return named[1] if named else repr(str(error))


@cache
def _tell_of_python(names: str, operation: str) -> None:
    _log.warning(
        "%s: the operation %s, of the model or of its derivatives, has no compiled form, so "
        "updates call Python; an exception counts as zero density. Write it in operations of "
        "PyTensor, or register a numba function for it.",
        names,
        operation,
    )


@contextmanager
def _object_mode_told(names: str) -> Iterator[None]:
    """Log operations that are called in Python; other warnings go their way."""
    with warnings.catch_warnings():
        warnings.filterwarnings("always", OBJECT_MODE)
        others = warnings.showwarning

        def show(message: Any, *rest: Any, **options: Any) -> None:
            if str(message).startswith(OBJECT_MODE):
                _tell_of_python(names, _operation_in_message(message))
            else:
                others(message, *rest, **options)

        warnings.showwarning = show
        yield


def compiled_graph(
    factorization: Factorization,
    inputs: Sequence[Variable],
    outputs: Sequence[Variable],
    compile_kwargs: CompileOptions,
) -> Callable:
    """Compile a graph with numba, which calls Python for operations without a compiled form."""
    options, names = numba_options(compile_kwargs), term_names(factorization)
    with without_reordering(), _object_mode_told(names):
        function = pytensor.function(
            inputs, outputs, trust_input=True, on_unused_input="ignore", **options
        )
    return function.vm.jit_fn


def compiled_on_position(
    factorization: Factorization, output: Variable, compile_kwargs: CompileOptions
) -> Callable:
    """Compile a graph to a numba function of the position and of the context."""
    theta = pt.vector("position", dtype="float64", shape=(factorization.size,))
    context = pt.vector("context", dtype="int64")
    values = {
        factorization.position: theta,
        factorization.other_values: read_others(factorization, context),
    }
    return compiled_graph(
        factorization, [theta, context], clone_replace([output], values), compile_kwargs
    )


class GraphRows:
    """Observations as graphs of all parameters, unless a few linear predictors determine them."""

    #: Whether a Hessian takes one evaluation of the data instead of one per coordinate.
    cheap_hessian = False
    #: Whether third derivatives can be averaged over the posterior; see form_rows.
    has_skewness, evaluations = False, 1.0

    def __init__(
        self, factorization: Factorization, source: ArrayRows, compile_kwargs: CompileOptions = None
    ) -> None:
        self._split = factorization
        self._source = source
        self._compile_kwargs = compile_kwargs
        self._rows = pt.vector("rows", dtype="int64")
        self._ends = pt.vector("ends", dtype="int64", shape=(len(factorization.terms),))
        self._context = pt.vector("context", dtype="int64")
        self._others = read_others(factorization, self._context)
        self._logps = [self._on_rows(k, term) for k, term in enumerate(factorization.terms)]
        self._compiled: dict[object, FunctionAt] = {}
        self.context = source.context

    def at(self, source: ArrayRows) -> "GraphRows":
        """Observations with the addresses of their data in this process."""
        placed = copy(self)
        placed._source, placed.context = source, source.context
        return placed

    def on_block(self, block: ArrayRows) -> Self:
        """The object itself, because its observations are already in memory."""
        return self

    def space(
        self, order: int | None = None, *, derivatives: bool = False, skewness: bool = False
    ) -> RowSpace:
        """Addresses of the data and of the requested compiled functions.

        These are differences of the remainders of an `order`, and derivatives up to the second.
        The change of the log-likelihood is computed first, and then the change of the expansion is
        subtracted: both are of the size of a step, unlike the values.
        """
        assert not skewness
        space = RowSpace(self._split.size, self._source.term_starts, self.context)
        if order is not None:
            differences = self._get_or_make(order, lambda: self._compile_differences(order))
            space = space._replace(differences=differences)
        if derivatives:
            derived = self._get_or_make("derivatives", self._row_derivatives)
            space = space._replace(derivatives=derived)
        return space

    def describe_undefined(self, term: int, row: int, position: np.ndarray) -> str:
        """Description of a row without finite derivatives."""
        return f"in row {row} of {self._split.terms[term].name!r}"

    def _get_or_make(self, role: object, compiled: Callable[[], FunctionAt]) -> FunctionAt:
        if role not in self._compiled:
            self._compiled[role] = compiled()
        return self._compiled[role]

    def _compile_differences(self, taylor_order: int) -> FunctionAt:
        size = self._split.size
        theta, new, centre = (
            pt.vector(n, dtype="float64", shape=(size,)) for n in ("position", "new", "centre")
        )
        differences, scales = [], []
        for logp in self._logps:
            before, after = self._graph_at(logp, theta), self._graph_at(logp, new)
            change = after - before
            if taylor_order >= 1:
                first = derivative_along(self._graph_at(logp, centre), centre, new - theta)
                change = change - first
            if taylor_order == 2:
                both = (theta - centre) + (new - centre)
                change = change - 0.5 * derivative_along(first, centre, both)
            finite = pt.isfinite(after)
            differences.append(pt.switch(finite, change, -float("inf")))
            scales.append(pt.maximum(abs(before), pt.switch(finite, abs(after), 0.0)))
        inputs = [theta, new, centre, self._rows, self._ends, self._context]
        graph = self._compile_graph(inputs, [pt.concatenate(differences), pt.concatenate(scales)])
        n_terms, n_addresses = len(self._logps), self.context.size

        def of_rows(theta, new, centre, rows, ends, context, differences, scales):
            last = carray(ends, n_terms)
            # An error in Python code leaves the outputs as they are here: no density.
            carray(differences, last[n_terms - 1])[:] = np.nan
            changed, size_of = graph(
                carray(theta, size), carray(new, size), carray(centre, size),
                carray(rows, last[n_terms - 1]), last, carray(context, n_addresses),
            )  # fmt: skip
            for i in range(changed.size):
                differences[i] = changed[i]
                scales[i] = size_of[i]

        return called_by_library(of_rows, GRAPH_DIFFERENCES, "mh_graph_differences")

    @property
    def without_second(self) -> str:
        """Name of an operation whose gradient has no derivative; empty if there is none."""
        return self.derivatives[2]

    @cached_property
    def derivatives(self) -> tuple[list[Variable], Variable, str]:
        """Inputs; value, gradient, Hessian-vector product as one; the operation that has none."""
        size = self._split.size
        theta = pt.vector("position", dtype="float64", shape=(size,))
        direction = pt.vector("direction", dtype="float64", shape=(size,))
        value = sum(self._graph_at(x, theta).sum() for x in self._logps)
        with require_differentiable(self._split):
            gradient = grad(value, theta, disconnected_inputs="ignore")
        parts, lacking = [value[None], gradient], ""
        try:
            parts += [pushforward(gradient, theta, direction, disconnected_outputs="ignore")]
        except NO_DERIVATIVE as error:
            lacking = _operation_in_message(error)
        inputs = [theta, direction, self._rows, self._ends, self._context]
        return inputs, pt.concatenate(parts), lacking

    def _row_derivatives(self) -> FunctionAt:
        inputs, packed, _ = self.derivatives
        graph = self._compile_graph(inputs, [packed])
        size, n_terms, n_addresses = self._split.size, len(self._logps), self.context.size

        def write_derivatives(theta, rows, ends, context, wants_hessian, sums, hessian):
            direction, last = np.zeros(size), carray(ends, n_terms)
            for k in range(size if wants_hessian else 1):
                if wants_hessian:
                    direction[:] = 0.0
                    direction[k] = 1.0
                total = sums[0]
                # An error in Python code leaves the sum as it is here.
                sums[0] = np.nan
                (found,) = graph(
                    carray(theta, size), direction, carray(rows, last[n_terms - 1]), last,
                    carray(context, n_addresses),
                )  # fmt: skip
                sums[0] = total
                if k == 0:
                    for j in range(1 + size):
                        sums[j] += found[j]
                if wants_hessian:
                    for j in range(size):
                        hessian[k * size + j] += found[1 + size + j]

        return called_by_library(write_derivatives, GRAPH_DERIVATIVES, "mh_graph_derivatives")

    def _on_rows(self, k: int, term: Likelihood) -> Variable:
        start = self._ends[k - 1] if k else 0
        rows = self._rows[start : self._ends[k]] if len(self._split.terms) > 1 else self._rows
        replacements = {term.length: rows.shape[0], self._split.other_values: self._others}
        slots = {
            (id(known.values), known.axis): int(slot)
            for slot, known in zip(self._source.slots, self._source.columns, strict=True)
        }
        for column, batch in term.batches:
            slot, dtype = slots[id(column.values), column.axis], str(column.values.dtype)
            replacements[batch] = ReadRows(slot, dtype, column.row_shape)(rows, self._context)
        (logp,) = rewrite_pregrad(clone_replace([term.logp], replacements, rebuild_strict=False))
        return logp

    def _graph_at(self, graph: Variable, position: Variable) -> Variable:
        return clone_replace([graph], {self._split.position: position})[0]

    def _compile_graph(self, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> Callable:
        return compiled_graph(self._split, inputs, outputs, self._compile_kwargs)


def numba_options(compile_kwargs: CompileOptions) -> dict[str, Any]:
    """User arguments of :func:`pytensor.function`, checked, with a mode that uses numba."""
    if not isinstance(compile_kwargs, Mapping | None):
        raise SettingError(
            f"compile_kwargs={compile_kwargs!r} is not a dictionary. Give keyword arguments of "
            "pytensor.function()."
        )
    options = dict(compile_kwargs or {})
    unknown = sorted(options.keys() - signature(pytensor.function).parameters.keys())
    if unknown:
        raise SettingError(
            f"compile_kwargs={options!r} has {unknown[0]!r}, which pytensor.function() does not "
            "take. Leave it out."
        )
    setting, mode = options.pop("mode", "NUMBA"), None
    with suppress(ValueError):
        mode = get_mode(setting)
    if not isinstance(mode, Mode):
        raise SettingError(
            f"compile_kwargs={{'mode': {setting!r}}} is not a mode of PyTensor. Leave out the mode."
        )
    if type(mode.linker).__name__ != "NumbaLinker":
        raise SettingError(
            f"compile_kwargs={dict(compile_kwargs or {})!r} asks for a linker other than numba, "
            "but compiled updates can only call numba functions. Leave out the mode, or give one "
            "that uses the numba linker."
        )
    options["mode"] = mode.including("local_check_parameter_to_ninf_switch")
    return options
