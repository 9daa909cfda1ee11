"""Handing a NumPy generator to a kernel by the addresses of its bit generator.

Numba unwraps a ``numpy.random.Generator`` in 8 µs, on every call; four addresses take none. The
stream of random numbers is the same.
"""

import ctypes

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from pymc_minibatch_mh.kernels.signatures import GENERATOR


def generator_addresses(rng: np.random.Generator) -> np.ndarray:
    """Return the addresses of the bit generator's state and of its three functions, int64.

    The caller keeps `rng` alive for as long as the addresses are used.
    """
    interface = rng.bit_generator.ctypes
    functions = (interface.next_double, interface.next_uint64, interface.next_uint32)
    addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in functions]
    return np.array([interface.state_address, *addresses], dtype=np.int64)


@intrinsic
def generator_at(typing_context, state, next_double, next_uint64, next_uint32):
    """Return the generator whose bit generator lies at these addresses."""
    signature = GENERATOR(*[types.int64] * 4)

    def generate(context, builder, _signature, arguments):
        bits = cgutils.create_struct_proxy(types.NumPyRandomBitGeneratorType("bit_generator"))(
            context, builder
        )
        bits.state_address = bits.state = arguments[0]
        bits.fnptr_next_double = arguments[1]
        bits.fnptr_next_uint64 = arguments[2]
        bits.fnptr_next_uint32 = arguments[3]
        generator = cgutils.create_struct_proxy(GENERATOR)(context, builder)
        generator.bit_generator = bits._getvalue()
        # Nothing is owned: the Python object outlives the call.
        pointer = context.get_value_type(types.pyobject)
        bits.parent = generator.parent = ir.Constant(pointer, None)
        generator.meminfo = ir.Constant(cgutils.voidptr_t, None)
        return generator._getvalue()

    return signature, generate
