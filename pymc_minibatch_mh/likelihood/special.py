"""Scalar operations that PyTensor leaves to Python in compiled graphs, or does not know at all.

Calling SciPy back for each row is thousands of times slower than the rest of an update, and holds
the interpreter lock.
"""

import inspect
from collections.abc import Mapping
from hashlib import sha256
from types import ModuleType
from typing import Any

from pytensor.scalar.basic import ScalarOp
from pytensor.scalar.math import PolyGamma, TriGamma

from pymc_minibatch_mh.errors import MinibatchError
from pymc_minibatch_mh.kernels import exponentials, special
from pymc_minibatch_mh.likelihood.composite import (
    GammaRatio,
    Log1pRatio,
    LogAddExp,
    LogAny,
    LogErfc,
    LogSoftplus,
)

try:
    from pytensor.link.numba.dispatch.basic import register_funcify_and_cache_key
except OSError as error:
    raise MinibatchError(
        f"PyTensor cannot write to {error.filename!r} ({error.strerror}), where it keeps compiled "
        "graphs. Set the environment variable PYTENSOR_FLAGS='base_compiledir=FOLDER', with a "
        "folder that can be written to, before Python starts."
    ) from error


def compile_by(module: ModuleType, kernels: Mapping[type[ScalarOp], Any]) -> None:
    """Have PyTensor compile scalar operations to functions of numba.

    Parameters
    ----------
    module
        Where the functions are written. PyTensor keeps what it has compiled until this changes.
    kernels
        Operation -> function.
    """
    version = inspect.getsource(module)
    for op, kernel in kernels.items():
        register_funcify_and_cache_key(op)(_dispatch(kernel, f"{version} {kernel.__name__}"))


def _dispatch(kernel: Any, name: str) -> Any:
    key = sha256(name.encode()).hexdigest()

    def dispatched(op: ScalarOp, node: Any = None, **_: Any) -> tuple[Any, str]:
        return kernel, key

    return dispatched


compile_by(
    exponentials,
    {
        Log1pRatio: exponentials.log1p_ratio,
        LogAddExp: exponentials.log_add_exp,
        LogAny: exponentials.log_any,
        LogErfc: exponentials.log_erfc,
        LogSoftplus: exponentials.log_softplus,
    },
)
compile_by(
    special,
    {
        GammaRatio: special.gamma_ratio,
        PolyGamma: special.polygamma,
        TriGamma: special.trigamma,
    },
)
