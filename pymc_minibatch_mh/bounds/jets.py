"""Interval Taylor jets: enclosures of a row's partial derivatives over a box of its predictors.

A jet maps each multi-index, a sorted tuple of predictor numbers such as ``(0, 0, 1)``, to an
enclosure of that partial derivative, and ``()`` to the value; zero derivatives are left out. The
chain rule of Faà di Bruno propagates jets through expressions, with one rule per operation.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from itertools import combinations, combinations_with_replacement, product
from operator import mul

import numpy as np
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from pytensor.scalar.basic import ScalarOp

from pymc_minibatch_mh.bounds.between_tails import MAX_ORDER, Partials, mean_density_partials
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.expressions.graph import Apply, Argument, Constant, Data, Expr
from pymc_minibatch_mh.expressions.patterns import LogBetweenTails, operands_first
from pymc_minibatch_mh.expressions.rules import log_expr, width_between
from pymc_minibatch_mh.functions.base import operation_name
from pymc_minibatch_mh.functions.enclosures import NoRuleError, enclose_derivatives
from pymc_minibatch_mh.functions.interval import Interval
from pymc_minibatch_mh.functions.log_sum_exp import LogSumExp
from pymc_minibatch_mh.structure.row_function import USE_UNBOUNDED_SAMPLERS, RowData, RowFunction

Index = tuple[int, ...]
Jet = Mapping[Index, Interval]
ZERO = Interval.point(0.0)
#: Factor 2/√π of the error function, in logarithms.
LOG_SCALE: Jet = {(): Interval.rounded(*2 * (np.log(2.0 / np.sqrt(np.pi)),))}
#: Ends and widths of normal probabilities beyond which products may overflow.
FAR = 1e50
#: Advice about operations without a rule.
ADVICE = {
    scalar.ArcTan2: "Pass default_transform=circular for an angle, not transform=circular, to "
    "which PyMC adds the transform of an interval, so that angles beyond 2.88 are impossible. "
}


@dataclass(frozen=True, eq=False)
class Truth:
    """Condition over a box: whether it holds everywhere, and whether it may hold somewhere."""

    must: np.ndarray
    may: np.ndarray


class Jets:
    """Jets of a row function's expressions up to an order from 1 to 4, over a box of predictors."""

    def __init__(self, data: RowData, boxes: Sequence[Interval], order: int) -> None:
        self._data = data
        self._boxes = boxes
        self._order = order
        self._known: dict[Expr, Jet | Truth] = {}

    def of(self, expr: Expr) -> Jet:
        """Jet of an expression: enclosures of its value and partial derivatives."""
        known = self._any_of(expr)
        if not isinstance(known, Truth):
            return known
        value = Interval(known.must.astype(float), known.may.astype(float))
        return self._with_unknown_derivatives({(): value}, known.may & ~known.must)

    def _any_of(self, expr: Expr) -> "Jet | Truth":
        if expr not in self._known:
            self._known[expr] = self._jet_by_rules(expr)
        return self._known[expr]

    def _jet_by_rules(self, expr: Expr) -> "Jet | Truth":
        if expr.is_data:
            return self._of_data(expr)
        if isinstance(expr, Argument):
            one = Interval.point(np.ones(()))
            return {(): self._boxes[expr.number], (expr.number,): one}
        assert isinstance(expr, Apply)
        op, operands = expr.op, expr.inputs
        if isinstance(op, LogBetweenTails):
            forms = [self.of(x) for x in operands[1:]]
            forms.append(self._log_between_tails(*operands[0].inputs))
            if self._order <= MAX_ORDER:
                forms.append(self._by_width(*operands[0].inputs))
            return reduce(_in_both, forms)
        if isinstance(op, scalar.Switch):
            return self._of_switch(*operands)
        if type(op) in _COMPARISONS:
            left, right = (self.of(x)[()] for x in operands)
            return _COMPARISONS[type(op)](left, right)
        if isinstance(op, scalar.AND | scalar.OR | scalar.Invert):
            return _truth_of_logic(op, [self._truth_of(x) for x in operands])
        if isinstance(op, scalar.Mul) and all(isinstance(self._any_of(x), Truth) for x in operands):
            return _truth_of_logic(scalar.and_, [self._truth_of(x) for x in operands])
        return self._of_arithmetic(op, operands)

    def _of_arithmetic(self, op: ScalarOp, operands: Sequence[Expr]) -> Jet:
        if isinstance(op, scalar.Add):
            return _sum_of_jets([self.of(x) for x in operands])
        if isinstance(op, scalar.Mul):
            product = self.of(operands[0])
            for x in operands[1:]:
                product = _product_of_jets(product, self.of(x), self._order)
            return product
        if isinstance(op, scalar.Maximum | scalar.Minimum):
            return self._of_extreme(op, [self.of(x) for x in operands])
        if isinstance(op, LogSumExp):
            return reduce(self._log_of_pair, map(self.of, operands))
        if isinstance(op, scalar.Clip):
            value, low, high = (self.of(expr) for expr in operands)
            raised = self._of_extreme(scalar.scalar_maximum, [value, low])
            return self._of_extreme(scalar.scalar_minimum, [raised, high])
        if not all(x.is_data for x in operands[1:]):
            raise self._without_rule(op)
        inner, data = self.of(operands[0]), [self._data.value(x) for x in operands[1:]]
        try:
            outer = enclose_derivatives(op, inner[()], self._order, *data)
        except NoRuleError:
            raise self._without_rule(op) from None
        return _jet_of_composition(outer, inner)

    def _log_between_tails(self, left: Expr, mirrored: Expr) -> Jet:
        """Jet of log(erfc(x) - erfc(y)) for x and -y, as log(erfc(x) + erfc(-y) - 2)."""
        ends = [self.of(left), self.of(mirrored)]
        tails = [
            _jet_of_composition(enclose_derivatives(scalar_math.erfc, x[()], self._order), x)
            for x in ends
        ]
        share = _sum_of_jets([*tails, {(): Interval.point(np.full((), -2.0))}])
        return _jet_of_composition(enclose_derivatives(scalar.log, share[()], self._order), share)

    def _by_width(self, left: Expr, mirrored: Expr) -> Jet:
        """Jet of the same by the width y - x, in rows where this is proved to be positive."""
        exprs = self._data.function.exprs
        width = width_between(exprs, left, mirrored)
        start, gap = self.of(left), self.of(width)
        x, g = start[()], gap[()]
        inner = _jet_of_two(mean_density_partials(x, g), (start, gap), self._order)
        total = _sum_of_jets([LOG_SCALE, self.of(log_expr(exprs, width)), inner])
        proved = (g.lo > 0.0) & (g.hi < FAR) & (x.magnitude < FAR)
        return self._with_unknown_derivatives(total, ~proved, least=0)

    def _log_of_pair(self, left: Jet, right: Jet) -> Jet:
        """Jet of log(exp(x) + exp(y)) as x + softplus(y - x), unless x or y is -inf."""
        negative = _product_of_jets({(): Interval.point(-np.ones(()))}, left, self._order)
        apart = _sum_of_jets([right, negative])
        outer = enclose_derivatives(scalar_math.softplus, apart[()], self._order)
        total = _sum_of_jets([left, _jet_of_composition(outer, apart)])
        first, second = left[()].hi > -np.inf, right[()].hi > -np.inf

        def of_possible(k: Index) -> Interval:
            x, y = left.get(k, ZERO), right.get(k, ZERO)
            either = Interval.where(first, x, y)
            return Interval.where(first & second, total.get(k, ZERO), either)

        return {k: of_possible(k) for k in {*total, *left, *right}}

    def _without_rule(self, op: ScalarOp) -> BoundsError:
        return BoundsError(
            f"{self._data.function.name!r} goes through {operation_name(op)}, whose derivatives "
            f"have no known bound. {ADVICE.get(type(op), '')}{USE_UNBOUNDED_SAMPLERS}"
        )

    def _of_data(self, expr: Expr) -> Jet:
        values = np.asarray(self._data.value(expr))
        exact = isinstance(expr, Data | Constant) or values.dtype.kind in "biu"
        floats = values.astype(np.float64)
        return {(): Interval.point(floats) if exact else Interval.rounded(floats, floats)}

    def _truth_of(self, expr: Expr) -> Truth:
        if expr.is_data:
            holds = np.asarray(self._data.value(expr)).astype(bool)
            return Truth(holds, holds)
        known = self._any_of(expr)
        if isinstance(known, Truth):
            return known
        value = known[()]
        return Truth((value.lo > 0.0) | (value.hi < 0.0), (value.lo != 0.0) | (value.hi != 0.0))

    def _of_switch(self, condition: Expr, yes: Expr, no: Expr) -> Jet:
        if condition.is_data:
            return self._chosen_by_data(condition, yes, no)
        truth = self._truth_of(condition)
        undecided = truth.may & ~truth.must
        left, right = self.of(yes), self.of(no)
        chosen = {
            k: Interval.where(truth.may, left.get(k, ZERO), right.get(k, ZERO))
            for k in {*left, *right}
        }
        if not undecided.any():
            return chosen
        # At a kink the slope is between those of both branches, which bounds the change.
        is_kink = bool(self._data.function.exprs.kinks.get(condition))
        for k in (k for k in list(chosen) if len(k) <= is_kink):
            both = left.get(k, ZERO).hull(right.get(k, ZERO))
            chosen[k] = Interval.where(undecided, both, chosen[k])
        return self._with_unknown_derivatives(chosen, undecided, least=1 + is_kink)

    def _chosen_by_data(self, condition: Expr, yes: Expr, no: Expr) -> Jet:
        """Jet of a switch on data; each branch is evaluated for its own rows only, to save work."""
        holds, fails = self._data.where(condition)
        if not holds.size or not fails.size:
            return self.of(yes if holds.size else no)
        left, right = self._restricted_jets(holds).of(yes), self._restricted_jets(fails).of(no)
        joined = {}
        for k in {*left, *right}:
            ends = np.empty((2, holds.size + fails.size))
            for rows, jet in ((holds, left), (fails, right)):
                value = jet.get(k, ZERO)
                ends[0][rows], ends[1][rows] = value.lo, value.hi
            joined[k] = Interval(*ends)
        return joined

    def _restricted_jets(self, rows: np.ndarray) -> "Jets":
        boxes = [box.take(rows) for box in self._boxes]
        part = Jets(self._data.part(rows), boxes, self._order)
        part._known = {
            expr: {k: value.take(rows) for k, value in jet.items()}
            for expr, jet in self._known.items()
            if not isinstance(jet, Truth)
        }
        return part

    def _of_extreme(self, op: ScalarOp, pair: Sequence[Jet]) -> Jet:
        left, right = pair
        x, y = left[()], right[()]
        if isinstance(op, scalar.Maximum):
            first, second = x.lo >= y.hi, y.lo >= x.hi
            ends = np.maximum(x.lo, y.lo), np.maximum(x.hi, y.hi)
        else:
            first, second = x.hi <= y.lo, y.hi <= x.lo
            ends = np.minimum(x.lo, y.lo), np.minimum(x.hi, y.hi)
        result: dict[Index, Interval] = {(): Interval(*ends)}
        for k in {*left, *right} - {()}:
            a, b = left.get(k, ZERO), right.get(k, ZERO)
            result[k] = Interval.where(first, a, Interval.where(second, b, a.hull(b)))
        return self._with_unknown_derivatives(result, ~(first | second), least=2)

    def _with_unknown_derivatives(self, jet: Jet, rows: np.ndarray, least: int = 1) -> Jet:
        """Jet with derivatives of order `least` and above set to (-inf, inf) in some rows."""
        if not np.any(rows):
            return jet
        result = dict(jet)
        for length in range(least, self._order + 1):
            for k in combinations_with_replacement(range(len(self._boxes)), length):
                result[k] = Interval.where(rows, Interval.whole_line(), jet.get(k, ZERO))
        return result


class _AnyRow(RowData):
    """Placeholder for a row's data, because the choice of rules does not depend on data values."""

    def __init__(self, function: RowFunction) -> None:
        self.function, self.rows = function, np.zeros(1, dtype=np.int64)

    def value(self, expr: Expr) -> np.ndarray:
        """Zero with the dtype of a data expression."""
        return np.zeros((), expr.dtype)


def require_rules(function: RowFunction) -> None:
    """Raise a BoundsError that names the operation if an operation has no rule.

    Every operation is enclosed over the whole space, with placeholder data: rows may skip branches.
    """
    everywhere = [Interval.whole_line()] * len(function.arguments)
    jets = Jets(_AnyRow(function), everywhere, 1)
    with np.errstate(all="ignore"):
        for expr in operands_first([function.root]):
            if not expr.is_data:
                jets.of(expr)


def _in_both(left: Jet, right: Jet) -> Jet:
    """Jet of a function given by two equivalent expressions: intersection of both enclosures."""
    both = {}
    for k in {*left, *right}:
        x, y = left.get(k, ZERO), right.get(k, ZERO)
        both[k] = Interval(np.maximum(x.lo, y.lo), np.minimum(x.hi, y.hi))
    return both


def _sum_of_jets(jets: Sequence[Jet]) -> Jet:
    result: dict[Index, Interval] = {}
    for jet in jets:
        for index, value in jet.items():
            result[index] = result[index] + value if index in result else value
    return result


def _product_of_jets(left: Jet, right: Jet, order: int) -> Jet:
    result: dict[Index, Interval] = {}
    for one, x in left.items():
        for other, y in right.items():
            if len(one) + len(other) <= order:
                index = tuple(sorted(one + other))
                times = _multiplicity_of_part(one, index)
                term = x * y if times == 1 else (x * y) * float(times)
                result[index] = result[index] + term if index in result else term
    return result


@cache
def _multiplicity_of_part(part: Index, index: Index) -> int:
    """Number of ways to choose a sub-index from a multi-index, for the Leibniz rule."""
    return sum(tuple(index[k] for k in chosen) == part for chosen in combinations(
        range(len(index)), len(part)
    ))  # fmt: skip


def _jet_of_composition(outer: Sequence[Interval], inner: Jet) -> Jet:
    """Jet of g(u), from the derivatives of g and the jet of u."""
    arguments = sorted({k for index in inner for k in index})
    result: dict[Index, Interval] = {(): outer[0]}
    for length in range(1, len(outer)):
        for index in combinations_with_replacement(arguments, length):
            for blocks, count in _counted_partitions(index):
                if all(block in inner for block in blocks):
                    term = outer[len(blocks)] * _product_of_powers(blocks, inner)
                    term = term if count == 1 else term * float(count)
                    result[index] = result[index] + term if index in result else term
    return result


def _jet_of_two(outer: Partials, inner: Sequence[Jet], order: int) -> Jet:
    """Jet of F(u, v), from the partial derivatives of F and the jets of u and v."""
    arguments = sorted({k for jet in inner for index in jet for k in index})
    result: dict[Index, Interval] = {(): outer[()]}
    for length in range(1, order + 1):
        for index in combinations_with_replacement(arguments, length):
            for blocks, count in _counted_partitions(index):
                for chosen in product(range(len(inner)), repeat=len(blocks)):
                    parts = [inner[k].get(block) for k, block in zip(chosen, blocks, strict=True)]
                    if any(part is None for part in parts):
                        continue
                    term = reduce(mul, parts, outer[tuple(sorted(chosen))]) * float(count)
                    result[index] = result[index] + term if index in result else term
    return result


def _product_of_powers(blocks: tuple[Index, ...], jet: Jet) -> Interval:
    product: Interval | None = None
    for block, exponent in Counter(blocks).items():
        power = _power_of_interval(jet[block], exponent)
        product = power if product is None else product * power
    assert product is not None
    return product


def _power_of_interval(x: Interval, exponent: int) -> Interval:
    if exponent == 1:
        return x
    with np.errstate(over="ignore"):
        # Repeated products, because NumPy's powers are a hundred times slower.
        low, high = (reduce(np.multiply, [end] * exponent) for end in (x.lo, x.hi))
    if exponent % 2 == 1:
        return Interval.rounded(low, high)
    inside = (x.lo < 0.0) & (x.hi > 0.0)
    rounded = Interval.rounded(np.minimum(low, high), np.maximum(low, high))
    return Interval(np.where(inside, 0.0, np.maximum(rounded.lo, 0.0)), rounded.hi)


@cache
def _counted_partitions(index: Index) -> tuple[tuple[tuple[Index, ...], int], ...]:
    """Partitions of a multi-index into blocks, with their multiplicities."""
    found: Counter[tuple[Index, ...]] = Counter()
    for blocks in _set_partitions(tuple(range(len(index)))):
        found[tuple(sorted(tuple(index[k] for k in block) for block in blocks))] += 1
    return tuple(found.items())


def _set_partitions(places: Index) -> list[list[Index]]:
    if not places:
        return [[]]
    first, rest = places[0], places[1:]
    result = []
    for partition in _set_partitions(rest):
        result.append([(first,), *partition])
        for k, block in enumerate(partition):
            result.append([*partition[:k], (first, *block), *partition[k + 1 :]])
    return result


def _truth_of_equality(x: Interval, y: Interval) -> Truth:
    # Only equal constants count: other functions are equal with posterior probability 0.
    same = (x.lo == x.hi) & (y.lo == y.hi) & (x.lo == y.lo)
    return Truth(same, same)


_COMPARISONS: dict[type, Callable[[Interval, Interval], Truth]] = {
    scalar.GT: lambda x, y: Truth(x.lo > y.hi, x.hi > y.lo),
    scalar.GE: lambda x, y: Truth(x.lo >= y.hi, x.hi >= y.lo),
    scalar.LT: lambda x, y: Truth(y.lo > x.hi, y.hi > x.lo),
    scalar.LE: lambda x, y: Truth(y.lo >= x.hi, y.hi >= x.lo),
    scalar.EQ: _truth_of_equality,
    scalar.NEQ: lambda x, y: _truth_of_logic(scalar.invert, [_truth_of_equality(x, y)]),
}


def _truth_of_logic(op: ScalarOp, parts: Sequence[Truth]) -> Truth:
    if isinstance(op, scalar.Invert):
        return Truth(~parts[0].may, ~parts[0].must)
    combine = np.logical_and if isinstance(op, scalar.AND) else np.logical_or
    must, may = parts[0].must, parts[0].may
    for part in parts[1:]:
        must, may = combine(must, part.must), combine(may, part.may)
    return Truth(must, may)
