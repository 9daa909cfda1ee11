"""Expressions of an observation, compiled to functions of floats.

An expression becomes one ``Composite`` of PyTensor, and PyTensor's dispatch converts it to numba
functions. No rewrites are applied, so that equal expressions give equal machine code in every
process, cached on disk by PyTensor.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import CFUNCTYPE, c_int64, c_void_p
from hashlib import sha256
from threading import RLock
from types import FunctionType
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pytensor
from numba import carray, cfunc, types
from numba.core.errors import RequireLiteralValue
from numba.extending import intrinsic
from pytensor.graph.basic import Apply as Node
from pytensor.graph.basic import Constant as GraphConstant
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.link.numba.cache import CACHED_SRC_FUNCTIONS
from pytensor.link.numba.dispatch.basic import (
    cache_key_for_constant,
    numba_funcify_ensure_cache,
    numba_njit,
    numba_typify,
    register_funcify_and_cache_key,
)
from pytensor.link.utils import fgraph_to_python
from pytensor.scalar import basic as scalar
from pytensor.scalar.basic import Composite, ScalarOp

from pymc_minibatch_mh.expressions.graph import Apply, Argument, Constant, Expr, Lookup
from pymc_minibatch_mh.expressions.patterns import operands_first, operands_last
from pymc_minibatch_mh.native import library
from pymc_minibatch_mh.native.library import FunctionAt, LaidOut
from pymc_minibatch_mh.threads import DelayedInterrupts

#: Signatures of compiled functions that the library calls: see ``mh.h``.
NUMBERS, INTEGERS = types.CPointer(types.float64), types.CPointer(types.int64)
ROW_FUNCTION = types.void(NUMBERS, NUMBERS, types.int64)
LOG_PRIOR = types.float64(NUMBERS, INTEGERS)
#: Signature of densities that are written to an array.
WRITTEN_DENSITY = types.void(NUMBERS, INTEGERS, NUMBERS)

#: Maximum size in bytes of a table inside compiled code. Larger tables, which every process would
#: compile anew, are read like data.
MAX_TABLE_BYTES = 2**16


class TableEntry(ScalarOp):
    """Operation that returns an entry of a constant vector; negative indices count from the end."""

    nin = 1

    def __init__(self, table: np.ndarray) -> None:
        self.table = np.ascontiguousarray(table)
        output = scalar.get_scalar_type(table.dtype.name)
        super().__init__(lambda _: (output,), name="table_entry")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableEntry) and self._table_content == other._table_content

    def __hash__(self) -> int:
        return hash(self._table_content)

    @property
    def _table_content(self) -> tuple[str, bytes]:
        return self.table.dtype.str, self.table.tobytes()


@register_funcify_and_cache_key(TableEntry)
def _table_entry(op: TableEntry, node: Any = None, **_: Any) -> tuple[Any, str]:
    table = op.table

    @numba_njit
    def read_entry(index):  # type: ignore[no-untyped-def]
        return table[index]

    return read_entry, sha256(f"{__name__} {op._table_content!r}".encode()).hexdigest()


def data_leaves(outputs: Sequence[Expr]) -> list[Expr]:
    """Data expressions that `outputs` read directly, each once."""
    return [expr for expr in operands_last(outputs, _is_leaf) if _is_leaf(expr)]


def _is_leaf(expr: Expr) -> bool:
    if isinstance(expr, Lookup):
        return expr.table.nbytes > MAX_TABLE_BYTES
    return not isinstance(expr, Apply | Argument | Constant)


def make_composite(outputs: Sequence[Expr], n_arguments: int, leaves: Sequence[Expr]) -> Composite:
    """Expressions as a single scalar operation on float64.

    It takes `n_arguments` arguments, in the order of their numbers, then the data `leaves`. Numba
    computes both branches of a switch. If this saves operations, a switch between f(a) and f(b)
    becomes f of a switch between a and b, with equal results.
    """
    ways = [
        _build_composite(outputs, n_arguments, leaves, way) for way in (scalar.switch, _Choices())
    ]
    return min(ways, key=_n_computed)


def _n_computed(composite: Composite) -> int:
    return sum(not isinstance(node.op, scalar.Switch) for node in composite.fgraph.apply_nodes)


#: Maximum depth for comparing branches, because deep graphs may exceed Python's stack.
_MAX_DEPTH = 100


class _Choices:
    """Switch that moves inside operations that both branches have in common."""

    def __init__(self) -> None:
        self._known: dict[tuple[Variable, ...], Variable] = {}

    def __call__(self, condition: Variable, yes: Variable, no: Variable, deep: int = 0) -> Variable:
        key = (condition, yes, no)
        if key not in self._known:
            self._known[key] = yes if yes is no else self._choose_in(*key, deep)
        return self._known[key]

    def _choose_in(self, condition: Variable, yes: Variable, no: Variable, deep: int) -> Variable:
        here, there = yes.owner, no.owner
        alike = here and there and here.op == there.op and _input_types(here) == _input_types(there)
        if not alike or deep == _MAX_DEPTH:
            return scalar.switch(condition, yes, no)
        pairs = zip(here.inputs, there.inputs, strict=True)
        return here.op(*(self(condition, x, y, deep + 1) for x, y in pairs))


def _input_types(node: Node) -> list[Any]:
    return [x.type for x in (*node.inputs, *node.outputs)]


def _build_composite(
    outputs: Sequence[Expr],
    n_arguments: int,
    leaves: Sequence[Expr],
    switch: Callable[[Variable, Variable, Variable], Variable],
) -> Composite:
    arguments = [scalar.float64(f"u{k}") for k in range(n_arguments)]
    entries = [scalar.float64(f"x{k}") for k in range(len(leaves))]
    known: dict[Expr, Variable] = {
        leaf: _cast_to(entry, leaf.dtype) for leaf, entry in zip(leaves, entries, strict=True)
    }
    for expr in operands_first(outputs, leaves):
        if isinstance(expr, Argument):
            known[expr] = arguments[expr.number]
        elif isinstance(expr, Constant):
            known[expr] = scalar.constant(np.asarray(expr.value)[()])
        elif isinstance(expr, Lookup):
            known[expr] = TableEntry(expr.table)(known[expr.index])
        elif isinstance(expr, Apply):
            made = switch if isinstance(expr.op, scalar.Switch) else expr.op
            known[expr] = made(*(known[x] for x in expr.inputs))
    floats = [_cast_to(known[expr], np.dtype(np.float64)) for expr in outputs]
    # PyTensor requires that an output differs from every input.
    return Composite(arguments + entries, [scalar.identity(x) for x in floats])


def _cast_to(variable: Variable, dtype: np.dtype) -> Variable:
    if variable.type.dtype == dtype.name:
        return variable
    if dtype.kind == "b":
        return scalar.neq(variable, scalar.constant(np.float64(0.0)))
    return scalar.Cast(scalar.get_scalar_type(dtype.name))(variable)


@intrinsic
def _load_numbers(typing_context, numbers, start, width):  # type: ignore[no-untyped-def]
    """Tuple of `width` numbers from entry `start` on, in time proportional to `width`."""
    if not isinstance(width, types.IntegerLiteral):
        raise RequireLiteralValue("width has to be a constant")
    loaded = types.UniTuple(types.float64, width.literal_value)

    def generate_code(context, builder, _signature, arguments):  # type: ignore[no-untyped-def]
        first = builder.gep(arguments[0], [arguments[1]])
        each = [builder.gep(first, [arguments[1].type(k)]) for k in range(loaded.count)]
        return context.make_tuple(builder, loaded, list(map(builder.load, each)))

    return loaded(numbers, types.intp, width), generate_code


# Source code of wrappers: the globals of :class:`_Namespace` define the undefined names.


def _loop_over_rows(inputs, outputs, n):  # type: ignore[no-untyped-def]
    for i in range(n):
        results = row_function(*load_numbers(inputs, i * WIDTH, WIDTH))  # type: ignore[name-defined]  # noqa: F821
        for k in range(len(results)):
            outputs[i * len(results) + k] = results[k]


def _at_position(position, context):  # type: ignore[no-untyped-def]
    (value,) = row_function(*load_numbers(position, 0, WIDTH))  # type: ignore[name-defined]  # noqa: F821
    return value


class _Namespace(dict[str, Any]):
    """Globals of a wrapper; its `row_function` is compiled at the first access."""

    def __init__(self, width: int, make: Callable[[], Any]) -> None:
        super().__init__(__name__=__name__, WIDTH=width, load_numbers=_load_numbers)
        self._make = make

    def __missing__(self, name: str) -> Any:
        if name != "row_function":
            raise KeyError(name)
        self[name] = self._make()
        return self[name]


_compiled: WeakValueDictionary[str, FunctionAt] = WeakValueDictionary()
_operations: dict[tuple, tuple[Any, str | None]] = {}


def compiled_rowwise(composite: Composite) -> FunctionAt:
    """Compile a scalar operation to a function of many rows (``mh_row_function``)."""
    return _compiled_as(_loop_over_rows, ROW_FUNCTION, "mh_row_function", composite)


def compiled_log_density(composite: Composite) -> FunctionAt:
    """Compile a scalar operation on the coordinates of a position (``mh_log_prior``)."""
    return _compiled_as(_at_position, LOG_PRIOR, "mh_log_prior", composite)


def _compiled_as(wrapper: Any, signature: Any, kind: str, composite: Composite) -> FunctionAt:
    graph = composite.fgraph
    key = _graph_key(graph)
    if key is None:
        return _compile_graph(wrapper, signature, kind, graph, "")
    name = f"{key}{wrapper.__name__}"
    # A local reference is needed, because the cache has only weak references.
    function = _compiled.get(name)
    if function is None:
        function = _compiled[name] = _compile_graph(wrapper, signature, kind, graph, name)
    return function


def called_by_library(function: Callable, signature: Any, kind: str, **options: Any) -> FunctionAt:
    """Compile a function of pointers, of the type `kind` in ``mh.h``, that the library calls."""
    # An interrupt during compilation could leave LLVM's lock acquired forever.
    with DelayedInterrupts():
        return FunctionAt(kind, cfunc(signature, error_model="numpy", **options)(function))


def looped_by_library(name: str, room: str, record: LaidOut) -> FunctionAt:
    """Library function of a record as a function of rows, which has scratch of its own."""
    address = int(library.ffi.cast("int64_t", record.at))
    loop: Callable = CFUNCTYPE(None, c_int64, c_void_p, c_void_p, c_int64, c_void_p)(
        int(library.ffi.cast("int64_t", getattr(library.load_library(), name)))
    )
    size = library.function(room)(record)

    def evaluate_rows(inputs, outputs, n):  # type: ignore[no-untyped-def]
        scratch = np.empty(size)
        loop(address, carray(inputs, 1).ctypes, carray(outputs, 1).ctypes, n, scratch.ctypes)

    compiled = called_by_library(evaluate_rows, ROW_FUNCTION, "mh_row_function")
    compiled.record = record  # type: ignore[attr-defined]
    return compiled


_ONE_AT_A_TIME = RLock()


@contextmanager
def without_reordering() -> Iterator[None]:
    """Context in which numba compiles PyTensor's operations without reordering sums.

    The first request for an operation decides how it is compiled and named on disk. PyTensor's
    configuration belongs to the process: concurrent threads could restore each other's temporary
    changes. Workers of a cluster may be threads of a single process.
    """
    with _ONE_AT_A_TIME, pytensor.config.change_flags(numba__fastmath=False):
        yield


@without_reordering()
def _compile_graph(
    wrapper: Any, signature: Any, kind: str, graph: FunctionGraph, name: str
) -> FunctionAt:
    namespace = _Namespace(len(graph.inputs), lambda: _function_of_floats(graph))
    function = FunctionType(wrapper.__code__, namespace, wrapper.__name__)
    cached = bool(name and pytensor.config.numba__cache)
    if cached:
        CACHED_SRC_FUNCTIONS[function] = name
    return called_by_library(function, signature, kind, cache=cached)


def _function_of_floats(graph: FunctionGraph) -> Any:
    python = fgraph_to_python(
        graph,
        op_conversion_fn=lambda op, node, **_: _numba_operation(node)[0],
        type_conversion_fn=lambda value, variable, **_: numba_typify(value, variable=variable),
        fgraph_name="row_function",
    )
    return numba_njit(python)


@without_reordering()
def _numba_operation(node: Node) -> tuple[Any, str | None]:
    """Numba function of an operation, and its cache key; both are the same for all its uses."""
    if isinstance(node.op, TableEntry):
        # A table belongs to a model, and is not cached beyond it.
        return numba_funcify_ensure_cache(node.op, node=node)
    types = tuple(x.type.dtype for x in (*node.inputs, *node.outputs))
    known = node.op, types
    if known not in _operations:
        _operations[known] = numba_funcify_ensure_cache(node.op, node=node)
    return _operations[known]


def _graph_key(graph: FunctionGraph) -> str | None:
    """Cache key of a graph on disk; None if one of its operations has no key."""
    places: dict[Variable, Any] = {x: (0, k) for k, x in enumerate(graph.inputs)}
    # A cached function imports the module that created it, so the key includes its name.
    lines = [__name__]
    for number, node in enumerate(graph.toposort(), start=1):
        _, operation = _numba_operation(node)
        if operation is None:
            return None
        inputs = [places[x] if x in places else _constant_value(x) for x in node.inputs]
        lines.append(f"{operation} {inputs} {[x.type.dtype for x in node.outputs]}")
        places |= {x: (number, k) for k, x in enumerate(node.outputs)}
    lines.append(f"{len(graph.inputs)} {[places[x] for x in graph.outputs]}")
    return sha256("\n".join(lines).encode()).hexdigest()


def _constant_value(variable: GraphConstant) -> str:
    return f"{variable.type} {cache_key_for_constant(variable.data)}"
