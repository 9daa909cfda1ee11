"""Where a posterior rises, for moves that drift: a gradient that need not be exact.

A move that drifts by any function of a position, and counts it in its density both there and back,
is reversible. What is left out of the gradient, or rounded, costs acceptance and nothing else.
"""

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels.batch import rows_gradient
from pymc_minibatch_mh.kernels.posterior import log_prior

#: Half of the distance that slopes of the prior part are taken over, in posterior standard
#: deviations: what is lost to its bends and what is lost to rounding are both below 1e-5.
PRIOR_STEP = 1e-3


@compiled(inlined=True)
def rise(posterior, rows, position, out):
    """Write an estimate of the gradient of the tempered log-density.

    Parameters
    ----------
    posterior : Posterior
    rows : Batch
        Rows that the gradient of the log-likelihood is estimated from. With none it is that of the
        control variates, β [G + H(θ - θ̂)], which reads no row.
    position : ndarray, shape (d,)
        θ.
    out : ndarray, shape (d,)
        Overwritten; entries of coordinates that are not moved are without the prior part.
    """
    surrogate, size = posterior.surrogate, position.size
    if rows.drawn.size > 0:
        rows_gradient(rows, position, out)
    else:
        for i in range(size):
            total = surrogate.gradient[i]
            for j in range(size):
                total += surrogate.hessian[i, j] * (position[j] - surrogate.centre[j])
            out[i] = surrogate.inverse_temperature * total
    place = np.empty(size)
    for i in range(size):
        place[i] = position[i]
    for i in range(surrogate.first, size):
        square = 0.0
        for j in range(i + 1):
            square += surrogate.factor[i, j] * surrogate.factor[i, j]
        step = PRIOR_STEP * np.sqrt(square)
        place[i] = position[i] + step
        above = log_prior(posterior, place)
        place[i] = position[i] - step
        slope = (above - log_prior(posterior, place)) / (2.0 * step)
        place[i] = position[i]
        # At the end of a support there is no slope, and none is needed.
        if np.isfinite(slope):
            out[i] += slope
