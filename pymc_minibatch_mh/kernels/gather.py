"""Reading rows of arrays that a compiled function knows by their address alone."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def load(typing_context, address, dtype):  # numba fixes the names and forbids annotations here
    """Read one scalar of type `dtype` at `address` (int64).

    Numba arrays carry their layout in their type, which would compile every kernel anew for every
    model. An address and strides do not.
    """
    scalar = dtype.dtype
    signature = scalar(types.int64, dtype)

    def generate(context, builder, _signature, arguments):
        stored = context.get_data_type(scalar)
        pointer = builder.inttoptr(arguments[0], ir.PointerType(stored))
        return context.unpack_value(builder, scalar, pointer)

    return signature, generate
