"""Normal distribution of effects given their scales, with a marginal distribution of the scales.

Scales φ = φ₀ + A z, and the rest x = m(z) + W(z)⁻¹ w: see scale_conditional.c.
"""

from pymc_minibatch_mh.native.library import record_of


class ScaleConditional(record_of("mh_scale_conditional")):  # type: ignore[misc]
    """Tables of the distribution: ``mh_scale_conditional`` has the shapes.

    They only affect acceptance rates, never exactness.
    """

    @property
    def n_normal_knots(self) -> int:
        """Number of knots of u."""
        return self.points.shape[1]

    @property
    def n_knots(self) -> int:
        """Number of knots of z."""
        return self.means.shape[1]
