"""Scalar operations that PyTensor leaves to Python in compiled graphs, or does not know at all.

Calling SciPy back for each row is thousands of times slower than the rest of an update, and holds
the interpreter lock.
"""

import inspect
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from numba import literal_unroll
from pytensor.scalar.basic import ScalarOp
from pytensor.scalar.math import PolyGamma, TriGamma

from pymc_minibatch_mh.errors import MinibatchError
from pymc_minibatch_mh.kernels import special
from pymc_minibatch_mh.likelihood.operations import OPERATIONS, Sizes

try:
    from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_and_cache_key
except OSError as error:
    raise MinibatchError(
        f"PyTensor cannot write to {error.filename!r} ({error.strerror}), where it keeps compiled "
        "graphs. Set the environment variable PYTENSOR_FLAGS='base_compiledir=FOLDER', with a "
        "folder that can be written to, before Python starts."
    ) from error


#: Operation -> its kernel, which has the operation's name.
KERNELS: dict[type[ScalarOp], Callable] = {
    PolyGamma: special.polygamma,
    TriGamma: special.trigamma,
} | {op: getattr(special, name) for name, op in OPERATIONS.items() if op is not Sizes}
#: Until this changes, PyTensor keeps what it has compiled on disk, by the name of the module.
VERSION = f"{special.__name__} {inspect.getsource(special)}"


def _dispatch(kernel: Callable) -> Callable:
    key = sha256(f"{VERSION} {kernel.__name__}".encode()).hexdigest()

    def dispatched(op: ScalarOp, node: Any = None, **_: Any) -> tuple[Callable, str]:
        return kernel, key

    return dispatched


for _op, _kernel in KERNELS.items():
    register_funcify_and_cache_key(_op)(_dispatch(_kernel))


@register_funcify_and_cache_key(Sizes)
def _sizes(op: ScalarOp, node: Any = None, **_: Any) -> tuple[Callable, str]:
    @numba_njit
    def total(*values):  # type: ignore[no-untyped-def]
        result = 0.0
        # A constant of the model's may be an integer or of single precision.
        for value in literal_unroll(values):
            result += abs(value)
        return result

    return total, sha256(f"{__name__}.sizes.2".encode()).hexdigest()
