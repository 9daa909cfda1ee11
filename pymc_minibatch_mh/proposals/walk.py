"""Random walk with the posterior's or a custom covariance."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.checks import check_flag, check_positive
from pymc_minibatch_mh.data import array_digest
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.proposals.base import Proposal, Tallies, positive_definite


def tune_scale(scale: float, window: np.void, total: np.void, target: float) -> float:
    """Scale after a window of warm-up, moved towards the acceptance rate `target`."""
    if not window["tried"] > 0.0:
        return scale
    gap = window["accept"] / window["tried"] - target
    # The gain is damped in windows of fewer than ten tries.
    few = min(1.0, window["tried"] / 10.0)
    gain = few * min(1.0, 10.0 / np.sqrt(max(total["tried"], 1.0)))
    return float(scale * np.exp(gain * gap))


LAPLACE, IDENTITY, CUSTOM = range(3)
SHAPES = {"laplace": LAPLACE, "identity": IDENTITY}


class WalkNumbers(NamedTuple):
    """Scale s of a random walk, shape (LAPLACE, IDENTITY or CUSTOM), custom L: ``mh_walk``."""

    LAYOUT, propose = "mh_walk", "mh_propose_walk"  # type: ignore[misc]

    scale: float
    shape: int
    #: Custom Cholesky factor L, lower triangular, shape (d, d); otherwise (0, 0).
    factor: np.ndarray


@dataclass(frozen=True, eq=False)
class RandomWalk(Proposal):
    """A random walk θ' = θ + s L ξ, ξ standard normal.

    Guarantee: *exact*, if the step's test is.

    Parameters
    ----------
    scale
        Scale s before warm-up; by default 2.38/√d.
    covariance
        L Lᵀ: "laplace" for the posterior covariance at the centre, "identity", or an array of
        shape (d, d) on the unconstrained scale.
    adapt
        Whether warm-up adapts the scale to the acceptance that suits the test.

    Raises
    ------
    SettingError
        If a setting is invalid; when a step is built, if the covariance does not have the size of
        the position.

    Examples
    --------
    >>> RandomWalk(scale=0.05, covariance="identity", adapt=False).n_components
    1
    """

    scale: float | None = None
    covariance: Any = "laplace"
    adapt: bool = True

    def __post_init__(self) -> None:
        """Check the settings, and copy a custom covariance."""
        if self.scale is not None:
            check_positive("scale", self.scale, "Give one, or None.")
        check_flag("adapt", self.adapt)
        if not isinstance(self.covariance, str):
            covariance = positive_definite("covariance", self.covariance)
            object.__setattr__(self, "covariance", covariance)
        elif self.covariance not in SHAPES:
            raise SettingError(
                f"covariance={self.covariance!r} is unknown. Use 'laplace', 'identity' or an array."
            )

    def __repr__(self) -> str:
        """Identity of this random walk, equal in every process."""
        value = self.covariance
        shape = repr(value) if isinstance(value, str) else f"covariance {array_digest(value)}"
        return f"RandomWalk({self.scale}, {shape}, adapt={self.adapt})"

    @property
    def in_own_terms(self) -> bool:
        """Whether the covariance is custom or the identity, in terms of the model's variables."""
        return not (isinstance(self.covariance, str) and self.covariance == "laplace")

    def record(self, size: int) -> WalkNumbers:
        """Initial scale of a chain, and the shape."""
        scale = float(2.38 / np.sqrt(size) if self.scale is None else self.scale)
        if isinstance(self.covariance, str):
            return WalkNumbers(scale, SHAPES[self.covariance], np.empty((0, 0)))
        given = positive_definite("covariance", self.covariance, size)
        return WalkNumbers(scale, CUSTOM, np.ascontiguousarray(np.linalg.cholesky(given)))

    def adapted(
        self, record: WalkNumbers, window: Tallies, total: Tallies, walk_target: float, size: int
    ) -> WalkNumbers:
        """Adapt the scale to the target acceptance."""
        if not self.adapt:
            return record
        return record._replace(scale=tune_scale(record.scale, window[0], total[0], walk_target))

    def scaling(self, record: WalkNumbers) -> float:
        """Scale s of the random walk."""
        return record.scale
