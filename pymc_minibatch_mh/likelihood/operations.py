"""Scalar operations: those that PyTensor has no operation for, and all of them on data."""

from collections.abc import Callable, Sequence
from functools import cache, reduce
from typing import Any

import numpy as np
from pytensor.scalar import basic as scalar
from pytensor.scalar.basic import ScalarOp
from scipy import special

#: What rounding can leave of terms that cancel, relative to the terms.
CANCELLED = 8.0 * float(np.finfo(np.float64).eps)

#: The classes below by the names of their operations, which are those of their kernels too.
OPERATIONS: dict[str, type[ScalarOp]] = {}


def _operation(name: str, nin: int, numpy: tuple | None = None) -> tuple[type[ScalarOp], ScalarOp]:
    """Make an operation of floats; pickles find its class by its name in this module."""
    title = "".join(word.capitalize() for word in name.split("_"))
    members = {"__module__": __name__, "nin": nin, "nfunc_spec": numpy}
    OPERATIONS[name] = type(title, (ScalarOp,), members)
    return OPERATIONS[name], OPERATIONS[name](scalar.upgrade_to_float, name=name)


# log(erfc(x)), whose derivatives neither cancel nor overflow, and its derivative.
LogErfc, log_erfc = _operation("log_erfc", 1)
ErfcSlope, erfc_slope = _operation("erfc_slope", 1)
# log Γ(x + y) - log Γ(x + z), whose two halves cancel for large x. Its derivative in x is called
# by its order, 1 to 3, x, y and z.
GammaRatio, gamma_ratio = _operation("gamma_ratio", 3)
GammaRatioSlope, gamma_ratio_slope = _operation("gamma_ratio_slope", 4)
# log Γ(1/x + y) - log Γ(1/x + z) + (y - z) log x, smooth down to x = 0, where it is zero.
GammaRise, gamma_rise = _operation("gamma_rise", 3)
GammaRiseSlope, gamma_rise_slope = _operation("gamma_rise_slope", 4)
# log(1 + x) / x, 1 at zero: what is left of n log(1 + x/n) once n has cancelled.
Log1pRatio, log1p_ratio = _operation("log1p_ratio", 1)
Log1pRatioSlope, log1p_ratio_slope = _operation("log1p_ratio_slope", 2)
# log(1 - exp(-exp(x))): that a Poisson count with log-mean x is not zero.
LogAny, log_any = _operation("log_any", 1)
LogAnySlope, log_any_slope = _operation("log_any_slope", 1)
# log(log(1 + exp(x))), nearly straight where x is small.
LogSoftplus, log_softplus = _operation("log_softplus", 1)
# log(exp(x) + exp(y)) of data, of which any may be -inf.
LogAddExp, log_add_exp = _operation("log_add_exp", 2, ("logaddexp", 2, 1))

# f(after) - f(before), by before, after and after - before.
ExpChange, exp_change = _operation("exp_change", 3)
LogChange, log_change = _operation("log_change", 3)
Log1pChange, log1p_change = _operation("log1p_change", 3)
SoftplusChange, softplus_change = _operation("softplus_change", 3)
# Change of a product, by before, after and step of both factors; its rounding error, by twice the
# mean, step, error and doubt of both; and that of the product, by value and error of both.
ProductChange, product_change = _operation("product_change", 6)
ProductDoubt, product_doubt = _operation("product_doubt", 8)
ProductError, product_error = _operation("product_error", 4)
# Rounding error of a function's change, by the change, its argument's step and doubt, the relative
# error of the slope, and the slope at one end.
ChangeDoubt, change_doubt = _operation("change_doubt", 5)
# Rounding error of a value, by the value and the relative error of its parts.
RelativeError, relative_error = _operation("relative_error", 2)
# |part / whole|, 0 where that has no value.
Ratio, ratio = _operation("ratio", 2)
# A sum of absolute values, of any number.
Sizes, sizes = _operation("sizes", -1)


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
