"""Ranges of polynomials of shares, from their coefficients in the Bernstein basis.

Shares whose sum is at most one, and the remainder to one, are barycentric coordinates of a simplex.
On a product of simplices a polynomial is a convex combination of its coefficients in the Bernstein
basis, so that they enclose its values; for a polynomial that is linear in each simplex, they are
its values at the corners. R. T. Farouki (2012), Computer Aided Geometric Design 29,
doi:10.1016/j.cagd.2012.03.001.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import factorial, inf, perm, prod

import numpy as np

from pymc_minibatch_mh.functions.base import rounded_sum

#: Maximum number of Bernstein coefficients; a polynomial with more is bounded term by term.
MAX_COEFFICIENTS = 2**14
#: Maximum number of terms of a polynomial whose range is computed.
MAX_TERMS = 200
#: Relative rounding error of a model's constants, such as probabilities that should sum to one.
RELATIVE_ROUNDING = 1e-14


@dataclass(frozen=True)
class Range:
    """Interval from `low` to `high`, without ends that are open."""

    low: float = -inf
    high: float = inf
    low_is_open: bool = True
    high_is_open: bool = True

    @property
    def is_bounded(self) -> bool:
        """Whether both ends are finite."""
        return self.low > -inf and self.high < inf

    @property
    def is_positive(self) -> bool:
        """Whether all numbers are positive."""
        return self.low > 0.0 or (self.low == 0.0 and self.low_is_open)

    @staticmethod
    def hull(ranges: Sequence["Range"]) -> "Range":
        """Smallest range that contains all ranges."""
        low, low_is_open = min((r.low, r.low_is_open) for r in ranges)
        high, closed = max((r.high, not r.high_is_open) for r in ranges)
        return Range(low, high, low_is_open, not closed)


@dataclass(frozen=True)
class Unknown:
    """A quantity between 0 and 1, or a nonnegative quantity without upper bound.

    `zero` and `one` tell whether it may be 0 or 1. The sum of a `group` is at most one. It varies
    along the axes with `labels`; along the `shared` axes it adds up to one.
    """

    number: int
    group: Hashable
    zero: bool
    one: bool
    has_bound: bool
    labels: frozenset[Hashable] = frozenset()
    shared: frozenset[Hashable] = frozenset()


#: A product of unknowns, repeated by multiplicity; polynomials map it to its coefficient.
Monomial = tuple[Unknown, ...]
Polynomial = Mapping[Monomial, float]


def constant_polynomial(value: float) -> Polynomial:
    """Constant polynomial."""
    return {(): value} if value != 0.0 else {}


def linear_polynomial(of: Range, unknown: Unknown) -> Polynomial:
    """Linear polynomial in an unknown, which takes the values of a range."""
    if of.low == -inf:
        return {**constant_polynomial(of.high), (unknown,): -1.0}
    return {**constant_polynomial(of.low), (unknown,): of.high - of.low if of.is_bounded else 1.0}


def add_polynomials(*parts: Polynomial) -> Polynomial:
    """Sum of polynomials, without terms that are only rounding errors."""
    terms: dict[Monomial, list[float]] = {}
    for part in parts:
        for monomial, factor in part.items():
            terms.setdefault(monomial, []).append(factor)
    totals = {monomial: rounded_sum(factors) for monomial, factors in terms.items()}
    return {monomial: total for monomial, total in totals.items() if total != 0.0}


def multiply_polynomials(left: Polynomial, right: Polynomial) -> Polynomial:
    """Product of polynomials."""
    products: list[Polynomial] = [
        {tuple(sorted((*a, *b), key=lambda unknown: unknown.number)): x * y}
        for a, x in left.items()
        for b, y in right.items()
    ]
    return add_polynomials(*products)


def sum_of_parts(parts: Sequence[Polynomial | None]) -> Polynomial | None:
    """Sum of polynomials, or None if a part is unknown."""
    known = [part for part in parts if part is not None]
    return add_polynomials(*known) if len(known) == len(parts) else None


def product_of_parts(parts: Iterable[Polynomial | None]) -> Polynomial | None:
    """Product of polynomials; None if a factor is unknown or the product has too many terms."""
    product = constant_polynomial(1.0)
    for part in parts:
        if part is None or len(product) * len(part) > MAX_TERMS:
            return None
        product = multiply_polynomials(product, part)
    return product


def polynomial_range(polynomial: Polynomial) -> Range:
    """Range that contains all values of a polynomial."""
    low, low_is_open = _lower_bound(polynomial)
    high, high_is_open = _lower_bound(
        {monomial: -factor for monomial, factor in polynomial.items()}
    )
    return Range(low, -high, low_is_open, high_is_open)


def _lower_bound(polynomial: Polynomial) -> tuple[float, bool]:
    """Lower bound, and whether it is certainly not attained."""
    by_size: dict[Monomial, dict[Monomial, float]] = {(): {}}
    for monomial, factor in polynomial.items():
        large = tuple(x for x in monomial if not x.has_bound)
        rest = tuple(x for x in monomial if x.has_bound)
        by_size.setdefault(large, {})[rest] = factor
    least, is_open = _lower_bound_of_shares(by_size.pop(()))
    for large, factors in by_size.items():
        low, low_is_open = _lower_bound_of_shares(factors)
        if low < 0.0:
            return -inf, True
        positive = low > 0.0 or low_is_open
        is_open |= positive and not any(x.zero for x in large)
    return least, is_open


def _lower_bound_of_shares(polynomial: Polynomial) -> tuple[float, bool]:
    found = bernstein_coefficients(polynomial, MAX_COEFFICIENTS)
    if found is None:
        smallest = sum(min(factor, 0.0) for monomial, factor in polynomial.items() if monomial)
        return polynomial.get((), 0.0) + smallest, False
    coefficients, simplices = found
    always = reduce(np.logical_and.outer, [s.positive for s in simplices], np.ones((), dtype=bool))
    least, doubt = float(coefficients.min()), coefficient_error(polynomial)
    is_open = bool((coefficients[always] > least + doubt).any())
    return 0.0 if abs(least) <= doubt else least, is_open


def coefficient_error(polynomial: Polynomial) -> float:
    """Rounding error of Bernstein coefficients."""
    return RELATIVE_ROUNDING * sum(map(abs, polynomial.values()))


def bernstein_coefficients(
    polynomial: Polynomial, limit: int
) -> tuple[np.ndarray, list["Simplex"]] | None:
    """Bernstein coefficients with an axis per simplex, or None for more than `limit`."""
    groups: dict[Hashable, dict[Unknown, None]] = {}
    for unknown in (x for monomial in polynomial for x in monomial):
        groups.setdefault(unknown.group, {})[unknown] = None
    simplices = [Simplex(tuple(group), polynomial) for group in groups.values()]
    sizes = [len(simplex.indices) for simplex in simplices]
    if prod(sizes) > limit:
        return None
    coefficients = np.zeros(sizes)
    for monomial, factor in polynomial.items():
        bases = [simplex.basis_of(monomial) for simplex in simplices]
        coefficients += factor * reduce(np.multiply.outer, bases, np.ones(()))
    return coefficients, simplices


class Simplex:
    """Group of shares and their remainder, with the degree of a polynomial in them."""

    def __init__(self, shares: tuple[Unknown, ...], polynomial: Polynomial) -> None:
        self.shares = shares
        self.degree = max(sum(x in shares for x in monomial) for monomial in polynomial)
        #: Exponents of the shares and of the remainder in each basis function.
        self.indices = [*_exponents_of_degree(self.degree, len(shares) + 1)]
        rest = len(shares) > 1 or shares[0].one
        zero = np.array([*(x.zero for x in shares), rest])
        #: Whether each basis function is positive for all possible shares.
        self.positive = ~((np.array(self.indices) > 0) & zero).any(axis=1)

    def basis_of(self, monomial: Monomial) -> np.ndarray:
        """Bernstein coefficients of the factors of a monomial that are these shares."""
        own = Counter(x for x in monomial if x in self.shares)
        powers = [own[x] for x in self.shares]
        scale = factorial(self.degree - sum(powers)) / factorial(self.degree)
        # The remainder is the last coordinate; no monomial contains it, and `map` leaves it out.
        return np.array([scale * prod(map(perm, index, powers)) for index in self.indices])


def _exponents_of_degree(degree: int, n: int) -> Iterator[tuple[int, ...]]:
    """Yield all tuples of n exponents with a given sum."""
    if n == 1:
        yield (degree,)
        return
    for first in range(degree + 1):
        for rest in _exponents_of_degree(degree - first, n - 1):
            yield (first, *rest)
