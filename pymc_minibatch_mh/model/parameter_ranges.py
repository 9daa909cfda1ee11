"""Ranges of parameters, proved for all positions.

A parameter is written as a polynomial in *shares* (numbers in [0, 1], such as logistic functions)
and *sizes* (such as exponentials): l + (1 - 2 l) σ with shares l and σ lies in [0, 1], although its
summands do not. Statements concern real numbers, so exp(-1000) is positive.

A *view* labels the axes of a tensor: one label for every axis along which entries vary, and None
for an axis with one entry. Equal tensors with equal views are the same quantity.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import cache, reduce
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable, equal_computations
from pytensor.graph.op import Op
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from pytensor.tensor.basic import Alloc, Join, MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import Dot, Max, Min, Prod, Sum
from pytensor.tensor.special import Softmax
from pytensor.tensor.subtensor import (
    AdvancedSubtensor,
    IncSubtensor,
    Subtensor,
    indices_from_subtensor,
)

from pymc_minibatch_mh.functions.base import numpy_function
from pymc_minibatch_mh.functions.polynomials import (
    MAX_TERMS,
    RELATIVE_ROUNDING,
    Polynomial,
    Range,
    Unknown,
    add_polynomials,
    constant_polynomial,
    linear_polynomial,
    multiply_polynomials,
    polynomial_range,
    product_of_parts,
    sum_of_parts,
)

View = tuple[Hashable, ...]

ANY = Range()
_SHARE = Range(0.0, 1.0, low_is_open=True, high_is_open=False)
_CLOSED = Range(0.0, 1.0, low_is_open=False, high_is_open=False)
_INCREASING = (
    scalar.Exp, scalar.Expm1, scalar.Log, scalar.Log1p, scalar.Sqrt, scalar.Tanh, scalar.ArcTan,
    scalar_math.Sigmoid, scalar_math.Softplus, scalar_math.Erf,
)  # fmt: skip
_CUMULATIVE = (scalar_math.GammaInc, scalar_math.GammaIncC, scalar_math.BetaInc)
_PASS_ON = (Subtensor, AdvancedSubtensor, Max, Min)
_SUMS = (scalar.Add, scalar.Sub, scalar.Neg)
_ONE = pt.constant(1.0)
_HIGHEST_POWER = 8
#: Allowed rounding error in the sum of constant shares that add up to one.
_ROUNDED = 1e-9


class Ranges:
    """Ranges of the tensors in a condition, which recognise equal computations as one quantity."""

    def __init__(self) -> None:
        self._tensors: list[Variable] = []
        self._unknowns: dict[Hashable, Unknown] = {}
        #: Cached function: tensor and view -> polynomial of shares and sizes, None if unrestricted.
        self._as_polynomial = cache(self._compute_polynomial)

    def of(self, variable: Variable) -> Range:
        """Range of all entries of a tensor at every position."""
        view = _as_view(variable, range(variable.type.ndim))
        return self._range_or_any(self._as_polynomial(variable, view))

    def of_difference(self, left: Variable, right: Variable) -> Range:
        """Range of the differences between the entries of two tensors."""
        axes = range(max(left.type.ndim, right.type.ndim))
        views = (_as_view(x, axes[len(axes) - x.type.ndim :]) for x in (left, right))
        parts = [self._as_polynomial(x, view) for x, view in zip((left, right), views, strict=True)]
        return self._range_or_any(sum_of_parts([parts[0], _scale_polynomial(parts[1], -1.0)]))

    @staticmethod
    def _range_or_any(polynomial: Polynomial | None) -> Range:
        return ANY if polynomial is None else polynomial_range(polynomial)

    def _compute_polynomial(self, variable: Variable, view: View) -> Polynomial | None:
        if _is_data(variable):
            return self._of_constant(variable, view)
        node = variable.owner
        if node is None or not node.inputs:
            return None
        share = self._of_share(variable, view)
        if share is not None:
            return share
        if isinstance(node.op, Elemwise):
            return self._of_elemwise(node, view)
        x = node.inputs[0]
        if isinstance(node.op, DimShuffle):
            labels = {
                k: label for k, label in zip(node.op.new_order, view, strict=True) if k != "x"
            }
            return self._as_polynomial(x, _as_view(x, [labels.get(k) for k in range(x.type.ndim)]))
        if isinstance(node.op, Alloc | TensorFromScalar | ScalarFromTensor):
            ndim = getattr(x.type, "ndim", 0)
            return self._as_polynomial(x, _as_view(x, view[len(view) - ndim :]))
        if isinstance(node.op, Sum):
            return self._of_sum(node, view)
        if isinstance(node.op, Dot):
            return self._of_dot(node, view)
        return self._in_range(variable, view, self._range_of_tensor(node.op, node))

    def _of_constant(self, variable: Variable, view: View) -> Polynomial | None:
        values = _constant_array(variable)
        if not values.size or values.dtype.kind not in "biuf" or not np.isfinite(values).all():
            return None
        if _shared_axes(variable) is not None:
            return self._in_range(variable, view, _CLOSED)
        low, high = float(values.min()), float(values.max())
        # If data are an affine function of other data, such as 1 - g of g, use the others' unknown.
        for other in self._tensors[: self._tensor_number(variable)] if low < high else ():
            line = _affine_fit(other, variable)
            if line is not None:
                scaled = _scale_polynomial(self._as_polynomial(other, view), line[1])
                return sum_of_parts([constant_polynomial(line[0]), scaled])
        return self._in_range(variable, view, Range(low, high, False, False))

    def _in_range(self, variable: Variable, view: View, of: Range) -> Polynomial | None:
        """Polynomial of one unknown in a range; None if the range is the whole real line."""
        if of.low == -np.inf and of.high == np.inf:
            return None
        if of.low == of.high:
            return constant_polynomial(float(of.low))
        shared = frozenset(view[axis] for axis in _shared_axes(variable) or ())
        key = self._tensor_number(variable), view
        return linear_polynomial(of, self._unknown_of(key, of, None, view, shared))

    def _of_share(self, variable: Variable, view: View) -> Polynomial | None:
        """Polynomial of a tensor of shares that sum to one, or of one of its entries; or None."""
        if _shared_axes(variable) is not None:
            return self._in_range(variable, view, _SHARE)
        entry = _entry_of_shares(variable)
        if entry is None:
            return None
        shares, place = entry
        group = self._tensor_number(shares), view
        return linear_polynomial(_SHARE, self._unknown_of((*group, place), _SHARE, group, view))

    def _unknown_of(
        self,
        key: Hashable,
        of: Range,
        group: Hashable | None,
        labels: Sequence[Hashable],
        shared: frozenset[Hashable] = frozenset(),
    ) -> Unknown:
        if key not in self._unknowns:
            self._unknowns[key] = Unknown(
                number=len(self._unknowns),
                group=key if group is None else group,
                zero=not (of.high_is_open if of.low == -np.inf else of.low_is_open),
                one=not of.high_is_open,
                has_bound=of.is_bounded,
                labels=frozenset(labels) - {None},
                shared=shared,
            )
        return self._unknowns[key]

    def _tensor_number(self, variable: Variable) -> int:
        """Identifier of a tensor; tensors from equal computations have equal identifiers."""
        for number, known in enumerate(self._tensors):
            if known is variable or _are_same_computation(known, variable):
                return number
        self._tensors.append(variable)
        return len(self._tensors) - 1

    def _of_sum(self, node: Apply, view: View) -> Polynomial | None:
        (x,), op = node.inputs, node.op
        axes = _normalize_axes(op.axis, x)
        number, kept = self._tensor_number(x), iter(view)
        labels = [(number, k) if k in axes else next(kept) for k in range(x.type.ndim)]
        total = self._sum_along(x, labels, axes)
        if total is None and (least := self.of(x)).low >= 0.0:
            return self._in_range(node.outputs[0], view, Range(0.0, low_is_open=least.is_positive))
        return total

    def _sum_along(
        self, x: Variable, labels: Sequence[Hashable], axes: tuple[int, ...]
    ) -> Polynomial | None:
        op = x.owner.op if x.owner is not None else None
        if isinstance(op, DimShuffle):
            places = {source: k for k, source in enumerate(op.new_order)}
            (inner,) = x.owner.inputs
            known = [labels[places[k]] if k in places else None for k in range(inner.type.ndim)]
            along = tuple(k for k in range(inner.type.ndim) if places.get(k) in axes)
            return self._sum_along(inner, known, along)
        if isinstance(op, MakeVector) and axes:
            return sum_of_parts([self._as_polynomial(part, ()) for part in x.owner.inputs])
        if isinstance(op, Join) and axes == (op.axis,):
            return sum_of_parts([self._sum_along(y, labels, axes) for y in x.owner.inputs])
        view = _as_view(x, labels)
        return self._added_up(self._as_polynomial(x, view), x, view, axes)

    def _of_dot(self, node: Apply, view: View) -> Polynomial | None:
        left, right = node.inputs
        label = (self._tensor_number(left), 1)
        one = self._as_polynomial(left, _as_view(left, (view[0], label)))
        other = self._as_polynomial(right, _as_view(right, (label, view[1])))
        product = product_of_parts([one, other])
        return self._added_up(product, left, _as_view(left, (view[0], label)), (1,))

    def _added_up(
        self, polynomial: Polynomial | None, x: Variable, view: View, axes: Sequence[int]
    ) -> Polynomial | None:
        """Sum along axes of `x`; None if a term that varies along them has no weights of sum 1."""
        if polynomial is None:
            return None
        along = frozenset(view[k] for k in axes) - {None}
        lengths = [x.type.shape[k] for k in axes]
        terms: list[Polynomial] = []
        for monomial, factor in polynomial.items():
            varying = [u for u in monomial if u.labels & along]
            rest = tuple(u for u in monomial if not u.labels & along)
            share = next((u for u in varying if u.shared == along), None)
            if not varying and None not in lengths:
                terms.append({rest: factor * float(np.prod(lengths))})
            elif share is None:
                return None
            else:
                varying.remove(share)
                mean = self._weighted_mean(share, varying, along)
                if mean is None:
                    return None
                terms.append(multiply_polynomials({rest: factor}, mean))
        return add_polynomials(*terms)

    def _weighted_mean(
        self, share: Unknown, others: Sequence[Unknown], along: frozenset[Hashable]
    ) -> Polynomial | None:
        """Mean of the product of `others`, weighted by shares with sum one; None if unbounded."""
        if not others:
            return constant_polynomial(1.0)
        if not all(u.has_bound for u in others):
            return None
        zero, one = any(u.zero for u in others), all(u.one for u in others)
        key = "mean", share.number, tuple(u.number for u in others)
        labels = tuple(frozenset.union(share.labels, *(u.labels for u in others)) - along)
        return {(self._unknown_of(key, Range(0.0, 1.0, not zero, not one), None, labels),): 1.0}

    def _of_elemwise(self, node: Apply, view: View) -> Polynomial | None:
        op, (result,) = node.op.scalar_op, node.outputs
        if result.type.dtype == "bool":
            return self._in_range(result, view, _CLOSED)
        cast = isinstance(op, scalar.Cast)
        if isinstance(op, scalar.Identity) or (cast and result.type.dtype.startswith("float")):
            return self._as_polynomial(node.inputs[0], view)
        if isinstance(op, scalar.Second):
            return self._as_polynomial(node.inputs[1], _as_view(node.inputs[1], view))
        if isinstance(op, (*_SUMS, scalar.Mul)):
            parts = [self._as_polynomial(x, _as_view(x, view)) for x in node.inputs]
            if isinstance(op, scalar.Sub | scalar.Neg):
                parts[-1] = _scale_polynomial(parts[-1], -1.0)
            return product_of_parts(parts) if isinstance(op, scalar.Mul) else sum_of_parts(parts)
        condition = _scalar_value(node.inputs[0]) if isinstance(op, scalar.Switch) else None
        if condition is not None and condition.all() == condition.any():
            chosen = node.inputs[1 if condition.all() else 2]
            return self._as_polynomial(chosen, _as_view(chosen, view))
        known = self._of_power(op, node, view)
        if known is None and isinstance(op, scalar.TrueDiv):
            known = self._of_quotient(node, view)
        if known is not None:
            return known
        return self._in_range(result, view, self._range_of_elemwise(op, node))

    def _of_power(self, op: scalar.ScalarOp, node: Apply, view: View) -> Polynomial | None:
        """Polynomial of a square, an integer power or a quotient by a number; otherwise None."""
        base, *others = (self._as_polynomial(x, _as_view(x, view)) for x in node.inputs[:2])
        numbers = [x[()] for x in others if x is not None and [*x] == [()]]
        if base is None or len(numbers) < len(others):
            return None
        if isinstance(op, scalar.TrueDiv) and numbers:
            return multiply_polynomials(base, constant_polynomial(1.0 / numbers[0]))
        exponent = 2.0 if isinstance(op, scalar.Sqr) else (numbers or [0.0])[0]
        whole = isinstance(op, scalar.Sqr | scalar.Pow) and exponent in range(1, _HIGHEST_POWER)
        if not whole or len(base) ** exponent > MAX_TERMS:
            return None
        return reduce(multiply_polynomials, [base] * int(exponent))

    def _of_quotient(self, node: Apply, view: View) -> Polynomial | None:
        """Quotient (x y) / (x + z) as a share x / (x + z) times y; None for other quotients."""
        above, below = node.inputs
        factors, found = _product_factors(above), []
        for k, factor in enumerate(factors):
            of = self._range_of_quotient(factor, below)
            key = tuple((self._tensor_number(x), _as_view(x, view)) for x in (factor, below))
            rest = [*factors[:k], *factors[k + 1 :]]
            others = [self._as_polynomial(x, _as_view(x, view)) for x in rest]
            if of.high <= 1.0:
                share = linear_polynomial(of, self._unknown_of(key, of, None, view))
                found.append(product_of_parts([share, *others]))
        known = [product for product in found if product is not None]
        return min(known, key=lambda product: polynomial_range(product).high, default=None)

    def _range_of_elemwise(self, op: scalar.ScalarOp, node: Apply) -> Range:
        rule = next((rule for types, rule in _RULES if isinstance(op, types)), None)
        if isinstance(op, scalar.TrueDiv | scalar.Reciprocal):
            return self._range_of_quotient(*([_ONE] * (len(node.inputs) < 2)), *node.inputs)
        return ANY if rule is None else rule(op, *map(self.of, node.inputs))

    def _range_of_quotient(self, above: Variable, below: Variable) -> Range:
        top, bottom = self.of(above), self.of(below)
        if top.low < 0.0 or not bottom.is_positive:
            return ANY
        low, high = top.low / bottom.high, top.high / bottom.low if bottom.low else np.inf
        low_is_open = top.low_is_open or bottom.high_is_open if low else top.is_positive
        high_is_open = top.high_is_open or bottom.low_is_open
        rest = self.of_difference(below, above)
        if rest.low >= 0.0 and high >= 1.0:
            high, high_is_open = 1.0, rest.is_positive
        return Range(low, high, low_is_open, high_is_open)

    def _range_of_tensor(self, op: Op, node: Apply) -> Range:
        if isinstance(op.core_op if isinstance(op, Blockwise) else op, _PASS_ON):
            return self.of(node.inputs[0])
        if isinstance(op, MakeVector | Join):
            return Range.hull([self.of(x) for x in node.inputs])
        if isinstance(op, IncSubtensor) and op.set_instead_of_inc:
            return Range.hull([self.of(x) for x in node.inputs[:2]])
        if isinstance(op, Prod) or (isinstance(op, CumOp) and op.mode == "mul"):
            return _range_of_product(self.of(node.inputs[0]))
        if isinstance(op, CumOp) and _shared_axes(node.inputs[0]) == (op.axis,):
            return _SHARE
        return ANY


def _are_same_computation(one: Variable, other: Variable) -> bool:
    made = one.owner is not None and other.owner is not None and one.owner.op == other.owner.op
    return made and one.type == other.type and equal_computations([one], [other])


def _as_view(variable: Variable, labels: Sequence[Hashable]) -> View:
    """Labels of a tensor's axes, with None in place of labels of axes of length one."""
    single = getattr(variable.type, "broadcastable", ())
    return tuple(None if one else label for one, label in zip(single, labels, strict=True))


def _is_data(variable: Variable) -> bool:
    return isinstance(variable, Constant | SharedVariable) and _constant_array(variable) is not None


def _constant_array(variable: Variable) -> Any:
    shared = isinstance(variable, SharedVariable)
    held = variable.get_value(borrow=True) if shared else variable.data
    return None if isinstance(held, np.ma.MaskedArray) else np.asarray(held)


def _affine_fit(x: Variable, y: Variable) -> tuple[float, float] | None:
    """Coefficients a and b if data satisfy y = a + b x; None if they do not."""
    if not (_is_data(x) and x.type.ndim == y.type.ndim):
        return None
    one, other = (_constant_array(data).astype(np.float64) for data in (x, y))
    low, high = one.argmin(), one.argmax()
    if one.shape != other.shape or one.flat[low] == one.flat[high]:
        return None
    slope = (other.flat[high] - other.flat[low]) / (one.flat[high] - one.flat[low])
    offset = other.flat[low] - slope * one.flat[low]
    scale = abs(offset) + abs(slope) * np.abs(one).max()
    near = np.abs(other - offset - slope * one) <= RELATIVE_ROUNDING * scale
    return (float(offset), float(slope)) if near.all() else None


def _product_factors(variable: Variable) -> list[Variable]:
    if _is_elementwise(variable, scalar.Mul):
        return [factor for x in variable.owner.inputs for factor in _product_factors(x)]
    return [variable]


def _scale_polynomial(polynomial: Polynomial | None, by: float) -> Polynomial | None:
    return None if polynomial is None else multiply_polynomials(polynomial, constant_polynomial(by))


def _scalar_value(variable: Variable) -> np.ndarray | None:
    if isinstance(variable, Constant):
        return np.asarray(variable.data)
    node = variable.owner
    if node is None or not isinstance(node.op, Elemwise | DimShuffle):
        return None
    values = [_scalar_value(x) for x in node.inputs]
    known = [value for value in values if value is not None and value.size == 1]
    function = getattr(node.op, "scalar_op", scalar.identity)
    return numpy_function(function)(*known) if len(known) == len(values) else None


def _range_of_monotone(op: scalar.ScalarOp, x: Range) -> Range:
    with np.errstate(all="ignore"):
        low, high = (float(numpy_function(op)(np.float64(end))) for end in (x.low, x.high))
    if np.isnan(low) or np.isnan(high):
        return ANY
    if low > high:
        return Range(high, low, x.high_is_open, x.low_is_open)
    return Range(low, high, x.low_is_open, x.high_is_open)


def _range_of_even(op: scalar.ScalarOp, x: Range) -> Range:
    """Range of a square or an absolute value."""
    if x.low >= 0.0 or x.high <= 0.0:
        return _range_of_monotone(op, x)
    ends = [_range_of_monotone(op, Range(end, end)).high for end in (x.low, x.high)]
    return Range(0.0, max(ends), low_is_open=False)


def _range_of_sign(op: scalar.ScalarOp, x: Range) -> Range:
    low = 1.0 if x.is_positive else min(np.sign(x.low), 0.0)
    return Range(low, 1.0, low_is_open=False, high_is_open=False)


def _range_of_extremum(larger: Callable, *ranges: Range) -> Range:
    """Range of the maximum or the minimum of operands with the given ranges."""
    low, low_is_open = larger((r.low, r.low_is_open) for r in ranges)
    high, closed = larger((r.high, not r.high_is_open) for r in ranges)
    return Range(low, high, low_is_open, not closed)


def _range_of_clip(op: scalar.ScalarOp, x: Range, low: Range, high: Range) -> Range:
    return _range_of_extremum(min, _range_of_extremum(max, x, low), high)


def _range_of_power(op: scalar.ScalarOp, base: Range, exponent: Range) -> Range:
    if base.low >= 0.0 and base.high <= 1.0 and exponent.low >= 0.0:
        below_one = (base.high < 1.0 or base.high_is_open) and exponent.is_positive
        return Range(0.0, 1.0, base.is_positive, below_one)
    return Range(0.0) if base.is_positive else ANY


def _range_of_product(x: Range) -> Range:
    """Range of a product of any number of factors, each in the range `x`."""
    if x.low >= 0.0 and x.high <= 1.0:
        return Range(0.0, 1.0, x.is_positive, high_is_open=False)
    return Range(0.0) if x.is_positive else ANY


#: Scalar operations, and functions from the ranges of their operands to the range of the result.
_RULES: tuple[tuple[type | tuple[type, ...], Callable[..., Range]], ...] = (
    ((*_INCREASING, scalar_math.Erfc), _range_of_monotone),
    ((scalar.Abs, scalar.Sqr), _range_of_even),
    (scalar.Sign, _range_of_sign),
    (scalar.Pow, _range_of_power),
    (scalar.Maximum, lambda op, *operands: _range_of_extremum(max, *operands)),
    (scalar.Minimum, lambda op, *operands: _range_of_extremum(min, *operands)),
    (scalar.Clip, _range_of_clip),
    (scalar.Switch, lambda op, condition, *branches: Range.hull(branches)),
    (_CUMULATIVE, lambda op, *operands: _CLOSED),
    ((scalar.Sin, scalar.Cos), lambda op, x: Range(-1.0, 1.0, False, False)),
)


def _entry_of_shares(variable: Variable) -> tuple[Variable, int] | None:
    """Shares and entry index behind a tensor that selects one share; None for other tensors."""
    if variable.owner is None or not isinstance(variable.owner.op, Subtensor):
        return None
    shares, *index = variable.owner.inputs
    axes = _shared_axes(shares)
    entries = dict(enumerate(indices_from_subtensor(index, variable.owner.op.idx_list)))
    if axes is None or len(axes) != 1:
        return None
    place = entries.pop(axes[0], None)
    if not isinstance(place, Constant) or any(x != slice(None) for x in entries.values()):
        return None
    length, number = shares.type.shape[axes[0]], int(place.data)
    if number < 0 and length is None:
        return None
    return shares, number if number >= 0 else number + length


def _shared_axes(shares: Variable) -> tuple[int, ...] | None:
    """Axes along which the entries of a tensor provably add up to one, or None."""
    if isinstance(shares, Constant):
        return _axes_of_fixed_shares(np.asarray(shares.data))
    if isinstance(shares.owner_op, Softmax):
        return _normalize_axes(shares.owner.op.axis, shares)
    if isinstance(shares.owner_op, DimShuffle):
        inner = _shared_axes(shares.owner.inputs[0])
        order = shares.owner.op.new_order
        # A dropped axis has length one. Shares that sum to one along it are 1: ignore it.
        return inner and tuple(k for k, source in enumerate(order) if source in inner)
    if isinstance(shares.owner_op, AdvancedSubtensor):
        return _axes_of_taken_shares(shares)
    if not _is_elementwise(shares, scalar.TrueDiv):
        return None
    parts, total = shares.owner.inputs
    while isinstance(total.owner_op, DimShuffle):
        (total,) = total.owner.inputs
    if total.owner is None or not isinstance(total.owner.op, Sum):
        return None
    axes = _normalize_axes(total.owner.op.axis, parts)
    kept = _is_kept_sum(shares.owner.inputs[1], parts, axes)
    return axes if kept and _is_elementwise(parts, scalar.Exp) else None


def _axes_of_fixed_shares(values: np.ndarray) -> tuple[int, ...] | None:
    """Last axis if nonnegative numbers add up to one along it, or None."""
    if not values.ndim or values.dtype.kind != "f" or values.shape[-1] < 2 or values.min() < 0.0:
        return None
    add_up = (np.abs(values.sum(axis=-1) - 1.0) <= _ROUNDED).all()
    return (values.ndim - 1,) if add_up else None


def _axes_of_taken_shares(taken: Variable) -> tuple[int, ...] | None:
    """Axes along which an indexed array such as P[group] adds up to one, or None."""
    op, (shares, *_) = taken.owner.op, taken.owner.inputs
    inner = _shared_axes(shares)
    if inner is None or 0 in inner or op.idx_list != (0,):
        return None
    added = taken.type.ndim - shares.type.ndim
    return tuple(axis + added for axis in inner)


def _normalize_axes(axis: Sequence[int] | None, variable: Variable) -> tuple[int, ...]:
    # PyTensor allows the sum of a scalar along an axis that it lacks; such axes are dropped.
    axes = range(variable.type.ndim)
    return tuple(axes) if axis is None else tuple(k for k in axis if k in axes)


def _is_kept_sum(total: Variable, parts: Variable, axes: tuple[int, ...]) -> bool:
    """Whether `total` is the sum of `parts`, with the summed axes kept at length one."""
    if not isinstance(total.owner_op, DimShuffle):
        return False
    (inner,) = total.owner.inputs
    kept = iter(range(parts.type.ndim))
    order = tuple("x" if k in axes else next(kept) for k in range(parts.type.ndim))
    summed = isinstance(inner.owner_op, Sum) and inner.owner.inputs[0] is parts
    return summed and total.owner_op.new_order == order


def _is_elementwise(variable: Variable, op: type) -> bool:
    return isinstance(getattr(variable.owner_op, "scalar_op", None), op)
