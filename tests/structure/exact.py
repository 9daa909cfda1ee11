"""Row functions in fifty digits: the expressions of their cells, evaluated by mpmath."""

from functools import cache

import mpmath as mp
import numpy as np
from pytensor.scalar import basic as scalar

from bounds.expressions import EXACT as KNOWN
from pymc_minibatch_mh.expressions.graph import Argument, Constant, Lookup
from pymc_minibatch_mh.structure.row_function import RowData

DIGITS = 50


def _betainc(a, b, x):
    return mp.betainc(a, b, 0, x, regularized=True)


EXACT = KNOWN | {
    "Identity": lambda x: x,
    "Sqrt": mp.sqrt,
    "Expm1": mp.expm1,
    "Log1mexp": lambda x: mp.log(-mp.expm1(x)),
    "LogAny": lambda x: mp.log(-mp.expm1(-mp.exp(x))),
    "LogSoftplus": lambda x: mp.log(mp.log1p(mp.exp(x))),
    "LogAddExp": lambda x, y: mp.log(mp.exp(x) + mp.exp(y)),
    "Log1pRatio": lambda x: mp.log1p(x) / x if x else mp.mpf(1),
    "Erf": mp.erf,
    "Erfc": mp.erfc,
    "Sign": mp.sign,
    "Cos": mp.cos,
    "ArcTan": mp.atan,
    "Psi": lambda x: mp.psi(0, x),
    "TriGamma": lambda x: mp.psi(1, x),
    "BetaInc": _betainc,
}


def number(value):
    """Return a number as mpmath computes with it."""
    value = np.asarray(value)
    if value.dtype.kind == "b":
        return bool(value)
    return mp.mpf(int(value)) if value.dtype.kind in "iu" else mp.mpf(float(value))


@cache
def exact_row(function, row):
    """Return a row of a function, with the derivatives that other tests asked it for."""
    return ExactRow(function, row)


class ExactRow:
    """The log-likelihood of one row as a function of its arguments, in fifty digits."""

    def __init__(self, function, row):
        self.function = function
        self._data = RowData(function, np.array([row]))
        self._derivatives = {}

    def derivative(self, point, index):
        """Return a partial derivative by the arguments of a multi-index, each computed once."""
        asked = tuple(map(float, point)), index
        if asked not in self._derivatives:
            counts = tuple(index.count(k) for k in range(len(point)))
            with mp.workdps(DIGITS):
                at = [mp.mpf(u) for u in asked[0]]
                self._derivatives[asked] = mp.diff(self, at, counts) if index else self(*at)
        return self._derivatives[asked]

    def __call__(self, *arguments, root=None):
        known = {}

        def value(expr):
            if expr not in known:
                known[expr] = self._value(expr, value, arguments)
            return known[expr]

        return value(self.function.root if root is None else root)

    def _value(self, expr, value, arguments):
        if isinstance(expr, Argument):
            return arguments[expr.number]
        if isinstance(expr, Constant):
            return number(expr.value)
        if isinstance(expr, Lookup) or not hasattr(expr, "op"):
            return number(np.ravel(self._data.value(expr))[0])
        operands = [value(x) for x in expr.inputs]
        if isinstance(expr.op, scalar.Cast):
            return operands[0] if np.dtype(expr.op.o_type.dtype).kind == "f" else +operands[0]
        return EXACT[type(expr.op).__name__](*operands)
