"""Scalar operations: those that PyTensor has no operation for, and all of them on data.

Scalar operations of which derivatives of row functions are made.

The derivatives of functions that simplification makes out of several operations are operations of
their own where the closed form would cancel or overflow.
"""

from collections.abc import Callable, Sequence
from functools import cache, reduce
from typing import Any

import numpy as np
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from pytensor.scalar.basic import ScalarOp, UnaryScalarOp
from scipy import special

#: What rounding can leave of terms that cancel, relative to the terms.
CANCELLED = 8.0 * float(np.finfo(np.float64).eps)


class LogErfc(UnaryScalarOp):
    """log(erfc(x)), whose derivatives neither cancel nor overflow."""

    nfunc_spec = None


class GammaRatio(ScalarOp):
    """log Γ(x + y) - log Γ(x + z), whose two halves cancel for large x."""

    nin = 3
    nfunc_spec = None


class GammaRise(ScalarOp):
    """log Γ(1/x + y) - log Γ(1/x + z) + (y - z) log x, smooth down to x = 0, where it is zero."""

    nin = 3
    nfunc_spec = None


class Log1pRatio(UnaryScalarOp):
    """log(1 + x) / x, 1 at zero: what is left of n log(1 + x/n) once n has cancelled."""

    nfunc_spec = None


class LogAny(UnaryScalarOp):
    """log(1 - exp(-exp(x))): that a Poisson count with log-mean x is not zero."""

    nfunc_spec = None


class LogSoftplus(UnaryScalarOp):
    """log(log(1 + exp(x))), nearly straight where x is small."""

    nfunc_spec = None


class LogAddExp(ScalarOp):
    """log(exp(x) + exp(y)) of data, of which any may be -inf."""

    nin = 2
    nfunc_spec = ("logaddexp", 2, 1)


log_erfc = LogErfc(scalar.upgrade_to_float, name="log_erfc")
gamma_rise = GammaRise(scalar.upgrade_to_float, name="gamma_rise")
gamma_ratio = GammaRatio(scalar.upgrade_to_float, name="gamma_ratio")
log1p_ratio = Log1pRatio(scalar.upgrade_to_float, name="log1p_ratio")
log_any = LogAny(scalar.upgrade_to_float, name="log_any")
log_softplus = LogSoftplus(scalar.upgrade_to_float, name="log_softplus")
log_add_exp = LogAddExp(scalar.upgrade_to_float, name="log_add_exp")


@cache
def output_type(op: ScalarOp, *dtypes: np.dtype) -> np.dtype:
    """Return the type that PyTensor computes a scalar operation in."""
    operands = [scalar.get_scalar_type(dtype.name)() for dtype in dtypes]
    return np.dtype(op.make_node(*operands).outputs[0].type.dtype)


def numpy_of(op: ScalarOp) -> Callable[..., np.ndarray]:
    """Return a scalar operation on data as a function of arrays, in PyTensor's types.

    NumPy alone would have ``exp`` of int8 in float16.
    """
    plain = _plain(op)

    def function(*values: Any) -> np.ndarray:
        arrays = [np.asarray(value) for value in values]
        dtype = output_type(op, *(array.dtype for array in arrays))
        if dtype.kind == "f" and not isinstance(op, scalar.Switch | scalar.Cast):
            arrays = [array.astype(dtype, copy=False) for array in arrays]
        return np.asarray(plain(*arrays)).astype(dtype, copy=False)

    return function


def _plain(op: ScalarOp) -> Callable[..., np.ndarray]:
    if isinstance(op, scalar.Cast | scalar.Identity):
        return np.asarray
    if isinstance(op, scalar.Second):
        return lambda x, y: np.broadcast_arrays(x, y)[1]
    if isinstance(op, scalar.Add | scalar.Mul):
        combine = np.add if isinstance(op, scalar.Add) else np.multiply
        return lambda *values: reduce(combine, values)
    if isinstance(op, scalar.Clip):
        return np.clip
    spec = getattr(op, "nfunc_spec", None)
    if spec is None:
        return np.vectorize(op.impl)
    *path, name = spec[0].split(".")
    return getattr(special if path[:1] == ["scipy"] else np, name)


def sum_of(numbers: Sequence[float]) -> float:
    """Return a sum, zero where only rounding errors are left, as of 0.1 + 0.2 - 0.3."""
    total = sum(numbers)
    return 0.0 if abs(total) <= CANCELLED * sum(map(abs, numbers)) else total


class ErfcSlope(ScalarOp):
    """Derivative of log(erfc(x))."""

    nin = 1


class LogAnySlope(ScalarOp):
    """Derivative of log(1 - exp(-exp(x)))."""

    nin = 1


class Log1pRatioSlope(ScalarOp):
    """Derivative of log(1 + x)/x, by its order, 1 to 3, and x."""

    nin = 2


class GammaRiseSlope(ScalarOp):
    """Derivative in x of :class:`GammaRise`, by its order, 1 to 3, x, y and z."""

    nin = 4


class GammaRatioSlope(ScalarOp):
    """Derivative in x of log Γ(x + y) - log Γ(x + z), by its order, 1 to 3, x, y and z."""

    nin = 4


erfc_slope = ErfcSlope(scalar.upgrade_to_float, name="erfc_slope")
log_any_slope = LogAnySlope(scalar.upgrade_to_float, name="log_any_slope")
log1p_ratio_slope = Log1pRatioSlope(scalar.upgrade_to_float, name="log1p_ratio_slope")
gamma_rise_slope = GammaRiseSlope(scalar.upgrade_to_float, name="gamma_rise_slope")
gamma_ratio_slope = GammaRatioSlope(scalar.upgrade_to_float, name="gamma_ratio_slope")


class ExpChange(ScalarOp):
    """exp(after) - exp(before), by before, after and after - before."""

    nin = 3


class LogChange(ScalarOp):
    """log(after) - log(before), by before, after and after - before."""

    nin = 3


class Log1pChange(ScalarOp):
    """log(1 + after) - log(1 + before), by before, after and after - before."""

    nin = 3


class SoftplusChange(ScalarOp):
    """softplus(after) - softplus(before), by before, after and after - before."""

    nin = 3


class ProductChange(ScalarOp):
    """Change of a product, by before, after and step of both factors."""

    nin = 6


class ProductDoubt(ScalarOp):
    """Rounding error of that, by twice the mean, step, error and doubt of both factors."""

    nin = 8


class ProductError(ScalarOp):
    """Rounding error of a product, by value and error of both factors."""

    nin = 4


class ChangeDoubt(ScalarOp):
    """Rounding error of a function's change, by the change and its argument's step and doubt.

    Then follow the relative error of the slope, and the slope at one end.
    """

    nin = 5


class RelativeError(ScalarOp):
    """Rounding error of a value, by the value and the relative error of what it is made of."""

    nin = 2


class Ratio(ScalarOp):
    """|part / whole|, 0 where that has no value."""

    nin = 2


class Sizes(ScalarOp):
    """A sum of absolute values."""


def _real(op: type[ScalarOp]) -> ScalarOp:
    return op(scalar.upgrade_to_float, name=op.__name__)


#: Operation -> its difference without cancellation.
CHANGE_OF: dict[type[ScalarOp], ScalarOp] = {
    scalar.Exp: _real(ExpChange),
    scalar.Log: _real(LogChange),
    scalar.Log1p: _real(Log1pChange),
    scalar_math.Softplus: _real(SoftplusChange),
}
product_change, product_doubt = _real(ProductChange), _real(ProductDoubt)
product_error, change_doubt = _real(ProductError), _real(ChangeDoubt)
relative_error, ratio, sizes = _real(RelativeError), _real(Ratio), _real(Sizes)
