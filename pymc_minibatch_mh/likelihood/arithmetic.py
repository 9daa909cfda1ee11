"""Sums, products and exponentials of cells, by identities that keep bounds tight.

Every rule is an identity of real functions wherever its left side is defined; where it is not, the
likelihood of the row is zero and needs no bound. The rules find the affine parts of an expression,
keep products of exponentials in one, and undo double computation, which intervals cannot see.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from math import inf

from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from pytensor.scalar.basic import ScalarOp

from pymc_minibatch_mh.functions.base import output_type, sum_of
from pymc_minibatch_mh.functions.gamma_ratio import gamma_ratio
from pymc_minibatch_mh.functions.log1p_ratio import log1p_ratio
from pymc_minibatch_mh.functions.log_softplus import LogSoftplus, log_softplus
from pymc_minibatch_mh.likelihood.cells import Affine, Cell, Cells, LoweringError, require
from pymc_minibatch_mh.likelihood.patterns import (
    factors_of,
    is_a,
    is_finite,
    is_nonnegative,
    is_positive,
    number,
    reachable,
    remembered,
    scaled_core,
    summands,
    varies,
    without,
    without_reciprocals,
    worth_joining,
)

_EQUALITIES = (scalar.EQ, scalar.NEQ)
_LOGIC = (scalar.AND, scalar.OR, scalar.Invert)
CHOICES = (scalar.Switch, scalar.Second, scalar.Identity)
#: How a model is fixed whose parameters are computed with in single precision.
IN_DOUBLE = "build the model with floatX=float64"
_STEPS = (
    scalar.IntDiv, scalar.Mod, scalar.Floor, scalar.Ceil, scalar.Trunc, scalar.RoundHalfToEven,
    scalar.RoundHalfAwayFromZero,
)  # fmt: skip


def as_number(cells: Cells, cell: Cell) -> Cell:
    """Return a condition as one or zero, and any other cell as it is."""
    if cell.is_data or cell.dtype.kind != "b":
        return cell
    return cells.node(scalar.switch, (cell, cells.one, cells.zero))


def outside_the_reals(cells: Cells, op: ScalarOp, operands: Sequence[Cell]) -> Cell | None:
    """Return the result of an operation that is no arithmetic with real numbers, or else None."""
    if isinstance(op, scalar.Cast):
        return _cast(cells, op, *operands)
    if isinstance(op, _EQUALITIES):
        return _equality(cells, op, *operands)
    dtypes = [cell.dtype for cell in operands]
    of_conditions = all(dtype.kind == "b" for dtype in dtypes)
    if of_conditions and isinstance(op, _LOGIC):
        return _logic(cells, op, operands)
    if of_conditions and isinstance(op, scalar.Mul):
        return reduce(lambda left, right: _logic(cells, scalar.and_, (left, right)), operands)
    if isinstance(op, CHOICES):
        return None
    require(not isinstance(op, _STEPS), op, "is a step function of the parameters")
    result = output_type(op, *dtypes)
    if isinstance(op, scalar.IsInf | scalar.IsNan) and _is_finite_number(cells, *operands):
        return cells.constant(False)
    asks = "asks something of the parameters that bounds cannot answer"
    require(result.kind != "b", op, asks)
    require(result.kind == "f", op, "computes in integers from the parameters")
    # PyTensor has (x > 0) * 0.5 in single precision, which rounds nothing.
    chosen = isinstance(op, scalar.Mul) and sum(dtype.kind != "b" for dtype in dtypes) == 1
    require(chosen or result.itemsize >= 8, op, f"computes in single precision; {IN_DOUBLE}")
    return None


def _is_finite_number(cells: Cells, x: Cell) -> bool:
    """Whether a cell is finite at every position, and made of no data, which might not be."""
    terms = (t for part in reachable(x) if isinstance(part, Affine) for t in part.terms)
    return is_finite(x) and not any(t.monomial for t in terms)


def _cast(cells: Cells, op: scalar.Cast, x: Cell) -> Cell:
    target = op.o_type.dtype
    if x.dtype.kind == "b":
        return x if target == "bool" else as_number(cells, x)
    if target == "float64":
        return x
    single = target.startswith("float")
    kind = f"single precision; {IN_DOUBLE}" if single else "integers"
    raise LoweringError(op, f"rounds the parameters to {kind}")


def _logic(cells: Cells, op: ScalarOp, operands: Sequence[Cell]) -> Cell:
    """Return a condition without what does not decide it."""
    if isinstance(op, scalar.Invert):
        return cells.node(op, operands)
    decisive = isinstance(op, scalar.OR)
    open_ones = [x for x in operands if number(x) is None]
    if any(number(x) is not None and bool(x.value) == decisive for x in operands):  # type: ignore[attr-defined]
        return cells.constant(decisive)
    return cells.node(op, open_ones) if len(open_ones) == len(operands) else open_ones[0]


def _equality(cells: Cells, op: ScalarOp, left: Cell, right: Cell) -> Cell:
    for one, other in ((left, right), (right, left)):
        value = number(other)
        # As real numbers: shares of 1, which some models write over, are shares that were rounded.
        never = (
            (value == 0.0 and is_positive(one))
            or (value == 1.0 and is_a(one, scalar_math.Sigmoid))
            or (value == -inf and is_finite(one))
        )
        if never:
            return cells.constant(isinstance(op, scalar.NEQ))
    if varies(left, right):
        return cells.node(op, (left, right))
    # b * x equals zero where x does, and max(b, 0) on a whole region. Over a box, orders can be
    # decided or are seen to be open.
    at_least, at_most = (cells.node(o, (left, right)) for o in (scalar.ge, scalar.le))
    equal = cells.node(scalar.and_, (at_least, at_most))
    return equal if isinstance(op, scalar.EQ) else cells.node(scalar.invert, (equal,))


def equated(condition: Cell) -> tuple[Cell, ...] | None:
    """Return what a condition takes to be equal, if that is all it asks."""
    if is_a(condition, scalar.AND):
        at_least, at_most = condition.inputs
        orders = is_a(at_least, scalar.GE) and is_a(at_most, scalar.LE)
        return at_least.inputs if orders and at_least.inputs == at_most.inputs else None
    return condition.inputs if is_a(condition, scalar.EQ) else None


@remembered
def add(cells: Cells, *operands: Cell) -> Cell:
    """Return a sum, its affine parts in one."""
    numbers = [as_number(cells, operand) for operand in operands]
    parts = [part for x in numbers for part in ((x,) if x.is_data else summands(x))]
    affines = [part for part in parts if isinstance(part, Affine)]
    data = [part for part in parts if part.is_data]
    others = [part for part in parts if not (part.is_data or isinstance(part, Affine))]
    others = _like_terms(cells, others)
    joined = _completed(cells, _joined(cells, others, _gamma_ratio))
    joined = _collected(cells, _joined(cells, joined, _cancelled))
    if len(joined) < len(others):
        return add(cells, *affines, *joined, *data)
    rest = cells.total(affines, data)
    if not others:
        return rest
    if len(others) == 1 and number(rest) == 1.0:
        core, factor = scaled_core(cells, others[0])
        if is_a(core, scalar_math.Sigmoid) and factor is cells.constant(-1.0):
            return sigmoid(cells, negative(cells, core.inputs[0]))
    if number(rest) != 0.0:
        others.append(rest)
    return others[0] if len(others) == 1 else cells.node(scalar.add, others)


def _like_terms(cells: Cells, parts: list[Cell]) -> list[Cell]:
    """Add up the numbers that the same cell is multiplied by."""
    numbers: dict[Cell, list[float]] = {}
    kept: list[Cell] = []
    for part in parts:
        core, factor = scaled_core(cells, part)
        value = number(factor)
        if value is None:
            kept.append(part)
        else:
            numbers.setdefault(core, []).append(value)
    totals = {core: sum_of(values) for core, values in numbers.items()}
    kept += [multiply(cells, cells.constant(k), core) for core, k in totals.items() if k != 0.0]
    return kept


def _collected(cells: Cells, parts: list[Cell]) -> list[Cell]:
    """Replace a x + b x by (a + b) x, for affine a and b."""
    affines: dict[tuple[Cell, ...], list[Cell]] = {}
    kept: list[Cell] = []
    for part in parts:
        own, rest = affine_factor(cells, part)
        if own is None:
            kept.append(part)
        else:
            affines.setdefault(tuple(rest), []).append(own)
    return kept + [multiply(cells, add(cells, *own), *rest) for rest, own in affines.items()]


def affine_factor(cells: Cells, cell: Cell) -> tuple[Cell | None, list[Cell]]:
    """Return the one affine factor of a product, times all data in it, and the others."""
    factors = factors_of(cell)
    own = [x for x in factors if isinstance(x, Affine)]
    if len(own) != 1 or len(factors) == 1:
        return None, [cell]
    data = [x for x in factors if x.is_data]
    return multiply(cells, *data, *own), [x for x in factors if not x.is_data and x is not own[0]]


def _joined(
    cells: Cells, parts: list[Cell], difference: Callable[[Cells, Cell, Cell], Cell | None]
) -> list[Cell]:
    """Replace k f - k g by k times their difference, of pairs for which that is known."""
    kept: list[Cell] = []
    for part in parts:
        core, factor = scaled_core(cells, part)
        opposite = cells.times(factor, cells.minus_one)
        for k, other in enumerate(kept):
            other_core, other_factor = scaled_core(cells, other)
            known = difference(cells, core, other_core) if other_factor is opposite else None
            if known is not None:
                kept[k] = multiply(cells, factor, known)
                break
        else:
            kept.append(part)
    return kept


def _cancelled(cells: Cells, left: Cell, right: Cell) -> Cell | None:
    """Return softplus(x) - softplus(-x) as x."""
    if not is_a(left, scalar_math.Softplus) or not is_a(right, scalar_math.Softplus):
        return None
    x = left.inputs[0]
    return x if right.inputs[0] is negative(cells, x) else None


def _completed(cells: Cells, parts: list[Cell]) -> list[Cell]:
    """Replace y σ(x) + y σ(-x) by y, and for numbers k σ(x) + m σ(-x) by m + (k - m) σ(x)."""
    kept: list[Cell] = []
    for part in parts:
        for share in (x for x in factors_of(part) if is_a(x, scalar_math.Sigmoid)):
            place, total = _with_mirror(cells, share, without(factors_of(part), share), kept)
            if total is not None:
                kept[place] = total
                break
        else:
            kept.append(part)
    return kept


def _with_mirror(
    cells: Cells, share: Cell, rest: list[Cell], kept: list[Cell]
) -> tuple[int, Cell | None]:
    """Return which summand has the mirror σ(-x) of the share σ(x), and the sum of the two."""
    mirror = sigmoid(cells, negative(cells, share.inputs[0]))
    partner = multiply(cells, mirror, *rest)
    if partner in kept:
        return kept.index(partner), multiply(cells, *rest)
    k = number(multiply(cells, *rest))
    for place, (core, factor) in enumerate(scaled_core(cells, x) for x in kept):
        m = number(factor)
        if core is mirror and k is not None and m is not None:
            # Beside the smaller number, nothing is lost where the share of the other is small.
            low, high, growing = (m, k, share) if abs(m) <= abs(k) else (k, m, mirror)
            slope = cells.constant(sum_of((high, -low)))
            return place, add(cells, cells.constant(low), multiply(cells, slope, growing))
    return 0, None


def _gamma_ratio(cells: Cells, left: Cell, right: Cell) -> Cell | None:
    """Return log Γ(x + y) - log Γ(x + z) in one, for data y and z."""
    if not is_a(left, scalar_math.GammaLn) or not is_a(right, scalar_math.GammaLn):
        return None
    (x, y), (other, z) = (_split_off_data(cells, cell.inputs[0]) for cell in (left, right))
    return cells.node(gamma_ratio, (x, y, z)) if other is x else None


def _split_off_data(cells: Cells, cell: Cell) -> tuple[Cell, Cell]:
    parts = summands(cell)
    others = [part for part in parts if not part.is_data]
    return add(cells, *others), cells.plus([part for part in parts if part.is_data])


@remembered
def multiply(cells: Cells, *operands: Cell) -> Cell:
    """Return a product, its data in front and its exponentials in one."""
    numbers = [as_number(cells, operand) for operand in operands]
    factors = [part for x in numbers for part in factors_of(x)]
    others = [x for x in factors if not x.is_data]
    spread = _distributed(cells, others)
    if spread is not None:
        known = [x for x in factors if x.is_data]
        return add(cells, *(multiply(cells, *known, *part) for part in spread))
    others = _with_log_ratios(cells, without_reciprocals(others))
    others = _with_softplus_raised(cells, _with_exponentials_joined(cells, others))
    others = _squares(cells, others)
    # Exponentials that cancel leave data.
    known = [x for x in (*factors, *others) if x.is_data]
    one: Cell = cells.one
    data = reduce(cells.times, known, one)
    # In one order, so that the same product is the same cell.
    others = [*cells.ordered([f for x in others if not x.is_data for f in factors_of(x)])]
    if number(data) == 0.0:
        return cells.zero
    if len(others) == 1 and isinstance(others[0], Affine):
        return cells.scaled(others[0], data)
    if len(others) == 1 and is_a(others[0], scalar.Add) and number(data) not in (None, 1.0):
        return add(cells, *(multiply(cells, data, part) for part in others[0].inputs))
    if number(data) != 1.0 or not others:
        others.insert(0, data)
    return others[0] if len(others) == 1 else cells.node(scalar.mul, others)


def _with_log_ratios(cells: Cells, factors: list[Cell]) -> list[Cell]:
    """Replace e^a log(1 + w) by e^a w times log(1 + w)/w, where e^a cancels in e^a w."""
    for log in factors:
        for size in factors:
            product = _what_cancels(cells, size, log)
            if product is not None:
                inner, whole = product
                rest = without(without(factors, log), size)
                ratio = cells.node(log1p_ratio, (inner,))
                return _with_log_ratios(cells, [*rest, *factors_of(whole), ratio])
    return factors


def _what_cancels(cells: Cells, size: Cell, log: Cell) -> tuple[Cell, Cell] | None:
    """Return w and e^a w, if e^a log(1 + w) is such a product and e^a cancels in e^a w."""
    if not is_a(size, scalar.Exp) or not is_a(log, scalar.Log1p):
        return None
    inner = log.inputs[0]
    exponents = [x.inputs[0] for x in factors_of(inner) if is_a(x, scalar.Exp)]
    shrinks = any(_shrinks(cells, size.inputs[0], x) for x in exponents)
    if not is_nonnegative(inner) or not shrinks:
        return None
    return inner, multiply(cells, size, inner)


def _shrinks(cells: Cells, left: Cell, right: Cell) -> bool:
    if not isinstance(left, Affine) or not isinstance(right, Affine):
        return False
    total, most = add(cells, left, right), max(len(left.terms), len(right.terms))
    return not isinstance(total, Affine) or len(total.terms) < most


def _distributed(cells: Cells, factors: list[Cell]) -> list[list[Cell]] | None:
    """Return the products of a sum's parts, if one of them cancels with another factor."""
    for total in factors:
        if is_a(total, scalar.Add):
            rest = without(factors, total)
            parts = [f for part in total.inputs for f in factors_of(part)]
            if any(_what_cancels(cells, part, log) is not None for part in parts for log in rest):
                return [[*rest, part] for part in total.inputs]
    return None


def _with_exponentials_joined(cells: Cells, factors: list[Cell]) -> list[Cell]:
    result: list[Cell] = []
    for factor in factors:
        for k, known in enumerate(result if is_a(factor, scalar.Exp) else ()):
            if is_a(known, scalar.Exp):
                total = add(cells, known.inputs[0], factor.inputs[0])
                if worth_joining(known.inputs[0], factor.inputs[0], total):
                    result[k] = exp(cells, total)
                    break
        else:
            result.append(factor)
    return result


def _with_softplus_raised(cells: Cells, factors: list[Cell]) -> list[Cell]:
    """Replace e^a softplus(b) by exp(a + log softplus(b)), in which less is lost if a is in b."""
    sizes = [x for x in factors if is_a(x, scalar.Exp)]
    shares = [x for x in factors if is_a(x, scalar_math.Softplus)]
    if not sizes or not shares:
        return factors
    rest = without(without(factors, sizes[0]), shares[0])
    log_share = cells.node(log_softplus, shares[0].inputs)
    return [exp(cells, add(cells, sizes[0].inputs[0], log_share)), *rest]


def _squares(cells: Cells, factors: list[Cell]) -> list[Cell]:
    result: list[Cell] = []
    for factor in cells.ordered(factors):
        if result and result[-1] is factor:
            result[-1] = square(cells, factor)
        else:
            result.append(factor)
    return result


def negative(cells: Cells, x: Cell) -> Cell:
    """Return -x."""
    return multiply(cells, cells.constant(-1.0), x)


def subtract(cells: Cells, left: Cell, right: Cell) -> Cell:
    """Return a difference as a sum."""
    return add(cells, left, negative(cells, right))


def reciprocal(cells: Cells, x: Cell) -> Cell:
    """Return 1/x, of exponentials and products factor by factor."""
    if x.is_data:
        return cells.node(scalar.reciprocal, (cells.real(x),))
    if is_a(x, scalar.Exp):
        return exp(cells, negative(cells, x.inputs[0]))
    if is_a(x, scalar.Mul):
        return multiply(cells, *(reciprocal(cells, part) for part in x.inputs))
    return cells.node(scalar.reciprocal, (x,))


def divide(cells: Cells, left: Cell, right: Cell) -> Cell:
    """Return a quotient as a product."""
    return multiply(cells, left, reciprocal(cells, right))


def exp(cells: Cells, x: Cell) -> Cell:
    """Return an exponential, unless it is one of a logarithm."""
    if x.is_data:
        return cells.node(scalar.exp, (cells.real(x),))
    if is_a(x, scalar.Log) and is_positive(x.inputs[0]):
        return x.inputs[0]
    if is_a(x, LogSoftplus):
        return softplus(cells, x.inputs[0])
    core, factor = scaled_core(cells, x)
    if is_a(core, scalar_math.Softplus) and number(factor) == -1.0:
        return sigmoid(cells, negative(cells, core.inputs[0]))
    return cells.node(scalar.exp, (x,))


def square(cells: Cells, x: Cell) -> Cell:
    """Return a square, of products factor by factor."""
    if x.is_data:
        return cells.node(scalar.sqr, (cells.real(x),))
    if is_a(x, scalar.Exp):
        return exp(cells, multiply(cells, cells.constant(2.0), x.inputs[0]))
    if is_a(x, scalar.Mul):
        return multiply(cells, *(square(cells, part) for part in x.inputs))
    if is_a(x, scalar.Reciprocal):
        return reciprocal(cells, square(cells, x.inputs[0]))
    if is_a(x, scalar.Sqrt) and is_nonnegative(x.inputs[0]):
        return x.inputs[0]
    return cells.node(scalar.sqr, (x,))


def softplus(cells: Cells, x: Cell) -> Cell:
    """Return log(1 + exp(x))."""
    return cells.node(scalar_math.softplus, (x,))


def sigmoid(cells: Cells, x: Cell) -> Cell:
    """Return 1 / (1 + exp(-x))."""
    return cells.node(scalar_math.sigmoid, (x,))
