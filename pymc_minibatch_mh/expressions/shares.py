"""Polynomials of probabilities as sums of positive products.

The complement 1 - l - (1 - 2 l) σ of a probability with a lapse rate l is l σ + (1 - l)(1 - σ). Its
logarithm is one of a sum of exponentials, whose intervals never exceed zero.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from math import factorial, log, prod

import numpy as np
from pytensor.scalar import basic as scalar

from pymc_minibatch_mh.expressions.arithmetic import add, multiply
from pymc_minibatch_mh.expressions.graph import Expr, ExprGraph
from pymc_minibatch_mh.expressions.patterns import is_a, number
from pymc_minibatch_mh.functions.polynomials import (
    Polynomial,
    Simplex,
    Unknown,
    constant,
    in_basis,
    plus,
    product_of_parts,
    rounding_of,
    sum_of_parts,
)

#: Maximum number of Bernstein coefficients of a probability.
MAX_PRODUCTS = 64


@dataclass(frozen=True)
class Probability:
    """Factor times one of several probabilities that add up to one, as logarithms."""

    factor: float
    log: Expr
    others: tuple[Expr, ...]


#: Function that recognises a probability in an expression, or None.
Reading = Callable[[ExprGraph, Expr], Probability | None]
#: A coefficient, and the logarithms of the summands of every factor of a product.
Product = tuple[float, list[list[Expr]]]
#: Basis functions of each simplex, and the coefficients of the products of their sums.
Cell = tuple[frozenset[int], ...]
Cells = dict[Cell, float]


def products_of(exprs: ExprGraph, x: Expr, more: float, read: Reading) -> list[Product] | None:
    """Decomposition of x + more into positive products of probabilities, or None."""
    reader = _Reader(exprs, read)
    polynomial = reader.polynomial(x)
    if polynomial is None:
        return None
    polynomial = plus(polynomial, constant(more))
    if sum(map(len, polynomial)) < 2:
        # A single term has no other terms to combine with.
        return None
    found = in_basis(polynomial, MAX_PRODUCTS)
    if found is None or found[0].min() < -rounding_of(polynomial):
        return None
    coefficients, simplices = found
    if not all(map(reader.can_be_written, simplices)):
        return None
    cells: Cells = {}
    for places in np.argwhere(coefficients > rounding_of(polynomial)):
        cells[tuple(frozenset({int(k)}) for k in places)] = float(coefficients[tuple(places)])
    for axis in range(len(simplices)):
        cells = _joined(cells, axis)
    products = [(factor, reader.logs(cell, simplices)) for cell, factor in cells.items()]
    # All shares of a simplex together leave nothing.
    return [product for product in products if all(product[1])]


def _joined(cells: Cells, axis: int) -> Cells:
    """Merge products that differ in only one simplex."""
    alike: dict[Hashable, list[Cell]] = {}
    for cell, factor in cells.items():
        key = cell[:axis], cell[axis + 1 :], round(factor, 12)
        alike.setdefault(key, []).append(cell)
    joined: Cells = {}
    for some in alike.values():
        first, union = some[0], frozenset[int]().union(*(cell[axis] for cell in some))
        joined[*first[:axis], union, *first[axis + 1 :]] = cells[first]
    return joined


class _Reader:
    def __init__(self, exprs: ExprGraph, read: Reading) -> None:
        self._exprs = exprs
        self._read = read
        self._unknowns: dict[Expr, Unknown] = {}
        self._logs: dict[Unknown, Probability] = {}

    def polynomial(self, x: Expr) -> Polynomial | None:
        """Expression as a polynomial of probabilities, or None."""
        value = number(x)
        if value is not None:
            return constant(value)
        known = self._read(self._exprs, x)
        if known is not None:
            return self._linear(known)
        if is_a(x, scalar.Sqr):
            return product_of_parts([self.polynomial(x.inputs[0])] * 2)
        if is_a(x, scalar.Mul):
            return product_of_parts(map(self.polynomial, x.inputs))
        if not is_a(x, scalar.Add):
            return None
        return sum_of_parts([self.polynomial(y) for y in x.inputs])

    def _linear(self, x: Probability) -> Polynomial:
        if len(x.others) == 1 and x.others[0] in self._unknowns:
            return {**constant(x.factor), (self._unknowns[x.others[0]],): -x.factor}
        if x.log not in self._unknowns:
            group, number = frozenset((x.log, *x.others)), len(self._unknowns)
            unknown = Unknown(number, group, zero=False, one=False, has_bound=True)
            self._unknowns[x.log], self._logs[unknown] = unknown, x
        return {(self._unknowns[x.log],): x.factor}

    def can_be_written(self, simplex: Simplex) -> bool:
        """Whether the basis functions are products of known probabilities."""
        return simplex.degree == 1 or all(len(self._logs[x].others) == 1 for x in simplex.shares)

    def logs(self, cell: Cell, simplices: list[Simplex]) -> list[list[Expr]]:
        """Logarithms of the summands of every factor of a product."""
        return [
            [x for k in sorted(places) for x in self._logs_of(simplex, simplex.indices[k])]
            for places, simplex in zip(cell, simplices, strict=True)
            if len(places) < len(simplex.indices)
        ]

    def _logs_of(self, simplex: Simplex, powers: tuple[int, ...]) -> list[Expr]:
        """Logarithm of a basis function, or those of its summands."""
        own = [self._logs[x] for x in simplex.shares]
        used = [x.log for x in own]
        rest = [log for log in own[0].others if log not in used]
        if simplex.degree == 1:
            return rest if powers[-1] else [used[powers.index(1)]]
        ways = factorial(simplex.degree) / prod(map(factorial, powers))
        logs = zip((*used, *rest), powers, strict=True)
        parts = [multiply(self._exprs, self._exprs.constant(float(k)), x) for x, k in logs if k]
        return [add(self._exprs, self._exprs.constant(log(ways)), *parts)]
