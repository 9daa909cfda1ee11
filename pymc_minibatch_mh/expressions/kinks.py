"""Kinks and jumps of an observation, as switches at the root between smooth branches.

An observation with |g|, max(x, y) or a condition on parameters becomes ``switch(g > 0, f, h)``.
Neither branch has a kink, so each is smooth also beyond g = 0, where the other one is taken.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from pytensor.scalar import basic as scalar

from pymc_minibatch_mh.expressions.arithmetic import core_and_factor, negate_expr, subtract_exprs
from pymc_minibatch_mh.expressions.graph import Affine, Constant, Data, Expr, ExprGraph, Gather
from pymc_minibatch_mh.expressions.impossible_parts import switch_expr
from pymc_minibatch_mh.expressions.patterns import (
    LogBetweenTails,
    constant_value,
    is_a,
    is_impossible,
    operands_first,
    product_factors,
    subexpressions,
)
from pymc_minibatch_mh.expressions.rules import ORDERS, apply_operation

#: Maximum number of kinks of an observation; each doubles the number of its smooth branches.
MAX_KINKS = 3
#: Smallest number that a density compares a parameter with to switch to its limit.
MAX_NUMBER = 1e8
#: Rounding error of the coefficients of equal linear predictors.
RELATIVE = 1e-12
_Values = Mapping[Expr, Expr]
_CONTINUOUS = (scalar.Abs, scalar.Maximum, scalar.Minimum)


def with_kinks_outside(exprs: ExprGraph, root: Expr) -> Expr:
    """Equal expression with its kinks as switches at the root; unchanged if this is impossible."""
    parts = list(subexpressions(root))
    if any(is_a(x, LogBetweenTails) for x in parts):
        return root
    clipped = {}
    for x in (x for x in parts if is_a(x, scalar.Clip) and not x.is_data):
        value, low, high = x.inputs
        raised = apply_operation(exprs, scalar.scalar_maximum, value, low)
        clipped[x] = apply_operation(exprs, scalar.scalar_minimum, raised, high)
    return _split_at_kinks(exprs, _resolve(exprs, root, clipped), MAX_KINKS) or root


@dataclass(frozen=True)
class _Side:
    """A node that changes where g changes its sign, and whether this is the sign of the core."""

    node: Expr
    g: Expr
    is_same: bool = True

    def value(self, exprs: ExprGraph, *, above: bool) -> Expr:
        """Smooth expression that the node equals where the core is positive, or negative."""
        positive, first = above == self.is_same, self.node.inputs[0]
        if is_a(self.node, scalar.Abs):
            return first if positive else negate_expr(exprs, first)
        if is_a(self.node, scalar.Sign):
            return exprs.constant(1.0 if positive else -1.0)
        if is_a(self.node, scalar.Maximum, scalar.Minimum):
            return self.node.inputs[positive != is_a(self.node, scalar.Maximum)]
        return exprs.constant(positive == is_a(self.node, scalar.GT, scalar.GE))

    def takes_branch_above(self) -> bool:
        """Whether a comparison at equality has its value where the core is positive."""
        holds_above = self.is_same == is_a(self.node, scalar.GT, scalar.GE)
        return is_a(self.node, scalar.GE, scalar.LE) == holds_above


def _split_at_kinks(exprs: ExprGraph, root: Expr, left: int) -> Expr | None:
    """Nested switches between smooth branches; None if there are too many, or a jump of a sign."""
    sides = list(_sides_in(exprs, root))
    if not sides or not left:
        return None if sides else root
    core, factor = core_and_factor(exprs, sides[0].g)
    core = core if constant_value(factor) else sides[0].g
    pairs = [(side, _multiple_of(exprs, side.g, core)) for side in sides]
    alike = [replace(side, is_same=size > 0.0) for side, size in pairs if abs(size) > 0.0]
    ways = [
        {side.node: side.value(exprs, above=above) for side in alike} for above in (True, False)
    ]
    above, below = (_resolve(exprs, root, values) for values in ways)
    compared = [side for side in alike if is_a(side.node, *ORDERS)]
    at_equality = {side.takes_branch_above() for side in compared}
    is_kink = _is_continuous(exprs, root, core, ways)
    if not is_kink and (len(at_equality) > 1 or len(compared) < len(alike)):
        return None
    condition = exprs.node(scalar.ge if at_equality == {True} else scalar.gt, (core, exprs.zero))
    exprs.kinks[condition] = is_kink and exprs.kinks.get(condition, True)
    branches = [_split_at_kinks(exprs, branch, left - 1) for branch in (above, below)]
    if branches[0] is None or branches[1] is None:
        return None
    return switch_expr(exprs, condition, branches[0], branches[1])


def _sides_in(exprs: ExprGraph, root: Expr) -> Iterator[_Side]:
    """Nodes with a kink or a jump that differs between observations, operands first."""
    left_out = {y for check in exprs.checks for y in subexpressions(check)}
    for x in subexpressions(root):
        if is_a(x, scalar.Switch) and any(map(is_impossible, x.inputs[1:])):
            left_out.update(subexpressions(x.inputs[0]))
    for x in operands_first([root]):
        if x.is_data or x in left_out or _tests_a_limit(x):
            continue
        if is_a(x, scalar.Abs, scalar.Sign):
            g = x.inputs[0]
        elif is_a(x, scalar.Maximum, scalar.Minimum, *ORDERS):
            g = subtract_exprs(exprs, *x.inputs)
        else:
            continue
        if _differs_between_rows(g):
            yield _Side(x, g)


def _tests_a_limit(expr: Expr) -> bool:
    """Whether an expression is a comparison with a number beyond which a density is its limit."""
    numbers = [abs(constant_value(x) or 0.0) for x in expr.inputs]
    return is_a(expr, *ORDERS) and max(numbers) >= MAX_NUMBER


def _differs_between_rows(expr: Expr) -> bool:
    affine = [x for x in subexpressions(expr) if isinstance(x, Affine)]
    terms = [term for x in affine for term in x.terms]
    return (
        any(term.monomial or isinstance(term.place, Gather) for term in terms)
        or any(not isinstance(x.offset, Constant) for x in affine)
        or any(isinstance(x, Data) or (x.is_data and x.inputs) for x in subexpressions(expr))
    )


def _resolve(exprs: ExprGraph, root: Expr, values: _Values) -> Expr:
    """Expression with some nodes replaced, and simplified."""
    results = dict(values)
    for expr in operands_first([root], values):
        inputs = [results[x] for x in expr.inputs]
        changed = any(x is not y for x, y in zip(inputs, expr.inputs, strict=True))
        results[expr] = apply_operation(exprs, expr.op, *inputs) if changed else expr  # type: ignore[attr-defined]
    return results[root]


def _is_continuous(exprs: ExprGraph, expr: Expr, core: Expr, ways: Sequence[_Values]) -> bool:
    """Whether an expression with nodes that change at core = 0 is the same on both sides there."""
    nodes = ways[0]
    if expr.is_data or set(subexpressions(expr)).isdisjoint(nodes):
        return True
    if is_a(expr, scalar.Mul) and any(_vanish_with(exprs, [x], core, ways) for x in expr.inputs):
        return True
    inputs = expr.inputs
    if is_a(expr, scalar.Switch) and inputs[0] in nodes:
        inputs = inputs[1:]
        if not _vanish_with(exprs, inputs, core, ways):
            return False
    elif expr in nodes and not is_a(expr, *_CONTINUOUS):
        return False
    return all(_is_continuous(exprs, x, core, ways) for x in inputs)


def _vanish_with(
    exprs: ExprGraph, parts: Sequence[Expr], core: Expr, ways: Sequence[_Values]
) -> bool:
    """Whether expressions are multiples of the core on both of its sides."""
    sides = [_resolve(exprs, x, values) for x in parts for values in ways]
    return all(
        constant_value(x) == 0.0
        or any(_multiple_of(exprs, factor, core) for factor in product_factors(x))
        for x in sides
    )


def _multiple_of(exprs: ExprGraph, x: Expr, core: Expr) -> float:
    """Number k with x = k × core; 0 if there is none, and NaN for data, whose sign is unknown."""
    if x is core:
        return 1.0
    (multiple, factor), (core, unit) = core_and_factor(exprs, x), core_and_factor(exprs, core)
    sizes = constant_value(factor), constant_value(unit)
    size = sizes[0] / sizes[1] if sizes[0] and sizes[1] else math.nan
    if multiple is core:
        return size
    if not (isinstance(multiple, Affine) and isinstance(core, Affine)):
        return 0.0
    pairs = {(term.monomial, term.place): term.factor for term in core.terms}
    if pairs.keys() != {(term.monomial, term.place) for term in multiple.terms}:
        return 0.0
    ratios = [term.factor / pairs[term.monomial, term.place] for term in multiple.terms]
    left, right = (_summands(exprs, affine.offset) for affine in (multiple, core))
    ratios += [left.get(k, 0.0) / value for k, value in right.items() if value != 0.0]
    same = all(right.get(k, 0.0) != 0.0 for k, value in left.items() if value != 0.0)
    close = np.allclose(ratios, ratios[0], rtol=RELATIVE, atol=0.0)
    return size * ratios[0] if same and close else 0.0


def _summands(exprs: ExprGraph, data: Expr) -> dict[tuple[Expr, ...], float]:
    """Products of data in a sum, and their coefficients."""
    if is_a(data, scalar.Add):
        total: dict[tuple[Expr, ...], float] = {}
        for part in data.inputs:
            for others, number in _summands(exprs, part).items():
                total[others] = total.get(others, 0.0) + number
        return total
    number, others = exprs.as_product(data)
    if len(others) == 1 and is_a(others[0], scalar.Add):
        return {k: number * value for k, value in _summands(exprs, others[0]).items()}
    return {others: number}


def keep_kinks(exprs: ExprGraph, before: Expr, after: Expr) -> None:
    """Record the kinks of a root for the same root in other coordinates."""
    if kinks_of(exprs, before) and is_a(after, scalar.Switch):
        exprs.kinks[after.inputs[0]] = exprs.kinks[before.inputs[0]]
        for branches in zip(before.inputs[1:], after.inputs[1:], strict=True):
            keep_kinks(exprs, *branches)


def kinks_of(exprs: ExprGraph, root: Expr) -> list[Expr]:
    """Conditions of the switches between smooth branches at a root."""
    if not (is_a(root, scalar.Switch) and root.inputs[0] in exprs.kinks):
        return []
    condition, *branches = root.inputs
    inner = [kink for branch in branches for kink in kinks_of(exprs, branch)]
    return list(dict.fromkeys([condition, *inner]))


def branch_at(exprs: ExprGraph, root: Expr, taken: Mapping[Expr, bool]) -> Expr:
    """Smooth branch of a root, where conditions hold or not."""
    while is_a(root, scalar.Switch) and root.inputs[0] in exprs.kinks:
        condition, above, below = root.inputs
        root = above if taken[condition] else below
    return root


def differences_across(exprs: ExprGraph, root: Expr, kink: Expr) -> list[Expr]:
    """Differences of the branches on both sides of a kink, for all sides of all other kinks."""
    others = [x for x in kinks_of(exprs, root) if x is not kink]
    differences = []
    for sides in product((True, False), repeat=len(others)):
        taken = dict(zip(others, sides, strict=True))
        ends = (branch_at(exprs, root, {**taken, kink: above}) for above in (True, False))
        differences.append(subtract_exprs(exprs, *ends))
    return [x for x in dict.fromkeys(differences) if constant_value(x) != 0.0]
