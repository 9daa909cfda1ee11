"""Expressions of cells, and their values."""

from importlib import import_module

import numpy as np
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from scipy import special

from pymc_minibatch_mh.expressions.graph import Affine, Constant, Data, Gather, Lookup
from pymc_minibatch_mh.functions.base import numpy_function
from pymc_minibatch_mh.functions.gamma_ratio import GammaRatio
from pymc_minibatch_mh.functions.gamma_rise import GammaRise, gamma_rise_at
from pymc_minibatch_mh.functions.log1p_ratio import Log1pRatio
from pymc_minibatch_mh.functions.log_any import LogAny
from pymc_minibatch_mh.functions.log_erfc import LogErfc
from pymc_minibatch_mh.functions.log_softplus import LogSoftplus
from pymc_minibatch_mh.functions.log_sum_exp import LogSumExp


def _log_any(u):
    rare = np.exp(np.minimum(u, 0.0))
    near = np.where(u < -20.0, u - 0.5 * rare, np.log(-np.expm1(-rare)))
    return np.where(u > 0.0, np.log1p(-np.exp(-np.exp(u))), near)


def _log_softplus(u):
    rare = u - 0.5 * np.exp(np.minimum(u, 0.0))
    return np.where(u < -20.0, rare, np.log(np.logaddexp(0.0, u)))


PLAIN = {
    GammaRatio: lambda u, a, b: special.gammaln(u + a) - special.gammaln(u + b),
    GammaRise: np.vectorize(gamma_rise_at, otypes=[float]),
    Log1pRatio: lambda u: np.where(u == 0.0, 1.0, np.log1p(u) / np.where(u == 0.0, 1.0, u)),
    LogAny: _log_any,
    LogSoftplus: _log_softplus,
    LogSumExp: lambda *x: special.logsumexp(np.stack(np.broadcast_arrays(*x)), axis=0),
    LogErfc: lambda u: special.log_ndtr(-np.sqrt(2.0) * u) + np.log(2.0),
    scalar_math.Softplus: lambda u: np.logaddexp(0.0, u),
}


def plain(op):
    """Return a scalar operation as a function of arrays."""
    return PLAIN.get(type(op)) or numpy_function(op)


def value_of(expr, position, columns=()):
    """Evaluate a cell, for a position per row or one for all.

    Parameters
    ----------
    position
        Shape (d, n) or (d,).
    columns
        Data arrays, rows on axis 0.
    """

    known = {}

    def value(expr):
        if expr not in known:
            known[expr] = computed(expr)
        return known[expr]

    def computed(expr):
        if isinstance(expr, Constant):
            return np.asarray(expr.value)
        if isinstance(expr, Data):
            return columns[expr.column][(slice(None), *expr.entry)]
        if isinstance(expr, Lookup):
            return expr.table[value(expr.index)]
        if isinstance(expr, Affine):
            return sum((_term(term, position, value) for term in expr.terms), value(expr.offset))
        with np.errstate(all="ignore"):
            return plain(expr.op)(*map(value, expr.inputs))

    return value(expr)


def _term(term, position, value):
    place = term.place
    if isinstance(place, Gather):
        place = place.first + place.step * (value(place.index) % place.size)
    product = term.factor * position[place]
    for part in term.monomial:
        product = product * value(part)
    return product


def operations(expr):
    """Return the names of the operations in an expression of the position."""
    if expr.is_data or isinstance(expr, Affine):
        return set()
    return {type(expr.op).__name__}.union(*map(operations, expr.inputs))


class Builder:
    """Builds expressions by `make(cells, op, *operands)`."""

    def __init__(self, exprs, make):
        self.exprs, self._make = exprs, make

    def __getattr__(self, name):
        known = next((m for m in (scalar, scalar_math) if hasattr(m, name)), None)
        # An operation of the package has a module of its name.
        op = getattr(known or import_module(f"pymc_minibatch_mh.functions.{name}"), name)
        return lambda *operands: self._make(self.exprs, op, *map(self.expr, operands))

    def expr(self, x):
        return self.exprs.constant(x) if isinstance(x, int | float) else x


def _with_its_reflection(name):
    """Return the methods of an operator: with another operand after it, and before it."""
    return (
        lambda self, other: Formula(name, (self, other)),
        lambda self, other: Formula(name, (other, self)),
    )


class Formula:
    """An expression that is built by and by: a name, or an operation of a `Builder`."""

    __array_ufunc__ = None

    def __init__(self, name, operands=None):
        self.name, self.operands = name, operands

    def build(self, builder, named):
        """Build the expression of what has these names."""
        if self.operands is None:
            return named[self.name]
        parts = (x.build(builder, named) if isinstance(x, Formula) else x for x in self.operands)
        return getattr(builder, self.name)(*parts)

    __add__, __radd__ = _with_its_reflection("add")
    __sub__, __rsub__ = _with_its_reflection("sub")
    __mul__, __rmul__ = _with_its_reflection("mul")
    __truediv__, __rtruediv__ = _with_its_reflection("true_div")
    __gt__, __ge__ = (_with_its_reflection(name)[0] for name in ("gt", "ge"))
    __lt__, __le__ = (_with_its_reflection(name)[0] for name in ("lt", "le"))

    def __neg__(self):
        return Formula("neg", (self,))


class Formulas:
    """Makes formulas by the names of operations."""

    def __getattr__(self, name):
        return lambda *operands: Formula(name, operands)
