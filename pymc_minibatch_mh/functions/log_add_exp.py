"""The function log(exp(x) + exp(y)) of data, which may be -inf."""

import math

import numpy as np

from pymc_minibatch_mh._jit import compile_by_numba
from pymc_minibatch_mh.functions.base import make_operation


@compile_by_numba()
def log_add_exp_at(x, y):
    """Function log(exp(x) + exp(y)), for arguments that may be -inf."""
    large, small = max(x, y), min(x, y)
    if not small > -np.inf:
        return large
    return large + math.log1p(math.exp(small - large))


LogAddExp, log_add_exp = make_operation(log_add_exp_at, numpy=("logaddexp", 2, 1))
