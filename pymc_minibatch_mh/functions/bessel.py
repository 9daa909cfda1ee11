"""Modified Bessel functions scaled by exp(-|x|)."""

from pymc.distributions.dist_math import I1e, i0e_scalar
from pytensor.scalar import basic as scalar

from pymc_minibatch_mh.functions.base import SLOPES

# The derivative of that of order 0 is known to PyMC.
SLOPES[I1e] = lambda x, value: i0e_scalar(x) - value * (scalar.reciprocal(x) + scalar.sign(x))
