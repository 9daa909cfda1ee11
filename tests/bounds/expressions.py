"""Expressions of rows that take every branch of jets, with exact derivatives by mpmath."""

import mpmath as mp
import numpy as np
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math

from pymc_minibatch_mh.data import Column
from pymc_minibatch_mh.model.row.cells import Argument, Cells
from pymc_minibatch_mh.model.row.function import RowFunction
from pymc_minibatch_mh.model.row.operations import gamma_ratio, log_erfc
from pymc_minibatch_mh.model.row.values import RowData

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


class Make:
    """Cells of four arguments and two data columns, by short names."""

    def __init__(self):
        self.cells = Cells()
        self.u = [self.cells.argument(k) for k in range(4)]
        self.y, self.n = self.cells.data(0, ()), self.cells.data(1, ())

    def __call__(self, op, *operands):
        made = [x if hasattr(x, "is_data") else self.cells.constant(x) for x in operands]
        return self.cells.node(op, made)


def add(f, *x):
    return f(scalar.add, *x)


def mul(f, *x):
    return f(scalar.mul, *x)


def sums(f):
    return f(scalar_math.softplus, add(f, f.u[0], mul(f, 2.0, f.u[1]), f.y))


def three_factors(f):
    return mul(f, f.u[0], f(scalar.exp, f.u[1]), f(scalar.sin, f.u[2]))


def factors_of_one_argument(f):
    wave = f(scalar.sin, add(f, f.u[0], f.u[1]))
    return mul(f, f(scalar.exp, f.u[0]), wave, f(scalar.sqr, f.u[0]))


def normal_rows(f):
    gap = mul(f, add(f, f.y, mul(f, -1.0, f.u[0])), f(scalar.exp, mul(f, -1.0, f.u[1])))
    return add(f, mul(f, -0.5, f(scalar.sqr, gap)), mul(f, -1.0, f.u[1]))


def count_rows(f):
    size = f(scalar.exp, f.u[1])
    return add(f, f(gamma_ratio, size, f.n, 0.0), mul(f, -1.0, f.u[0], size))


def beta_rows(f):
    shape = mul(f, f(scalar.exp, f.u[1]), f(scalar_math.sigmoid, f.u[0]))
    return add(f, f(scalar_math.gammaln, shape), mul(f, f.y, shape))


def tails(f):
    return f(log_erfc, mul(f, f.u[0], add(f, f.u[1], 2.0)))


def powers(f):
    grown = f(scalar.pow, add(f, f(scalar.sqr, f.u[0]), 1.0), 1.75)
    return add(f, grown, f(scalar.pow, f.u[1], 3), f(scalar.pow, add(f, f.u[0], 9.0), -2))


def cubes_of_cubes(f):
    inner = f(scalar.pow, add(f, f.u[0], mul(f, -1.0, f.u[1]), f.u[2]), 3)
    return f(scalar.pow, add(f, inner, f(scalar.sqr, f.u[0])), 2)


def quotient(f):
    return mul(f, f.u[0], f(scalar.reciprocal, add(f, f(scalar.sqr, f.u[1]), 1.0)))


def four_arguments(f):
    one = mul(f, f(scalar.exp, f.u[0]), f(scalar.log1p, f(scalar.sqr, mul(f, f.u[1], f.u[2]))))
    return add(f, one, mul(f, f.u[3], f.u[0], f.u[2]), f(scalar.tanh, add(f, f.u[3], f.u[1])))


def dead_branch(f):
    dead = mul(f, f(scalar.log, mul(f, -1.0, f.n)), f.u[0])
    return f(scalar.switch, f(scalar.gt, f.n, -1), f(scalar.exp, f.u[0]), dead)


def dead_infinity(f):
    forbidden = f(scalar.or_, f(scalar.lt, f.n, 0), f(scalar.gt, f.y, 1e9))
    return f(scalar.switch, forbidden, -np.inf, f(scalar.sqr, f.u[0]))


def branch_of_arguments(f):
    there = f(scalar.gt, f.u[0], f.y)
    return f(scalar.switch, there, f(scalar.pow, f.u[0], 3), mul(f, f.u[1], f(scalar.exp, f.u[0])))


def branches_that_combine(f):
    both = f(scalar.and_, f(scalar.ge, f.u[0], 0.2), f(scalar.invert, f(scalar.le, f.u[1], 0.1)))
    return f(scalar.switch, both, f(scalar.exp, f.u[1]), f(scalar.sqr, f.u[0]))


def product_of_conditions(f):
    both = mul(f, f(scalar.gt, f.u[0], 0.1), f(scalar.lt, f.u[1], 0.3))
    return f(scalar.switch, both, f(scalar.exp, f.u[1]), f(scalar.sqr, f.u[0]))


def condition_times_number(f):
    return mul(f, f(scalar.gt, f.u[0], f.y), f(scalar.exp, mul(f, 2.0, f.u[0])))


def sum_of_conditions(f):
    return add(f, f(scalar.gt, f.u[0], f.y), f(scalar.lt, f.u[1], 0.3), f(scalar.sqr, f.u[1]))


def null_set(f):
    return f(scalar.switch, f(scalar.eq, f.u[0], 0.5), -7.0, f(scalar.sqr, f.u[0]))


def complement_of_a_null_set(f):
    return f(scalar.switch, f(scalar.neq, f.u[0], f.u[1]), f(scalar.exp, f.u[0]), 3.0)


def larger(f):
    return f(scalar.scalar_maximum, f(scalar.exp, f.u[0]), add(f, f.u[1], 1.0))


def smaller(f):
    return f(scalar.exp, f(scalar.scalar_minimum, f.u[0], f.y))


def clipped(f):
    return f(scalar.sqr, f(scalar.clip, f.u[0], -0.4, 0.6))


def kink(f):
    return mul(f, f(scalar.abs, add(f, f.u[0], f.y)), f.u[1])


def free_of_the_position(f):
    return mul(f, f.y, f(scalar.exp, f.y))


FUNCTIONS = [
    sums, three_factors, factors_of_one_argument, normal_rows, count_rows, beta_rows, tails,
    powers, cubes_of_cubes, quotient, four_arguments, dead_branch, dead_infinity,
    branch_of_arguments, branches_that_combine, product_of_conditions, condition_times_number,
    sum_of_conditions, null_set, complement_of_a_null_set, larger, smaller, clipped, kink,
    free_of_the_position,
]  # fmt: skip
SMOOTH = FUNCTIONS[:11]


def built(build):
    """Return a root, its rows' data and the number of its arguments."""
    f = Make()
    root = build(f)
    y = np.random.default_rng(1).uniform(-0.7, 0.9, ROWS)
    n = np.array([0, 1, 4, 11, 2])
    columns = tuple(Column(name, x, 0) for name, x in (("y", y), ("n", n)))
    data = RowData(RowFunction("y", ROWS, columns, root, (), f.cells), np.arange(ROWS))
    seen, open_cells = set(), [root]
    while open_cells:
        cell = open_cells.pop()
        seen |= {cell.number} if isinstance(cell, Argument) else set()
        open_cells += cell.inputs
    return root, data, max(seen, default=0) + 1


def exact_value(root, data, row):
    """Return the function of one row for arguments of any precision."""

    def at(*u):
        def value(cell):
            if isinstance(cell, Argument):
                return u[cell.number]
            if cell.is_data:
                number = np.broadcast_to(data.value(cell), ROWS)[row]
                return mp.mpf(float(number))
            return EXACT[type(cell.op).__name__](*(value(x) for x in cell.inputs))

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
