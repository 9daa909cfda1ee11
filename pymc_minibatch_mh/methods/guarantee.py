"""What a step method promises of its draws: declared by each, and read by all that tells of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pymc_minibatch_mh.bounds.blocks import AnyTables


class Promise(StrEnum):
    """What a chain converges to."""

    #: The posterior, whatever else holds.
    EXACT = "exact"
    #: The posterior, if no row ever changes by more than its bound.
    EXACT_GIVEN_BOUNDS = "exact given valid bounds"
    #: Something near the posterior.
    APPROXIMATE = "approximate"


@dataclass(frozen=True)
class Guarantee:
    """The guarantee of a method.

    It is declared, never inferred: a test that makes errors makes them with bounds as well.

    Parameters
    ----------
    promise
        What a chain converges to.
    controls
        Which error an approximate method controls; empty for the others.
    """

    promise: Promise
    controls: str = ""

    def __post_init__(self) -> None:
        """Refuse an approximate method that does not say which error it controls."""
        approximate = self.promise is Promise.APPROXIMATE
        if approximate != bool(self.controls):
            raise ValueError(
                f"controls={self.controls!r} does not go with {self.promise.value!r}: name the "
                "error that an approximate method controls, and none for an exact one."
            )

    def __str__(self) -> str:
        """Return the promise, and which error an approximate method controls."""
        controlled = f"; controlled is the {self.controls}" if self.controls else ""
        return f"{self.promise.value}{controlled}"

    @property
    def is_exact(self) -> bool:
        """Whether the method converges to the posterior, given valid bounds if it needs any."""
        return self.promise is not Promise.APPROXIMATE

    def is_certified(self, tables: AnyTables | None, violation: str) -> bool:
        """Whether draws are exact without anything that a user vouches for.

        Parameters
        ----------
        tables
            The bounds in use.
        violation
            What is known against them; empty for nothing.
        """
        if self.promise is not Promise.EXACT_GIVEN_BOUNDS:
            return self.is_exact
        return tables is not None and tables.verified and not violation

    def of_draws(self, tables: AnyTables | None, violation: str) -> str:
        """Return what the guarantee amounts to for a chain, in words."""
        if self.promise is not Promise.EXACT_GIVEN_BOUNDS:
            return str(self)
        if violation:
            return "not exact: a row exceeded its bound"
        if self.is_certified(tables, violation):
            return f"{self}, which were derived from the model"
        return "exact if the bounds hold, which are a user's own and unverified"
