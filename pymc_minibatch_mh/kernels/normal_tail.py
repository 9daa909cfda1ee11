"""Standard normal numbers above a bound: how likely they are, and draws of them."""

import math

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.functions.log_erfc import log_erfc_at

# From this bound on, an exponential draw is kept more often than a normal one.
_EXPONENTIAL_FROM = 0.5
_HALF, _ROOT = math.log(0.5), math.sqrt(0.5)


@compiled()
def log_share_above(bound):
    """Return the logarithm of the chance that a standard normal number exceeds a bound."""
    return _HALF + log_erfc_at(_ROOT * bound)


@compiled()
def normal_above(bound, rng):
    """Draw a standard normal number that exceeds a bound: Robert (1995), doi:10.1007/BF00143942."""
    if not bound > _EXPONENTIAL_FROM:
        draw = rng.standard_normal()
        while not draw > bound:
            draw = rng.standard_normal()
        return draw
    rate = 0.5 * (bound + math.sqrt(bound * bound + 4.0))
    while True:
        draw = bound + rng.standard_exponential() / rate
        if rng.random() <= math.exp(-0.5 * (draw - rate) ** 2):
            return draw
