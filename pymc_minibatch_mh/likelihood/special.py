"""Special functions that derivatives need and PyTensor leaves to Python in compiled graphs.

Second derivatives of a log-density with a gamma function (negative binomial, Gamma, Beta, a
Student-t with free ν) hold the trigamma function. Calling SciPy back for each row is thousands of
times slower than the rest of an update, and holds the interpreter lock.
"""

from hashlib import sha256
from typing import Any

from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_and_cache_key
from pytensor.scalar.math import TriGamma

from pymc_minibatch_mh.kernels.special import trigamma


@register_funcify_and_cache_key(TriGamma)
def _trigamma_in_numba(op: TriGamma, node: Any = None, **_: Any) -> tuple[Any, str]:
    @numba_njit
    def tri_gamma(x: float) -> float:
        return trigamma(float(x))

    return tri_gamma, sha256(f"{__name__}.trigamma.1".encode()).hexdigest()
