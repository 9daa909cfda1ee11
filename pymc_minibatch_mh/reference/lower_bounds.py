"""Quadratic lower bounds of all rows: their sum, and the gaps of rows above them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pymc_minibatch_mh.compiled.form_rows import FormRows, PlacedFormRows
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.kernels.bound_tables import BoundTables, no_tables
from pymc_minibatch_mh.kernels.moves import FROM_CENTRE
from pymc_minibatch_mh.kernels.posterior import Reference, RowSpace
from pymc_minibatch_mh.likelihood.differences import gap_of
from pymc_minibatch_mh.reference.full_data import FullData
from pymc_minibatch_mh.reference.target import Target

#: Enlargement of a gap, far more than its rounding errors: that lowers the bound.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class LowerBounds:
    """Quadratic lower bounds in the place of expansions, and gaps in the place of remainders.

    The bounds touch rows at ξ (:func:`gap_of`); `reference` is their sum. The `gaps`, float32, are
    β times those of each row in the centre, rounded up.
    """

    target: Target
    xi: float
    reference: Reference
    gaps: np.ndarray

    @cached_property
    def rows(self) -> PlacedFormRows:
        """The gaps as compiled rows."""
        return _placed(self.target, self.xi)

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


def lower_bounds(target: Target, reference: Reference, xi: float) -> LowerBounds:
    """Bound all rows from below around a centre; BoundsError if rows have no quadratic bound."""
    gaps = FullData(_placed(target, xi), target.compiled.prior, target.source)
    whole, own = (p.likelihood(reference.centre, hessian=True) for p in (target.full_data, gaps))
    beta, values = reference.inverse_temperature, gaps.values(reference.centre)
    upper = beta * (values + ROUNDING * (1.0 + np.abs(values)))
    rounded = np.nextafter(upper.astype(np.float32), np.float32(np.inf))
    sums = reference._replace(
        gradient=whole.gradient - own.gradient, hessian=whole.hessian - own.hessian, order=2
    )
    return LowerBounds(target, xi, sums, rounded)


def _placed(target: Target, xi: float) -> PlacedFormRows:
    functions = target.row_functions
    if isinstance(functions, BoundsError):
        raise functions
    rows = FormRows([gap_of(function, xi) for function in functions])
    return PlacedFormRows(rows, target.source)
