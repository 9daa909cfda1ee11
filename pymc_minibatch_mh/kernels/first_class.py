"""Handing compiled functions to a kernel by their addresses.

A numba dispatcher has a type of its own: a kernel that takes one is compiled again for each
function that it is given, in each process. An address has not. Unlike numba's own boxing of
first-class functions, passing addresses costs no Python call per role and draw.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic


def address_of(function: Any, signature: Any = None) -> int:
    """Return the address of a numba function, by default of its only signature.

    The caller keeps `function` alive for as long as the address is used.
    """
    if signature is None:
        (signature,) = function.nopython_signatures
    result = function.get_compile_result(signature)
    return result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name)


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
