"""Whether the draws of a step are exact, and by which bounds."""

from scipy.special import chdtrc

from pymc_minibatch_mh.bounds.blocks import AnyTables
from pymc_minibatch_mh.diagnostics.forecast.records import BoundTable, Certificate
from pymc_minibatch_mh.kernels.bound_tables import TOTAL
from pymc_minibatch_mh.kernels.moves import DIRECTIONAL, GIVEN, JOINT, RANGE, SHARP
from pymc_minibatch_mh.methods.guarantee import Promise
from pymc_minibatch_mh.step.base import MinibatchStep

KINDS = {
    DIRECTIONAL: "summed over directions",
    JOINT: "over the joint length of the arguments",
    SHARP: "sharp, one argument a row",
    GIVEN: "with a metric of the user's own",
    RANGE: "the widths of the ranges of all log-likelihoods",
}


def certificate(step: MinibatchStep, certified: bool, why_not_exact: str) -> Certificate:
    """Return what is known of the exactness of a step.

    Parameters
    ----------
    step
        The step.
    certified
        Whether its pilot was exact to the end.
    why_not_exact
        The message of the :class:`BoundsError` that stood against an exact step, if there was one.
    """
    tables, order = step.tables, step.target.taylor_order
    found = () if tables is None else bound_tables(tables, step.target.split.size)
    looseness = float("nan") if tables is None else tables.looseness
    reason = why_not_exact or _reason(step, certified)
    heavy = _heavy(step)
    return Certificate(str(step.guarantee), certified, reason, order, found, looseness, heavy)


def _heavy(step: MinibatchStep) -> int:
    """Return how many rows every update reads."""
    if step.program.method.draws_by_bounds and step.tables is not None:
        return step.tables.heavy.size
    return step.prepared.n_rows - step.prepared.n_drawn


def bound_tables(tables: AnyTables, size: int) -> tuple[BoundTable, ...]:
    """Return what the heads of tables say, in `size` dimensions."""
    return tuple(
        BoundTable(
            float(radius),
            float(chdtrc(size, radius**2)),
            KINDS[int(kind)],
            float(total),
            float(drawn),
        )
        for (radius, kind, total), drawn in zip(
            tables.heads, tables.heads_of_drawn[:, TOTAL], strict=True
        )
        if radius >= 0.0
    )


def _reason(step: MinibatchStep, certified: bool) -> str:
    method = type(step).__name__
    if step.guarantee.promise is Promise.APPROXIMATE:
        return f"{method} is approximate; TunaMH() is exact where it can derive bounds"
    if step.guarantee.promise is Promise.EXACT:
        return f"{method} is exact without bounds"
    if step.tables is not None and not step.tables.verified:
        return "the bounds are your own: draws are exact if they hold, which nobody has derived"
    if not certified:
        return "the bounds were derived from the model, but a row exceeded its own"
    return "the bounds of all rows were derived from the model, and held in the pilot"
