"""Quadratic lower bounds of all rows: their sum, and the gaps of rows above them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from pymc_minibatch_mh.compiled.form_rows import FormRows, PlacedFormRows
from pymc_minibatch_mh.compiled.layout import placed
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.kernels.bound_tables import BoundTables, no_tables
from pymc_minibatch_mh.kernels.moves import FROM_CENTRE
from pymc_minibatch_mh.kernels.posterior import Reference, RowSpace
from pymc_minibatch_mh.likelihood.function import RowFunction
from pymc_minibatch_mh.likelihood.quadratic_bounds import gap_at_centre, gap_of
from pymc_minibatch_mh.reference.full_data import FullData
from pymc_minibatch_mh.reference.target import Target

#: In place of ξ: the bound of each row touches it where the row lies in the centre.
AT_CENTRE: Literal["centre"] = "centre"
type Touching = float | Literal["centre"]
#: Enlargement of a gap, far more than its rounding errors: that lowers the bound.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class LowerBounds:
    """Quadratic lower bounds in the place of expansions, and gaps in the place of remainders.

    The bounds touch rows at ξ, `touching`, or in the centre (:mod:`likelihood.quadratic_bounds`);
    `reference` is their sum. The `gaps`, float32, are β times those of each row in the centre,
    rounded up.
    """

    target: Target
    touching: Touching
    reference: Reference
    gaps: np.ndarray

    @cached_property
    def rows(self) -> PlacedFormRows:
        """The gaps as compiled rows."""
        return _placed(self.target, self.touching, self.reference)

    @cached_property
    def evaluate(self) -> Any:
        """Compiled differences of gaps (``EVALUATE``)."""
        return self.rows.evaluate(0)

    @property
    def space(self) -> RowSpace:
        """Where they are."""
        return RowSpace(self.target.source.term_starts, self.rows.context)

    @cached_property
    def tables(self) -> BoundTables:
        """How far a row can fall in a move from the centre: to its lower bound."""
        headers = np.array([[np.inf, FROM_CENTRE, self.gaps.sum(dtype=np.float64)]])
        return no_tables()._replace(headers=headers, c=self.gaps[None])

    def __getstate__(self) -> dict[str, Any]:
        """Leave out compiled functions and addresses."""
        compiled = ("rows", "evaluate", "tables")
        return {name: value for name, value in self.__dict__.items() if name not in compiled}


def lower_bounds(target: Target, reference: Reference, touching: Touching) -> LowerBounds:
    """Bound all rows from below around a centre; BoundsError if rows have no quadratic bound."""
    gaps = FullData(_placed(target, touching, reference), target.compiled.prior, target.source)
    whole, own = (p.likelihood(reference.centre, hessian=True) for p in (target.full_data, gaps))
    beta, values = reference.inverse_temperature, gaps.values(reference.centre)
    upper = beta * (values + ROUNDING * (1.0 + np.abs(values)))
    rounded = np.nextafter(upper.astype(np.float32), np.float32(np.inf))
    sums = reference._replace(
        gradient=whole.gradient - own.gradient, hessian=whole.hessian - own.hessian, order=2
    )
    return LowerBounds(target, touching, sums, rounded)


def _placed(target: Target, touching: Touching, reference: Reference) -> PlacedFormRows:
    functions = target.row_functions
    if isinstance(functions, BoundsError):
        raise functions
    if touching == AT_CENTRE:
        gaps = [gap_at_centre(function, _forms(function, reference)) for function in functions]
    else:
        gaps = [gap_of(function, touching) for function in functions]
    return PlacedFormRows(FormRows(gaps), target.source)


def _forms(function: RowFunction, reference: Reference) -> np.ndarray:
    """Return the arguments of all rows of a term in the centre, shape (rows, m)."""
    rows = np.arange(function.n_rows)
    there = placed(function, rows, reference.centre, reference.factor, directions=False)
    return there.values
