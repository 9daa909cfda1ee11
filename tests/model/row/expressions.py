"""Expressions of cells, and their values."""

import numpy as np
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from scipy import special

from pymc_minibatch_mh.model.row.cells import Affine, Constant, Data, Gather, Lookup
from pymc_minibatch_mh.model.row.operations import (
    GammaRatio,
    Log1pRatio,
    LogAny,
    LogErfc,
    LogSoftplus,
    numpy_of,
)

PLAIN = {
    GammaRatio: lambda u, a, b: special.gammaln(u + a) - special.gammaln(u + b),
    Log1pRatio: lambda u: np.log1p(u) / u,
    LogAny: lambda u: np.log(-np.expm1(-np.exp(u))),
    LogSoftplus: lambda u: np.log(np.logaddexp(0.0, u)),
    LogErfc: lambda u: special.log_ndtr(-np.sqrt(2.0) * u) + np.log(2.0),
    scalar_math.Softplus: lambda u: np.logaddexp(0.0, u),
}


def plain(op):
    """Return a scalar operation as a function of arrays."""
    return PLAIN.get(type(op)) or numpy_of(op)


def value_of(cell, position, columns=()):
    """Evaluate a cell, for a position per row or one for all.

    Parameters
    ----------
    position
        Shape (d, n) or (d,).
    columns
        Data arrays, rows on axis 0.
    """

    known = {}

    def value(cell):
        if cell not in known:
            known[cell] = computed(cell)
        return known[cell]

    def computed(cell):
        if isinstance(cell, Constant):
            return np.asarray(cell.value)
        if isinstance(cell, Data):
            return columns[cell.column][(slice(None), *cell.entry)]
        if isinstance(cell, Lookup):
            return cell.table[value(cell.index)]
        if isinstance(cell, Affine):
            return sum((_term(term, position, value) for term in cell.terms), value(cell.offset))
        with np.errstate(all="ignore"):
            return plain(cell.op)(*map(value, cell.inputs))

    return value(cell)


def _term(term, position, value):
    place = term.place
    if isinstance(place, Gather):
        place = place.first + place.step * (value(place.index) % place.size)
    product = term.factor * position[place]
    for part in term.monomial:
        product = product * value(part)
    return product


def operations(cell):
    """Return the names of the operations in an expression of the position."""
    if cell.is_data or isinstance(cell, Affine):
        return set()
    return {type(cell.op).__name__}.union(*map(operations, cell.inputs))


class Builder:
    """Builds expressions by `make(cells, op, *operands)`."""

    def __init__(self, cells, make):
        self.cells, self._make = cells, make

    def __getattr__(self, name):
        op = getattr(scalar, name, None) or getattr(scalar_math, name)
        return lambda *operands: self._make(self.cells, op, *map(self.cell, operands))

    def cell(self, x):
        return self.cells.constant(x) if isinstance(x, int | float) else x
