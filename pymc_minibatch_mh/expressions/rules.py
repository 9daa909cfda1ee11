"""Rewriting of scalar operations to forms with tight bounds, one rule per operation."""

from collections.abc import Callable, Sequence
from functools import partial
from math import inf, log

from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from pytensor.scalar.basic import ScalarOp

from pymc_minibatch_mh.expressions.arithmetic import (
    CHOICES,
    absolute_expr,
    add_exprs,
    as_number,
    core_and_factor,
    divide_exprs,
    exp_expr,
    expand_products,
    multiply_exprs,
    negate_expr,
    outside_the_reals,
    reciprocal_expr,
    sigmoid_expr,
    softplus_expr,
    square_expr,
    subtract_exprs,
    tail_coefficients,
)
from pymc_minibatch_mh.expressions.graph import Affine, Apply, Expr, ExprGraph, without_value
from pymc_minibatch_mh.expressions.impossible_parts import log_of_sum, switch_expr
from pymc_minibatch_mh.expressions.patterns import (
    LogBetweenTails,
    affines_in,
    cached_rule,
    constant_value,
    is_a,
    is_nonnegative,
    is_positive,
    is_probability,
    log_between_tails,
    n_exprs,
    product_factors,
    scaled_core,
    subexpressions,
    sum_parts,
)
from pymc_minibatch_mh.expressions.shares import Probability, probability_products
from pymc_minibatch_mh.functions.base import rounded_sum
from pymc_minibatch_mh.functions.bessel import I0e
from pymc_minibatch_mh.functions.checked import Checked
from pymc_minibatch_mh.functions.log_any import LogAny, log_any
from pymc_minibatch_mh.functions.log_erfc import LogErfc, log_erfc
from pymc_minibatch_mh.functions.log_i0e import log_i0e
from pymc_minibatch_mh.functions.log_softplus import log_softplus

ORDERS = (scalar.LT, scalar.LE, scalar.GT, scalar.GE)


def _difference_of(
    exprs: ExprGraph, x: Expr, op: type, size: float = 1.0
) -> tuple[Expr, Expr] | None:
    """Operands a and b of a difference k f(a) - k f(b), k the `size`; None for others."""
    if not is_a(x, scalar.Add) or len(x.inputs) != 2:
        return None
    ends = {constant_value(k): core for core, k in (scaled_core(exprs, y) for y in x.inputs)}
    if ends.keys() != {size, -size} or not all(is_a(core, op) for core in ends.values()):
        return None
    return ends[size].inputs[0], ends[-size].inputs[0]


def _is_between_shares(exprs: ExprGraph, x: Expr) -> bool:
    """Whether x is F(a) - F(b) with a > b, F a logistic or normal distribution function."""
    ends = _difference_of(exprs, x, scalar_math.Sigmoid)
    if ends is None:
        ends = _difference_of(exprs, x, scalar_math.Erfc, 0.5)
        ends = ends and ends[::-1]
    return ends is not None and is_positive(subtract_exprs(exprs, *ends))


def _log_complement(exprs: ExprGraph, left: Expr, right: Expr) -> Expr:
    """Function log(1 - exp(right - left))."""
    gap = subtract_exprs(exprs, left, right)
    if is_a(gap, scalar.Exp):
        return exprs.node(log_any, gap.inputs)
    return log1mexp_expr(exprs, negate_expr(exprs, gap))


def _log_of_difference(exprs: ExprGraph, x: Expr) -> Expr | None:
    """Logarithm of σ(a) - σ(b), or of exp(a) - exp(b), in which nothing cancels, or None.

    Like the difference it is no number where a < b.
    """
    ends = _difference_of(exprs, x, scalar_math.Sigmoid)
    if ends is not None:
        logs = (softplus_expr(exprs, y) for y in (negate_expr(exprs, ends[0]), ends[1]))
        outer = [negate_expr(exprs, y) for y in logs]
    else:
        ends = _difference_of(exprs, x, scalar.Exp)
        outer = [] if ends is None else [ends[0]]
    return None if ends is None else add_exprs(exprs, *outer, _log_complement(exprs, *ends))


def simplify_comparison(exprs: ExprGraph, op: ScalarOp, left: Expr, right: Expr) -> Expr:
    """Comparison; True or False if it provably holds at all positions or at none."""
    if isinstance(op, scalar.LT | scalar.LE):
        small, large, strict = left, right, isinstance(op, scalar.LT)
    else:
        small, large, strict = right, left, isinstance(op, scalar.GT)
    if _is_at_most(exprs, small, large, strict=strict):
        return exprs.constant(True)
    if _is_at_most(exprs, large, small, strict=not strict):
        return exprs.constant(False)
    return exprs.node(op, (left, right))


def _is_at_most(exprs: ExprGraph, left: Expr, right: Expr, *, strict: bool) -> bool:
    if constant_value(left) == 0.0:
        if _is_positive_data(exprs, right) or _is_between_shares(exprs, right):
            return True
        return is_nonnegative(right) and not strict
    probable = is_probability(left) or _is_between_shares(exprs, left)
    return constant_value(right) == 1.0 and not strict and probable


def apply_operation(exprs: ExprGraph, op: ScalarOp, *operands: Expr) -> Expr:
    """Expression of ``op(*operands)`` in a form with tight bounds."""
    if isinstance(op, ORDERS):
        return simplify_comparison(exprs, op, *operands)
    if all(expr.is_data for expr in operands):
        same = isinstance(op, scalar.Second | scalar.Identity)
        return operands[-1] if same else exprs.node(op, operands)
    known = outside_the_reals(exprs, op, operands)
    if known is not None:
        return known
    if not isinstance(op, CHOICES):
        operands = tuple(as_number(exprs, expr) for expr in operands)
    rule = _RULES.get(type(op))
    return exprs.node(op, operands) if rule is None else rule(exprs, *operands)


def quotient_expr(exprs: ExprGraph, left: Expr, right: Expr) -> Expr:
    """Quotient; z x/(x + y) of positive x and y becomes z times a logistic function."""
    share = _share_in_branches(exprs, left, right) or _share_of_two(exprs, left, right)
    if share is not None:
        return share
    if _is_one_of_several(left, right):
        total = log_of_sum(exprs, [part.inputs[0] for part in right.inputs])
        logs = [subtract_exprs(exprs, part.inputs[0], total) for part in right.inputs]
        own = logs[right.inputs.index(left)]
        share = exp_expr(exprs, own)
        exprs.shares[share] = own, tuple(x for x in logs if x is not own)
        return share
    return divide_exprs(exprs, left, right)


def _share_of_two(exprs: ExprGraph, left: Expr, right: Expr) -> Expr | None:
    """Quotient z x/(x + y) as z σ(log x - log y), where x and y are positive, or None.

    As in saturation curves by Hill, or by Michaelis and Menten, x and y then stand in one place.
    """
    shares = list[tuple[Expr, Expr, Expr]]()
    for part in right.inputs if is_a(right, scalar.Add) else ():
        rest = add_exprs(exprs, *without_value(right.inputs, part))
        if constant_value(part) is not None and part is not left and not _is_of_rows(rest):
            # Of z/(x + 2), with a shape x = 1/κ that all rows share, κ may be 0.
            continue
        others = _without_factor(exprs, left, part)
        is_known = part.is_data and constant_value(part) is None
        # A sum of three or more is kept, so that quotients by it are recognised as a softmax.
        fits = is_positive(rest) and (is_known or not is_a(rest, scalar.Add))
        if fits and others is not None and (is_known or is_positive(part)):
            shares.append((others, part, rest))
    if not shares:
        return None
    others, part, rest = min(shares, key=lambda each: _length(each[0]))
    positive: Expr = exprs.constant(True)
    if part.is_data and not _is_positive_data(exprs, part):
        positive = exprs.node(scalar.gt, (part, exprs.zero))
        part = switch_expr(exprs, positive, part, exprs.one)
    odds = subtract_exprs(exprs, log_expr(exprs, part), log_expr(exprs, rest))
    share = multiply_exprs(exprs, others, sigmoid_expr(exprs, odds))
    return switch_expr(exprs, positive, share, divide_exprs(exprs, left, right))


def _is_of_rows(x: Expr) -> bool:
    """Whether an expression depends on data of the rows."""
    affines = affines_in(x)
    apart = (part for part in subexpressions(x) if part.is_data)
    offsets = (affine.offset for affine in affines)
    if any(constant_value(data) is None for data in (*apart, *offsets)):
        return True
    return any(term.monomial for affine in affines for term in affine.terms)


def _without_factor(exprs: ExprGraph, product: Expr, factor: Expr) -> Expr | None:
    """Product without one of its factors, None if it has no such factor."""
    if not factor.is_data:
        others = divide_exprs(exprs, product, factor)
        return others if _length(others) < _length(product) else None
    core, data = core_and_factor(exprs, product)
    (number, left), (size, right) = exprs.as_product(data), exprs.as_product(factor)
    if size == 0.0 or any(x not in left for x in right):
        return None
    for x in right:
        left = tuple(without_value(left, x))
    return multiply_exprs(exprs, exprs.product(number / size, left), core)


def _length(x: Expr) -> int:
    """Number of subexpressions, and of terms of sums in them."""
    return n_exprs(x) + sum(len(part.terms) for part in affines_in(x))


def _share_in_branches(exprs: ExprGraph, left: Expr, right: Expr) -> Expr | None:
    """Quotient z x/(x + y) for each of the two values of x that data choose from, or None."""
    factors = [*product_factors(left)]
    for part in sum_parts(right):
        if is_a(part, scalar.Switch) and part.inputs[0].is_data and part in factors:
            factors.remove(part)
            rest = subtract_exprs(exprs, right, part)
            quotients = (
                quotient_expr(exprs, multiply_exprs(exprs, x, *factors), add_exprs(exprs, x, rest))
                for x in part.inputs[1:]
            )
            return switch_expr(exprs, part.inputs[0], *quotients)
    return None


def _is_one_of_several(part: Expr, whole: Expr) -> bool:
    """Whether a quotient is exp(x) / Σ exp(y), shifted by the largest exponent as in a softmax."""
    several = is_a(whole, scalar.Add) and all(is_a(x, scalar.Exp) for x in whole.inputs)
    shifted = several and any(is_a(x, scalar.Maximum) for x in subexpressions(part))
    return shifted and part in whole.inputs


def log_expr(exprs: ExprGraph, x: Expr) -> Expr:
    """Logarithm, expanded for products with exponentials."""
    if x.is_data:
        return exprs.node(scalar.log, (exprs.real(x),))
    if isinstance(x, Affine) and all(t.place in exprs.logs for t in x.terms):
        return x
    rule = _LOG_OF.get(type(x.op)) if isinstance(x, Apply) else None
    if rule is not None:
        return rule(exprs, *x.inputs)
    x = _as_choice(exprs, x)
    if is_a(x, scalar.Switch):
        return _in_branches(exprs, log_expr, x)
    if is_a(x, scalar.Mul):
        return _log_of_product(exprs, x)
    if is_a(x, scalar.Add) and all(is_a(part, scalar.Exp) for part in x.inputs):
        return log_of_sum(exprs, [part.inputs[0] for part in x.inputs])
    if is_a(x, scalar.Add) and len(x.inputs) == 2 and constant_value(x.inputs[1]) == 1.0:
        return log1p_expr(exprs, x.inputs[0])
    tail = _log_of_tail(exprs, x, 0.0) or _log_between_tails(exprs, x)
    if tail is None and is_a(x, scalar.Add) and not is_positive(x):
        tail = _log_of_probability(exprs, x, 0.0)
    tail = tail or _log_of_difference(exprs, x)
    return exprs.node(scalar.log, (x,)) if tail is None else tail


_LOG_OF: dict[type, Callable[[ExprGraph, Expr], Expr]] = {
    scalar.Exp: lambda exprs, x: x,
    scalar.Reciprocal: lambda exprs, x: negate_expr(exprs, log_expr(exprs, x)),
    scalar.Sqrt: lambda exprs, x: multiply_exprs(exprs, exprs.constant(0.5), log_expr(exprs, x)),
    scalar_math.Sigmoid: lambda exprs, x: negate_expr(
        exprs, softplus_expr(exprs, negate_expr(exprs, x))
    ),
    scalar_math.Softplus: lambda exprs, x: exprs.node(log_softplus, (x,)),
    scalar_math.Erfc: lambda exprs, x: _log_erfc(exprs, x),
    scalar_math.Erfcx: lambda exprs, x: add_exprs(
        exprs, _log_erfc(exprs, x), square_expr(exprs, x)
    ),
    I0e: lambda exprs, x: exprs.node(log_i0e, (absolute_expr(exprs, x),)),
    scalar_math.I0: lambda exprs, x: add_exprs(
        exprs, absolute_expr(exprs, x), exprs.node(log_i0e, (absolute_expr(exprs, x),))
    ),
}


def _log_erfc(exprs: ExprGraph, u: Expr) -> Expr:
    return exprs.node(log_erfc, (expand_products(exprs, u),))


def _log_of_tail(exprs: ExprGraph, x: Expr, more: float) -> Expr | None:
    """Logarithm of x + more if that is a multiple of 1 + erf(z) or 1 - erf(z), else None."""
    part, *rest = sum_parts(x)
    numbers = [constant_value(c) for c in rest]
    whole = 0.0 if None in numbers else rounded_sum((more, *filter(None, numbers)))
    core, factor = scaled_core(exprs, part)
    share = constant_value(factor)
    if not is_a(core, scalar_math.Erf) or share is None or abs(share) != whole:
        return None
    inner = core.inputs[0] if share < 0.0 else negate_expr(exprs, core.inputs[0])
    return add_exprs(exprs, exprs.constant(log(whole)), _log_erfc(exprs, inner))


def _log_of_probability(exprs: ExprGraph, x: Expr, more: float) -> Expr | None:
    """Logarithm of x + more if that is a sum of positive products of probabilities, else None."""
    products = probability_products(exprs, x, more, _as_probability)
    if products is None:
        return None
    logs = [
        add_exprs(exprs, exprs.constant(log(k)), *(log_of_sum(exprs, factor) for factor in factors))
        for k, factors in products
    ]
    return log_of_sum(exprs, logs)


def _as_probability(exprs: ExprGraph, x: Expr) -> Probability | None:
    """Expression as factor × probability, with the log-complement; None if this is impossible."""
    if x in exprs.shares:
        return Probability(1.0, *exprs.shares[x])
    exponential = is_a(x, scalar.Exp) and (
        is_a(x.inputs[0], scalar_math.Log1mexp, LogAny)
        or is_nonnegative(negate_expr(exprs, x.inputs[0]))
    )
    if not (exponential or is_a(x, scalar_math.Sigmoid, scalar_math.Erfc)):
        return None
    factor = 2.0 if is_a(x, scalar_math.Erfc) else 1.0
    share = add_exprs(exprs, exprs.constant(-log(factor)), log_expr(exprs, x))
    return Probability(factor, share, (log1mexp_expr(exprs, share),))


def _log_between_tails(exprs: ExprGraph, x: Expr) -> Expr | None:
    """Logarithm of k (erfc(y) - erfc(x)), x > y, also in terms of erfcx; None for others."""
    exponent, whole = _split_scale(exprs, x)
    found = tail_coefficients(exprs, sum_parts(whole))
    if found is None or len(found[1]) != 2:
        return None
    size, ((left, k), (right, other)) = found[0], found[1].items()
    if k * other > 0.0:
        # erfc(u) = 2 - erfc(-u)
        size, right, other = size + 2.0 * other, negate_expr(exprs, right), -other
    if other > 0.0:
        left, k, right, other = right, other, left, k
    if rounded_sum((size, k, other)) != 0.0 or rounded_sum((k, other)) != 0.0:
        return None
    factor = exprs.constant(log(k))
    return add_exprs(exprs, exponent, factor, _between_tails(exprs, left, right))


def _between_tails(exprs: ExprGraph, left: Expr, right: Expr) -> Expr:
    """Logarithm of erfc(left) - erfc(right)."""
    # Choose one of two equivalent forms, so that equal probabilities give one expression.
    mirrored = negate_expr(exprs, right), negate_expr(exprs, left)
    if exprs.in_order([left, mirrored[0]])[0] is not left:
        left, right = mirrored
    above = _log_between(exprs, left, right)
    below = _log_between(exprs, negate_expr(exprs, right), negate_expr(exprs, left))
    is_below = exprs.node(scalar.lt, (left, negate_expr(exprs, right)))
    result = exprs.node(log_between_tails, (is_below, below, above))
    exprs.results[LogBetweenTails, result] = Apply(scalar.sub, (left, right))
    return result


@cached_rule
def width_between(exprs: ExprGraph, left: Expr, mirrored: Expr) -> Expr:
    """Difference y - x of two ends, x and -y, without the factors that they have in common."""
    right = negate_expr(exprs, mirrored)
    shared = [x for x in product_factors(left) if x in product_factors(right)]
    rests = [
        multiply_exprs(exprs, exprs.one, *(x for x in product_factors(end) if x not in shared))
        for end in (right, left)
    ]
    return multiply_exprs(exprs, *shared, subtract_exprs(exprs, *rests))


def _log_between(exprs: ExprGraph, left: Expr, right: Expr) -> Expr:
    """The same, accurate where both tails are at most one half."""
    near, far = (_log_erfc(exprs, u) for u in (left, right))
    rest = exprs.node(scalar_math.log1mexp, (subtract_exprs(exprs, far, near),))
    return add_exprs(exprs, near, rest)


def _split_scale(exprs: ExprGraph, x: Expr) -> tuple[Expr, Expr]:
    """Split a sum x with erfcx(u) = exp(u²) erfc(u) into e and y with x = exp(e) y."""
    parts = [product_factors(part) for part in sum_parts(x)]
    if not any(is_a(factor, scalar_math.Erfcx) for factors in parts for factor in factors):
        return exprs.zero, x
    squares = {part for part in subexpressions(x) if is_a(part, scalar.Sqr)}
    exponents, rests = set[Expr](), []
    for factors in parts:
        plain = product_factors(multiply_exprs(exprs, *_without_scale(exprs, factors, squares)))
        raised = [factor for factor in plain if is_a(factor, scalar.Exp)]
        exponents.add(add_exprs(exprs, exprs.zero, *(factor.inputs[0] for factor in raised)))
        rests.append(multiply_exprs(exprs, *(factor for factor in plain if factor not in raised)))
    if len(exponents) > 1:
        return exprs.zero, x
    return exponents.pop(), add_exprs(exprs, *rests)


def _without_scale(exprs: ExprGraph, factors: Sequence[Expr], squares: set[Expr]) -> list[Expr]:
    """Factors with exp(u²) erfc(u) instead of erfcx(u); existing squares are reused."""
    found = list[Expr]()
    for factor in factors:
        if is_a(factor, scalar_math.Erfcx):
            (u,) = factor.inputs
            power, mirrored = square_expr(exprs, u), square_expr(exprs, negate_expr(exprs, u))
            inner = [part for part in product_factors(power) if is_a(part, scalar.Sqr)]
            power = power if squares.issuperset(inner) else mirrored
            found += exp_expr(exprs, power), exprs.node(scalar_math.erfc, (u,))
        else:
            found.append(factor)
    return found


def _in_branches(exprs: ExprGraph, rule: Callable[..., Expr], choice: Expr) -> Expr:
    """Apply a function to both branches of a switch."""
    condition, *branches = choice.inputs
    return apply_operation(exprs, scalar.switch, condition, *(rule(exprs, x) for x in branches))


def _as_choice(exprs: ExprGraph, x: Expr) -> Expr:
    """Rewrite max(x, 0), or a product with a zero branch, as a switch; others unchanged."""
    if is_a(x, scalar.Maximum) and 0.0 in (ends := [constant_value(part) for part in x.inputs]):
        value = x.inputs[1 - ends.index(0.0)]
        return switch_expr(
            exprs, simplify_comparison(exprs, scalar.gt, value, exprs.zero), value, exprs.zero
        )
    factors = [*x.inputs] if is_a(x, scalar.Mul) else []
    choices = [part for part in factors if is_a(part, scalar.Switch)]
    choice = next((part for part in choices if 0.0 in map(constant_value, part.inputs[1:])), None)
    if choice is None:
        return x
    factors.remove(choice)
    return _in_branches(exprs, lambda _, branch: multiply_exprs(exprs, branch, *factors), choice)


def _log_of_product(exprs: ExprGraph, x: Expr) -> Expr:
    core, factor = scaled_core(exprs, x)
    value = constant_value(factor)
    if is_a(core, scalar.Expm1) and value is not None and value < 0.0:
        size = log_expr(exprs, exprs.constant(-value))
        return add_exprs(exprs, log1mexp_expr(exprs, core.inputs[0]), size)
    # At most one factor may have unknown sign: log|a| + log|b| would turn NaN into a number.
    rest = [part for part in x.inputs if not is_positive(part)]
    if len(rest) == len(x.inputs) or sum(not part.is_data for part in rest) > 1:
        return exprs.node(scalar.log, (x,))
    return add_exprs(exprs, *(log_expr(exprs, part) for part in _positive_groups(exprs, x.inputs)))


def _positive_groups(exprs: ExprGraph, factors: Sequence[Expr]) -> list[Expr]:
    """Positive factors of a product, and the product of all others, if there are any."""
    rest = [part for part in factors if not is_positive(part)]
    positive = [part for part in factors if is_positive(part)]
    return [*positive, multiply_exprs(exprs, *rest)] if rest else positive


def log1p_expr(exprs: ExprGraph, x: Expr) -> Expr:
    """Function log(1 + x), simplified if 1 + x is a probability or 1 plus an exponential."""
    if is_a(x, scalar.Exp):
        return softplus_expr(exprs, x.inputs[0])
    core, factor = scaled_core(exprs, x)
    if is_a(core, scalar.Switch):
        return _in_branches(
            exprs, lambda _, y: log1p_expr(exprs, multiply_exprs(exprs, factor, y)), core
        )
    if is_a(core, scalar.Exp) and constant_value(factor) == -1.0:
        return log1mexp_expr(exprs, core.inputs[0])
    if is_a(core, scalar_math.Sigmoid) and constant_value(factor) == -1.0:
        return negate_expr(exprs, softplus_expr(exprs, core.inputs[0]))
    if is_a(core, scalar_math.Erfc) and constant_value(factor) == -0.5:
        inner = negate_expr(exprs, core.inputs[0])
        return add_exprs(exprs, exprs.constant(log(0.5)), _log_erfc(exprs, inner))
    tail = _log_of_tail(exprs, x, 1.0)
    if tail is None and not is_nonnegative(x):
        tail = _log_of_probability(exprs, x, 1.0)
    return exprs.node(scalar.log1p, (x,)) if tail is None else tail


def log1mexp_expr(exprs: ExprGraph, x: Expr) -> Expr:
    """Function log(1 - exp(x)); a log-probability gives the logarithm of the complement."""
    if x.is_data:
        return exprs.node(scalar_math.log1mexp, (exprs.real(x),))
    choice = next((part for part in sum_parts(x) if _is_known_by_data(part)), x)
    if is_a(choice, scalar.Switch):
        rest = [part for part in sum_parts(x) if part is not choice]
        return _in_branches(exprs, partial(_log1mexp_of_sum, rest=rest), choice)
    if is_a(x, scalar_math.Log1mexp):
        return x.inputs[0]
    if is_a(x, LogAny):
        return negate_expr(exprs, exp_expr(exprs, x.inputs[0]))
    core, factor = scaled_core(exprs, x)
    if is_a(core, scalar_math.Softplus) and constant_value(factor) == -1.0:
        return negate_expr(exprs, softplus_expr(exprs, negate_expr(exprs, core.inputs[0])))
    if is_a(core, scalar.Exp) and factor is not exprs.one:
        size = log_expr(exprs, exprs.times(factor, exprs.minus_one))
        return exprs.node(log_any, (add_exprs(exprs, core.inputs[0], size),))
    ratio = _log1mexp_of_ratio(exprs, x)
    if ratio is not None:
        return ratio
    tail, *rest = sum_parts(x)
    number = constant_value(rest[0]) if is_a(tail, LogErfc) and len(rest) == 1 else None
    if number is not None and rounded_sum((number, log(2.0))) == 0.0:
        return add_exprs(exprs, _log_erfc(exprs, negate_expr(exprs, tail.inputs[0])), *rest)
    return exprs.node(scalar_math.log1mexp, (x,))


def _is_known_by_data(x: Expr) -> bool:
    """Whether data may choose 0, or minus infinity, the logarithm of 0."""
    chosen = x.inputs[1:] if is_a(x, scalar.Switch) and x.inputs[0].is_data else ()
    return any(constant_value(branch) in (0.0, -inf) for branch in chosen)


def _log1mexp_of_sum(exprs: ExprGraph, x: Expr, *, rest: Sequence[Expr]) -> Expr:
    return log1mexp_expr(exprs, add_exprs(exprs, x, *rest))


def _log1mexp_of_ratio(exprs: ExprGraph, x: Expr) -> Expr | None:
    """Function log(1 - p/q) of two probabilities by x = log p - log q, or None.

    They are logistic or normal distribution functions, or p = exp(-exp(b)) and q = exp(-exp(a)) as
    of survival times: their difference is expressed closely.
    """
    ends = _difference_of(exprs, x, scalar.Exp)
    if ends is not None:
        right, left = ends
        return exprs.node(log_any, (add_exprs(exprs, left, _log_complement(exprs, left, right)),))
    ends = _difference_of(exprs, x, scalar_math.Softplus)
    if ends is not None:
        right, left = ends
        share = negate_expr(exprs, softplus_expr(exprs, negate_expr(exprs, left)))
        return add_exprs(exprs, share, _log_complement(exprs, left, right))
    ends = _difference_of(exprs, x, LogErfc)
    if ends is None:
        return None
    right, left = ends
    share = exprs.node(log_erfc, (left,))
    return add_exprs(exprs, _between_tails(exprs, left, right), negate_expr(exprs, share))


def incomplete_gamma(exprs: ExprGraph, shape: Expr, x: Expr) -> Expr:
    """Probability that a gamma variable exceeds x; an exponential for shape one."""
    if constant_value(shape) == 1.0:
        return exp_expr(exprs, negate_expr(exprs, x))
    return exprs.node(scalar_math.gammaincc, (shape, x))


def incomplete_beta(exprs: ExprGraph, a: Expr, b: Expr, x: Expr) -> Expr:
    """Distribution function of a beta variable, a power if b is one."""
    if constant_value(b) == 1.0:
        return power_expr(exprs, x, a)
    return exprs.node(scalar_math.betainc, (a, b, x))


def power_expr(exprs: ExprGraph, base: Expr, exponent: Expr) -> Expr:
    """Power, written with the exponential function unless the exponent is data."""
    if exponent.is_data:
        known = constant_value(exponent)
        if known in (0.0, 1.0):
            return base if known else exprs.one
        if known == 2.0:
            return square_expr(exprs, base)
        if known == -1.0:
            return reciprocal_expr(exprs, base)
        if is_a(base, scalar.Exp):
            return exp_expr(exprs, multiply_exprs(exprs, exponent, base.inputs[0]))
        # A common type gives equal powers the same expression.
        exponent = exponent if base.is_data else exprs.real(exponent)
        return exprs.node(scalar.pow, (base, exponent))
    core, data = (exprs.one, base) if base.is_data else scaled_core(exprs, base)
    may_be_zero = data is not exprs.one and not _is_positive_data(exprs, data)
    if may_be_zero and is_positive(core) and is_positive(exponent):
        # Derivatives of exp(x log 0) are not numbers, as in the response to a dose of zero.
        positive = exprs.node(scalar.gt, (data, exprs.zero))
        some = multiply_exprs(exprs, switch_expr(exprs, positive, data, exprs.one), core)
        power = _exp_of_log(exprs, some, exponent)
        return switch_expr(exprs, positive, power, exprs.zero)
    return _exp_of_log(exprs, base, exponent)


def _exp_of_log(exprs: ExprGraph, base: Expr, exponent: Expr) -> Expr:
    return exp_expr(exprs, multiply_exprs(exprs, exponent, log_expr(exprs, base)))


def _is_positive_data(exprs: ExprGraph, x: Expr) -> bool:
    """Whether data are known to be positive in all rows."""
    if is_a(x, scalar.Mul, scalar.TrueDiv, scalar.Reciprocal, scalar.Cast):
        return all(_is_positive_data(exprs, part) for part in x.inputs)
    return x in exprs.positive or is_positive(x)


def sqrt_expr(exprs: ExprGraph, x: Expr) -> Expr:
    """Square root, factor by factor for positive factors."""
    if x.is_data:
        return exprs.node(scalar.sqrt, (exprs.real(x),))
    if is_a(x, scalar.Exp):
        return exp_expr(exprs, multiply_exprs(exprs, exprs.constant(0.5), x.inputs[0]))
    if is_a(x, scalar.Sqr) and is_positive(x.inputs[0]):
        return x.inputs[0]
    if is_a(x, scalar.Reciprocal):
        return reciprocal_expr(exprs, sqrt_expr(exprs, x.inputs[0]))
    # Two negative factors have a real root only as a product.
    groups = _positive_groups(exprs, product_factors(x))
    if len(groups) > 1:
        return multiply_exprs(exprs, *(sqrt_expr(exprs, part) for part in groups))
    return exprs.node(scalar.sqrt, (x,))


def maximum_expr(exprs: ExprGraph, left: Expr, right: Expr) -> Expr:
    """Maximum of two operands; an operand of minus infinity is dropped."""
    if -inf in (constant_value(left), constant_value(right)):
        return right if constant_value(left) == -inf else left
    return exprs.node(scalar.maximum, (left, right))


def _without_maxima(exprs: ExprGraph, x: Expr) -> Expr:
    """Σ max(y, c) + … by max(y, c) = y + max(c - y, 0), if Σ y + … is a constant; others unchanged.

    So shares that are cut at c keep a sum of one, whose enclosure is exact where none is cut.
    """
    smooth, cut = list[Expr](), list[Expr]()
    for part in sum_parts(x) if is_a(x, scalar.Add) else ():
        core, factor = scaled_core(exprs, part)
        if not is_a(core, scalar.Maximum):
            smooth.append(part)
            continue
        c, y = sorted(core.inputs, key=lambda end: constant_value(end) is None)
        gap = maximum_expr(exprs, subtract_exprs(exprs, c, y), exprs.zero)
        smooth.append(multiply_exprs(exprs, factor, y))
        cut.append(multiply_exprs(exprs, factor, gap))
    total = add_exprs(exprs, *smooth) if cut else x
    return x if constant_value(total) is None else add_exprs(exprs, total, *cut)


def _wave_of(op: ScalarOp) -> Callable[[ExprGraph, Expr], Expr]:
    """Rule of sine or cosine, which read the angle arctan2(sin u, cos u) as u."""

    def wave_expr(exprs: ExprGraph, x: Expr) -> Expr:
        turned = add_exprs(exprs, *(_unwrapped(exprs, part) for part in sum_parts(x)))
        return exprs.node(op, (turned,))

    return wave_expr


def _unwrapped(exprs: ExprGraph, part: Expr) -> Expr:
    """Angle u for a part that is ± arctan2(sin u, cos u), as of a variable on the circle."""
    core, factor = scaled_core(exprs, part)
    if is_a(core, scalar.ArcTan2) and constant_value(factor) in (1.0, -1.0):
        sine, cosine = core.inputs
        if is_a(sine, scalar.Sin) and is_a(cosine, scalar.Cos) and sine.inputs == cosine.inputs:
            return multiply_exprs(exprs, factor, *sine.inputs)
    return part


def _record_check(exprs: ExprGraph, condition: Expr) -> Expr:
    """Record a condition as a parameter check, and return it."""
    exprs.checks.add(condition)
    return condition


_RULES: dict[type, Callable[..., Expr]] = {
    scalar.Add: add_exprs,
    scalar.Mul: multiply_exprs,
    scalar.Neg: negate_expr,
    scalar.Sub: subtract_exprs,
    scalar.TrueDiv: quotient_expr,
    scalar.Reciprocal: reciprocal_expr,
    scalar.Exp: exp_expr,
    scalar.Exp2: lambda exprs, x: exp_expr(
        exprs, multiply_exprs(exprs, exprs.constant(log(2.0)), x)
    ),
    scalar.Log: log_expr,
    scalar.Log2: lambda exprs, x: divide_exprs(exprs, log_expr(exprs, x), exprs.constant(log(2.0))),
    scalar.Log10: lambda exprs, x: divide_exprs(
        exprs, log_expr(exprs, x), exprs.constant(log(10.0))
    ),
    scalar.Log1p: log1p_expr,
    scalar_math.Log1mexp: log1mexp_expr,
    scalar_math.GammaIncC: incomplete_gamma,
    scalar_math.BetaInc: incomplete_beta,
    scalar.Sqr: square_expr,
    scalar.Sqrt: sqrt_expr,
    scalar.Pow: power_expr,
    scalar.Switch: switch_expr,
    scalar.Second: lambda exprs, _like, x: x,
    scalar.Abs: lambda exprs, x: absolute_expr(exprs, _without_maxima(exprs, x)),
    scalar.Sign: lambda exprs, x: exprs.one if is_positive(x) else exprs.node(scalar.sign, (x,)),
    scalar.Identity: lambda exprs, x: x,
    Checked: _record_check,
    scalar.Maximum: maximum_expr,
    scalar.Sin: _wave_of(scalar.sin),
    scalar.Cos: _wave_of(scalar.cos),
}
