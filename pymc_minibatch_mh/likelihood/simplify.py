"""Identities between scalar operations that keep bounds tight.

Every rule is an identity of real functions, wherever its left side is defined. They find the
affine parts of an expression, keep products of exponentials in one exponential, and undo what
would otherwise be computed twice from the same argument, which intervals cannot see.
"""

from collections.abc import Callable, Sequence
from math import log

from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from pytensor.scalar.basic import ScalarOp

from pymc_minibatch_mh.likelihood.cells import Affine, Apply, Cell, Cells, Constant
from pymc_minibatch_mh.likelihood.composite import gamma_ratio, log_erfc


def simplified(cells: Cells, op: ScalarOp, operands: Sequence[Cell]) -> Cell:
    """Return ``op(*operands)`` in a form that bounds can be tight for."""
    if all(cell.is_data for cell in operands):
        return cells.node(op, operands)
    rule = _RULES.get(type(op))
    result = rule(cells, *operands) if rule is not None else None
    return cells.node(op, operands) if result is None else result


def number(cell: Cell) -> float | None:
    """Return the value of a constant."""
    return float(cell.value) if isinstance(cell, Constant) else None


def add(cells: Cells, *operands: Cell) -> Cell:
    """Return a sum, its affine parts in one."""
    parts = [x for o in operands for x in ((o,) if o.is_data else summands(o))]
    affines = [part for part in parts if isinstance(part, Affine)]
    data = [part for part in parts if part.is_data]
    others = [part for part in parts if not part.is_data and not isinstance(part, Affine)]
    others, more = _cancelled(cells, _completed(cells, _gamma_ratios(cells, others)))
    rest = cells.total([*affines, *(m for m in more if isinstance(m, Affine))], data)
    others += [m for m in more if not isinstance(m, Affine)]
    if not others:
        return rest
    if len(others) == 1 and number(rest) == 1.0:
        core, factor = _scaled_core(cells, others[0])
        if _is(core, scalar_math.Sigmoid) and factor is cells.constant(-1.0):
            return apply(cells, scalar_math.sigmoid, negative(cells, core.inputs[0]))
    if number(rest) != 0.0:
        others.append(rest)
    return others[0] if len(others) == 1 else cells.node(scalar.add, others)


def summands(cell: Cell) -> tuple[Cell, ...]:
    """Return the parts of a sum, or the cell itself."""
    return cell.inputs if _is(cell, scalar.Add) else (cell,)


def _cancelled(cells: Cells, parts: list[Cell]) -> tuple[list[Cell], list[Cell]]:
    """Replace k softplus(x) - k softplus(-x) by k x."""
    kept: list[Cell] = []
    found: list[Cell] = []
    for part in parts:
        core, factor = _scaled_core(cells, part)
        if _is(core, scalar_math.Softplus):
            mirror = apply(cells, scalar_math.softplus, negative(cells, core.inputs[0]))
            partner = multiply(cells, negative(cells, factor), mirror)
            if partner in kept:
                kept.remove(partner)
                found.append(multiply(cells, factor, core.inputs[0]))
                continue
        kept.append(part)
    return kept, found


def _completed(cells: Cells, parts: list[Cell]) -> list[Cell]:
    """Replace k σ(x) + k σ(-x) by k."""
    kept: list[Cell] = []
    for part in parts:
        factors = _factors(part)
        for factor in factors:
            if _is(factor, scalar_math.Sigmoid):
                mirror = apply(cells, scalar_math.sigmoid, negative(cells, factor.inputs[0]))
                rest = [f for f in factors if f is not factor]
                partner = multiply(cells, mirror, *rest)
                if partner in kept:
                    kept[kept.index(partner)] = multiply(cells, *rest)
                    break
        else:
            kept.append(part)
    return kept


def _gamma_ratios(cells: Cells, parts: list[Cell]) -> list[Cell]:
    """Join k log Γ(x + y) and -k log Γ(x + z) for data y and z."""
    kept: list[Cell] = []
    for part in parts:
        core, factor = _scaled_core(cells, part)
        partner = None
        if _is(core, scalar_math.GammaLn):
            x, y = _split_off_data(cells, core.inputs[0])
            for other in kept:
                other_core, other_factor = _scaled_core(cells, other)
                if _is(other_core, scalar_math.GammaLn):
                    other_x, z = _split_off_data(cells, other_core.inputs[0])
                    if other_x is x and other_factor is cells.times(factor, cells.minus_one):
                        partner = other
                        ratio = cells.node(gamma_ratio, (x, y, z))
        if partner is None:
            kept.append(part)
        else:
            kept[kept.index(partner)] = multiply(cells, factor, ratio)
    return kept


def _split_off_data(cells: Cells, cell: Cell) -> tuple[Cell, Cell]:
    parts = summands(cell)
    data = [part for part in parts if part.is_data]
    others = [part for part in parts if not part.is_data]
    return add(cells, *others), cells.plus(data)


def _scaled_core(cells: Cells, cell: Cell) -> tuple[Cell, Cell]:
    """Return the one factor of a product that is not data, and the data."""
    if _is(cell, scalar.Mul) and len(cell.inputs) == 2 and cell.inputs[0].is_data:
        return cell.inputs[1], cell.inputs[0]
    return cell, cells.one


def multiply(cells: Cells, *operands: Cell) -> Cell:
    """Return a product, its data in front and its exponentials in one."""
    factors = [part for operand in operands for part in _factors(operand)]
    data = cells.one
    for part in factors:
        data = cells.times(data, part) if part.is_data else data
    others = [part for part in factors if not part.is_data]
    if number(data) == 0.0:
        return cells.zero
    others = _squares(cells, _with_exponentials_joined(cells, others))
    if len(others) == 1 and isinstance(others[0], Affine):
        return cells.scaled(others[0], data)
    if len(others) == 1 and _is(others[0], scalar.Add) and number(data) not in (None, 1.0):
        return add(cells, *(multiply(cells, data, part) for part in others[0].inputs))
    if number(data) != 1.0 or not others:
        others.insert(0, data)
    return others[0] if len(others) == 1 else cells.node(scalar.mul, others)


def _with_exponentials_joined(cells: Cells, factors: list[Cell]) -> list[Cell]:
    result: list[Cell] = []
    for factor in factors:
        for k, known in enumerate(result if _is(factor, scalar.Exp) else ()):
            if _is(known, scalar.Exp):
                total = add(cells, known.inputs[0], factor.inputs[0])
                if _worth_joining(known.inputs[0], factor.inputs[0], total):
                    result[k] = exp(cells, total)
                    break
        else:
            result.append(factor)
    return [part for part in result if number(part) != 1.0]


def _worth_joining(left: Cell, right: Cell, total: Cell) -> bool:
    # A new combination of parameters that all rows share would be one argument more.
    if total.is_data or not (isinstance(left, Affine) and isinstance(right, Affine)):
        return True
    if not isinstance(total, Affine):
        return False
    shared = [a for a in (left, right) if all(not t.monomial for t in a.terms)]
    return not shared or len(total.terms) <= max(len(left.terms), len(right.terms))


def _factors(cell: Cell) -> tuple[Cell, ...]:
    return cell.inputs if _is(cell, scalar.Mul) and not cell.is_data else (cell,)


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
        return cells.node(scalar.reciprocal, (x,))
    if _is(x, scalar.Exp):
        return exp(cells, negative(cells, x.inputs[0]))
    if _is(x, scalar.Mul):
        return multiply(cells, *(reciprocal(cells, part) for part in x.inputs))
    return cells.node(scalar.reciprocal, (x,))


def divide(cells: Cells, left: Cell, right: Cell) -> Cell:
    """Return a quotient as a product."""
    return multiply(cells, left, reciprocal(cells, right))


def exp(cells: Cells, x: Cell) -> Cell:
    """Return an exponential, unless it is one of a logarithm."""
    if _is(x, scalar.Log):
        return x.inputs[0]
    core, factor = _scaled_core(cells, x)
    if _is(core, scalar_math.Softplus) and number(factor) == -1.0:
        return apply(cells, scalar_math.sigmoid, negative(cells, core.inputs[0]))
    return cells.node(scalar.exp, (x,))


def logarithm(cells: Cells, x: Cell) -> Cell:
    """Return a logarithm, of products with exponentials term by term."""
    if _is(x, scalar.Exp):
        return x.inputs[0]
    if _is(x, scalar_math.Sigmoid):
        inner = negative(cells, x.inputs[0])
        return negative(cells, apply(cells, scalar_math.softplus, inner))
    if _is(x, scalar_math.Erfc):
        return cells.node(log_erfc, x.inputs)
    if _is(x, scalar.Mul):
        return _log_of_product(cells, x)
    if _is(x, scalar.Add) and len(x.inputs) == 2 and number(x.inputs[1]) == 1.0:
        return log1p(cells, x.inputs[0])
    return cells.node(scalar.log, (x,))


def _log_of_product(cells: Cells, x: Cell) -> Cell:
    # Only one factor may be of unknown sign, or log|a| + log|b| would replace a NaN by a number.
    positive = [part for part in x.inputs if _is_positive(part)]
    rest = [part for part in x.inputs if not _is_positive(part)]
    if not positive or (len(rest) > 1 and not all(part.is_data for part in rest)):
        return cells.node(scalar.log, (x,))
    groups = [*positive, multiply(cells, *rest)] if rest else positive
    return add(cells, *(apply(cells, scalar.log, part) for part in groups))


def _is_positive(cell: Cell) -> bool:
    if isinstance(cell, Constant):
        return bool(cell.value > 0)
    return _is(cell, scalar.Exp, scalar_math.Sigmoid, scalar_math.Erfc, scalar_math.Softplus)


def log1p(cells: Cells, x: Cell) -> Cell:
    """Return log(1 + x), of what completes a probability or an exponential."""
    if _is(x, scalar.Exp):
        return apply(cells, scalar_math.softplus, x.inputs[0])
    core, factor = _scaled_core(cells, x)
    if _is(core, scalar_math.Sigmoid) and number(factor) == -1.0:
        return negative(cells, apply(cells, scalar_math.softplus, core.inputs[0]))
    if _is(core, scalar_math.Erfc) and number(factor) == -0.5:
        inner = negative(cells, core.inputs[0])
        return add(cells, cells.constant(log(0.5)), cells.node(log_erfc, (inner,)))
    return cells.node(scalar.log1p, (x,))


def square(cells: Cells, x: Cell) -> Cell:
    """Return a square, of products factor by factor."""
    if _is(x, scalar.Exp):
        return exp(cells, multiply(cells, cells.constant(2.0), x.inputs[0]))
    if _is(x, scalar.Mul):
        return multiply(cells, *(apply(cells, scalar.sqr, part) for part in x.inputs))
    return cells.node(scalar.sqr, (x,))


def root(cells: Cells, x: Cell) -> Cell:
    """Return a square root, of an exponential as an exponential."""
    if _is(x, scalar.Exp):
        return exp(cells, multiply(cells, cells.constant(0.5), x.inputs[0]))
    return cells.node(scalar.sqrt, (x,))


def power(cells: Cells, base: Cell, exponent: Cell) -> Cell:
    """Return a power, through the exponential function where the exponent is not data."""
    if exponent.is_data:
        known = number(exponent)
        simple = {0.0: cells.one, 1.0: base}.get(known) if known is not None else None
        if simple is not None:
            return simple
        if known == 2.0:
            return square(cells, base)
        if known == -1.0:
            return reciprocal(cells, base)
        if _is(base, scalar.Exp):
            return exp(cells, multiply(cells, exponent, base.inputs[0]))
        return cells.node(scalar.pow, (base, exponent))
    return exp(cells, multiply(cells, exponent, apply(cells, scalar.log, base)))


def switch(cells: Cells, condition: Cell, left: Cell, right: Cell) -> Cell:
    """Return a choice, unless it is none."""
    known = number(condition)
    if known is not None:
        return left if known else right
    return left if left is right else cells.node(scalar.switch, (condition, left, right))


def apply(cells: Cells, op: ScalarOp, *operands: Cell) -> Cell:
    """Return ``op(*operands)``, simplified."""
    return simplified(cells, op, operands)


def _is(cell: Cell, *ops: type) -> bool:
    return isinstance(cell, Apply) and isinstance(cell.op, ops)


def sign(cells: Cells, x: Cell) -> Cell:
    """Return the sign, where it is known."""
    return cells.one if _is_positive(x) else cells.node(scalar.sign, (x,))


_RULES: dict[type, Callable[..., Cell]] = {
    scalar.Add: add,
    scalar.Mul: multiply,
    scalar.Neg: negative,
    scalar.Sub: subtract,
    scalar.TrueDiv: divide,
    scalar.Reciprocal: reciprocal,
    scalar.Exp: exp,
    scalar.Exp2: lambda cells, x: exp(cells, multiply(cells, cells.constant(log(2.0)), x)),
    scalar.Log: logarithm,
    scalar.Log2: lambda cells, x: divide(cells, logarithm(cells, x), cells.constant(log(2.0))),
    scalar.Log10: lambda cells, x: divide(cells, logarithm(cells, x), cells.constant(log(10.0))),
    scalar.Log1p: log1p,
    scalar.Sqr: square,
    scalar.Sqrt: root,
    scalar.Pow: power,
    scalar.Switch: switch,
    scalar.Second: lambda cells, _like, x: x,
    scalar.Sign: sign,
    scalar.Identity: lambda cells, x: x,
    scalar.Cast: lambda cells, x: x,
}
