"""Expressions of rows that take every branch of jets, with exact derivatives by mpmath."""

import mpmath as mp
import numpy as np

from expressions.values import Builder, Formula, Formulas
from pymc_minibatch_mh.data import Column
from pymc_minibatch_mh.expressions.graph import Argument, ExprGraph
from pymc_minibatch_mh.structure.row_function import RowData, RowFunction

ROWS = 5


def _gamma_rise(x, y, z):
    return mp.loggamma(1 / x + y) - mp.loggamma(1 / x + z) + (y - z) * mp.log(x)


EXACT = {
    "Add": lambda *x: mp.fsum(x),
    "Mul": lambda *x: mp.fprod(x),
    "Neg": lambda x: -x,
    "Sub": lambda x, y: x - y,
    "Sqr": lambda x: x * x,
    "Pow": lambda x, y: mp.power(x, y),
    "Exp": mp.exp,
    "Log": lambda x: mp.log(x) if x > 0 else mp.nan,
    "Log1p": mp.log1p,
    "Sin": mp.sin,
    "Tanh": mp.tanh,
    "Reciprocal": lambda x: 1 / x,
    "Sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "Softplus": lambda x: mp.log1p(mp.exp(x)),
    "GammaLn": mp.loggamma,
    "GammaRatio": lambda x, y, z: mp.loggamma(x + y) - mp.loggamma(x + z),
    "GammaRise": lambda x, y, z: _gamma_rise(x, y, z) if x else mp.mpf(0),
    "LogErfc": lambda x: mp.log(mp.erfc(x)),
    "Abs": abs,
    "Switch": lambda c, yes, no: yes if c else no,
    "Maximum": max,
    "Minimum": min,
    "ScalarMaximum": max,
    "ScalarMinimum": min,
    "Clip": lambda x, low, high: min(max(x, low), high),
    "GT": lambda x, y: x > y,
    "GE": lambda x, y: x >= y,
    "LT": lambda x, y: x < y,
    "LE": lambda x, y: x <= y,
    "EQ": lambda x, y: x == y,
    "NEQ": lambda x, y: x != y,
    "AND": lambda x, y: bool(x) and bool(y),
    "OR": lambda x, y: bool(x) or bool(y),
    "Invert": lambda x: not x,
}


f = Formulas()
u0, u1, u2, u3, y, n = map(Formula, ("u0", "u1", "u2", "u3", "y", "n"))
shape = f.exp(u1) * f.sigmoid(u0)
SMOOTH = {
    "sums": f.softplus(f.add(u0, 2.0 * u1, y)),
    "three factors": f.mul(u0, f.exp(u1), f.sin(u2)),
    "factors of one argument": f.mul(f.exp(u0), f.sin(u0 + u1), f.sqr(u0)),
    "normal rows": -0.5 * f.sqr((y + -1.0 * u0) * f.exp(-1.0 * u1)) + -1.0 * u1,
    "count rows": f.gamma_ratio(f.exp(u1), n, 0.0) + f.mul(-1.0, u0, f.exp(u1)),
    "beta rows": f.gammaln(shape) + y * shape,
    "tails": f.log_erfc(u0 * (u1 + 2.0)),
    "powers": f.add(f.pow(f.sqr(u0) + 1.0, 1.75), f.pow(u1, 3), f.pow(u0 + 9.0, -2)),
    "cubes of cubes": f.pow(f.pow(f.add(u0, -1.0 * u1, u2), 3) + f.sqr(u0), 2),
    "quotient": u0 * f.reciprocal(f.sqr(u1) + 1.0),
    "four arguments": f.add(
        f.exp(u0) * f.log1p(f.sqr(u1 * u2)), f.mul(u3, u0, u2), f.tanh(u3 + u1)
    ),
}
FUNCTIONS = SMOOTH | {
    "dead branch": f.switch(n > -1, f.exp(u0), f.log(-1.0 * n) * u0),
    "dead infinity": f.switch(f.or_(n < 0, y > 1e9), -np.inf, f.sqr(u0)),
    "branch of arguments": f.switch(u0 > y, f.pow(u0, 3), u1 * f.exp(u0)),
    "branches that combine": f.switch(f.and_(u0 >= 0.2, f.invert(u1 <= 0.1)), f.exp(u1), f.sqr(u0)),
    "product of conditions": f.switch((u0 > 0.1) * (u1 < 0.3), f.exp(u1), f.sqr(u0)),
    "condition times number": (u0 > y) * f.exp(2.0 * u0),
    "sum of conditions": f.add(u0 > y, u1 < 0.3, f.sqr(u1)),
    "null set": f.switch(f.eq(u0, 0.5), -7.0, f.sqr(u0)),
    "complement of a null set": f.switch(f.neq(u0, u1), f.exp(u0), 3.0),
    "larger": f.scalar_maximum(f.exp(u0), u1 + 1.0),
    "smaller": f.exp(f.scalar_minimum(u0, y)),
    "clipped": f.sqr(f.clip(u0, -0.4, 0.6)),
    "kink": f.abs(u0 + y) * u1,
    "free of the position": y * f.exp(y),
}


def made(*formulas):
    """Return the cells of formulas as they stand, all of one set."""
    exprs = ExprGraph()
    named = {f"u{k}": exprs.argument(k) for k in range(4)}
    named |= {"y": exprs.data(0, ()), "n": exprs.data(1, ())}
    builder = Builder(exprs, lambda exprs, op, *operands: exprs.node(op, operands))
    return exprs, [formula.build(builder, named) for formula in formulas]


def built(name):
    """Return a root, its rows' data and the number of its arguments."""
    exprs, (root,) = made(FUNCTIONS[name])
    y = np.random.default_rng(1).uniform(-0.7, 0.9, ROWS)
    n = np.array([0, 1, 4, 11, 2])
    columns = tuple(Column(name, x, 0) for name, x in (("y", y), ("n", n)))
    data = RowData(RowFunction("y", ROWS, columns, root, (), exprs), np.arange(ROWS))
    seen, open_cells = set(), [root]
    while open_cells:
        expr = open_cells.pop()
        seen |= {expr.number} if isinstance(expr, Argument) else set()
        open_cells += expr.inputs
    return root, data, max(seen, default=0) + 1


def exact_value(root, data, row):
    """Return the function of one row for arguments of any precision."""

    def at(*u):
        def value(expr):
            if isinstance(expr, Argument):
                return u[expr.number]
            if expr.is_data:
                number = np.broadcast_to(data.value(expr), ROWS)[row]
                return mp.mpf(float(number))
            return EXACT[type(expr.op).__name__](*(value(x) for x in expr.inputs))

        return mp.mpf(value(root))

    return at


def exact_derivative(function, index, u):
    counts = tuple(index.count(k) for k in range(len(u)))
    point = tuple(mp.mpf(float(x)) for x in u)
    if not index:
        return function(*point)
    with mp.workdps(40):
        return mp.diff(function, point if len(u) > 1 else point[0],
                       counts if len(u) > 1 else counts[0])  # fmt: skip
