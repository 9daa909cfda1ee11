"""Why a row has no bound."""

from collections.abc import Sequence

import numpy as np
from pytensor.scalar import basic as scalar

from pymc_minibatch_mh.bounds.interval import Interval
from pymc_minibatch_mh.bounds.jets import Jets
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.model.row.cells import Apply, Cell
from pymc_minibatch_mh.model.row.function import RowFunction
from pymc_minibatch_mh.model.row.impossible import is_impossible
from pymc_minibatch_mh.model.row.patterns import is_a, reachable
from pymc_minibatch_mh.model.row.values import RowData

#: What to do about a condition that the model itself has.
SMOOTH_STEP = (
    "In place of a switch(tau > t, a, b) of your own write a smooth step, b + (a - b) * "
    "pm.math.sigmoid((tau - t) / width). "
)
#: The same about a check of a distribution, outside which the log-density is -inf.
CHECKED = (
    "The condition is a check by the distribution of its parameters, such as 0 <= p <= 1, which is "
    "not seen to hold everywhere: write probabilities as pm.math.sigmoid(...) or "
    "pm.math.invprobit(...), and negative binomials by mu= and alpha=. "
)


def explain_unbounded(
    function: RowFunction, data: RowData, boxes: Sequence[Interval], order: int, row: int
) -> BoundsError:
    """Return the error that names the first operation whose derivatives have no bound.

    Parameters
    ----------
    function, data
        The row and its term.
    boxes
        Interval of every argument over the trust region.
    order
        Order of the derivatives that were wanted.
    row
        Number of the row, for the message.
    """
    jets = Jets(data, boxes, order)
    culprit = next((c for c in _in_order(function.root) if _loses_bounds(jets, c)), None)
    lower = " a lower taylor_order," if order > 1 else ""
    smooth = ""
    if culprit is not None and _is_condition(culprit):
        smooth = CHECKED if _is_check(function.root, culprit) else SMOOTH_STEP
    return BoundsError(
        f"{function.name!r} cannot be certified: in row {row} the derivatives of order {order} of "
        f"{_called(culprit)} have no bound over the trust region, as at a kink or a singularity. "
        f"{smooth}Use BarkerMinibatchMH() or PenaltyMH(), which need no bounds,{lower} or "
        "bounds=Bounds(...) of your own."
    )


def explain_without_range(
    function: RowFunction, data: RowData, boxes: Sequence[Interval], row: int
) -> BoundsError:
    """Return the error that names the first operation whose values have no bound.

    Parameters
    ----------
    function, data
        The row and its term.
    boxes
        Interval of every argument over the whole space.
    row
        Number of the row, for the message.
    """
    jets = Jets(data, boxes, 1)
    culprit = next((c for c in _in_order(function.root) if _loses_values(jets, c)), None)
    why = "the parameters, as they are sampled, have no bounds that stop it"
    if culprit is not None:
        why = f"{_called(culprit)} has no bound"
    return BoundsError(
        f"{function.name!r} has no range: in row {row} its log-likelihood is not bounded on both "
        f"sides over the supports of the parameters, because {why}. Use priors that end where it "
        "is still finite, such as pm.Uniform, or ranges=Ranges(low, high) of your own, or "
        "TunaMH(), which needs a bound for a move only."
    )


def _loses_values(jets: Jets, cell: Apply) -> bool:
    def bounded(part: Cell) -> bool:
        value = jets.of(part)[()]
        return bool(np.isfinite(value.lo).all() and np.isfinite(value.hi).all())

    return all(bounded(part) for part in cell.inputs if not part.is_data) and not bounded(cell)


def _called(culprit: Apply | None) -> str:
    if culprit is None:
        return "the log-likelihood"
    if _is_condition(culprit):
        return "a condition on the parameters"
    return repr(type(culprit.op).__name__.lower())


def _is_condition(culprit: Apply | None) -> bool:
    conditions = scalar.Switch | scalar.LogicalComparison
    return culprit is not None and isinstance(culprit.op, conditions)


def _is_check(root: Cell, condition: Apply) -> bool:
    """Whether a log-likelihood is -inf wherever a condition does not hold."""
    checks = [cell for cell in _in_order(root) if is_a(cell, scalar.Switch)]
    return any(
        condition in (check, *reachable(check.inputs[0])) and any(map(is_impossible, check.inputs))
        for check in checks
    )


def _in_order(root: Cell) -> list[Apply]:
    seen: dict[Cell, None] = {}

    def visit(cell: Cell) -> None:
        if cell not in seen and not cell.is_data:
            for part in cell.inputs:
                visit(part)
            seen[cell] = None

    visit(root)
    return [cell for cell in seen if isinstance(cell, Apply)]


def _loses_bounds(jets: Jets, cell: Apply) -> bool:
    bounded = all(_is_bounded(jets, part) for part in cell.inputs if not part.is_data)
    return bounded and not _is_bounded(jets, cell)


def _is_bounded(jets: Jets, cell: Cell) -> bool:
    enclosures = jets.of(cell).values()
    return all(np.isfinite(e.lo).all() and np.isfinite(e.hi).all() for e in enclosures)
