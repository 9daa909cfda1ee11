"""Log-likelihoods in the reciprocal of a shape parameter, without cancellation at zero.

A negative binomial with an infinite shape is Poisson, and Student's t with infinitely many degrees
of freedom is normal: in κ = 1/shape, or its root, the log-likelihood of an observation is smooth
there. In its original form it is a difference of infinite terms. This module rewrites it: terms in
log κ are merged, so that they cancel, and all remaining functions of exp(c log κ) become functions
of the power K = κ^c.

A shape with a shift, m + exp(v), is (1 + m K) / K, and one in an interval, low + (high - low) σ(v),
is (high + low K) / (1 + K). Sums of such linear fractions with numbers, their reciprocals and their
logarithms have no differences either.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
from itertools import permutations

from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math

from pymc_minibatch_mh.expressions.arithmetic import (
    add_exprs,
    divide_exprs,
    exp_expr,
    multiply_exprs,
    negate_expr,
    reciprocal_expr,
    square_expr,
)
from pymc_minibatch_mh.expressions.graph import (
    Affine,
    Apply,
    CoordinateIndex,
    Expr,
    ExprGraph,
    coordinates_at,
    without_value,
)
from pymc_minibatch_mh.expressions.patterns import (
    constant_value,
    is_a,
    product_factors,
    scaled_core,
    sum_parts,
)
from pymc_minibatch_mh.functions.base import rounded_sum
from pymc_minibatch_mh.functions.gamma_ratio import GammaRatio
from pymc_minibatch_mh.functions.gamma_rise import gamma_rise
from pymc_minibatch_mh.functions.log1p_ratio import log1p_ratio
from pymc_minibatch_mh.functions.log_softplus import LogSoftplus

#: Coefficients (a, b) of a linear function a + b K, where K = κ^c.
LinearPair = tuple[float, float]


@dataclass(frozen=True)
class LinearFraction:
    """Fraction (a + b K) / (c + d K) >= 0, K = κ^power: `above` is (a, b), `below` is (c, d)."""

    place: CoordinateIndex
    power: float
    above: LinearPair
    below: LinearPair

    @classmethod
    def exponential(cls, place: CoordinateIndex, power: float, size: float) -> "LinearFraction":
        """Fraction κ^power times a positive number, for a nonzero power of either sign."""
        if power > 0.0:
            return cls(place, power, (0.0, size), (1.0, 0.0))
        return cls(place, -power, (size, 0.0), (0.0, 1.0))

    @property
    def is_valid(self) -> bool:
        """Whether no coefficient is negative, so that the fraction is positive."""
        return min(*self.above, *self.below) >= 0.0 and max(self.above) > 0.0

    @property
    def as_reciprocal(self) -> "LinearFraction":
        """Reciprocal of the fraction."""
        return replace(self, above=self.below, below=self.above)

    @property
    def share(self) -> "LinearFraction":
        """Fraction x / (1 + x), where x is this fraction."""
        return replace(self, below=self.plus(1.0).above)

    def times(self, factor: float) -> "LinearFraction":
        """Multiple of the fraction."""
        return replace(self, above=(factor * self.above[0], factor * self.above[1]))

    def plus(self, number: float) -> "LinearFraction":
        """Sum of the fraction and a number."""
        (a, b), (c, d) = self.above, self.below
        return replace(self, above=(a + number * c, b + number * d))

    def parts_of(self, other: "LinearFraction") -> tuple[float, float] | None:
        """Coefficients k and m with other = k × self + m; None if there are none."""
        (a, b), (c, d) = self.above, self.below
        determinant = a * d - b * c
        alike = (other.place, other.power, other.below) == (self.place, self.power, self.below)
        if not alike or determinant == 0.0:
            return None
        p, q = other.above
        return (p * d - q * c) / determinant, (a * q - b * p) / determinant


#: Shape above which a density may switch to its limit; the switch is dropped, because both sides
#: differ by less than rounding.
MAX_SHAPE = 1e8

LogTerms = dict[CoordinateIndex, list[Expr]]


def write_in_reciprocals(exprs: ExprGraph, root: Expr) -> Expr:
    """Rewrite an expression in κ; the coordinates ``exprs.logs`` in it stand for log κ."""
    return _ReciprocalRewriter(exprs).expr_in_shape(root)


class _ReciprocalRewriter:
    """Rewriting of expressions as c log κ + a remainder in κ."""

    def __init__(self, exprs: ExprGraph) -> None:
        self._exprs = exprs
        self._split_logs = cache(self._split_by_rules)

    def expr_in_shape(self, expr: Expr) -> Expr:
        """Expression rewritten in κ, including the terms c log κ that do not cancel."""
        exprs, (logs, rest) = self._exprs, self._split_logs(expr)
        parts = [
            multiply_exprs(exprs, factor, exprs.node(scalar.log, (exprs.coordinate(place),)))
            for place, factors in logs.items()
            if constant_value(factor := self._sum_of(factors)) != 0.0
        ]
        return add_exprs(exprs, rest, *parts) if parts else rest

    def _split_by_rules(self, expr: Expr) -> tuple[LogTerms, Expr]:
        exprs = self._exprs
        if expr.is_data:
            return {}, expr
        if isinstance(expr, Affine):
            return self._of_affine(expr)
        assert isinstance(expr, Apply)
        if is_a(expr, scalar.Add):
            return self._split_sum([self._split_logs(x) for x in expr.inputs])
        if is_a(expr, scalar.Switch):
            condition, _, otherwise = expr.inputs
            if self._never_holds(condition):
                return self._split_logs(otherwise)
        if is_a(expr, scalar.Mul):
            core, data = scaled_core(exprs, expr)
            if core is not expr:
                return self._scale_split(data, self._split_logs(core))
            return {}, self._finite_product(expr.inputs)
        rule = _RULES.get(type(expr.op))
        found = rule(self, expr) if rule is not None else None
        if found is not None:
            return found
        return {}, exprs.node(expr.op, [self.expr_in_shape(x) for x in expr.inputs])

    def _of_affine(self, expr: Affine) -> tuple[LogTerms, Expr]:
        exprs, logs = self._exprs, LogTerms()
        own = [term for term in expr.terms if exprs.logs.issuperset(coordinates_at(term.place))]
        rest = [term for term in expr.terms if term not in own]
        for term in own:
            factor: Expr = exprs.constant(term.factor)
            logs.setdefault(term.place, []).append(reduce(exprs.times, term.monomial, factor))
        return logs, exprs.affine(rest, expr.offset) if rest else expr.offset

    def _split_sum(self, parts: list[tuple[LogTerms, Expr]]) -> tuple[LogTerms, Expr]:
        logs = LogTerms()
        for of, _ in parts:
            for place, factors in of.items():
                logs.setdefault(place, []).extend(factors)
        return logs, add_exprs(self._exprs, *(rest for _, rest in parts))

    def _scale_split(self, data: Expr, parts: tuple[LogTerms, Expr]) -> tuple[LogTerms, Expr]:
        logs, rest = parts
        scaled = {k: [self._exprs.times(data, x) for x in of] for k, of in logs.items()}
        return scaled, multiply_exprs(self._exprs, data, rest)

    def gamma_ratio(self, expr: Apply) -> tuple[LogTerms, Expr] | None:
        """Split log Γ(c/κ^p + y) - log Γ(c/κ^p + z), also for a linear fraction of κ^p."""
        exprs, (x, y, z) = self._exprs, expr.inputs
        shifted = self._half_apart(x, y, z)
        if shifted is not None:
            return self._gamma_of_fraction(*shifted)
        core, scale = scaled_core(exprs, x)
        known = self._single_power(core.inputs[0]) if is_a(core, scalar.Exp) else None
        if known is None or known[1] >= 0.0 or not known[2].is_data:
            fraction = self._fraction_of(x)
            return None if fraction is None else self._gamma_of_fraction(fraction, y, z)
        place, power, offset = known
        y, z = self._sum_of([y]), self._sum_of([z])
        gap = self._sum_of([y, exprs.times(exprs.minus_one, z)])
        size = exprs.node(scalar.log, (exprs.real(scale),))
        inverse = multiply_exprs(
            exprs,
            self._raised_coordinate(place, -power),
            exp_expr(exprs, exprs.times(exprs.minus_one, offset)),
            reciprocal_expr(exprs, scale),
        )
        constant = exprs.times(gap, exprs.plus([offset, size]))
        rise = exprs.node(gamma_rise, (inverse, y, z))
        return {place: [exprs.times(exprs.constant(power), gap)]}, add_exprs(exprs, constant, rise)

    def _half_apart(self, x: Expr, y: Expr, z: Expr) -> tuple[LinearFraction, Expr, Expr] | None:
        """Triple x + s, y - s, z - s, s = min(y, z), if y and z differ by a half; or None."""
        (first, last), shape = map(constant_value, (y, z)), self._fraction_of(x)
        if first is None or last is None or shape is None or min(first, last) <= 0.0:
            return None
        if rounded_sum((abs(rounded_sum((first, -last))), -0.5)) != 0.0:
            return None
        ends = self._exprs.constant(0.5), self._exprs.zero
        return (shape.plus(min(first, last)), *(ends if first > last else ends[::-1]))

    def _gamma_of_fraction(self, shape: LinearFraction, y: Expr, z: Expr) -> tuple[LogTerms, Expr]:
        exprs = self._exprs
        gap = self._sum_of([y, exprs.times(exprs.minus_one, z)])
        logs, rest = self._scale_split(gap, self._log_of(shape))
        inverse = self._expr_of(shape.as_reciprocal)
        rise = exprs.node(gamma_rise, (inverse, self._sum_of([y]), self._sum_of([z])))
        return logs, add_exprs(exprs, rest, rise)

    def rewrite_log(self, expr: Apply) -> tuple[LogTerms, Expr] | None:
        """Logarithm of a linear fraction, or of one plus a linear fraction."""
        fraction = self._fraction_in_log(expr)
        return None if fraction is None else self._log_of(fraction)

    def as_fraction(self, expr: Apply) -> tuple[LogTerms, Expr] | None:
        """Expression as a linear fraction of a power of κ, without terms in log κ; or None."""
        fraction = self._fraction_of(expr)
        return None if fraction is None else ({}, self._expr_of(fraction))

    def softplus(self, expr: Apply) -> tuple[LogTerms, Expr] | None:
        """Softplus log(1 + κ^c e^r), with c log κ split off for negative c."""
        exprs, (x,) = self._exprs, expr.inputs
        known = self._single_power(x)
        if known is None:
            return None
        place, power, rest = known
        raised = rest if power > 0.0 else negate_expr(exprs, rest)
        inner = exprs.node(scalar.log1p, (self._power_times_exp(place, abs(power), raised),))
        if power > 0.0:
            return {}, inner
        return {place: [exprs.constant(power)]}, add_exprs(exprs, rest, inner)

    def exponential(self, expr: Apply) -> tuple[LogTerms, Expr] | None:
        """Exponential as κ^c e^r; κ^-c log(1 + κ^c e^r) in a form that is finite at κ = 0."""
        exprs, (x,) = self._exprs, expr.inputs
        parts = sum_parts(x)
        for share in parts:
            inside = self._single_power(share.inputs[0]) if is_a(share, LogSoftplus) else None
            others = add_exprs(exprs, *(part for part in parts if part is not share))
            outside = self._single_power(others)
            if inside and outside and inside[1] > 0.0 and outside[:2] == (inside[0], -inside[1]):
                size = self._power_times_exp(*inside)
                whole = exp_expr(exprs, add_exprs(exprs, inside[2], outside[2]))
                return {}, multiply_exprs(exprs, whole, exprs.node(log1p_ratio, (size,)))
        known = self._single_power(x)
        return None if known is None else ({}, self._power_times_exp(*known))

    def _finite_product(self, factors: Sequence[Expr]) -> Expr:
        """Product in κ; for (k m + d) log(1 + w/m), with a shape m, in a form finite at m = ∞."""
        exprs = self._exprs
        for log, sum_of_shape in permutations(factors, 2):
            known = self._share_in_log(log)
            whole = self._fraction_of(sum_of_shape) if known else None
            parts = known[1].parts_of(whole) if known and whole else None
            if known is None or parts is None:
                continue
            size, (scale, rest) = self.expr_in_shape(known[0]), map(exprs.constant, parts)
            inner = multiply_exprs(exprs, size, self._expr_of(known[1].as_reciprocal))
            total = add_exprs(
                exprs,
                multiply_exprs(exprs, scale, size, exprs.node(log1p_ratio, (inner,))),
                multiply_exprs(exprs, rest, exprs.node(scalar.log1p, (inner,))),
            )
            others = without_value(without_value(factors, log), sum_of_shape)
            return multiply_exprs(exprs, total, *map(self.expr_in_shape, others))
        return multiply_exprs(exprs, *map(self.expr_in_shape, factors))

    def _fraction_of(self, expr: Expr) -> LinearFraction | None:
        found: LinearFraction | None = None
        if is_a(expr, scalar.Exp, scalar_math.Sigmoid):
            odds = self._exponential_fraction(expr.inputs[0])
            found = odds.share if odds and is_a(expr, scalar_math.Sigmoid) else odds
        elif is_a(expr, scalar.Reciprocal):
            inner = self._fraction_of(expr.inputs[0])
            found = inner and inner.as_reciprocal
        elif is_a(expr, scalar.Mul):
            core, factor = scaled_core(self._exprs, expr)
            scale, inner = constant_value(factor), None if core is expr else self._fraction_of(core)
            found = None if inner is None or scale is None else inner.times(scale)
        elif is_a(expr, scalar.Add):
            numbers = [x for part in expr.inputs if (x := constant_value(part)) is not None]
            others = [part for part in expr.inputs if constant_value(part) is None]
            inner = self._fraction_of(others[0]) if len(others) == 1 else None
            found = inner and inner.plus(rounded_sum(numbers))
        return found if found and found.is_valid else None

    def _fraction_in_log(self, expr: Expr) -> LinearFraction | None:
        if not is_a(expr, scalar.Log, scalar.Log1p, scalar_math.Softplus):
            return None
        softplus = is_a(expr, scalar_math.Softplus)
        found = (self._exponential_fraction if softplus else self._fraction_of)(expr.inputs[0])
        return found if found is None or is_a(expr, scalar.Log) else found.plus(1.0)

    def _share_in_log(self, expr: Expr) -> tuple[Expr, LinearFraction] | None:
        """Numerator w and fraction m of log(1 + w/m), or None."""
        exprs = self._exprs
        if is_a(expr, scalar.Log1p):
            factors = product_factors(expr.inputs[0])
            for factor in (x for x in factors if is_a(x, scalar.Reciprocal)):
                shape = self._fraction_of(factor.inputs[0])
                if shape is not None:
                    return multiply_exprs(exprs, *without_value(factors, factor)), shape
        if is_a(expr, scalar_math.Softplus):
            parts = sum_parts(expr.inputs[0])
            for part in parts:
                core, sign = scaled_core(exprs, part)
                found = self._fraction_in_log(core) if constant_value(sign) == -1.0 else None
                if found is not None:
                    w = add_exprs(exprs, *without_value(parts, part))
                    return exp_expr(exprs, w), found
        return None

    def _exponential_fraction(self, x: Expr) -> LinearFraction | None:
        """Fraction exp(x) if x is the log of a constant times a power of κ; None if not."""
        known = self._single_power(x)
        offset = constant_value(known[2]) if known else None
        if known is None or offset is None:
            return None
        return LinearFraction.exponential(known[0], known[1], math.exp(offset))

    def _log_of(self, fraction: LinearFraction) -> tuple[LogTerms, Expr]:
        exprs, power, parts = self._exprs, 0.0, list[Expr]()
        for sign, (a, b) in ((1.0, fraction.above), (-1.0, fraction.below)):
            # If a = 0, log(a + b K) is log b + log K, and otherwise log a + log(1 + K b/a).
            power += 0.0 if a > 0.0 else sign * fraction.power
            parts.append(exprs.constant(sign * math.log(a if a > 0.0 else b)))
            if a > 0.0 and b / a:
                log = exprs.node(scalar.log1p, (self._linear_in(fraction, (0.0, b / a)),))
                parts.append(multiply_exprs(exprs, exprs.constant(sign), log))
        logs: LogTerms = {fraction.place: [exprs.constant(power)]} if power else {}
        return logs, add_exprs(exprs, *parts)

    def _expr_of(self, fraction: LinearFraction) -> Expr:
        above, below = (self._linear_in(fraction, x) for x in (fraction.above, fraction.below))
        return divide_exprs(self._exprs, above, below)

    def _linear_in(self, fraction: LinearFraction, linear: LinearPair) -> Expr:
        exprs, (offset, slope) = self._exprs, map(self._exprs.constant, linear)
        power = self._raised_coordinate(fraction.place, fraction.power)
        return add_exprs(exprs, offset, multiply_exprs(exprs, slope, power))

    def _single_power(self, expr: Expr) -> tuple[CoordinateIndex, float, Expr] | None:
        """Coefficient c and remainder r of c log κ + r with a single κ; None for other forms."""
        logs, rest = self._split_logs(expr)
        totals = {place: constant_value(self._sum_of(factors)) for place, factors in logs.items()}
        if len(totals) != 1:
            return None
        ((place, power),) = totals.items()
        return (place, power, rest) if power else None

    def _power_times_exp(self, place: CoordinateIndex, power: float, rest: Expr) -> Expr:
        """Product κ^c e^r."""
        exprs, raised = self._exprs, self._raised_coordinate(place, power)
        return (
            raised
            if constant_value(rest) == 0.0
            else multiply_exprs(exprs, raised, exp_expr(exprs, rest))
        )

    def _raised_coordinate(self, place: CoordinateIndex, power: float) -> Expr:
        exprs, base = self._exprs, self._exprs.coordinate(place)
        if power == 1.0:
            return base
        if power == 2.0:
            return square_expr(exprs, base)
        if power < 0.0:
            return reciprocal_expr(exprs, self._raised_coordinate(place, -power))
        return exprs.node(scalar.pow, (base, exprs.constant(power)))

    def _never_holds(self, condition: Expr) -> bool:
        """Whether a condition is false, or tests for a shape beyond :data:`MAX_SHAPE`."""
        if is_a(condition, scalar.AND):
            return any(constant_value(x) == 0.0 for x in condition.inputs)
        if not is_a(condition, scalar.GT):
            return False
        limit = constant_value(condition.inputs[1])
        if limit is None or limit < MAX_SHAPE:
            return False
        shape = condition.inputs[0]
        known = self._single_power(shape.inputs[0]) if is_a(shape, scalar.Exp) else None
        return self._fraction_of(shape) is not None if known is None else known[1] < 0.0

    def _sum_of(self, parts: list[Expr]) -> Expr:
        """Sum of data expressions, in which terms of opposite sign cancel."""
        exprs, factors = self._exprs, defaultdict[Expr, list[float]](list)
        waiting = [(part, 1.0) for part in reversed(parts)]
        while waiting:
            expr, times = waiting.pop()
            value = constant_value(expr)
            number = constant_value(expr.inputs[0]) if is_a(expr, scalar.Mul) else None
            if value is not None:
                factors[exprs.one].append(times * value)
            elif is_a(expr, scalar.Add):
                waiting += [(part, times) for part in reversed(expr.inputs)]
            elif number is not None and len(expr.inputs) == 2:
                waiting.append((expr.inputs[1], times * number))
            else:
                factors[expr].append(times)
        known = {expr: total for expr, of in factors.items() if (total := rounded_sum(of)) != 0.0}
        return exprs.plus([exprs.times(exprs.constant(k), expr) for expr, k in known.items()])


_RULES: dict[type, Callable[[_ReciprocalRewriter, Apply], tuple[LogTerms, Expr] | None]] = {
    GammaRatio: _ReciprocalRewriter.gamma_ratio,
    scalar_math.Softplus: _ReciprocalRewriter.softplus,
    scalar.Exp: _ReciprocalRewriter.exponential,
    scalar.Log: _ReciprocalRewriter.rewrite_log,
    scalar.Log1p: _ReciprocalRewriter.rewrite_log,
    scalar.Reciprocal: _ReciprocalRewriter.as_fraction,
    scalar_math.Sigmoid: _ReciprocalRewriter.as_fraction,
}
