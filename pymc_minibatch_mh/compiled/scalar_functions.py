"""Expressions of an observation, compiled to functions of floats.

An expression becomes one ``Composite`` of PyTensor, and PyTensor's dispatch converts it to numba
functions. No rewrites are applied, so that equal expressions give equal machine code in every
process, cached on disk by PyTensor.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from hashlib import sha256
from itertools import count
from threading import RLock
from types import FunctionType
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pytensor
from llvmlite import ir
from numba import cfunc, from_dtype, types
from numba.core import cgutils
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
from pytensor.scalar import basic as scalar
from pytensor.scalar.basic import Composite, ScalarOp

from pymc_minibatch_mh.expressions.graph import Apply, Argument, Constant, Expr, Lookup
from pymc_minibatch_mh.expressions.patterns import operands_first, operands_last
from pymc_minibatch_mh.functions.changes import Sizes
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


def _absolute(builder: Any, value: Any) -> Any:
    return builder.call(builder.module.declare_intrinsic("llvm.fabs", [value.type]), [value])


#: Instructions of operations on float64, as numba writes them: operands -> value.
_INSTRUCTIONS: dict[type[ScalarOp], Callable[..., Any]] = {
    scalar.Add: lambda builder, *x: reduce(builder.fadd, x),
    scalar.Mul: lambda builder, *x: reduce(builder.fmul, x),
    scalar.Sub: lambda builder, x, y: builder.fsub(x, y),
    scalar.TrueDiv: lambda builder, x, y: builder.fdiv(x, y),
    scalar.Reciprocal: lambda builder, x: builder.fdiv(x.type(1.0), x),
    scalar.Neg: lambda builder, x: builder.fneg(x),
    scalar.Sqr: lambda builder, x: builder.fmul(x, x),
    scalar.Identity: lambda _, x: x,
    Sizes: lambda builder, *x: reduce(builder.fadd, [_absolute(builder, y) for y in x]),
    scalar.GT: lambda builder, x, y: builder.fcmp_ordered(">", x, y),
    scalar.LT: lambda builder, x, y: builder.fcmp_ordered("<", x, y),
    scalar.NEQ: lambda builder, x, y: builder.fcmp_unordered("!=", x, y),
    scalar.Switch: lambda builder, condition, x, y: builder.select(condition, x, y),
}
#: Types of arguments of any number.
_STARRED = types.StarArgTuple, types.StarArgUniTuple


class _Program:
    """Instructions of a graph's operations, in order, without numba's passes over a function.

    Type inference and analysis of control flow take numba milliseconds for each operation.
    """

    def __init__(self, graph: FunctionGraph) -> None:
        self._graph = graph
        self._types: dict[Variable, Any] = dict.fromkeys(graph.inputs, types.float64)
        #: Compiled function, its type and its signature, for operations without instructions.
        self._called: dict[Node, tuple[Any, Any, Any]] = {}

    def infer_types(self, context: Any) -> None:
        """Compile the functions of all operations for the types of their operands."""
        for node in self._graph.toposort():
            for x in node.inputs:
                if x not in self._types:
                    self._types[x] = types.unliteral(context.resolve_value_type(_typified(x)))
            operands = [self._types[x] for x in node.inputs]
            self._types[node.outputs[0]] = self._result_type(context, node, operands)

    def _result_type(self, context: Any, node: Node, operands: list[Any]) -> Any:
        choice = types.boolean, types.float64, types.float64
        plain = choice if isinstance(node.op, scalar.Switch) else (types.float64,) * len(operands)
        if type(node.op) in _INSTRUCTIONS and tuple(operands) == plain:
            return from_dtype(np.dtype(node.outputs[0].type.dtype))
        compiled = _numba_operation(node)[0]
        function = context.resolve_value_type(compiled)
        signature = function.get_call_type(context, operands, {})
        # The type has a weak reference to the compiled function.
        self._called[node] = compiled, function, signature
        return signature.return_type

    def write(self, context: Any, builder: Any, numbers: Any) -> list[Any]:
        """Write instructions that take inputs at an address; return the outputs."""
        values: dict[Variable, Any] = {
            variable: builder.load(builder.gep(numbers, [context.get_constant(types.intp, k)]))
            for k, variable in enumerate(self._graph.inputs)
        }
        for node in self._graph.toposort():
            for x in node.inputs:
                if x not in values:
                    values[x] = context.get_constant_generic(builder, self._types[x], _typified(x))
            operands = [values[x] for x in node.inputs]
            values[node.outputs[0]] = self._write_operation(context, builder, node, operands)
        return [values[x] for x in self._graph.outputs]

    def _write_operation(self, context: Any, builder: Any, node: Node, operands: list[Any]) -> Any:
        if node not in self._called:
            return _INSTRUCTIONS[type(node.op)](builder, *operands)
        _, function, signature = self._called[node]
        if signature.args and isinstance(signature.args[-1], _STARRED):
            first = len(signature.args) - 1
            rest = context.make_tuple(builder, signature.args[-1], operands[first:])
            operands = [*operands[:first], rest]
        return context.get_function(function, signature)(builder, operands)


def _typified(variable: Variable) -> Any:
    return numba_typify(variable.data, variable=variable)


#: Programs that are compiled at this time, by number.
_programs: dict[int, _Program] = {}
_numbers = count()


@intrinsic
def _write_outputs(typing_context, number, inputs, outputs):  # type: ignore[no-untyped-def]
    """Write the outputs of a program for the inputs at an address to another one."""
    if not isinstance(number, types.IntegerLiteral):
        raise RequireLiteralValue("the number of a program is a constant")
    _programs[number.literal_value].infer_types(typing_context)

    def generate_code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        program = _programs[signature.args[0].literal_value]
        for k, value in enumerate(program.write(context, builder, arguments[1])):
            builder.store(value, builder.gep(arguments[2], [context.get_constant(types.intp, k)]))
        return context.get_dummy_value()

    return types.void(number, inputs, outputs), generate_code


@intrinsic
def _one_number(typing_context):  # type: ignore[no-untyped-def]
    """Address of room for a number."""

    def generate_code(context, builder, _signature, _arguments):  # type: ignore[no-untyped-def]
        return cgutils.alloca_once(builder, context.get_value_type(types.float64))

    return NUMBERS(), generate_code


@intrinsic
def _address_of(typing_context, numbers, entry):  # type: ignore[no-untyped-def]
    """Address of an entry of an array."""

    def generate_code(_context, builder, _signature, arguments):  # type: ignore[no-untyped-def]
        return builder.gep(arguments[0], [arguments[1]])

    return numbers(numbers, entry), generate_code


# Source code of wrappers: the globals of :func:`_compile_graph` define the undefined names.


def _loop_over_rows(inputs, outputs, n):  # type: ignore[no-untyped-def]
    for i in range(n):
        write_outputs(PROGRAM, address_of(inputs, i * WIDTH), address_of(outputs, i * COUNT))  # type: ignore[name-defined]  # noqa: F821


def _at_position(position, context):  # type: ignore[no-untyped-def]
    value = one_number()  # type: ignore[name-defined]  # noqa: F821
    write_outputs(PROGRAM, position, value)  # type: ignore[name-defined]  # noqa: F821
    return value[0]


_INTRINSICS = {
    "write_outputs": _write_outputs,
    "one_number": _one_number,
    "address_of": _address_of,
}
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


@intrinsic
def _call_with_scratch(typing_context, loop, record, inputs, outputs, n, size):  # type: ignore[no-untyped-def]
    """Call the function at an address with a record and scratch of some bytes, which is freed."""

    def generate_code(context, builder, _signature, arguments):  # type: ignore[no-untyped-def]
        loop, record, inputs, outputs, n, size = arguments
        scratch = context.nrt.allocate(builder, size)
        kinds = [x.type for x in (record, inputs, outputs, n, scratch)]
        kind = ir.PointerType(ir.FunctionType(ir.VoidType(), kinds))
        builder.call(builder.inttoptr(loop, kind), [record, inputs, outputs, n, scratch])
        context.nrt.free(builder, scratch)
        return context.get_dummy_value()

    number = types.int64
    return types.void(number, number, inputs, outputs, number, number), generate_code


def looped_by_library(name: str, room: str, record: LaidOut) -> FunctionAt:
    """Library function of a record as a function of rows, which has scratch of its own."""
    address = int(library.ffi.cast("int64_t", record.at))
    loop = int(library.ffi.cast("int64_t", getattr(library.load_library(), name)))
    size = library.function(room)(record) * np.dtype(np.float64).itemsize

    def evaluate_rows(inputs, outputs, n):  # type: ignore[no-untyped-def]
        _call_with_scratch(loop, address, inputs, outputs, n, size)

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
    number = next(_numbers)
    namespace = _INTRINSICS | {
        "__name__": __name__,
        "PROGRAM": number,
        "WIDTH": len(graph.inputs),
        "COUNT": len(graph.outputs),
    }
    function = FunctionType(wrapper.__code__, namespace, wrapper.__name__)
    cached = bool(name and pytensor.config.numba__cache)
    if cached:
        CACHED_SRC_FUNCTIONS[function] = name
    _programs[number] = _Program(graph)
    try:
        return called_by_library(function, signature, kind, cache=cached)
    finally:
        del _programs[number]


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
