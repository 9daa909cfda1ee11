"""The function log Σ exp(x_k) of many numbers, some of which may be -inf: a sum over states."""

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np
from pytensor.graph.basic import Variable
from pytensor.scalar import basic as scalar

from pymc_minibatch_mh._jit import compile_by_numba
from pymc_minibatch_mh.functions.base import (
    Function,
    register_array_function,
    register_kernel,
)


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


def log_sum_exp_of(*values: np.ndarray) -> np.ndarray:
    """The function of arrays; NumPy's own loop over the kernel takes 63 operands at most."""
    largest = reduce(np.maximum, values)
    shift = np.where(largest > -np.inf, largest, 0.0)
    with np.errstate(divide="ignore"):
        return shift + np.log(sum(np.exp(x - shift) for x in values))


register_kernel(LogSumExp, log_sum_exp_at)
register_array_function(LogSumExp, log_sum_exp_of)
log_sum_exp = LogSumExp(scalar.upgrade_to_float, name="log_sum_exp")
