"""Arithmetic of vectors in loops, and small arrays on the stack.

Numba checks the shapes of an array expression, or of one array copied onto another, by code that
can word an error: it takes longer to compile than the kernels that need the copy.

Numba counts who holds an array, by operations that wait for other cores, wherever one is handed
on or sliced: for a single row they take longer than its arithmetic. An array on the stack has
nobody to count.
"""

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic

from pymc_minibatch_mh._jit import compiled


@compiled(inlined=True)
def copy_to(target, source):
    """Overwrite a vector with another."""
    for i in range(target.size):
        target[i] = source[i]


@compiled()
def shifted(vector, step, times):
    """Return a vector plus another times a number."""
    out = np.empty(vector.size)
    for i in range(vector.size):
        out[i] = vector[i] + times * step[i]
    return out


@compiled(reassociate=True)
def add_multiple(target, source, times):
    """Add a vector times a number to another."""
    for i in range(target.size):
        target[i] += times * source[i]


@compiled(reassociate=True, inlined=True)
def inner(one, other):
    """Return the inner product of two vectors."""
    total = 0.0
    for i in range(one.size):
        total += one[i] * other[i]
    return total


@compiled(reassociate=True, inlined=True)
def inner_of_line(matrix, line, vector, start, stop):
    """Return the inner product of a part of a line of a matrix and of the same part of a vector.

    A slice would count references, which takes longer than a short product.
    """
    total = 0.0
    # Unsigned, so that the compiler knows that no index is negative.
    for j in range(np.uint64(start), np.uint64(stop)):
        total += matrix[line, j] * vector[j]
    return total


#: Numbers whose product has its logarithm taken at once, and the products that are not exact.
_TOGETHER, _LEAST, _MOST = 8, 1e-290, 1e290


@compiled()
def sum_of_logs(values, start, stop):
    """Return the sum of the logarithms of a part of a vector, of which few are taken."""
    total = 0.0
    for first in range(np.uint64(start), np.uint64(stop), np.uint64(_TOGETHER)):
        last, product = min(first + np.uint64(_TOGETHER), np.uint64(stop)), 1.0
        for j in range(first, last):
            product *= values[j]
        if _LEAST < product < _MOST:
            total += np.log(product)
        else:
            for j in range(first, last):
                total += np.log(values[j])
    return total


@compiled(reassociate=True, inlined=True)
def inner_by(matrix, one, other):
    """Return the inner product of two vectors by a square matrix."""
    total = 0.0
    for i in range(np.uint64(one.size)):
        line = 0.0
        for j in range(np.uint64(other.size)):
            line += matrix[i, j] * other[j]
        total += one[i] * line
    return total


#: Bytes of an array that may lie on the stack.
ON_STACK = 8192
#: Alignment of vector instructions.
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
