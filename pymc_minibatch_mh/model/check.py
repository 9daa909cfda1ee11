"""Numerical check that the factorization adds up to the model's log-density."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.pytensorf import rewrite_pregrad
from pytensor.compile.mode import Mode, optdb
from pytensor.gradient import DisconnectedType, grad
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.null_type import NullType
from pytensor.graph.replace import clone_replace
from pytensor.graph.rewriting.basic import SequentialGraphRewriter
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.graph.traversal import toposort

from pymc_minibatch_mh.data.source import StoredArray
from pymc_minibatch_mh.errors import FactorizationError
from pymc_minibatch_mh.model.constant_data import AS_SAMPLED, as_plain_tensor, with_double_constants
from pymc_minibatch_mh.model.factorization import Factorization, sum_log_densities
from pymc_minibatch_mh.model.layout import cut_blocks
from pymc_minibatch_mh.model.stored_ops import ReadStored, with_rows
from pymc_minibatch_mh.model.terms import log_densities

#: Maximum difference from the model's log-density, relative to |prior part| + |sum over rows|.
TOLERANCE = 1e-8
#: Maximum relative difference between the log-density with double-precision constants and
#: the log-density in the model's own precision.
SINGLE_PRECISION = 1e-6

#: Number of rows above which saving memory outweighs half a second of rewriting.
MIN_ROWS_TO_SAVE_MEMORY = 100_000
# Rewriter that also lets operations overwrite their inputs, which saves memory.
_AS_SAMPLED_IN_PLACE = SequentialGraphRewriter(
    AS_SAMPLED, optdb.query(RewriteDatabaseQuery(include=["inplace"]))
)


class DensityValue(NamedTuple):
    """Log-density in double and in the model's precision, and its (first-order) rounding error."""

    value: float
    written: float
    rounding: float = 0.0


class ModelDensity:
    """Log-density of a model, evaluated in Python, because a few points are not worth compiling."""

    def __init__(
        self, model: pm.Model, factorization: Factorization, rows: np.ndarray | None = None
    ) -> None:
        self._model = model
        self._split = factorization
        self._rows = rows

    def all_densities(self, others: np.ndarray) -> dict[str, Callable[[np.ndarray], DensityValue]]:
        """Ways to compute the log-density: description for messages -> function of a position."""
        return {
            "as it is written": lambda x: self.as_written(x, others),
            "after PyTensor's stabilising rewrites": lambda x: self.stabilised(x, others),
        }

    def as_written(self, position: np.ndarray, others: np.ndarray) -> DensityValue:
        """Log-density of the model's own graph, without rewrites that could hide a difference."""
        values = self._as_written(*self._blocks_of(position, others))
        return DensityValue(values[0], values[-1])

    def stabilised(self, position: np.ndarray, others: np.ndarray) -> DensityValue:
        """Log-density after PyMC's rewrites for stability, with a bound on its rounding error."""
        rounding, *values = self._stabilised_function(*self._blocks_of(position, others))
        return DensityValue(values[0], values[-1], rounding)

    @cached_property
    def _log_density_graphs(self) -> list[Variable]:
        """Log-density in double precision and, if different, in the model's own precision."""
        graph = _weighted_log_density(self._model, self._split)
        if self._rows is not None:
            graph = with_rows(graph, self._rows)
        return list({id(x): x for x in (with_double_constants(graph), graph)}.values())

    @cached_property
    def _as_written(self) -> Callable[..., list[float]]:
        return self._compile_graphs(self._log_density_graphs)

    @cached_property
    def _stabilised_function(self) -> Callable[..., list[float]]:
        graphs = [stabilise_graph(graph) for graph in self._log_density_graphs]
        return self._compile_graphs([rounding_error(graphs[0]), *graphs])

    def _compile_graphs(self, graphs: Sequence[Variable]) -> Callable[..., list[float]]:
        inputs = [block.variable for block in (*self._split.blocks, *self._split.others)]
        many = sum(term.n_rows for term in self._split.terms) >= MIN_ROWS_TO_SAVE_MEMORY
        mode = Mode(linker="py", optimizer=_AS_SAMPLED_IN_PLACE if many else AS_SAMPLED)
        function = pytensor.function(inputs, list(graphs), mode=mode, on_unused_input="ignore")

        def log_densities(*pieces: np.ndarray) -> list[float]:
            with np.errstate(all="ignore"):
                return [float(value) for value in function(*pieces)]

        return log_densities

    def _blocks_of(self, position: np.ndarray, others: np.ndarray) -> list[np.ndarray]:
        split = self._split
        free = cut_blocks(split.blocks, split.values(position))
        return [*free.values(), *cut_blocks(split.others, others).values()]


def _weighted_log_density(model: pm.Model, factorization: Factorization) -> Variable:
    total = sum_log_densities(log_densities(model, [*model.basic_RVs, *model.potentials]))
    for term in (one for joined in factorization.terms for one in joined.likelihoods):
        if term.weights is not None:
            stored = isinstance(term.weights, StoredArray)
            weights: Any = ReadStored(term.weights)() if stored else term.weights
            (logp,) = log_densities(model, [model[term.name]])
            rows = pt.moveaxis(as_plain_tensor(logp), term.axis, -1)
            total = total + ((weights - 1.0) * rows).sum()
    return total


def check_factorization(
    readings: Mapping[str, Callable[[np.ndarray], DensityValue]],
    parts: Callable[[np.ndarray], tuple[float, float]],
    points: Sequence[np.ndarray],
    names: Sequence[str],
) -> None:
    """Raise FactorizationError unless prior plus rows equals a log-density in `readings`."""
    for point in points:
        prior, rows = parts(point)
        found = []
        for way, read in readings.items():
            reading = read(point)
            tolerance = TOLERANCE * (abs(prior) + abs(rows)) + reading.rounding
            close = _are_close(prior + rows, reading.value, tolerance)
            if close and _keeps_constants(reading):
                break
            found.append(_describe_value(way, reading))
        else:
            raise FactorizationError(
                f"{', '.join(map(repr, names))}: prior part {prior!r} and rows {rows!r} add up "
                f"to {prior + rows!r}, but the model's log-density is {', and '.join(found)}. The "
                "model was read wrongly; please report it, and sample with pm.NUTS() meanwhile."
            )


def _describe_value(way: str, reading: DensityValue) -> str:
    own = "" if _keeps_constants(reading) else f" (with its own constants, {reading.written!r})"
    rounding = f" up to a rounding error of {reading.rounding:.2g}" if reading.rounding else ""
    return f"{reading.value!r}{rounding} {way}{own}"


def _keeps_constants(reading: DensityValue) -> bool:
    tolerance = SINGLE_PRECISION * abs(reading.written) + reading.rounding
    return _are_close(reading.value, reading.written, tolerance)


def _are_close(one: float, other: float, tolerance: float) -> bool:
    both = np.isfinite(one) and np.isfinite(other)
    return bool(abs(one - other) <= tolerance) if both else one == other == -np.inf


def stabilise_graph(graph: Variable) -> Variable:
    """Log-density after PyTensor's rewrites for numerical stability."""
    opened = FunctionGraph(outputs=list(clone_replace([graph])), clone=False)
    AS_SAMPLED.rewrite(opened)
    (result,) = rewrite_pregrad(list(opened.outputs))
    return result


def rounding_error(graph: Variable) -> Variable:
    """First-order rounding error of a scalar, as a graph; non-finite derivatives are ignored."""
    results = [node.outputs[0] for node in toposort([graph]) if len(node.outputs) == 1]
    inner = [x for x in results if getattr(x.type, "dtype", "").startswith("float")]
    without: Any = {"disconnected_inputs": "ignore", "return_disconnected": "disconnected"}
    slopes = grad(graph, inner, null_gradients="return", **without) if inner else ()
    total = pt.constant(0.0)
    for result, slope in zip(inner, slopes, strict=True):
        if not isinstance(slope.type, NullType | DisconnectedType):
            size = abs(slope * result).astype("float64")
            unit = float(np.finfo(result.type.dtype).eps)
            total = total + unit * pt.switch(pt.isfinite(size), size, 0.0).sum()
    return total
