"""Traces of chains that were sampled outside of PyMC's loop, in the format of ``pm.sample``.

Chains keep the unconstrained position and the statistics of each draw. PyMC evaluates transforms
and deterministics at every draw while it samples. This module computes them from positions
afterwards: graphs are vectorised over a block of draws and evaluated by NumPy, operation by
operation. Nothing is compiled, and one call of an operation serves the whole block.
"""

import logging
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import xarray as xr
from arviz_base import dict_to_dataset
from pymc.backends.arviz import coords_and_dims_for_inferencedata, find_constants, find_observations
from pymc.util import get_default_varnames
from pytensor.compile.mode import Mode, optdb
from pytensor.compile.ops import FromFunctionOp
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import HasInnerGraph
from pytensor.graph.replace import clone_replace, vectorize_graph
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.graph.traversal import ancestors, toposort
from pytensor.scalar.basic import Clip
from pytensor.scalar.math import Log1mexp, Softplus
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.op import RNGConsumerOp
from pytensor.tensor.rewriting.basic import local_view_op
from pytensor.tensor.type import TensorType

from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.functions.base import operation_name
from pymc_minibatch_mh.model.bambi import BambiModel, clean_trace, response_parameters
from pymc_minibatch_mh.model.constant_data import (
    as_plain_tensor,
    inline_symbolic_op,
    with_dims_removed,
)
from pymc_minibatch_mh.model.factorization import Factorization, WholeDraws
from pymc_minibatch_mh.model.layout import Block
from pymc_minibatch_mh.steps.deterministics import LargeDeterministic, large_deterministics

_log = logging.getLogger("pymc")

#: Maximum bytes of a block of draws, including intermediate results.
BLOCK_BYTES = 2**26


@node_rewriter([Elemwise])
def rewrite_to_ufuncs(fgraph: object, node: Apply) -> list[Variable] | None:
    """Replace PyTensor's elementwise Python functions by NumPy functions."""
    op = node.op.scalar_op
    x, *ends = node.inputs
    if isinstance(op, Softplus):
        written = pt.maximum(x, 0) + pt.log1p(pt.exp(-pt.abs(x)))
    elif isinstance(op, Log1mexp):
        written = pt.switch(x < -np.log(2), pt.log1p(-pt.exp(x)), pt.log(-pt.expm1(x)))
    elif isinstance(op, Clip):
        written = pt.minimum(pt.maximum(x, ends[0]), ends[1])
    else:
        return None
    return [written.astype(node.outputs[0].dtype)]


#: Mode for evaluation by NumPy: PyTensor's rewrites, except fusion, which is slow in Python, and
#: rewrites for in-place operations, BLAS and C++, which gain nothing. `rewrite_to_ufuncs` is last.
NUMPY_MODE = Mode(
    linker="py",
    optimizer=RewriteDatabaseQuery(
        include=["fast_run"], exclude=["fusion", "inplace", "BlasOpt", "cxx_only"]
    ),
).register((dfs_rewriter(rewrite_to_ufuncs), 100))
#: The same mode, which also keeps all intermediate results in memory, to measure their size.
NUMPY_MODE_KEEPING_ALL = NUMPY_MODE.clone(link_kwargs={"allow_gc": False})

_OPENED = dfs_rewriter(inline_symbolic_op, local_view_op)
_WITHOUT_DIMS = optdb.query(RewriteDatabaseQuery(include=["lower_xtensor"]))


class NotVectorizedError(Exception):
    """A variable that cannot be evaluated for many draws at once."""


def evaluate_at_draws(
    model: pm.Model, factorization: Factorization, variables: Sequence[Variable], draws: np.ndarray
) -> list[np.ndarray]:
    """Evaluate graphs in a model's value variables at draws, shape (n, d), n >= 1.

    Values, shape (n, *shape of the variable), equal those of ``pm.sample`` up to rounding. Loops
    and functions of the user are evaluated draw by draw, by PyMC's compiled function.
    """
    found = dict(_evaluate_blocks(factorization.blocks, list(variables), draws))
    left = [v for v in variables if v not in found]
    if left:
        found |= zip(left, _evaluate_draw_by_draw(model, factorization, left, draws), strict=True)
    return [found[v] for v in variables]


def _evaluate_blocks(
    blocks: Sequence[Block], variables: list[Variable], positions: np.ndarray
) -> Iterable[tuple[Variable, np.ndarray]]:
    if not variables:
        return []
    try:
        return zip(variables, BlockFunction(blocks, variables)(positions), strict=True)
    except Exception as error:
        # Operations without vectorisation fail in many ways, some only during evaluation. Each
        # variable is then tried alone, to isolate the failing one.
        if len(variables) > 1:
            return [pair for v in variables for pair in _evaluate_blocks(blocks, [v], positions)]
        first_line = str(error).strip().partition("\n")[0].rstrip(".")
        _log.info(
            "Computing deterministic %r one draw at a time (slow): %s.",
            variables[0].name,
            first_line or type(error).__name__,
        )
        return []


class BlockFunction:
    """Vectorised function of many positions, with the value variables `blocks` as inputs.

    NotVectorizedError or NotImplementedError if an operation supports single draws only.
    """

    def __init__(self, blocks: Sequence[Block], variables: Sequence[Variable]) -> None:
        read = set(ancestors(list(variables)))
        # Slices of positions are copied, so unused variables are left out.
        self._blocks = [b for b in blocks if b.variable in read]
        # `pt.tensor(name)` interprets a name such as "a,b" as a dtype.
        single = {b.variable: TensorType(b.variable.dtype, b.shape)(b.name) for b in self._blocks}
        many = {x: TensorType(x.dtype, (None, *x.type.shape))(x.name) for x in single.values()}
        graphs = _in_tensors(variables, single)
        _require_many_draws(single.values(), graphs)
        self._one = _numpy_function(list(single.values()), graphs, NUMPY_MODE_KEEPING_ALL)
        self._many = _numpy_function(list(many.values()), vectorize_graph(graphs, many), NUMPY_MODE)

    def __call__(self, positions: np.ndarray) -> list[np.ndarray]:
        """Values of each variable; NotVectorizedError if a single draw gives other values."""
        n = len(positions)
        with np.errstate(all="ignore"):
            count = self._draws_in_block(positions[:1])
            ends = {i: self._one(*self._blocks_of(positions[i : i + 1], True)) for i in (0, -1 % n)}
            out = [np.empty((n, *x.shape), x.dtype) for x in ends[0]]
            for start in range(0, n, count):
                stop = min(start + count, n)
                values = self._many(*self._blocks_of(positions[start:stop]))
                for whole, part in zip(out, values, strict=True):
                    whole[start:stop] = part
        for place, alone in ends.items():
            for whole, value in zip(out, alone, strict=True):
                if not _are_equal(whole[place], value):
                    raise NotVectorizedError("PyTensor's version for many draws gives other values")
        return out

    def _draws_in_block(self, position: np.ndarray) -> int:
        self._one(*self._blocks_of(position, True))
        made = (cell[0] for v, cell in self._one.vm.storage_map.items() if v.owner is not None)
        return max(1, BLOCK_BYTES // max(1, sum(getattr(value, "nbytes", 0) for value in made)))

    def _blocks_of(self, positions: np.ndarray, alone: bool = False) -> list[np.ndarray]:
        leading = () if alone else (len(positions),)
        return [
            positions[:, b.start : b.stop].reshape((*leading, *b.shape)).astype(b.variable.dtype)
            for b in self._blocks
        ]


def _in_tensors(variables: Sequence[Variable], tensors: dict[Variable, Variable]) -> list[Variable]:
    """Graphs in plain tensors instead of value variables, without dims and inner graphs."""
    graphs = [as_plain_tensor(v) for v in variables]
    graphs = clone_replace(graphs, with_dims_removed(graphs, tensors), rebuild_strict=False)
    graph = FunctionGraph(outputs=graphs, clone=True, copy_inputs=False)
    _OPENED.rewrite(graph)
    _WITHOUT_DIMS.rewrite(graph)
    return list(graph.outputs)


def _require_many_draws(inputs: Iterable[Variable], outputs: Sequence[Variable]) -> None:
    """Raise a NotVectorizedError if an operation that depends on `inputs` needs single draws."""
    inside = set(inputs)
    for node in toposort(outputs):
        if inside.isdisjoint(node.inputs):
            continue
        inside.update(node.outputs)
        op = getattr(node.op, "core_op", node.op)
        if isinstance(op, HasInnerGraph):
            raise NotVectorizedError(
                f"{operation_name(op)} is a loop or another graph within the graph"
            )
        if isinstance(op, RNGConsumerOp):
            raise NotVectorizedError(f"{operation_name(op)} draws random numbers")
        own = not type(op).__module__.startswith(("pytensor.", "pymc."))
        if own or isinstance(op, FromFunctionOp):
            raise NotVectorizedError(f"{operation_name(op)} is a custom function")


def _numpy_function(inputs: list[Variable], outputs: list[Variable], mode: Mode) -> Any:
    # This setting keeps PyTensor from using a C compiler for constant folding.
    with pytensor.config.change_flags(cxx=""):
        return pytensor.function(
            inputs, outputs, mode=mode, on_unused_input="ignore", trust_input=True
        )


def _are_equal(one: np.ndarray, other: np.ndarray) -> bool:
    if one.shape != other.shape:
        return False
    if one.dtype.kind != "f":
        return bool(np.array_equal(one, other))
    tolerance = np.sqrt(np.finfo(one.dtype).eps)
    largest = np.max(np.abs(other), initial=0.0, where=np.isfinite(other))
    return np.allclose(one, other, rtol=tolerance, atol=tolerance * largest, equal_nan=True)


def _evaluate_draw_by_draw(
    model: pm.Model, factorization: Factorization, variables: list[Variable], draws: np.ndarray
) -> list[np.ndarray]:
    evaluate = model.compile_fn(
        outs=[pytensor.Out(v, borrow=True) for v in variables],
        inputs=[pytensor.In(block.variable, borrow=True) for block in factorization.blocks],
        point_fn=False,
        on_unused_input="ignore",
        trust_input=True,
    )
    out: list[np.ndarray] = []
    for i, draw in enumerate(draws):
        values = evaluate(*factorization.split_by_name(draw).values())
        if not out:
            out = [np.empty((len(draws), *np.shape(x)), x.dtype) for x in values]
        for whole, value in zip(out, values, strict=True):
            whole[i] = value
    return out


@dataclass(frozen=True, eq=False)
class RecordedVariables:
    """Graphs of variables recorded at every draw, in PyMC's order, and of large deterministics."""

    variables: tuple[Variable, ...]
    large: tuple[tuple[LargeDeterministic, Variable], ...]
    #: Whether effects that are integrated out may be drawn for the trace.
    effects: bool = True

    def without(self, left_out: Collection[str]) -> "RecordedVariables":
        """Variables that depend on none of some value variables."""
        large = tuple(pair for pair in self.large if not _depends_on(pair[1], left_out))
        variables = tuple(v for v in self.variables if not _depends_on(v, left_out))
        return RecordedVariables(variables, large, effects=not left_out)

    def depend_on(self, names: Collection[str]) -> bool:
        """Whether a variable depends on some value variables."""
        graphs = *self.variables, *(graph for _, graph in self.large)
        return any(_depends_on(graph, names) for graph in graphs)


def _depends_on(graph: Variable, names: Collection[str]) -> bool:
    return any(v.name in names for v in ancestors([graph]))


def recorded_variables(
    model: pm.Model, point: Mapping[str, np.ndarray], var_names: Sequence[str] | None = None
) -> RecordedVariables:
    """Select the recorded variables, by default all except the large deterministics.

    Shapes may depend on the `point` of value variables. SettingError if `var_names` is empty,
    repeats a name, has an unknown name, or has large deterministics only.
    """
    chosen = _select_variables(model, var_names)
    named = {str(v.name) for v in chosen}
    known = {str(v.name) for v in model.deterministics} - named
    large = {one.name: one for one in large_deterministics(model, point, known)}
    if var_names is None:
        if large:
            _log.info(
                "Large deterministics are left out of the trace. 1,000 draws of a chain would "
                "be: %s. To keep one for a few draws of each chain, name it in var_names=.",
                "; ".join(f"{one.name!r}, {one.priced}" for one in large.values()),
            )
        return RecordedVariables(
            tuple(v for v in model.unobserved_value_vars if v.name not in large), ()
        )
    graphs = model.replace_rvs_by_values(chosen)
    by_name = dict(zip((str(v.name) for v in chosen), graphs, strict=True))
    small = tuple(by_name[name] for name in by_name if name not in large)
    if not small:
        raise SettingError(
            f"var_names={list(var_names)} has only large deterministics, which are kept for few "
            f"draws. Name a parameter as well, such as {str(model.free_RVs[0].name)!r}."
        )
    return RecordedVariables(small, tuple((one, by_name[name]) for name, one in large.items()))


def _select_variables(model: pm.Model, var_names: Sequence[str] | None) -> list[Variable]:
    unobserved = {str(v.name): v for v in model.unobserved_RVs}
    if var_names is None:
        return list(unobserved.values())
    names = list(var_names)
    if isinstance(var_names, str) or not names:
        raise SettingError(
            f"var_names={var_names!r} is not a list of names. Choose from {list(unobserved)}."
        )
    for name in names:
        if name not in unobserved:
            raise SettingError(
                f"var_names= has {name!r}, which is neither a free variable nor a deterministic "
                f"of the model. Choose from {list(unobserved)}."
            )
        if names.count(name) > 1:
            raise SettingError(f"var_names= has {name!r} twice. Name each once.")
    return [v for name, v in unobserved.items() if name in names]


#: Maximum draws per chain and maximum bytes of large deterministics.
LARGE_DRAWS, LARGE_BYTES = 100, 2**30
#: Name of the group with large deterministics.
THINNED = "posterior_thinned"


@dataclass(frozen=True, eq=False)
class Draws:
    """Unconstrained draws of one phase, shape (chains, draws, d), and stats, (chains, draws)."""

    positions: np.ndarray
    stats: Mapping[str, np.ndarray]
    #: Chain numbers, and draw numbers that remain after interrupts and thinning.
    coords: Mapping[str, np.ndarray]


def make_datatree(
    model: pm.Model,
    variables: Callable[[np.ndarray], WholeDraws],
    kept: RecordedVariables,
    draws: Draws,
    attrs: Mapping[str, str | float],
    *,
    warm_up: Draws | None = None,
) -> xr.DataTree:
    """Tree in the format of ``pm.sample``; `variables` of positions overwrites those of `draws`.

    Large deterministics have a separate group, ``posterior_thinned``, of evenly spaced draws after
    warm-up: at most 100 per chain (400 draws determine a mean to a twentieth of a standard
    deviation) and at most 1 GiB in all. Memory peaks at twice that size during the conversion.
    """
    parts = {"warmup_": warm_up, "": draws}
    phases = {k: x for k, x in parts.items() if x is not None and x.positions.shape[1]}
    complete = {k: variables(x.positions) for k, x in phases.items()}
    values = {k: x.values for k, x in complete.items()}
    factorization = _in_variables_of(model, complete[""].factorization)
    make = _GroupMaker(model, factorization, attrs)
    groups = {
        f"{prefix}posterior": make.posterior(kept.variables, values[prefix], part.coords)
        for prefix, part in phases.items()
    }
    for prefix, part in phases.items():
        groups[f"{prefix}sample_stats"] = make.dataset(part.stats, part.coords, with_dims=False)
    groups["observed_data"] = make.dataset(find_observations(model), {})
    if constants := find_constants(model):
        groups["constant_data"] = make.dataset(constants, {})
    if kept.large:
        groups[THINNED] = make.thinned(kept.large, values[""], draws.coords)
    return xr.DataTree.from_dict(groups)


def _in_variables_of(model: pm.Model, factorization: Factorization) -> Factorization:
    """Factorization with the model's own value variables instead of a pickled step's copies."""
    named = {str(v.name): v for v in model.value_vars}
    return replace(
        factorization,
        blocks=tuple(replace(block, variable=named[block.name]) for block in factorization.blocks),
    )


@dataclass(frozen=True, eq=False)
class _GroupMaker:
    """Builder of the groups of a trace; groups with draws get the attributes `attrs`."""

    model: pm.Model
    factorization: Factorization
    attrs: Mapping[str, str | float]

    def dataset(
        self,
        arrays: Mapping[str, np.ndarray],
        sampled: Mapping[Any, np.ndarray],
        with_dims: bool = True,
    ) -> xr.Dataset:
        """Group of arrays, with the coordinates `sampled` on the first axes."""
        coords, dims = coords_and_dims_for_inferencedata(self.model)
        with warnings.catch_warnings():
            # No warning from ArviZ, because a small number of draws may be intended.
            warnings.filterwarnings("ignore", "Found chain dimension to be longer")
            return dict_to_dataset(
                arrays,
                inference_library=pm,
                coords={**coords, **sampled},
                dims=dims if with_dims else None,
                sample_dims=list(sampled),
                attrs=self.attrs if sampled else None,
            )

    def posterior(
        self, variables: Sequence[Variable], values: np.ndarray, coords: Mapping[str, np.ndarray]
    ) -> xr.Dataset:
        """Group of variables at draws, shape (chains, draws, d)."""
        by_name, flat = (
            self.factorization.split_by_name(values),
            values.reshape(-1, values.shape[-1]),
        )
        found = {block.variable: by_name[block.name] for block in self.factorization.blocks}
        others = [v for v in variables if v not in found]
        evaluated = evaluate_at_draws(self.model, self.factorization, others, flat)
        for variable, x in zip(others, evaluated, strict=True):
            found[variable] = x.reshape((*values.shape[:2], *x.shape[1:]))
        arrays = {str(v.name): found[v] for v in variables}
        names = get_default_varnames(list(arrays), include_transformed=False)
        return self.dataset({name: arrays[name] for name in names}, coords)

    def thinned(
        self,
        large: Sequence[tuple[LargeDeterministic, Variable]],
        values: np.ndarray,
        coords: Mapping[str, np.ndarray],
    ) -> xr.Dataset:
        """Group of large deterministics at a few of the draws."""
        n_chains, n_draws = values.shape[:2]
        most = min(LARGE_DRAWS, LARGE_BYTES // (n_chains * sum(x.bytes_per_draw for x, _ in large)))
        every = slice(None, None, ceil(n_draws / max(1, most)))
        few = values[:, every]
        _log.info(
            "%s: kept for %d of %d draws of each chain, in the group %r of the trace.",
            ", ".join(repr(one.name) for one, _ in large),
            few.shape[1],
            n_draws,
            THINNED,
        )
        return self.posterior([v for _, v in large], few, {**coords, "draw": coords["draw"][every]})


def name_of_large_groups(block: Block) -> str:
    """Name, in a trace without effects, of the effects that are parameters: some of a variable's.

    They are on the scale of the value variable, which is that of all real effects.
    """
    return f"{block.name}_of_large_groups"


def effects_dataset(
    model: pm.Model,
    factorization: Factorization,
    values: np.ndarray,
    posterior: xr.Dataset,
    blocks: Sequence[Block],
    groups: Sequence[int] | None,
) -> xr.Dataset:
    """Effects in some blocks, of some groups or with all variables that a posterior lacks.

    `values` are value variables at draws, shape (chains, draws, d).
    """
    factorization = _in_variables_of(model, factorization)
    coords = {name: posterior[name].to_numpy() for name in ("chain", "draw")}
    make = _GroupMaker(model, factorization, posterior.attrs)
    if groups is None:
        point = factorization.split_by_name(values[0, 0])
        recorded = recorded_variables(model, point).variables
        lacking = [v for v in recorded if v.name not in posterior.data_vars]
        return make.posterior(lacking, values, coords)
    names = [block.name for block in blocks]
    variables = [b.variable for b in factorization.blocks if b.name in names]
    effects = make.posterior(variables, values, coords)
    # A matrix has a line or a column for each group, and two of the other.
    longest = {max(effects[name].dims[2:], key=effects.sizes.__getitem__) for name in names}
    return effects.isel({dim: list(groups) for dim in longest})


def bambi_trace(model: BambiModel, data: xr.DataTree) -> xr.DataTree:
    """Convert a trace of the PyMC model behind a Bambi model to the result of Bambi's ``fit``.

    Bambi's code drops the offsets of group effects, and moves intercepts to predictors that are not
    centred. Parameters of the likelihood with one value per observation, such as ``mu``, are left
    out as ``fit`` leaves them out; ``model.predict(data)`` computes them.

    Parameters
    ----------
    model
        The ``bambi.Model``, built.
    data
        Trace of its PyMC model, with all free variables; it stays as it is.
    """
    left_out = response_parameters(model)
    groups = {name: group.to_dataset() for name, group in data.children.items()}
    for name in groups.keys() & {"posterior", "warmup_posterior"}:
        # Variables are dropped by name, so that unused coordinates disappear as well.
        groups[name] = groups[name][[x for x in groups[name].data_vars if x not in left_out]]
    # Mark the model as fitted: Bambi's summary then mentions how to inspect the trace.
    model.backend.fit = True
    return clean_trace(model.backend, xr.DataTree.from_dict(groups))
