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
    """Have PyTensor compile scalar operations to functions of numba, which are written in a module.

    PyTensor keeps what it has compiled until the module changes.
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
    special,
    {
        Log1pRatio: special.log1p_ratio,
        LogAddExp: special.log_add_exp,
        LogAny: special.log_any,
        LogErfc: special.log_erfc,
        LogSoftplus: special.log_softplus,
        ErfcSlope: special.erfc_slope,
        LogAnySlope: special.log_any_slope,
        Log1pRatioSlope: special.log1p_ratio_slope,
        GammaRatio: special.gamma_ratio,
        PolyGamma: special.polygamma,
        TriGamma: special.trigamma,
        GammaRatioSlope: special.gamma_ratio_slope,
        GammaRise: special.gamma_rise,
        GammaRiseSlope: special.gamma_rise_slope,
        ExpChange: special.exp_change,
        LogChange: special.log_change,
        Log1pChange: special.log1p_change,
        SoftplusChange: special.softplus_change,
        ProductChange: special.product_change,
        ProductDoubt: special.product_doubt,
        ProductError: special.product_error,
        ChangeDoubt: special.change_doubt,
        RelativeError: special.relative_error,
        Ratio: special.ratio,
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
