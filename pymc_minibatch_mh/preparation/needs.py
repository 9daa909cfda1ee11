"""What a method needs of passes over all rows."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pymc_minibatch_mh.bounds.user_bounds import Bounds
from pymc_minibatch_mh.bounds.user_ranges import Ranges

GivenBounds = Bounds | Callable[[dict[str, np.ndarray]], Bounds]
GivenRanges = Ranges | Callable[[dict[str, np.ndarray]], Ranges]


@dataclass(frozen=True, eq=False)
class Needs:
    """What a method needs to know of all rows before it subsamples them.

    Parameters
    ----------
    calibration
        How large the remainders of rows are, to choose batches by.
    heavy
        Which rows a batch that is drawn from all alike would hardly ever contain, though they
        matter: they are read at every update, and calibrated are the others.
    derived_bounds
        Bounds of all rows, derived from the model.
    given_bounds
        Bounds of a user, in the place of derived ones.
    touching
        ξ, where quadratic lower bounds of rows touch them; None for none.
    derived_ranges, given_ranges
        The same for the ranges of log-likelihoods over the whole space.
    in_memory
        Rows that are found again by their numbers, or drawn otherwise than by bounds.
    """

    calibration: bool = False
    heavy: bool = False
    derived_bounds: bool = False
    given_bounds: GivenBounds | None = None
    touching: float | None = None
    derived_ranges: bool = False
    given_ranges: GivenRanges | None = None
    in_memory: bool = False

    @property
    def only_derived_bounds(self) -> bool:
        """Whether derived bounds are all that is needed, and rows are drawn by them."""
        others = self.calibration, self.heavy, self.given, self.ranges, self.in_memory
        return self.derived_bounds and self.touching is None and not any(others)

    @property
    def only_batches(self) -> bool:
        """Whether rows are drawn evenly, for batches whose noise was measured."""
        others = self.derives, self.given, self.in_memory
        return self.calibration and self.touching is None and not any(others)

    @property
    def ranges(self) -> bool:
        """Whether what bounds rows are ranges of their log-likelihoods."""
        return self.derived_ranges or self.given_ranges is not None

    @property
    def derives(self) -> bool:
        """Whether bounds or ranges are derived from the model."""
        return self.derived_bounds or self.derived_ranges

    @property
    def given(self) -> bool:
        """Whether the user gave bounds or ranges."""
        return self.given_bounds is not None or self.given_ranges is not None
