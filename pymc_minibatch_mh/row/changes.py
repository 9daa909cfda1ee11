"""Scalar operations for differences of functions at two points, and for their rounding errors."""

from collections.abc import Callable
from hashlib import sha256
from typing import Any

from numba import literal_unroll
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_and_cache_key
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from pytensor.scalar.basic import ScalarOp

from pymc_minibatch_mh.kernels import changes
from pymc_minibatch_mh.likelihood.special import compile_by


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
