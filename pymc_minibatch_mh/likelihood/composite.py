"""Scalar operations that no PyTensor operation stands for, to have bounds of their own."""

from pytensor.scalar import basic as scalar
from pytensor.scalar.basic import ScalarOp, UnaryScalarOp


class LogErfc(UnaryScalarOp):
    """log(erfc(x)), whose derivatives neither cancel nor overflow."""

    nfunc_spec = None


class GammaRatio(ScalarOp):
    """log Γ(x + y) - log Γ(x + z), whose two halves cancel for large x."""

    nin = 3
    nfunc_spec = None


log_erfc = LogErfc(scalar.upgrade_to_float, name="log_erfc")
gamma_ratio = GammaRatio(scalar.upgrade_to_float, name="gamma_ratio")
