"""Arithmetic of vectors in loops.

Numba checks the shapes of an array expression, or of one array copied onto another, by code that
can word an error: it takes longer to compile than the kernels that need the copy.
"""

import numpy as np

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
