"""log(exp(x) + exp(y)) of data, of which any may be -inf."""

import math

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.functions.base import operation


@compiled()
def log_add_exp_at(x, y):
    """Return log(exp(x) + exp(y)), any of which may be -inf."""
    large, small = max(x, y), min(x, y)
    if not small > -np.inf:
        return large
    return large + math.log1p(math.exp(small - large))


LogAddExp, log_add_exp = operation(log_add_exp_at, numpy=("logaddexp", 2, 1))
