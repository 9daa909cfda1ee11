"""Scalar operations for differences of functions at two points, and for their rounding errors."""

from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from pytensor.scalar.basic import ScalarOp


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
