"""The function log Σ exp(x_k) of many numbers, some of which may be -inf: a sum over states."""

import math
from collections.abc import Sequence

import numpy as np
from pytensor.graph.basic import Variable
from pytensor.scalar import basic as scalar

from pymc_minibatch_mh._jit import compile_by_numba
from pymc_minibatch_mh.functions.base import Function, register_kernel


@compile_by_numba()
def log_sum_exp_at(*values):
    """Function log Σ exp(x_k), -inf if all numbers are."""
    largest = -np.inf
    for x in values:
        largest = max(largest, x)
    if not largest > -np.inf:
        return largest
    total = 0.0
    for x in values:
        total += math.exp(x - largest)
    return largest + math.log(total)


class LogSumExp(Function):
    """Operation log Σ exp(x_k); its derivatives are the shares exp(x_k) / Σ exp(x_l)."""

    nin = -1
    kernel = staticmethod(log_sum_exp_at)

    def pullback(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence
    ) -> list[Variable]:
        """Derivatives for PyTensor's automatic differentiation."""
        return [cotangents[0] * scalar.exp(x - outputs[0]) for x in inputs]


register_kernel(LogSumExp, log_sum_exp_at)
log_sum_exp = LogSumExp(scalar.upgrade_to_float, name="log_sum_exp")
