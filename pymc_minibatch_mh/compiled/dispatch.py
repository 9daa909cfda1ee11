"""Scalar operations that PyTensor leaves to Python in compiled graphs, or does not know at all.

Calling SciPy back for each row is thousands of times slower than the rest of an update, and holds
the interpreter lock.
"""

import inspect
from collections.abc import Callable, Mapping
from hashlib import sha256
from types import ModuleType
from typing import Any

from numba import literal_unroll
from pytensor.scalar.basic import ScalarOp
from pytensor.scalar.math import PolyGamma, TriGamma

from pymc_minibatch_mh.errors import MinibatchError
from pymc_minibatch_mh.kernels import special
from pymc_minibatch_mh.kernels import special as changes
from pymc_minibatch_mh.kernels import special as exponentials
from pymc_minibatch_mh.kernels import special as rises
from pymc_minibatch_mh.likelihood.operations import (
    ChangeDoubt,
    ErfcSlope,
    ExpChange,
    GammaRatio,
    GammaRatioSlope,
    GammaRise,
    GammaRiseSlope,
    Log1pChange,
    Log1pRatio,
    Log1pRatioSlope,
    LogAddExp,
    LogAny,
    LogAnySlope,
    LogChange,
    LogErfc,
    LogSoftplus,
    ProductChange,
    ProductDoubt,
    ProductError,
    Ratio,
    RelativeError,
    Sizes,
    SoftplusChange,
)

try:
    from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_and_cache_key
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
    # What is kept on disk imports the module that it was made in, by its name.
    version = f"{module.__name__} {inspect.getsource(module)}"
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
        ErfcSlope: exponentials.erfc_slope,
        LogAnySlope: exponentials.log_any_slope,
        Log1pRatioSlope: exponentials.log1p_ratio_slope,
    },
)

compile_by(
    special,
    {
        GammaRatio: special.gamma_ratio,
        PolyGamma: special.polygamma,
        TriGamma: special.trigamma,
        GammaRatioSlope: special.gamma_ratio_slope,
    },
)

compile_by(
    rises,
    {
        GammaRise: rises.gamma_rise,
        GammaRiseSlope: rises.gamma_rise_slope,
    },
)

compile_by(
    changes,
    {
        ExpChange: changes.exp_change,
        LogChange: changes.log_change,
        Log1pChange: changes.log1p_change,
        SoftplusChange: changes.softplus_change,
        ProductChange: changes.product_change,
        ProductDoubt: changes.product_doubt,
        ProductError: changes.product_error,
        ChangeDoubt: changes.change_doubt,
        RelativeError: changes.relative_error,
        Ratio: changes.ratio,
    },
)


@register_funcify_and_cache_key(Sizes)
def _sizes(op: Sizes, node: Any = None, **_: Any) -> tuple[Callable, str]:
    @numba_njit
    def total(*values):  # type: ignore[no-untyped-def]
        result = 0.0
        # A constant of the model's may be an integer or of single precision.
        for value in literal_unroll(values):
            result += abs(value)
        return result

    return total, sha256(f"{__name__}.sizes.2".encode()).hexdigest()
