"""The tempered log-posterior that the search for its mode climbs, of all rows or of a few."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from pymc_minibatch_mh.expansion.kinks import Kink, averaged
from pymc_minibatch_mh.expansion.passes import Derivatives


@dataclass(frozen=True)
class Point:
    """A position, and the log-posterior and its derivatives there.

    Parameters
    ----------
    position : ndarray, shape (d,)
    total : Derivatives
        Of the tempered log-posterior.
    likelihood : Derivatives
        Of the untempered log-likelihood of the rows that were read.
    """

    position: np.ndarray
    total: Derivatives
    likelihood: Derivatives

    @property
    def finite(self) -> bool:
        """Whether value and gradient are finite."""
        return bool(np.isfinite(self.total.value) and np.isfinite(self.total.gradient).all())


class DerivativesOf(Protocol):
    """What a density is made of: passes over rows, in all coordinates or in some."""

    @property
    def cheap_hessian(self) -> bool:
        """Whether a pass with Hessian reads each row once."""

    @property
    def logs(self) -> np.ndarray:
        """Coordinates that are logarithms of what may be zero: there is no end to them below."""

    def likelihood(
        self, theta: np.ndarray, *, hessian: bool, rows: np.ndarray | None = None
    ) -> Derivatives:
        """Return derivatives of the summed log-likelihood of `rows`, by default of all."""

    def prior(self, theta: np.ndarray, *, hessian: bool) -> Derivatives:
        """Return derivatives of the prior part."""


@dataclass(frozen=True)
class Density:
    """The tempered log-posterior, by passes over all rows or over some that stand for them.

    Parameters
    ----------
    passes
        Passes over the rows.
    weight
        What multiplies the log-likelihood of the rows that are read.
    rows
        Row numbers, by default all.
    kinks
        Kinks that the prior part is averaged over: an average has a curvature where the prior
        itself has none.
    """

    passes: DerivativesOf
    weight: float
    rows: np.ndarray | None = None
    kinks: tuple[Kink, ...] = ()

    @property
    def prior(self) -> Callable[..., Derivatives]:
        """The prior part, averaged over its kinks."""
        return averaged(self.passes.prior, self.kinks) if self.kinks else self.passes.prior

    def at(self, position: np.ndarray, *, hessian: bool) -> Point:
        """Evaluate at a position."""
        prior = self.prior(position, hessian=hessian)
        rows = self.passes.likelihood(position, hessian=hessian, rows=self.rows)
        total = Derivatives(
            prior.value + self.weight * rows.value,
            prior.gradient + self.weight * rows.gradient,
            prior.hessian + self.weight * rows.hessian,
        )
        return Point(position, total, rows)

    def over(self, kinks: Iterable[Kink]) -> "Density":
        """Return the same with the prior part averaged over these kinks."""
        return replace(self, kinks=tuple(kinks))

    @property
    def kinked(self) -> tuple[int, ...]:
        """Coordinates that move across one of the kinks."""
        return tuple(sorted({k for kink in self.kinks for k in kink.coordinates}))
