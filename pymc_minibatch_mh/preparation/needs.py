"""What a method needs of passes over all rows."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pymc_minibatch_mh.bounds.user_bounds import Bounds

GivenBounds = Bounds | Callable[[dict[str, np.ndarray]], Bounds]


@dataclass(frozen=True, eq=False)
class Needs:
    """What a method needs to know of all rows before it subsamples them.

    Parameters
    ----------
    calibration
        How large the remainders of rows are, to choose batches by.
    derived_bounds
        Bounds of all rows, derived from the model.
    given_bounds
        Bounds of a user, in the place of derived ones.
    touching
        ξ, where quadratic lower bounds of rows touch them; None for none.
    """

    calibration: bool = False
    derived_bounds: bool = False
    given_bounds: GivenBounds | None = None
    touching: float | None = None
