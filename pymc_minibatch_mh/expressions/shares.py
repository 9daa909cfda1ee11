"""Polynomials of probabilities as sums of positive products.

The complement 1 - l - (1 - 2 l) σ of a probability with a lapse rate l is l σ + (1 - l)(1 - σ). Its
logarithm is then the log of a sum of exponentials, whose interval bounds never exceed zero.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from math import factorial, log, prod

import numpy as np
from pytensor.scalar import basic as scalar

from pymc_minibatch_mh.expressions.arithmetic import add_exprs, multiply_exprs
from pymc_minibatch_mh.expressions.graph import Expr, ExprGraph
from pymc_minibatch_mh.expressions.patterns import constant_value, is_a
from pymc_minibatch_mh.functions.polynomials import (
    Polynomial,
    Simplex,
    Unknown,
    add_polynomials,
    bernstein_coefficients,
    coefficient_error,
    constant_polynomial,
    product_of_parts,
    sum_of_parts,
)

#: Maximum number of Bernstein coefficients of a probability.
MAX_PRODUCTS = 64


@dataclass(frozen=True)
class Probability:
    """Probability exp(`log`), times `factor`; exp(`log`) and all exp(`others`) sum to one."""

    factor: float
    log: Expr
    others: tuple[Expr, ...]


#: Function that returns an expression as a multiple of a probability, or None.
ProbabilityReader = Callable[[ExprGraph, Expr], Probability | None]
#: A product: its coefficient; and for each factor, the logarithms of its summands.
Product = tuple[float, list[list[Expr]]]
#: For each simplex, indices of basis functions to sum; and products of these sums -> coefficients.
BasisProduct = tuple[frozenset[int], ...]
BasisProducts = dict[BasisProduct, float]


def probability_products(
    exprs: ExprGraph, x: Expr, more: float, read: ProbabilityReader
) -> list[Product] | None:
    """Decomposition of x + more into positive products of probabilities, or None."""
    reader = _PolynomialReader(exprs, read)
    polynomial = reader.polynomial_of(x)
    if polynomial is None:
        return None
    polynomial = add_polynomials(polynomial, constant_polynomial(more))
    if sum(map(len, polynomial)) < 2:
        # A single term has no other terms to combine with.
        return None
    found = bernstein_coefficients(polynomial, MAX_PRODUCTS)
    if found is None or found[0].min() < -coefficient_error(polynomial):
        return None
    coefficients, simplices = found
    if not all(map(reader.can_be_written, simplices)):
        return None
    cells: BasisProducts = {}
    for places in np.argwhere(coefficients > coefficient_error(polynomial)):
        cells[tuple(frozenset({int(k)}) for k in places)] = float(coefficients[tuple(places)])
    for axis in range(len(simplices)):
        cells = _join_products(cells, axis)
    products = [(factor, reader.logs(cell, simplices)) for cell, factor in cells.items()]
    # A factor without summands is zero, because the simplex already contains all probabilities.
    return [product for product in products if all(product[1])]


def _join_products(cells: BasisProducts, axis: int) -> BasisProducts:
    """Merge products with equal coefficients that differ in only one simplex."""
    joined: dict[Hashable, tuple[BasisProduct, float]] = {}
    for cell, factor in cells.items():
        key = cell[:axis], cell[axis + 1 :], round(factor, 12)
        known, first = joined.get(key, (cell, factor))
        joined[key] = (*cell[:axis], known[axis] | cell[axis], *cell[axis + 1 :]), first
    return dict(joined.values())


class _PolynomialReader:
    def __init__(self, exprs: ExprGraph, read: ProbabilityReader) -> None:
        self._exprs = exprs
        self._read = read
        self._unknowns: dict[Expr, Unknown] = {}
        self._logs: dict[Unknown, Probability] = {}

    def polynomial_of(self, x: Expr) -> Polynomial | None:
        """Expression as a polynomial of probabilities, or None."""
        value = constant_value(x)
        if value is not None:
            return constant_polynomial(value)
        known = self._read(self._exprs, x)
        if known is not None:
            return self._linear_share(known)
        if is_a(x, scalar.Sqr):
            return product_of_parts([self.polynomial_of(x.inputs[0])] * 2)
        if is_a(x, scalar.Mul):
            return product_of_parts(map(self.polynomial_of, x.inputs))
        if not is_a(x, scalar.Add):
            return None
        return sum_of_parts([self.polynomial_of(y) for y in x.inputs])

    def _linear_share(self, x: Probability) -> Polynomial:
        if len(x.others) == 1 and x.others[0] in self._unknowns:
            return {**constant_polynomial(x.factor), (self._unknowns[x.others[0]],): -x.factor}
        if x.log not in self._unknowns:
            group, number = frozenset((x.log, *x.others)), len(self._unknowns)
            unknown = Unknown(number, group, zero=False, one=False, has_bound=True)
            self._unknowns[x.log], self._logs[unknown] = unknown, x
        return {(self._unknowns[x.log],): x.factor}

    def can_be_written(self, simplex: Simplex) -> bool:
        """Whether the basis functions are products of known probabilities."""
        return simplex.degree == 1 or all(len(self._logs[x].others) == 1 for x in simplex.shares)

    def logs(self, cell: BasisProduct, simplices: list[Simplex]) -> list[list[Expr]]:
        """For each factor of a product, the logarithms of its summands."""
        return [
            [x for k in sorted(places) for x in self._logs_of(simplex, simplex.indices[k])]
            for places, simplex in zip(cell, simplices, strict=True)
            if len(places) < len(simplex.indices)
        ]

    def _logs_of(self, simplex: Simplex, powers: tuple[int, ...]) -> list[Expr]:
        """Logarithms of the summands of a basis function (a single one if it is a product)."""
        own = [self._logs[x] for x in simplex.shares]
        used = [x.log for x in own]
        rest = [log for log in own[0].others if log not in used]
        if simplex.degree == 1:
            return rest if powers[-1] else [used[powers.index(1)]]
        ways = factorial(simplex.degree) / prod(map(factorial, powers))
        logs = zip((*used, *rest), powers, strict=True)
        parts = [
            multiply_exprs(self._exprs, self._exprs.constant(float(k)), x) for x, k in logs if k
        ]
        return [add_exprs(self._exprs, self._exprs.constant(log(ways)), *parts)]
