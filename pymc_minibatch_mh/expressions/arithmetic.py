"""Identities for sums, products and exponentials of expressions that keep bounds tight.

Every rule is an identity of real functions wherever its left side is defined; elsewhere the
likelihood of the observation is zero and needs no bound. The rules collect affine parts, merge
exponentials, and remove repeated subexpressions, which intervals cannot detect.
"""

import math
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import permutations
from math import inf

from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from pytensor.scalar.basic import ScalarOp

from pymc_minibatch_mh.expressions.graph import (
    Affine,
    Expr,
    ExprGraph,
    LoweringError,
    require_lowerable,
    without_value,
)
from pymc_minibatch_mh.expressions.patterns import (
    LogBetweenTails,
    affines_in,
    cached_rule,
    constant_value,
    is_a,
    is_finite,
    is_nonnegative,
    is_positive,
    product_factors,
    provably_varies,
    scaled_core,
    should_merge_exponentials,
    split_numbers,
    sum_parts,
    without_reciprocals,
)
from pymc_minibatch_mh.functions.base import rounded_sum, scalar_output_type
from pymc_minibatch_mh.functions.gamma_ratio import gamma_ratio
from pymc_minibatch_mh.functions.log1p_ratio import log1p_ratio
from pymc_minibatch_mh.functions.log_erfc import LogErfc
from pymc_minibatch_mh.functions.log_softplus import LogSoftplus, log_softplus

_EQUALITIES = (scalar.EQ, scalar.NEQ)
_LOGIC = (scalar.AND, scalar.OR, scalar.Invert)
CHOICES = (scalar.Switch, scalar.Second, scalar.Identity)
#: Advice for models whose parameters are in single precision.
USE_DOUBLE_PRECISION = "build the model with floatX=float64"
_STEPS = (
    scalar.IntDiv, scalar.Mod, scalar.Floor, scalar.Ceil, scalar.Trunc, scalar.RoundHalfToEven,
    scalar.RoundHalfAwayFromZero,
)  # fmt: skip


def as_number(exprs: ExprGraph, expr: Expr) -> Expr:
    """Convert a condition to the number 1 or 0; return any other expression unchanged."""
    if expr.is_data or expr.dtype.kind != "b":
        return expr
    return exprs.node(scalar.switch, (expr, exprs.one, exprs.zero))


def outside_the_reals(exprs: ExprGraph, op: ScalarOp, operands: Sequence[Expr]) -> Expr | None:
    """Simplified cast, equality or logical operation; None for real arithmetic."""
    if isinstance(op, scalar.Cast):
        return _simplify_cast(exprs, op, *operands)
    if isinstance(op, _EQUALITIES):
        return _simplify_equality(exprs, op, *operands)
    dtypes = [expr.dtype for expr in operands]
    of_conditions = all(dtype.kind == "b" for dtype in dtypes)
    if of_conditions and isinstance(op, (*_LOGIC, scalar.Mul)):
        return simplify_logic(exprs, scalar.and_ if isinstance(op, scalar.Mul) else op, operands)
    if isinstance(op, CHOICES):
        return None
    require_lowerable(not isinstance(op, _STEPS), op, "is a step function of the parameters")
    result = scalar_output_type(op, *dtypes)
    if isinstance(op, scalar.IsInf | scalar.IsNan):
        (x,) = operands
        # Terms with data factors are excluded, because data may be infinite.
        if is_finite(x) and not any(t.monomial for part in affines_in(x) for t in part.terms):
            return exprs.constant(False)
        return _beyond_the_reals(exprs, x, is_nan=isinstance(op, scalar.IsNan))
    asks = "tests the parameters in a way that bounds cannot follow"
    require_lowerable(result.kind != "b", op, asks)
    require_lowerable(result.kind == "f", op, "computes in integers from the parameters")
    # PyTensor computes (x > 0) * 0.5 in single precision, but this product is exact.
    chosen = isinstance(op, scalar.Mul) and sum(dtype.kind != "b" for dtype in dtypes) == 1
    require_lowerable(
        chosen or result.itemsize >= 8, op, f"computes in single precision; {USE_DOUBLE_PRECISION}"
    )
    return None


def _beyond_the_reals(exprs: ExprGraph, x: Expr, *, is_nan: bool) -> Expr:
    """Whether x is infinite, or not a number, as comparisons, which bounds can follow."""
    ends = exprs.constant(inf), exprs.constant(-inf)
    orders = (scalar.le, scalar.ge) if is_nan else (scalar.ge, scalar.le)
    pair = [exprs.node(op, (x, end)) for op, end in zip(orders, ends, strict=True)]
    if not is_nan:
        return exprs.node(scalar.or_, pair)
    return exprs.node(scalar.invert, (exprs.node(scalar.and_, pair),))


def _simplify_cast(exprs: ExprGraph, op: scalar.Cast, x: Expr) -> Expr:
    target = op.o_type.dtype
    if x.dtype.kind == "b" or target == "float64":
        return x if target == "bool" else as_number(exprs, x)
    kind = f"single precision; {USE_DOUBLE_PRECISION}" if "float" in target else "integers"
    raise LoweringError(op, f"rounds the parameters to {kind}")


def simplify_logic(exprs: ExprGraph, op: ScalarOp, operands: Sequence[Expr]) -> Expr:
    """Logical operation, simplified by dropping operands that cannot change its value."""
    if isinstance(op, scalar.Invert):
        return exprs.node(op, operands)
    decisive = isinstance(op, scalar.OR)
    open_ones = [x for x in dict.fromkeys(operands) if constant_value(x) is None]
    if any(constant_value(x) is not None and bool(x.value) == decisive for x in operands):  # type: ignore[attr-defined]
        return exprs.constant(decisive)
    if not open_ones:
        return exprs.constant(not decisive)
    return reduce(lambda left, right: exprs.node(op, (left, right)), open_ones)


def _simplify_equality(exprs: ExprGraph, op: ScalarOp, left: Expr, right: Expr) -> Expr:
    for one, other in ((left, right), (right, left)):
        value = constant_value(other)
        # Equality is meant in exact arithmetic: a logistic function is 1 only by rounding.
        never = (
            (value == 0.0 and is_positive(one))
            or (value == 1.0 and is_a(one, scalar_math.Sigmoid))
            or (value == -inf and is_finite(one))
        )
        if never:
            return exprs.constant(isinstance(op, scalar.NEQ))
    if provably_varies(left, right):
        return exprs.node(op, (left, right))
    # An equality such as max(b, 0) == 0 may hold on a whole region. Bounds over a box can decide
    # order relations but not equality, so == becomes >= and <=.
    at_least, at_most = (exprs.node(o, (left, right)) for o in (scalar.ge, scalar.le))
    equal = exprs.node(scalar.and_, (at_least, at_most))
    return equal if isinstance(op, scalar.EQ) else exprs.node(scalar.invert, (equal,))


def equality_sides(condition: Expr) -> tuple[Expr, ...] | None:
    """Both sides of an equality; None for any other condition."""
    if is_a(condition, scalar.AND):
        at_least, at_most = condition.inputs
        orders = is_a(at_least, scalar.GE) and is_a(at_most, scalar.LE)
        return at_least.inputs if orders and at_least.inputs == at_most.inputs else None
    return condition.inputs if is_a(condition, scalar.EQ) else None


@cached_rule
def add_exprs(exprs: ExprGraph, *operands: Expr) -> Expr:
    """Sum with like terms, affine parts and known identities merged."""
    numbers = [as_number(exprs, operand) for operand in operands]
    parts = [part for x in numbers for part in ((x,) if x.is_data else sum_parts(x))]
    affines = [part for part in parts if isinstance(part, Affine)]
    data = [part for part in parts if part.is_data]
    others = [part for part in parts if not (part.is_data or isinstance(part, Affine))]
    others, whole = _telescope_tails(exprs, _like_terms(exprs, others))
    data += [whole] if whole is not exprs.zero else []
    joined = _complete_shares(exprs, _join_differences(exprs, others, _gamma_ratio))
    joined = _collect_affine(exprs, _join_differences(exprs, joined, _cancel_softplus))
    if len(joined) < len(others):
        return add_exprs(exprs, *affines, *joined, *data)
    rest = exprs.total(affines, data)
    if not others or constant_value(rest) in (inf, -inf):
        return rest
    if len(others) == 1 and constant_value(rest) == 1.0:
        core, factor = scaled_core(exprs, others[0])
        if is_a(core, scalar_math.Sigmoid) and factor is exprs.constant(-1.0):
            return sigmoid_expr(exprs, negate_expr(exprs, core.inputs[0]))
    if constant_value(rest) != 0.0:
        others.append(rest)
    return others[0] if len(others) == 1 else exprs.node(scalar.add, others)


def _like_terms(exprs: ExprGraph, parts: list[Expr]) -> list[Expr]:
    """Add up the coefficients of equal products."""
    numbers: dict[tuple[Expr, ...], list[float]] = {}
    for part in parts:
        core, factor = scaled_core(exprs, part)
        value, data = exprs.as_product(factor)
        numbers.setdefault((core, *data), []).append(value)
    totals = {product: rounded_sum(values) for product, values in numbers.items()}
    return [multiply_exprs(exprs, exprs.constant(k), *x) for x, k in totals.items() if k != 0.0]


def _telescope_tails(exprs: ExprGraph, parts: list[Expr]) -> tuple[list[Expr], Expr]:
    """Remove normal probabilities that add up to a constant; return other parts and constant."""
    shares = [x for x in parts if is_a(scaled_core(exprs, x)[0], scalar.Exp)]
    found = tail_coefficients(exprs, shares) if len(shares) > 1 else None
    if found is None or found[1]:
        return parts, exprs.zero
    return [x for x in parts if x not in shares], exprs.constant(found[0])


def tail_coefficients(
    exprs: ExprGraph, parts: Sequence[Expr]
) -> tuple[float, dict[Expr, float]] | None:
    """Coefficients c and k of a sum c + Σ k erfc(u), with u and -u merged, or None."""
    numbers, weights = [0.0], dict[Expr, list[float]]()
    for part in parts:
        core, factor = (part, exprs.one) if part.is_data else scaled_core(exprs, part)
        k, tails = constant_value(factor), _tails_in(exprs, core)
        if k is None or tails is None:
            return None
        numbers.append(k * tails[0])
        for end, own in tails[1]:
            u = expand_products(exprs, end)
            mirrored = u not in weights and negate_expr(exprs, u) in weights
            # erfc(-u) = 2 - erfc(u)
            numbers.append(2.0 * k * own if mirrored else 0.0)
            place = negate_expr(exprs, u) if mirrored else u
            weights.setdefault(place, []).append(-k * own if mirrored else k * own)
    sums = {u: rounded_sum(own) for u, own in weights.items()}
    return rounded_sum(numbers), {u: k for u, k in sums.items() if k != 0.0}


def expand_products(exprs: ExprGraph, x: Expr) -> Expr:
    """Expression with products of sums expanded, so that its negative has the same form."""
    found = list[Expr]()
    for part in () if x.is_data else sum_parts(x):
        total = next((factor for factor in product_factors(part) if is_a(factor, scalar.Add)), None)
        if total is not None:
            rest = without_value(list(product_factors(part)), total)
            found += [multiply_exprs(exprs, *rest, term) for term in total.inputs]
        else:
            found.append(part)
    return add_exprs(exprs, *found) if found else x


def _tails_in(exprs: ExprGraph, x: Expr) -> tuple[float, list[tuple[Expr, float]]] | None:
    """Constant c and pairs of u and k of an expression c + Σ k erfc(u)."""
    if constant_value(x) is not None:
        return constant_value(x) or 0.0, []
    if is_a(x, scalar_math.Erfc):
        return 0.0, [(x.inputs[0], 1.0)]
    if is_a(x, scalar_math.Erf):
        return 1.0, [(x.inputs[0], -1.0)]
    others, log_size = split_numbers(sum_parts(x.inputs[0]) if is_a(x, scalar.Exp) else ())
    if len(others) != 1:
        return None
    size = math.exp(log_size)
    if is_a(others[0], LogErfc):
        return 0.0, [(others[0].inputs[0], size)]
    ends = exprs.results.get((LogBetweenTails, others[0]))
    return None if ends is None else (0.0, [(ends.inputs[0], size), (ends.inputs[1], -size)])


def _collect_affine(exprs: ExprGraph, parts: list[Expr]) -> list[Expr]:
    """Replace a x + b x by (a + b) x, for affine a and b."""
    affines: dict[tuple[Expr, ...], list[Expr]] = {}
    kept: list[Expr] = []
    for part in parts:
        own, rest = affine_factor(exprs, part)
        if own is None:
            kept.append(part)
        else:
            affines.setdefault(tuple(rest), []).append(own)
    return kept + [
        multiply_exprs(exprs, add_exprs(exprs, *own), *rest) for rest, own in affines.items()
    ]


def affine_factor(exprs: ExprGraph, expr: Expr) -> tuple[Expr | None, list[Expr]]:
    """The only affine factor of a product, times the data factors, and the remaining factors."""
    factors = product_factors(expr)
    own = [x for x in factors if isinstance(x, Affine)]
    if len(own) != 1 or len(factors) == 1:
        return None, [expr]
    data = [x for x in factors if x.is_data]
    return multiply_exprs(exprs, *data, *own), [
        x for x in factors if not x.is_data and x is not own[0]
    ]


def _join_differences(
    exprs: ExprGraph, parts: list[Expr], difference: Callable[[ExprGraph, Expr, Expr], Expr | None]
) -> list[Expr]:
    """Replace k f - k g by k d for pairs whose difference d = f - g has a simpler form."""
    kept, cores = list[Expr](), list[tuple[Expr, Expr]]()
    for part in parts:
        core, factor = scaled_core(exprs, part)
        opposite = exprs.times(factor, exprs.minus_one)
        for k, (other, other_factor) in enumerate(cores):
            known = difference(exprs, core, other) if other_factor is opposite else None
            if known is not None:
                kept[k] = multiply_exprs(exprs, factor, known)
                cores[k] = scaled_core(exprs, kept[k])
                break
        else:
            kept.append(part)
            cores.append((core, factor))
    return kept


def _cancel_softplus(exprs: ExprGraph, left: Expr, right: Expr) -> Expr | None:
    """Difference softplus(x) - softplus(-x), which equals x."""
    both = is_a(left, scalar_math.Softplus) and is_a(right, scalar_math.Softplus)
    mirrored = both and right.inputs[0] is negate_expr(exprs, left.inputs[0])
    return left.inputs[0] if mirrored else None


def _complete_shares(exprs: ExprGraph, parts: list[Expr]) -> list[Expr]:
    """Replace y σ(x) + y σ(-x) by y, and for numbers k σ(x) + m σ(-x) by m + (k - m) σ(x)."""
    kept: list[Expr] = []
    for part in parts:
        for share in (x for x in product_factors(part) if is_a(x, scalar_math.Sigmoid)):
            place, total = _with_mirror(
                exprs, share, without_value(product_factors(part), share), kept
            )
            if total is not None:
                kept[place] = total
                break
        else:
            kept.append(part)
    return kept


def _with_mirror(
    exprs: ExprGraph, share: Expr, rest: list[Expr], kept: list[Expr]
) -> tuple[int, Expr | None]:
    """Index of the summand with σ(-x) that matches a summand with σ(x), and the sum of both."""
    mirror = sigmoid_expr(exprs, negate_expr(exprs, share.inputs[0]))
    partner = multiply_exprs(exprs, mirror, *rest)
    if partner in kept:
        return kept.index(partner), multiply_exprs(exprs, *rest)
    k = constant_value(multiply_exprs(exprs, *rest))
    for place, (core, factor) in enumerate(scaled_core(exprs, x) for x in kept):
        m = constant_value(factor)
        if core is mirror and k is not None and m is not None:
            # The smaller coefficient becomes the constant, so that a small σ keeps its digits.
            low, high, growing = (m, k, share) if abs(m) <= abs(k) else (k, m, mirror)
            slope = exprs.constant(rounded_sum((high, -low)))
            return place, add_exprs(
                exprs, exprs.constant(low), multiply_exprs(exprs, slope, growing)
            )
    return 0, None


def _gamma_ratio(exprs: ExprGraph, left: Expr, right: Expr) -> Expr | None:
    """Difference log Γ(x + y) - log Γ(x + z) as one operation, for data y and z."""
    if not is_a(left, scalar_math.GammaLn) or not is_a(right, scalar_math.GammaLn):
        return None
    (x, y), (other, z) = (_split_off_data(exprs, expr.inputs[0]) for expr in (left, right))
    return exprs.node(gamma_ratio, (x, y, z)) if other is x else None


def _split_off_data(exprs: ExprGraph, expr: Expr) -> tuple[Expr, Expr]:
    others = [part for part in sum_parts(expr) if not part.is_data]
    data = [part for part in sum_parts(expr) if part.is_data]
    return add_exprs(exprs, *others), exprs.plus(data)


@cached_rule
def multiply_exprs(exprs: ExprGraph, *operands: Expr) -> Expr:
    """Product with its data in front and its exponentials merged."""
    numbers = [as_number(exprs, operand) for operand in operands]
    factors = [part for x in numbers for part in product_factors(x)]
    others = [x for x in factors if not x.is_data]
    spread = _distribute_sum(exprs, others)
    if spread is not None:
        known = [x for x in factors if x.is_data]
        return add_exprs(exprs, *(multiply_exprs(exprs, *known, *part) for part in spread))
    others = _with_log_ratios(exprs, without_reciprocals(others))
    others = _with_softplus_raised(exprs, _with_exponentials_joined(exprs, others))
    if len(others) > 1:
        pairs = [core_and_factor(exprs, x) for x in others]
        others, factors = [core for core, _ in pairs], [*factors, *(data for _, data in pairs)]
    others = _join_squares(exprs, others)
    # Merged exponentials can cancel and leave data among `others`.
    data = exprs.product(1.0, [x for x in (*factors, *others) if x.is_data])
    # A fixed order gives equal products the same expression.
    others = [*exprs.in_order([f for x in others if not x.is_data for f in product_factors(x)])]
    if constant_value(data) == 0.0:
        return exprs.zero
    if len(others) == 1 and isinstance(others[0], Affine):
        return exprs.times_data(others[0], data)
    if len(others) == 1 and is_a(others[0], scalar.Add) and constant_value(data) not in (None, 1.0):
        return add_exprs(exprs, *(multiply_exprs(exprs, data, part) for part in others[0].inputs))
    if constant_value(data) != 1.0 or not others:
        others.insert(0, data)
    return others[0] if len(others) == 1 else exprs.node(scalar.mul, others)


def _with_log_ratios(exprs: ExprGraph, factors: list[Expr]) -> list[Expr]:
    """Replace e^a log(1 + w) by e^a w times log(1 + w)/w if e^a cancels in e^a w."""
    for log, size in permutations(factors, 2):
        product = _cancelling_product(exprs, size, log)
        if product is not None:
            inner, whole = product
            rest = without_value(without_value(factors, log), size)
            ratio = exprs.node(log1p_ratio, (inner,))
            return _with_log_ratios(exprs, [*rest, *product_factors(whole), ratio])
    return factors


def _cancelling_product(exprs: ExprGraph, size: Expr, log: Expr) -> tuple[Expr, Expr] | None:
    """Operands w and e^a w of e^a log(1 + w) if e^a cancels in e^a w, or None."""
    if not is_a(size, scalar.Exp) or not is_a(log, scalar.Log1p):
        return None
    inner = log.inputs[0]
    exponents = [x.inputs[0] for x in product_factors(inner) if is_a(x, scalar.Exp)]
    shrinks = any(_sum_is_shorter(exprs, size.inputs[0], x) for x in exponents)
    return (
        (inner, multiply_exprs(exprs, size, inner)) if shrinks and is_nonnegative(inner) else None
    )


def _sum_is_shorter(exprs: ExprGraph, left: Expr, right: Expr) -> bool:
    if not isinstance(left, Affine) or not isinstance(right, Affine):
        return False
    total, most = add_exprs(exprs, left, right), max(len(left.terms), len(right.terms))
    return not isinstance(total, Affine) or len(total.terms) < most


def _distribute_sum(exprs: ExprGraph, factors: list[Expr]) -> list[list[Expr]] | None:
    """Products (as factors) after expanding a sum in which an exponential cancels, or None."""
    for total in (x for x in factors if is_a(x, scalar.Add)):
        rest = without_value(factors, total)
        parts = [f for part in total.inputs for f in product_factors(part)]
        if any(_cancelling_product(exprs, part, log) for part in parts for log in rest):
            return [[*rest, part] for part in total.inputs]
    return None


def _with_exponentials_joined(exprs: ExprGraph, factors: list[Expr]) -> list[Expr]:
    result: list[Expr] = []
    for factor in factors:
        for k, known in enumerate(result if is_a(factor, scalar.Exp) else ()):
            if is_a(known, scalar.Exp):
                total = add_exprs(exprs, known.inputs[0], factor.inputs[0])
                if should_merge_exponentials(known.inputs[0], factor.inputs[0], total):
                    result[k] = exp_expr(exprs, total)
                    break
        else:
            result.append(factor)
    return result


def _with_softplus_raised(exprs: ExprGraph, factors: list[Expr]) -> list[Expr]:
    """Replace e^a softplus(b) by exp(a + log softplus(b)), more accurate if b contains a."""
    sizes = [x for x in factors if is_a(x, scalar.Exp)]
    shares = [x for x in factors if is_a(x, scalar_math.Softplus)]
    if not sizes or not shares:
        return factors
    rest = without_value(without_value(factors, sizes[0]), shares[0])
    log_share = exprs.node(log_softplus, shares[0].inputs)
    return [exp_expr(exprs, add_exprs(exprs, sizes[0].inputs[0], log_share)), *rest]


def core_and_factor(exprs: ExprGraph, x: Expr) -> tuple[Expr, Expr]:
    """Expression without its data factor, and that factor; 1 and `x` if `x` is data."""
    if x.is_data:
        return exprs.one, x
    return exprs.primitive_part(x) if isinstance(x, Affine) else scaled_core(exprs, x)


def _even_core(exprs: ExprGraph, x: Expr) -> tuple[Expr, Expr]:
    """Core and factor of an even function's argument; the first summand of the core is unscaled."""
    if not is_a(x, scalar.Add):
        return core_and_factor(exprs, x)
    pairs = [core_and_factor(exprs, part) for part in x.inputs]
    parts = [(core, *exprs.as_product(factor)) for core, factor in pairs]
    first = exprs.in_order([core for core, _, _ in parts])[0]
    lead = next(value for core, value, _ in parts if core is first)
    scaled = [(core, value / lead, data) for core, value, data in parts]
    summed = [multiply_exprs(exprs, exprs.product(k, data), core) for core, k, data in scaled]
    shape = tuple((core, data) for core, _, data in scaled)
    total = x if lead == 1.0 else add_exprs(exprs, *summed)
    return exprs.first_like(total, shape, [k for _, k, _ in scaled]), exprs.constant(lead)


def _join_squares(exprs: ExprGraph, factors: Sequence[Expr]) -> list[Expr]:
    result: list[Expr] = []
    for factor in exprs.in_order(factors):
        if result and result[-1] is factor:
            result[-1] = square_expr(exprs, factor)
        else:
            result.append(factor)
    return result


def absolute_expr(exprs: ExprGraph, x: Expr) -> Expr:
    """Absolute value |x|."""
    if x.is_data:
        return exprs.node(scalar.abs, (x,))
    if is_positive(x):
        return x
    core, factor = _even_core(exprs, x)
    return multiply_exprs(exprs, absolute_expr(exprs, factor), exprs.node(scalar.abs, (core,)))


def negate_expr(exprs: ExprGraph, x: Expr) -> Expr:
    """Negation -x, as a product with -1."""
    return multiply_exprs(exprs, exprs.constant(-1.0), x)


def subtract_exprs(exprs: ExprGraph, left: Expr, right: Expr) -> Expr:
    """Difference left - right, written as a sum."""
    return add_exprs(exprs, left, negate_expr(exprs, right))


def reciprocal_expr(exprs: ExprGraph, x: Expr) -> Expr:
    """Reciprocal 1/x, factor by factor for exponentials and products."""
    if x.is_data:
        return exprs.node(scalar.reciprocal, (exprs.real(x),))
    if is_a(x, scalar.Exp):
        return exp_expr(exprs, negate_expr(exprs, x.inputs[0]))
    if is_a(x, scalar.Mul):
        return multiply_exprs(exprs, *(reciprocal_expr(exprs, part) for part in x.inputs))
    core, factor = core_and_factor(exprs, x)
    return multiply_exprs(
        exprs, reciprocal_expr(exprs, factor), exprs.node(scalar.reciprocal, (core,))
    )


def divide_exprs(exprs: ExprGraph, left: Expr, right: Expr) -> Expr:
    """Quotient left / right, written as a product with a reciprocal."""
    return multiply_exprs(exprs, left, reciprocal_expr(exprs, right))


def exp_expr(exprs: ExprGraph, x: Expr) -> Expr:
    """Exponential function, simplified for logarithms."""
    if x.is_data:
        return exprs.node(scalar.exp, (exprs.real(x),))
    if is_a(x, scalar.Log) and is_positive(x.inputs[0]):
        return x.inputs[0]
    if is_a(x, LogSoftplus):
        return softplus_expr(exprs, x.inputs[0])
    core, factor = scaled_core(exprs, x)
    if is_a(core, scalar_math.Softplus) and constant_value(factor) == -1.0:
        return sigmoid_expr(exprs, negate_expr(exprs, core.inputs[0]))
    return exprs.node(scalar.exp, (x,))


def square_expr(exprs: ExprGraph, x: Expr) -> Expr:
    """Square, factor by factor for products."""
    if x.is_data:
        value, others = exprs.as_product(x)
        squares = [exprs.node(scalar.sqr, (exprs.real(other),)) for other in others]
        return exprs.product(value * value, squares)
    if is_a(x, scalar.Exp):
        return exp_expr(exprs, multiply_exprs(exprs, exprs.constant(2.0), x.inputs[0]))
    if is_a(x, scalar.Mul):
        return multiply_exprs(exprs, *(square_expr(exprs, part) for part in x.inputs))
    if is_a(x, scalar.Reciprocal):
        return reciprocal_expr(exprs, square_expr(exprs, x.inputs[0]))
    if is_a(x, scalar.Sqrt) and is_nonnegative(x.inputs[0]):
        return x.inputs[0]
    core, factor = _even_core(exprs, x)
    return multiply_exprs(exprs, square_expr(exprs, factor), exprs.node(scalar.sqr, (core,)))


def softplus_expr(exprs: ExprGraph, x: Expr) -> Expr:
    """Softplus function log(1 + exp(x))."""
    return exprs.node(scalar_math.softplus, (x,))


def sigmoid_expr(exprs: ExprGraph, x: Expr) -> Expr:
    """Logistic function 1 / (1 + exp(-x))."""
    return exprs.node(scalar_math.sigmoid, (x,))
