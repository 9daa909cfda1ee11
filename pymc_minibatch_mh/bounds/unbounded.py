"""Messages about rows without bounds: the operation that has none, and what to write instead."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from pytensor.scalar import basic as scalar
from pytensor.scalar.math import Log1mexp

from pymc_minibatch_mh.bounds.jets import Jets
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.expressions.graph import Apply, Argument, Expr
from pymc_minibatch_mh.expressions.patterns import (
    LogBetweenTails,
    is_a,
    is_impossible,
    operands_first,
    operands_last,
    subexpressions,
    sum_parts,
)
from pymc_minibatch_mh.functions.interval import Interval
from pymc_minibatch_mh.structure.predictors import read_coordinates
from pymc_minibatch_mh.structure.row_function import RowData, RowFunction

#: Advice about a condition on parameters in the model, such as a change point.
SMOOTH_STEP = (
    "Replace a switch(tau > t, a, b) of your own by a smooth step, b + (a - b) * "
    "pm.math.sigmoid((tau - t) / width); the likelihood of a library needs a step without bounds. "
)
#: Explanation of a condition under which the log-density is -inf.
SUPPORT = (
    "The condition belongs to a switch of the log-density to -inf, such as switch(y > t, a, "
    "-inf), so the posterior jumps where an observation becomes impossible. "
)
#: Explanation of a condition from a parameter check of a distribution, with advice.
CHECKED = (
    "The condition is a parameter check of the distribution, such as 0 <= p <= 1, that could not "
    "be proved to hold everywhere. Write probabilities as pm.math.sigmoid(...) or "
    "pm.math.invprobit(...), their logarithms as logit_p= of pm.Categorical(...), and negative "
    "binomials by mu= and alpha=. "
)


def explain_unbounded(
    data: RowData, boxes: Sequence[Interval], order: int, row: int, names: Sequence[str] = ()
) -> BoundsError:
    """Error about the first operation with unbounded derivatives in a row.

    `names` are those of all coordinates.
    """
    function, jets = data.function, Jets(data, boxes, order)
    culprit = first_unbounded(function.root, lambda expr: are_bounded(jets.of(expr).values()))
    lower = _lower_order(data, boxes, order)
    if culprit is not None and _is_between(culprit):
        return _overlap_error(function, culprit, lower, row, names)
    smooth = ""
    if culprit is not None and _is_condition(culprit):
        smooth = _about_condition(function, culprit)
    return BoundsError(
        f"{function.name!r} has no proved bound: in row {row} the derivatives of order {order} of "
        f"{words_of_operation(culprit)}{_about_unknowns(function, culprit, names)} are unbounded "
        f"over the trust region, for example at a kink or a singularity. {smooth}Use "
        f"BarkerMinibatchMH() or PenaltyMH(), which need no bounds,{lower} or pass "
        "bounds=Bounds(...)."
    )


def _overlap_error(
    function: RowFunction, culprit: Apply, lower: str, row: int, names: Sequence[str]
) -> BoundsError:
    """Error about the probability between two ends, which may be zero in the region."""
    return BoundsError(
        f"{function.name!r} has no proved bound: in row {row} the logarithm of the probability "
        f"between two ends{_about_unknowns(function, culprit, names)} is unbounded "
        "over the trust region, because enclosures of the cumulative probabilities at both ends "
        "overlap there: posterior standard deviations are "
        "not small beside the distance of the ends. Use fewer of these unknowns with more "
        "observations each, such as ends that groups share, use pm.NUTS(), BarkerMinibatchMH() or "
        f"PenaltyMH(), which need no bounds,{lower} or pass bounds=Bounds(...)."
    )


def _about_unknowns(function: RowFunction, culprit: Apply | None, names: Sequence[str]) -> str:
    """Text about the unknowns on which an operation depends, or ""."""
    parts = () if culprit is None else subexpressions(culprit)
    numbers = {x.number for x in parts if isinstance(x, Argument)}
    forms = [function.arguments[k] for k in sorted(numbers)]
    unknowns = dict.fromkeys(names[k] for k in sorted(read_coordinates(forms))) if names else ()
    return f", which depend on {join_words(map(repr, unknowns))}," if unknowns else ""


def join_words(words: Iterable[str]) -> str:
    """Words in a sentence, such as "a, b and c"."""
    *others, last = [*words] or [""]
    return f"{', '.join(others)} and {last}" if others else last


def _lower_order(data: RowData, boxes: Sequence[Interval], order: int) -> str:
    """Advice about a lower order of control variates at which a row has a bound, or ""."""
    for lower in range(order - 1, 0, -1):
        jet = Jets(data, boxes, lower).of(data.function.root)
        if are_bounded(value for index, value in jet.items() if len(index) == lower):
            return f" use taylor_order={lower - 1},"
    return ""


def first_unbounded(root: Expr, is_bounded: Callable[[Expr], bool]) -> Apply | None:
    """First operation that is unbounded although its operands are bounded.

    Operands of a comparison are left out, because only their values count, and so are the two
    formulas of a probability between two ends, one of which may be unbounded.
    """

    def is_leaf(expr: Expr) -> bool:
        return expr.is_data or is_a(expr, LogBetweenTails, scalar.LogicalComparison)

    differentiated = set(operands_last([root], is_leaf))
    for expr in _operations_on_parameters(root):
        if expr not in differentiated:
            continue
        parts = () if is_leaf(expr) else (part for part in expr.inputs if not part.is_data)
        if all(map(is_bounded, parts)) and not is_bounded(expr):
            return expr
    return None


def are_bounded(enclosures: Iterable[Interval]) -> bool:
    """Whether all lower and upper ends of enclosures are finite."""
    return all(np.isfinite(e.lo).all() and np.isfinite(e.hi).all() for e in enclosures)


def words_of_operation(culprit: Apply | None) -> str:
    """Name of an operation in messages."""
    if culprit is None:
        return "the log-likelihood"
    if _is_between(culprit):
        return "the logarithm of the probability between two ends"
    if _is_condition(culprit):
        return "a condition on the parameters"
    return repr(type(culprit.op).__name__.lower())


def _is_condition(culprit: Apply | None) -> bool:
    conditions = scalar.Switch | scalar.LogicalComparison
    return culprit is not None and isinstance(culprit.op, conditions) and not _is_between(culprit)


def _is_between(culprit: Apply) -> bool:
    """Whether an operation is the logarithm of the probability between two ends."""
    if not isinstance(culprit.op, Log1mexp):
        return isinstance(culprit.op, LogBetweenTails)
    return sum(not x.is_data for x in sum_parts(culprit.inputs[0])) > 1


def _about_condition(function: RowFunction, condition: Apply) -> str:
    """Text about the origin of a condition, with advice."""
    all_switches = [x for x in _operations_on_parameters(function.root) if is_a(x, scalar.Switch)]
    switches = [x for x in all_switches if condition in (x, *subexpressions(x.inputs[0]))]
    if any(x in function.exprs.checks for s in switches for x in subexpressions(s.inputs[0])):
        return CHECKED
    return SUPPORT if any(is_impossible(x) for s in switches for x in s.inputs) else SMOOTH_STEP


def _operations_on_parameters(root: Expr) -> list[Apply]:
    """Operations on parameters in topological order, operands first."""
    return [x for x in operands_first([root]) if isinstance(x, Apply) and not x.is_data]
