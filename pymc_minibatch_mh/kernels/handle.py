"""Records and functions that compiled code is handed by one address.

A record is a named tuple of arrays, numbers and records. Unwrapping one with twenty arrays takes
longer than an update: its words are laid out in memory once, as compiled code lays them out.

A numba dispatcher has a type of its own: a kernel that takes one is compiled again for each
function that it is given, in each process. An address has not, and costs no Python call.
"""

import ctypes
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate
from numba.extending import NativeValue, infer_getattr, intrinsic, register_model, unbox
from numba.np.arrayobj import make_array
from numba.np.numpy_support import from_dtype

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.threads import HeldBack

#: Function -> (signature, whether it raises) -> address.
_ADDRESSES: WeakKeyDictionary[Any, dict[tuple[Any, bool], int]] = WeakKeyDictionary()


def address_of(function: Any, signature: Any = None, *, raises: bool = False) -> int:
    """Return the address of a numba function, by default of its only signature.

    The caller keeps `function` alive for as long as the address is used. With `raises` it is one
    for :func:`call_keeping`, otherwise one for :func:`function_at`.
    """
    known = _ADDRESSES.setdefault(function, {})
    if (signature, raises) not in known:
        # An interrupt that comes when LLVM's lock has been taken would leave it taken for ever.
        with HeldBack():
            known[signature, raises] = _address_by_llvm(function, signature, raises)
    return known[signature, raises]


def _address_by_llvm(function: Any, signature: Any, raises: bool) -> int:
    if signature is None:
        (signature,) = function.nopython_signatures
    else:
        function.compile(signature)
    result = function.get_compile_result(signature)
    described = result.fndesc
    name = described.llvm_func_name if raises else described.llvm_cfunc_wrapper_name
    return result.library.get_pointer_to_function(name)


@intrinsic
def function_at(typing_context, address, function_type):
    """Return the first-class function of type `function_type` that lies at `address`."""
    target = function_type.instance_type
    signature = target(address, function_type)

    def generate(context, builder, _signature, arguments):
        function = cgutils.create_struct_proxy(target)(context, builder)
        pointer = ir.IntType(8).as_pointer()
        function.c_addr = builder.inttoptr(arguments[0], pointer)
        function.py_addr = ir.Constant(pointer, None)
        function.jit_addr = ir.Constant(pointer, None)
        return function._getvalue()

    return signature, generate


@intrinsic
def call_keeping(typing_context, address, function_type, arguments, kept):
    """Call the function at an address; where it raises, keep the exception and return null.

    A first-class function cannot raise: this calls the function itself, as its dispatcher would.
    The address is from ``address_of(function, raises=True)``; the function, which returns a
    float64, takes the tuple `arguments`. The first entry of `kept`, int64, is overwritten by the
    exception, for :func:`take_kept`.
    """
    called = function_type.instance_type.signature
    signature = types.float64(address, function_type, arguments, kept)

    def generate(context, builder, _signature, values):
        convention, python = context.call_conv, context.get_python_api(builder)
        layout = convention.get_function_type(called.return_type, called.args)
        function = builder.inttoptr(values[0], layout.as_pointer())
        given = cgutils.unpack_tuple(builder, values[2])
        status, returned = convention.call_function(
            builder, function, called.return_type, called.args, given
        )
        with builder.if_then(status.is_error, likely=False):
            lock = python.gil_ensure()
            convention.raise_error(builder, python, status)
            fetched = ir.FunctionType(python.pyobj, [])
            error = cgutils.get_or_insert_function(
                builder.module, fetched, "PyErr_GetRaisedException"
            )
            entries = make_array(kept)(context, builder, values[3]).data
            builder.store(builder.ptrtoint(builder.call(error, []), ir.IntType(64)), entries)
            python.gil_release(lock)
        return returned

    return signature, generate


def take_kept(kept: np.ndarray) -> BaseException:
    """Return the exception that :func:`call_keeping` has kept, and keep it no longer."""
    held = ctypes.cast(int(kept[0]), ctypes.py_object)
    kept[0] = 0
    error: BaseException = held.value
    ctypes.pythonapi.Py_DecRef(held)
    return error


#: Classes of records within others that are read by their address as well.
_LENT: set[type] = set()


def lent(record: type) -> type:
    """Have a record within another read by its address."""
    _LENT.add(record)
    return record


class Handle(types.Type):
    """Type of the address of a record, whose numba type is `record`.

    Its attributes are the fields of the record, which are loaded one by one: a record as a whole
    takes a compiler as long as the rest of most functions.
    """

    def __init__(self, record: types.Type) -> None:
        self.record = record
        super().__init__(name=f"Handle({record})")

    @property
    def key(self) -> types.Type:
        """Identity of the handle: two classes of records may have one name."""
        return self.record

    def field(self, name: str) -> types.Type:
        """Return the type of a field: a handle, of a record that is lent."""
        found = self.record.types[self.record.fields.index(name)]
        by_address = isinstance(found, types.NamedTuple) and found.instance_class in _LENT
        return Handle(found) if by_address else found


@register_model(Handle)
class _HandleModel(models.PrimitiveModel):
    def __init__(self, manager: Any, handle: Handle) -> None:
        super().__init__(manager, handle, ir.IntType(64))


@unbox(Handle)
def _unbox(handle, value, context):
    address = context.pyapi.long_as_longlong(value)
    failed = cgutils.is_not_null(context.builder, context.pyapi.err_occurred())
    return NativeValue(address, is_error=failed)


def _without_owners(context: Any, builder: Any, typed: types.Type, value: Any) -> Any:
    """Tell the compiler that nobody owns the arrays of a record: it then counts no owners."""
    if isinstance(typed, types.BaseNamedTuple):
        for k, part in enumerate(typed):
            within = builder.extract_value(value, k)
            value = builder.insert_value(value, _without_owners(context, builder, part, within), k)
    elif isinstance(typed, types.Array):
        array = make_array(typed)(context, builder, value)
        array.meminfo = ir.Constant(array.meminfo.type, None)
        array.parent = ir.Constant(array.parent.type, None)
        return array._getvalue()
    return value


def _borrowed(context: Any, builder: Any, typed: types.Type, pointer: Any) -> Any:
    """Load a value whose words nothing that is compiled writes: loads may leave a loop."""
    made = len(builder.block.instructions)
    loaded = context.data_model_manager[typed].load_from_data_pointer(builder, pointer)
    for instruction in builder.block.instructions[made:]:
        if instruction.opname == "load":
            instruction.set_metadata("invariant.load", builder.module.add_metadata([]))
    return _without_owners(context, builder, typed, loaded)


@infer_getattr
class _Fields(AttributeTemplate):
    key = Handle

    def generic_resolve(self, handle: Handle, name: str) -> types.Type | None:
        """Return the type of a field of the record, None where there is none of that name."""
        return handle.field(name) if name in handle.record.fields else None


@lower_getattr_generic(Handle)
def _field(context, builder, handle, address, name):
    record = context.data_model_manager[handle.record].get_data_type().as_pointer()
    place, typed = handle.record.fields.index(name), handle.field(name)
    pointer = cgutils.gep_inbounds(builder, builder.inttoptr(address, record), 0, place)
    if isinstance(typed, Handle):
        return builder.ptrtoint(pointer, ir.IntType(64))
    return _borrowed(context, builder, typed, pointer)


@intrinsic
def record_at(typing_context, handle):
    """Return the record that lies at a handle as a whole. Its arrays are borrowed."""
    signature = handle.record(handle)

    def generate(context, builder, _signature, arguments):
        model = context.data_model_manager[handle.record]
        pointer = builder.inttoptr(arguments[0], model.get_data_type().as_pointer())
        return _borrowed(context, builder, handle.record, pointer)

    return signature, generate


@intrinsic
def address_in(typing_context, handle):
    """Return the address that a handle is."""

    def generate(context, builder, _signature, arguments):
        return arguments[0]

    return types.int64(handle), generate


def record_type(record: Any) -> types.Type:
    """Return the numba type of a record, the same whether or not its arrays can be written to.

    Raises a TypeError if an array is not contiguous, or a number neither int nor float: their words
    would be taken for others.
    """
    if isinstance(record, tuple):
        return types.NamedTuple([record_type(part) for part in record], type(record))
    if isinstance(record, np.ndarray):
        if not record.flags.c_contiguous:
            raise TypeError("an array of a record is not C-contiguous")
        return types.Array(from_dtype(record.dtype), record.ndim, "C")
    for python, scalar in ((float, types.float64), (int, types.int64)):
        if type(record) is python:
            return scalar
    raise TypeError(f"a record holds a {type(record).__name__}, which is no part of one")


def _words(record: Any) -> Iterator[int]:
    if isinstance(record, tuple):
        for part in record:
            yield from _words(part)
    elif isinstance(record, np.ndarray):
        # Nobody owns the array on the compiled side: two empty pointers stand for owners.
        yield from (0, 0, record.size, record.itemsize, record.__array_interface__["data"][0])
        yield from record.shape
        yield from record.strides
    elif isinstance(record, float):
        yield int(np.float64(record).view(np.int64))
    else:
        yield record


class LinkedRecord:
    """A record laid out for compiled code, and kernels that take it.

    Compiled code sees the arrays of the record themselves, and its numbers as they are now. The
    record and the arrays at its addresses, `keeps`, are kept alive.
    """

    def __init__(self, record: Any, keeps: Any = None) -> None:
        self.record = record
        self.keeps = keeps
        self.type = record_type(record)
        self._laid_out = np.fromiter(_words(record), dtype=np.int64)
        self.address = int(self._laid_out.ctypes.data)
        self._entries: dict[Any, Callable[..., Any]] = {}

    def entry(self, kernel: Any, *others: types.Type) -> Callable[..., Any]:
        """Return a kernel compiled for records of this type, which is called with an address.

        Callers keep to the types of the other arguments, which nothing checks any more.
        """
        if kernel not in self._entries:
            signature = (Handle(self.type), *others)
            specialised = self._specialised(kernel)
            specialised.compile(signature)
            self._entries[kernel] = specialised.overloads[signature].entry_point
        return self._entries[kernel]

    def function(self, kernel: Any, returns: types.Type, *others: types.Type) -> int:
        """Return the address of a kernel compiled for records of this type."""
        specialised = self._specialised(kernel)
        return address_of(specialised, returns(Handle(self.type), *others))

    def _specialised(self, kernel: Any) -> Any:
        return kernel if _is_own(self.record) else _compiled_anew(kernel)


def _is_own(record: Any) -> bool:
    """Whether all classes of a record are the package's, so that every process knows them."""
    if not isinstance(record, tuple):
        return True
    own = type(record) is tuple or type(record).__module__.startswith("pymc_minibatch_mh.")
    return own and all(map(_is_own, record))


@cache
def _compiled_anew(kernel: Any) -> Any:
    """Return a kernel that this process keeps to itself."""
    return compiled(kept=False)(kernel.py_func)
