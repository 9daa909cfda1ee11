"""Lowering of indexing such as ``a[group]``."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import chain
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply as Node
from pytensor.graph.op import Op
from pytensor.scalar import basic as scalar
from pytensor.tensor.elemwise import CAReduce
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.special import LogSoftmax, LogSumExp, Softmax
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedSubtensor,
    IncSubtensor,
    Subtensor,
    indices_from_subtensor,
)

from pymc_minibatch_mh.expressions.arithmetic import (
    add_exprs,
    affine_factor,
    exp_expr,
    multiply_exprs,
    subtract_exprs,
)
from pymc_minibatch_mh.expressions.graph import (
    INTEGER,
    Affine,
    Apply,
    Constant,
    CoordinateIndex,
    Expr,
    ExprGraph,
    Gather,
    Monomial,
    require_lowerable,
    without_value,
)
from pymc_minibatch_mh.expressions.impossible_parts import log_of_sum
from pymc_minibatch_mh.expressions.lower import (
    Tensor,
    Tensors,
    constant_exprs,
    fill_array,
    lower_node,
)
from pymc_minibatch_mh.expressions.patterns import (
    affines_in,
    cached_rule,
    predictor_coefficients,
    product_factors,
)
from pymc_minibatch_mh.expressions.rules import apply_operation


@lower_node.register(CAReduce)
def _lower_reduction(op: CAReduce, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    arithmetic = isinstance(op.scalar_op, scalar.Add | scalar.Mul)
    # A sum of booleans is a count, but PyTensor's addition of two booleans is a disjunction.
    result = node.outputs[0].type.dtype
    wide = scalar.Cast(scalar.get_scalar_type(getattr(op, "acc_dtype", None) or result))

    def combine_parts(parts: Sequence[Expr]) -> Expr:
        require_lowerable(bool(parts), op, "reduces an axis without entries")
        if arithmetic and np.dtype(node.inputs[0].type.dtype) != wide.o_type.dtype:
            parts = [apply_operation(exprs, wide, part) for part in parts]
        if not arithmetic:
            return reduce(partial(apply_operation, exprs, op.scalar_op), parts)
        total = apply_operation(exprs, op.scalar_op, *parts) if len(parts) > 1 else parts[0]
        return _with_type(exprs, total, np.dtype(result))

    return _combine_along(inputs[0], op.axis, combine_parts)


def _with_type(exprs: ExprGraph, expr: Expr, dtype: np.dtype) -> Expr:
    cast = scalar.Cast(scalar.get_scalar_type(dtype.name))
    return expr if expr.dtype == dtype else apply_operation(exprs, cast, expr)


def _combine_along(
    x: Tensor, axes: Sequence[int] | None, combine: Callable[[Sequence[Expr]], Expr]
) -> Tensor:
    over = _normalize_axes(x, axes)
    kept = [k for k in range(x.ndim) if k not in over]
    moved = x.transpose([*kept, *over])
    return fill_array(moved.shape[: len(kept)], lambda place: combine(list(np.ravel(moved[place]))))


def _normalize_axes(x: Tensor, axes: Sequence[int] | None) -> list[int]:
    return list(range(x.ndim)) if axes is None else [axis % x.ndim for axis in axes]


@lower_node.register(CumOp)
def _lower_cumulative(op: CumOp, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    (x,) = inputs
    real, whole = (add_exprs, scalar.add) if op.mode == "add" else (multiply_exprs, scalar.mul)

    def combine_pair(left: Expr, right: Expr) -> Expr:
        # Integers keep their type, because they may be indices.
        whole_numbers = left.is_data and right.is_data and left.dtype == right.dtype == INTEGER
        return exprs.node(whole, (left, right)) if whole_numbers else real(exprs, left, right)

    return np.frompyfunc(combine_pair, 2, 1).accumulate(x, axis=op.axis, dtype=object)


@lower_node.register(LogSumExp)
def _lower_log_sum_exp(op: LogSumExp, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    return _combine_along(inputs[0], op.axis, lambda parts: log_of_sum(exprs, parts))


@lower_node.register(Softmax)
@lower_node.register(LogSoftmax)
def _lower_softmax(op: Op, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    (x,) = inputs
    axes = _normalize_axes(x, op.axis)

    def entry_at(place: tuple[int, ...]) -> Expr:
        group = tuple(slice(None) if k in axes else i for k, i in enumerate(place))
        total = log_of_sum(exprs, list(np.ravel(x[group])))
        log_share = subtract_exprs(exprs, x.item(*place), total)
        return exp_expr(exprs, log_share) if isinstance(op, Softmax) else log_share

    return fill_array(x.shape, entry_at)


#: Maximum number of linear predictors whose rank is computed; for more it takes too long.
MAX_FORMS_TO_RANK = 200
#: Maximum relative difference of coefficients that count as equal.
ROUNDING = 1e-13

#: Minimum number of lines of a grid of coordinates that is a single grouping factor.
MIN_LINES = 5
#: Data factors and coordinate of a monomial; monomials with equal keys can be added.
_Key = tuple[tuple[Expr, ...], CoordinateIndex]
Terms = Sequence[Monomial]


def index_shared(op: Any, width: int, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    """Index an array that all entries of a batch share; its first `width` axes have length 1."""
    x, *index = inputs
    shared = all(node.inputs[0].type.broadcastable[:width])
    require_lowerable(shared, op, "indexes a different array for each observation")
    return _lower_subtensor(op, node, [x.reshape(x.shape[width:]), *index], exprs)


@lower_node.register(Subtensor)
@lower_node.register(AdvancedSubtensor)
def _lower_subtensor(op: Any, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    x = inputs[0]
    entries = list(indices_from_subtensor(inputs[1:], op.idx_list))
    entries += [slice(None)] * (x.ndim - len(entries))
    arrays = [k for k, entry in enumerate(entries) if not isinstance(entry, slice)]
    slices = [k for k in range(x.ndim) if k not in arrays]
    first = arrays[0] if arrays else x.ndim
    given = [entries[k] for k in arrays]
    indices = [i if isinstance(i, Tensor) else constant_exprs(exprs, i) for i in given]
    adjacent = arrays == list(range(first, first + len(arrays)))
    simple = adjacent or not isinstance(op, AdvancedSubtensor)
    require_lowerable(simple, op, "has a slice between index arrays")
    integers = all(expr.dtype.kind in "iu" for index in indices for expr in index.flat)
    require_lowerable(integers, op, "has an index that is not an integer")
    # The indexed axes stand at the first index array, as in NumPy for adjacent arrays.
    before = [k for k in slices if k < first]
    after = [k for k in slices if k > first]
    sliced = x.transpose([*before, *arrays, *after])
    cuts = {k: known_slice(entries[k], op) for k in slices}
    sliced = sliced[tuple(cuts.get(k, slice(None)) for k in (*before, *arrays, *after))]
    return _index_axes(sliced, len(before), indices, exprs, op)


def known_slice(entry: slice, op: Op) -> slice:
    """Slice as plain numbers; LoweringError if it depends on the position or on data."""
    parts = []
    for part in (entry.start, entry.stop, entry.step):
        expr = part.item() if isinstance(part, Tensor) else part
        known = isinstance(expr, Constant) or not isinstance(expr, Expr)
        require_lowerable(known, op, "has a slice that is not known beforehand")
        parts.append(int(expr.value) if isinstance(expr, Constant) else expr)
    return slice(*parts)


def _index_axes(x: Tensor, n_before: int, indices: Tensors, exprs: ExprGraph, op: Op) -> Tensor:
    if not indices:
        return x
    broadcast = np.broadcast_arrays(*indices, subok=False)
    width = broadcast[0].ndim
    outer, inner = x.shape[:n_before], x.shape[n_before + len(indices) :]

    def entry_at(place: tuple[int, ...]) -> Expr:
        whole = [slice(None)] * len(indices)
        here: tuple = (*place[:n_before], *whole, *place[n_before + width :])
        index = [array.item(*place[n_before : n_before + width]) for array in broadcast]
        return _select_element(x[here], index, exprs, op)

    return fill_array((*outer, *broadcast[0].shape, *inner), entry_at)


def _select_element(part: Any, index: Sequence[Expr], exprs: ExprGraph, op: Op) -> Expr:
    if not index:
        return part if isinstance(part, Expr) else part.item()
    here, *rest = index
    if isinstance(here, Constant):
        return _select_element(part[int(here.value)], rest, exprs, op)
    require_lowerable(here.is_data, op, "has an index that depends on the parameters")
    choices = tuple(_select_element(sub, rest, exprs, op) for sub in part)
    return select_expr(exprs, choices, here)


@cached_rule
def select_expr(exprs: ExprGraph, choices: tuple[Expr, ...], index: Expr) -> Expr:
    """Select one of several expressions by data; negative indices count from the end.

    Indexing moves inside operations that the expressions have in common, down to evenly spaced
    coordinates or constants. So an observation depends on its selected entry only.
    """
    first = choices[0]
    if all(choice is first for choice in choices):
        return first
    constants = [choice.value for choice in choices if isinstance(choice, Constant)]
    if len(constants) == len(choices):
        return exprs.lookup(np.array(constants), index)
    if all(choice.is_data for choice in choices):
        return _select_by_switch(exprs, choices, index)
    if all(isinstance(choice, Affine) or choice.is_data for choice in choices):
        return _select_affine(exprs, choices, index)
    affines, rests = zip(*(affine_factor(exprs, choice) for choice in choices), strict=True)
    if None not in affines and all(rest == rests[0] for rest in rests):
        return multiply_exprs(exprs, select_expr(exprs, affines, index), *rests[0])
    shared = [
        x for x in product_factors(first) if all(x in product_factors(choice) for choice in choices)
    ]
    if shared and shared != [first]:
        # Shared factors are removed one by one, because a product may repeat a factor.
        own = [reduce(without_value, shared, list(product_factors(choice))) for choice in choices]
        products = tuple(multiply_exprs(exprs, *rest) for rest in own)
        return multiply_exprs(exprs, *shared, select_expr(exprs, products, index))
    alike: dict[tuple, list[int]] = {}
    for k, choice in enumerate(choices):
        alike.setdefault(_common_kind(choice), []).append(k)
    if len(alike) > 1:
        # Selection by kind may need more linear predictors than a switch: take the form with fewer.
        by_kind = _select_by_kind(exprs, choices, index, list(alike.values()))
        return min(_select_by_switch(exprs, choices, index), by_kind, key=_n_linear)
    operands = zip(*map(_sorted_operands, choices), strict=True)
    picked = [select_expr(exprs, operand, index) for operand in operands]
    return apply_operation(exprs, first.op, *picked)  # type: ignore[attr-defined]


def _common_kind(expr: Expr) -> tuple:
    """Key that is equal for expressions whose operands can be indexed together."""
    if isinstance(expr, Apply) and not expr.is_data:
        return (str(expr.op), expr.op, len(expr.inputs))
    return ("",)


def _n_linear(expr: Expr) -> int:
    """Number of independent linear predictors in an expression; an upper bound for very many."""
    forms = list(dict.fromkeys(x.terms for x in affines_in(expr)))
    few = forms and len(forms) <= MAX_FORMS_TO_RANK
    return int(np.linalg.matrix_rank(predictor_coefficients(forms))) if few else len(forms)


def _sorted_operands(expr: Expr) -> Sequence[Expr]:
    """Operands of an operation, sorted by kind if it is a sum or a product."""
    if isinstance(expr, Apply) and isinstance(expr.op, scalar.Add | scalar.Mul):
        return sorted(expr.inputs, key=lambda x: (not x.is_data, _common_kind(x)[0], len(x.inputs)))
    return expr.inputs


def _select_by_kind(
    exprs: ExprGraph, choices: Sequence[Expr], index: Expr, kinds: Sequence[Sequence[int]]
) -> Expr:
    """Select by data among expressions of the same kind, and then among the kinds by a switch."""
    ones, conditions = [], []
    for members in map(list, kinds):
        within, here = np.zeros(len(choices), dtype=np.int64), np.zeros(len(choices), dtype=bool)
        within[members], here[members] = np.arange(len(members)), True
        some = tuple(choices[k] for k in members)
        ones.append(select_expr(exprs, some, exprs.lookup(within, index)))
        conditions.append(exprs.lookup(here, index))
    chosen = ones[0]
    for condition, one in zip(conditions[1:], ones[1:], strict=True):
        chosen = apply_operation(exprs, scalar.switch, condition, one, chosen)
    return chosen


def _select_affine(exprs: ExprGraph, choices: Sequence[Expr], index: Expr) -> Expr:
    offsets = [choice.offset if isinstance(choice, Affine) else choice for choice in choices]
    offset = select_expr(exprs, tuple(map(exprs.real, offsets)), index)
    common, own = _split_common([x.terms if isinstance(x, Affine) else () for x in choices])
    shared = [exprs.affine(common, exprs.zero)] if common else []
    found = _gather_coordinates(exprs, own, index) or _coefficient_tables(exprs, own, index)
    return add_exprs(exprs, *shared, *found, offset)


def _split_common(choices: Sequence[Terms]) -> tuple[list[Monomial], list[list[Monomial]]]:
    """Terms that most choices have in common, and the remaining terms of each choice."""
    numbers: defaultdict[_Key, list[float]] = defaultdict(list)
    for term in chain.from_iterable(choices):
        numbers[term.monomial, term.place].append(term.factor)
    common = {}
    for key, found in numbers.items():
        median = sorted(found)[len(found) // 2]
        near = np.abs(np.array(found) - median) <= ROUNDING * np.abs(found)
        if 2 * np.count_nonzero(near) > len(choices):
            common[key] = median
    shared = [Monomial(x, *key) for key, x in common.items()]
    return shared, [_remaining_terms(x, common) for x in choices]


def _remaining_terms(terms: Sequence[Monomial], common: Mapping[_Key, float]) -> list[Monomial]:
    known = {(term.monomial, term.place) for term in terms}
    left = [Monomial(0.0, *key) for key in common if key not in known]
    kept = []
    for term in (*terms, *left):
        number = common.get((term.monomial, term.place), 0.0)
        if abs(term.factor - number) > ROUNDING * abs(number):
            kept.append(replace(term, factor=term.factor - number))
    return kept


def _gather_coordinates(
    exprs: ExprGraph, choices: Sequence[Terms], index: Expr
) -> list[Expr] | None:
    """Indexed coordinates that add up to the selected terms; None if not evenly spaced."""
    here = np.array([bool(terms) for terms in choices])
    taken = [terms for terms in choices if terms]
    if len(set(map(len, taken))) > 1:
        return None
    within = index if here.all() else exprs.lookup(np.maximum(np.cumsum(here) - 1, 0), index)
    found = [_gather_terms(exprs, terms, within) for terms in zip(*taken, strict=True)]
    columns = [column for column in found if column is not None]
    if len(columns) < len(found):
        return None
    chosen = [] if here.all() else [exprs.lookup(here.astype(np.float64), index)]
    return [multiply_exprs(exprs, *chosen, column) for column in columns]


def _coefficient_tables(exprs: ExprGraph, choices: Sequence[Terms], index: Expr) -> list[Expr]:
    """Products of each coordinate and a table of its coefficients in the choices."""
    numbers: dict[_Key, np.ndarray] = {}
    for k, terms in enumerate(choices):
        for term in terms:
            own = numbers.setdefault((term.monomial, term.place), np.zeros(len(choices)))
            own[k] += term.factor
    return [
        exprs.times_data(exprs.affine((Monomial(1.0, *key),), exprs.zero), exprs.lookup(own, index))
        for key, own in numbers.items()
    ]


def _gather_terms(exprs: ExprGraph, terms: Sequence[Monomial], index: Expr) -> Expr | None:
    """Coordinate of the selected term times its factor; None if not evenly spaced."""
    if any(term.monomial for term in terms):
        return None
    gather = _evenly_spaced(exprs, [term.place for term in terms], index)
    if gather is None:
        return None
    factors = select_expr(exprs, tuple(exprs.constant(term.factor) for term in terms), index)
    return multiply_exprs(exprs, factors, exprs.coordinate(gather))


def _evenly_spaced(
    exprs: ExprGraph, coordinates: Sequence[CoordinateIndex], index: Expr
) -> Gather | None:
    numbers = [x for x in coordinates if isinstance(x, int)]
    if len(numbers) < len(coordinates):
        return _in_grid(exprs, coordinates, index)
    if 1 < len(set(numbers)) < len(numbers):
        # Several choices may share a coordinate, such as all groups of one region.
        different, inverse = np.unique(numbers, return_inverse=True)
        numbers, index = different.tolist(), exprs.lookup(inverse, index)
    steps = np.diff(numbers)
    if not steps.size or steps[0] == 0 or np.any(steps != steps[0]):
        return None
    return Gather(numbers[0], int(steps[0]), len(numbers), index)


def _in_grid(
    exprs: ExprGraph, coordinates: Sequence[CoordinateIndex], index: Expr
) -> Gather | None:
    """Coordinate of a grid that two indices select, selected by one index.

    A grid of few lines is several grouping factors, whose effects the prior may couple.
    """
    lines = [x for x in coordinates if isinstance(x, Gather)]
    alike = len({(x.step, x.size, x.index) for x in lines}) == 1
    if len(lines) < len(coordinates) or len(lines) < MIN_LINES or not alike:
        return None
    within, across = lines[0], _evenly_spaced(exprs, [x.first for x in lines], index)
    if across is None:
        return None
    fine, coarse = sorted((within, across), key=lambda x: x.step)
    if coarse.step != fine.step * fine.size:
        return None
    along = [exprs.lookup(x.step // fine.step * np.arange(x.size), x.index) for x in (fine, coarse)]
    number = apply_operation(exprs, scalar.add, *along)
    return Gather(across.first, fine.step, fine.size * coarse.size, number)


def _select_by_switch(exprs: ExprGraph, choices: Sequence[Expr], index: Expr) -> Expr:
    chosen = choices[-1]
    for k in range(len(choices) - 2, -1, -1):
        # Entry k is indexed from the start or, by a negative number, from the end.
        numbers = map(np.int64, (k, k - len(choices)))
        equal = [exprs.node(scalar.eq, (index, exprs.constant(x))) for x in numbers]
        condition = exprs.node(scalar.or_, equal)
        chosen = apply_operation(exprs, scalar.switch, condition, choices[k], chosen)
    return chosen


@lower_node.register(IncSubtensor)
@lower_node.register(AdvancedIncSubtensor)
def _lower_set_subtensor(op: Any, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    x, values, *given = inputs
    once = not getattr(op, "ignore_duplicates", False)
    require_lowerable(once, op, "overwrites values that it wrote to the same position")
    entries = [_known_index(entry, op) for entry in indices_from_subtensor(given, op.idx_list)]
    places = np.asarray(np.arange(x.size).reshape(x.shape)[tuple(entries)])
    target = np.dtype(node.outputs[0].type.dtype)
    changed = x.copy()
    spread = np.broadcast_to(values, places.shape)
    for place, value in zip(places.flat, spread.flat, strict=True):
        new = _with_type(exprs, value, target)
        if not op.set_instead_of_inc:
            new = apply_operation(exprs, scalar.add, changed.flat[place], new)
        changed.flat[place] = new
    return changed


def _known_index(entry: Any, op: Op) -> Any:
    if isinstance(entry, slice):
        return known_slice(entry, op)
    found = np.asarray(entry, dtype=object)
    numbers = [expr.value if isinstance(expr, Constant) else expr for expr in found.flat]
    known = all(not isinstance(x, Expr) and np.asarray(x).dtype.kind in "iu" for x in numbers)
    require_lowerable(known, op, "has an index that is not known beforehand")
    return np.array(numbers, dtype=np.int64).reshape(found.shape)[()]
