"""Scalar operations of which derivatives of row functions are made.

The derivatives of functions that simplification makes out of several operations are operations of
their own where the closed form would cancel or overflow.
"""

from pytensor.scalar import basic as scalar
from pytensor.scalar.basic import ScalarOp


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
