"""Handing compiled functions to a kernel by their addresses.

A numba dispatcher has a type of its own: a kernel that takes one is compiled again for each
function that it is given, in each process. An address has not. Unlike numba's own boxing of
first-class functions, passing addresses costs no Python call per role and draw.
"""

import ctypes
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

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

    A first-class function cannot raise. This calls the function itself, as its dispatcher would.

    Parameters
    ----------
    address
        From ``address_of(function, raises=True)``.
    function_type
        Its type, which returns a float64.
    arguments : tuple
    kept : ndarray of int64
        The first entry is overwritten by the exception, for :func:`take_kept`.
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
