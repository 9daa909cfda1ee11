"""Parameter checks that are proved at every position: the identity."""

from pytensor.scalar import basic as scalar


class Checked(scalar.Identity):
    """Identity that marks a parameter check, to distinguish it from conditions of the model."""
