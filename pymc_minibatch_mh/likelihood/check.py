"""The numerical check that the parts of a model add up to the model."""

from collections.abc import Callable, Sequence

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.logprob.utils import local_check_parameter_to_ninf_switch
from pytensor.compile.mode import Mode, optdb
from pytensor.graph.basic import Variable
from pytensor.graph.rewriting.basic import SequentialGraphRewriter, dfs_rewriter
from pytensor.graph.rewriting.db import RewriteDatabaseQuery

from pymc_minibatch_mh.errors import SplitCheckError
from pymc_minibatch_mh.likelihood.derived import inlined
from pymc_minibatch_mh.likelihood.dims import plain
from pymc_minibatch_mh.likelihood.precision import in_double
from pymc_minibatch_mh.likelihood.split import Split

#: Largest accepted difference between the parts and the whole, in double precision.
TOLERANCE = 1e-8
#: Largest relative change of the log-density by giving its own constants double precision, and the
#: accepted difference where the model adds up its log-density in single precision.
SINGLE_PRECISION = 1e-6

# Violated checks as PyMC's samplers read them; symbolic operations opened up, which would
# otherwise each be compiled on their own; and intermediate results in place, which saves memory.
_AS_SAMPLED = SequentialGraphRewriter(
    dfs_rewriter(local_check_parameter_to_ninf_switch, inlined),
    optdb.query(RewriteDatabaseQuery(include=["inplace"])),
)


def model_log_density(model: pm.Model, split: Split) -> Callable[[np.ndarray, np.ndarray], float]:
    """Return the model's own log-density as a function of the position and the other values.

    It runs in Python: nothing is compiled for a handful of evaluations, and none of the rewrites
    that simplify the compiled parts can hide a difference.
    """
    inputs = [block.variable for block in (*split.blocks, *split.others)]
    as_written = _weighted_log_density(model, split)
    graphs = {id(graph): graph for graph in (in_double(as_written), as_written)}
    function = pytensor.function(
        inputs,
        list(graphs.values()),
        mode=Mode(linker="py", optimizer=_AS_SAMPLED),
        on_unused_input="ignore",
    )

    def log_density(position: np.ndarray, others: np.ndarray) -> float:
        pieces = [
            values[b.start : b.stop].reshape(b.shape).astype(b.variable.dtype)
            for values, blocks in ((position, split.blocks), (others, split.others))
            for b in blocks
        ]
        with np.errstate(all="ignore"):
            value, *written = map(float, function(*pieces))
        if written and not np.isclose(value, written[0], rtol=SINGLE_PRECISION, atol=0.0):
            raise SplitCheckError(
                f"{', '.join(repr(term.name) for term in split.terms)}: constants in double "
                f"precision change the model's log-density from {written[0]!r} to {value!r}. The "
                "model was read wrongly; please report it, and sample with pm.NUTS() meanwhile."
            )
        return value

    return log_density


def _weighted_log_density(model: pm.Model, split: Split) -> Variable:
    weights = {term.name: (term.weights, term.axis) for term in split.terms}
    total = model.logp()
    for name, (values, axis) in weights.items():
        if values is not None:
            (logp,) = model.logp(vars=[model[name]], sum=False)
            rows = pt.moveaxis(plain(logp), axis, -1)
            total = total + ((values - 1.0) * rows).sum()
    return total


def tolerance_of(model: pm.Model) -> float:
    """Return the relative difference that rounding explains, in the precision of the model."""
    single = any(value.type.dtype == "float32" for value in model.value_vars)
    return SINGLE_PRECISION if single else TOLERANCE


def check_split(
    whole: Callable[[np.ndarray], float],
    parts: Callable[[np.ndarray], tuple[float, float]],
    points: Sequence[np.ndarray],
    names: Sequence[str],
    tolerance: float = TOLERANCE,
) -> None:
    """Compare the parts with the whole at some points.

    Parameters
    ----------
    whole
        Position -> log-density of the model.
    parts
        Position -> prior part and sum over rows.
    points
        Positions with finite log-density.
    names
        Observed variables that were split, for messages.
    tolerance
        Largest accepted |prior + Σ rows - log-density|, relative to |prior| + Σ|rows|.

    Raises
    ------
    SplitCheckError
        If they differ by more than rounding.
    """
    for point in points:
        expected = whole(point)
        prior, rows = parts(point)
        difference = abs(prior + rows - expected)
        if prior + rows == expected == -np.inf:
            continue
        if not difference <= tolerance * (abs(prior) + abs(rows)):
            raise SplitCheckError(
                f"{', '.join(map(repr, names))}: prior part {prior!r} and rows {rows!r} add up "
                f"to {prior + rows!r}, but the model's log-density is {expected!r}. The model "
                "was read wrongly; please report it, and sample with pm.NUTS() meanwhile."
            )
