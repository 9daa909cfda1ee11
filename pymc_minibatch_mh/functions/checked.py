"""Values whose parameter check is proved at every position: the identity."""

from pytensor.scalar import basic as scalar


class Checked(scalar.Identity):
    """A parameter check, which is told from a condition that the model has by this operation."""
