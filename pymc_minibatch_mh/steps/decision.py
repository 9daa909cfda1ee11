"""What a step decides by: the compiled test, its roles, its settings and what it adapts."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.acceptance.batches import SKEWNESS, THIRD_MOMENT
from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.data import digest
from pymc_minibatch_mh.expansion.target import Target
from pymc_minibatch_mh.expansion.taylor import Calibration
from pymc_minibatch_mh.kernels.surrogate import Surrogate


class BoundArrays(NamedTuple):
    """Bound tables as a kernel takes them: see ``TEST``."""

    heads: np.ndarray
    thresholds: np.ndarray
    aliases: np.ndarray
    c: np.ndarray


def bound_arrays(tables: Tables | None) -> BoundArrays:
    """Return tables as a kernel takes them."""
    return NO_BOUNDS if tables is None else BoundArrays(tables.heads, *tables.alias, tables.c)


NO_BOUNDS = BoundArrays(
    np.empty((0, 3)),
    np.empty((0, 0)),
    np.empty((0, 0), dtype=np.int32),
    np.empty((0, 0), dtype=np.float32),
)


class Decision(ABC):
    """A test and everything about it that a step must know.

    One instance serves all chains: what changes in a chain lies in the settings, which are part
    of the chain's state.
    """

    #: Whether a chain goes on after a row exceeded its bound.
    tolerates_violations: bool
    #: Whether the mean over batches of the probability that the test returns is that of accepting.
    #: In a test that stops by its uniform number, the verdicts alone tell it.
    returns_probability: bool

    @property
    @abstractmethod
    def takes_derived_bounds(self) -> bool:
        """Whether bounds that were derived from the model serve this test."""

    @property
    @abstractmethod
    def needs_calibration(self) -> bool:
        """Whether the test chooses batches by how large the remainders of rows are."""

    @property
    @abstractmethod
    def walk_target(self) -> float:
        """Acceptance that a random walk aims at under this test."""

    @property
    @abstractmethod
    def key(self) -> str:
        """What tells the user's settings of the test from others, in every process."""

    @property
    @abstractmethod
    def test(self) -> Any:
        """The compiled test (``TEST``)."""

    @abstractmethod
    def roles(self, tables: Tables | None) -> tuple[Any, ...]:
        """Return the compiled functions that the test finds behind those of the update."""

    @abstractmethod
    def tables(self, target: Target, surrogate: Surrogate) -> Tables | None:
        """Return the bounds of all rows around a centre, or None for a test without."""

    @abstractmethod
    def settings_for(
        self,
        target: Target,
        surrogate: Surrogate,
        calibration: Calibration | None,
        tables: Tables | None,
        seed: int,
    ) -> np.ndarray:
        """Return the settings that a chain starts with around a centre."""

    @abstractmethod
    def require_subsampling(self, surrogate: Surrogate, tables: Tables | None, seed: int) -> None:
        """Refuse settings with which each of a few typical moves would read all rows."""

    @abstractmethod
    def adapt(
        self, settings: np.ndarray, sums: np.ndarray, target: Target, updates_per_draw: int
    ) -> None:
        """Adapt settings in place, in warm-up, from what updates have counted so far."""


@dataclass(frozen=True, eq=False)
class LookDecision(Decision):
    """A test on batches, look by look.

    Parameters
    ----------
    plan, decide
        Compiled choice of the batch size (``PLAN``) and decision (``DECIDE``).
    settings
        Settings of the test.
    walk_target
        Acceptance that a random walk aims at.
    returns_probability
        Whether `decide` returns the probability of accepting, whatever the uniform number.
    """

    plan: Any
    decide: Any
    settings: np.ndarray
    walk_target: float = 0.234
    returns_probability: bool = True
    tolerates_violations: bool = False

    @property
    def takes_derived_bounds(self) -> bool:
        """Need no bounds."""
        return False

    @property
    def needs_calibration(self) -> bool:
        """Always."""
        return True

    @property
    def key(self) -> str:
        """Digest of the settings."""
        return digest(self.settings)

    @property
    def test(self) -> Any:
        """Look until decided."""
        # Compiled when it is imported: exact steps need not wait for it.
        return import_module("pymc_minibatch_mh.kernels.looks").look_until_decided

    def roles(self, tables: Tables | None) -> tuple[Any, ...]:
        """Return the plan and the decision."""
        return self.plan, self.decide

    def tables(self, target: Target, surrogate: Surrogate) -> Tables | None:
        """Need no bounds."""
        return None

    def settings_for(
        self,
        target: Target,
        surrogate: Surrogate,
        calibration: Calibration | None,
        tables: Tables | None,
        seed: int,
    ) -> np.ndarray:
        """Write the audited moments into the settings."""
        assert calibration is not None
        settings = self.settings.copy()
        settings[[SKEWNESS, THIRD_MOMENT]] = calibration.skewness, calibration.third_absolute
        return settings

    def require_subsampling(self, surrogate: Surrogate, tables: Tables | None, seed: int) -> None:
        """Accept all settings: the size of batches follows from the moves."""

    def adapt(
        self, settings: np.ndarray, sums: np.ndarray, target: Target, updates_per_draw: int
    ) -> None:
        """Leave the settings as they are: batches adapt through the surrogate's spread."""
