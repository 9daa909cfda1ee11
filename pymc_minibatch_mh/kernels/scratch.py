"""Arrays that a kernel works with and forgets, on its stack where they are small.

Numba counts who holds an array, by operations that wait for other cores, wherever one is handed
on or sliced: for a single row they take longer than its arithmetic. An array on the stack has
nobody to count.
"""

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic

#: Bytes of an array that may lie on the stack.
ON_STACK = 8192
#: What vector instructions like best.
_ALIGNMENT = 64


def _array_at(memory, shape, dtype):
    array = carray(memory, shape, dtype)
    return array if array.nbytes <= ON_STACK else np.empty(shape, dtype)


@intrinsic
def scratch(typing_context, shape, dtype):  # numba fixes the names and forbids annotations here
    """Return an array of a shape and a type whose entries are undefined, for one call.

    It must not outlive the function that asks for it: hand it on, and never return it. Asked for
    again at the same place, as in a loop, it is the same memory.
    """
    n_dimensions = shape.count if isinstance(shape, types.UniTuple) else 1
    array = types.Array(dtype.dtype, n_dimensions, "C")

    def generate(context, builder, signature, arguments):
        with builder.goto_entry_block():
            memory = builder.alloca(ir.ArrayType(ir.IntType(8), ON_STACK))
        memory.align = _ALIGNMENT
        pointer = builder.bitcast(memory, cgutils.voidptr_t)
        inner = array(types.voidptr, *signature.args)
        return context.compile_internal(builder, _array_at, inner, [pointer, *arguments])

    return array(shape, dtype), generate
