"""Identity that replaces parameter checks which provably hold at every position."""

from pytensor.scalar import basic as scalar


class Checked(scalar.Identity):
    """Identity that marks a parameter check, to distinguish it from conditions of the model."""
