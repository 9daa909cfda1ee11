"""Draws of a model's variables, read from a trace.

A trace may lack free variables, or hold them on another scale. Bambi's ``fit`` drops the offset z
of a group effect, which stays as the deterministic a + b z, and moves intercepts to predictors that
are not centred.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import xarray as xr
from pymc.pytensorf import compile as compile_graph
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace, vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.type import TensorType

from pymc_minibatch_mh.errors import SettingError, StaleDataError
from pymc_minibatch_mh.model.bambi import OBSERVATION_DIM, backend_of, clean_trace, is_fitted
from pymc_minibatch_mh.model.inputs import ModelArrays, fits_shape
from pymc_minibatch_mh.progress import count_parts

#: Draws by the names of variables, each of shape (chain, draw, ...).
type Draws = Mapping[str, np.ndarray]

#: Mode without compilation, for deterministics of a few operations.
IN_PYTHON = Mode(linker="py", optimizer=None)
#: Maximum rounding error of an affine function, relative to its largest slope.
MAX_ROUNDING = 1e-9


def track_progress[T](label: str, parts: Sequence[T]) -> Iterator[T]:
    """Yield parts of some work, and show how many are done."""
    with count_parts(label, len(parts)) as advance:
        for part in parts:
            yield part
            advance()


def require_trace(data: Any) -> xr.DataTree:
    """Raise a SettingError if `data` are not a tree of groups."""
    if not isinstance(data, xr.DataTree):
        raise SettingError(
            f"data={type(data).__name__} is no trace. Pass the trace that pm.sample() returns."
        )
    return data


def require_group(data: Any, group: str, variable: str, expected: str) -> xr.Dataset:
    """Group of a tree; SettingError with the `expected` data if it lacks the variable."""
    node = require_trace(data).children.get(group)
    dataset = xr.Dataset() if node is None else node.to_dataset(inherit=False)
    if variable not in dataset:
        raise SettingError(f"data= has no {variable!r} in a group {group!r}. Pass {expected}.")
    return dataset


def require_same_data(trace: xr.DataTree, arrays: ModelArrays) -> None:
    """Raise a StaleDataError if the model's data differ from the data in the trace."""
    groups = [trace[name] for name in ("observed_data", "constant_data") if name in trace.children]
    stored = {name: values for group in groups for name, values in group.data_vars.items()}
    for name, array in arrays.named_arrays():
        if not isinstance(array, np.ndarray) or name not in stored:
            continue
        if not np.array_equal(stored[name].to_numpy(), array):
            raise StaleDataError(
                f"{name!r} changed after this trace was drawn. Sample again, or restore the data."
            )


def posterior_draws(
    data: xr.DataTree, model: pm.Model, left_out: Collection[str] = ()
) -> dict[str, np.ndarray]:
    """Draws of all free variables but some, by name, each of shape (chain, draw, ...).

    Missing variables are computed from deterministics, and changes by Bambi's ``fit`` are undone.
    SettingError if the trace holds no posterior, or not all of these variables.
    """
    if "posterior" not in require_trace(data).children:
        raise SettingError(
            "data= has no group 'posterior'. Pass the trace that pm.sample() returns."
        )
    posterior = data["posterior"].to_dataset()
    shapes = {str(rv.name): rv.type.shape for rv in model.free_RVs if rv.name not in left_out}
    stored = {x: in_model_order(posterior[x], model) for x in shapes if x in posterior.data_vars}
    draws = {**stored, **solve_missing(model, posterior, stored)}
    missing = [name for name in shapes if name not in draws]
    if missing:
        fix = "Sample this very model, and leave no free variable out of pm.sample(var_names=...)."
        if is_fitted(data) and missing[0].endswith("_offset"):
            fix = "Pass omit_offsets=False to Bambi's fit, which drops names that end so."
        raise SettingError(
            f"{missing[0]!r} is a free variable of the model, but not in the trace. {fix}"
        )
    if is_fitted(data):
        draws |= uncentred_intercepts(model, data)
    for name, expected in shapes.items():
        shape = draws[name].shape[2:]
        if not fits_shape(shape, expected):
            raise SettingError(
                f"{name!r} has draws of shape {shape} in the trace, but shape {expected} in "
                "the model. Sample this very model."
            )
    return draws


def in_model_order(draws: xr.DataArray, model: pm.Model) -> np.ndarray:
    """Draws with axes in the model's order, (chain, draw, ...); a trace may have another order."""
    dims = model.named_vars_to_dims.get(str(draws.name)) or ()
    named = set(dims) <= set(draws.dims)
    return draws.transpose("chain", "draw", *(dims if named else ()), ...).to_numpy()


def solve_missing(model: pm.Model, posterior: xr.Dataset, draws: Draws) -> dict[str, np.ndarray]:
    """Draws of missing free variables z, from deterministics a + b z in the trace.

    a and b depend on known variables, including those already solved.
    """
    known = dict(draws)
    for rv in model.free_RVs:
        for graph in model.deterministics if rv.name not in known else ():
            if graph.name in posterior.data_vars and _may_share_axes(rv, graph, model):
                z = _solve_affine(model, rv, graph, posterior[graph.name], known)
                if z is not None:
                    known[str(rv.name)] = z
                    break
    return {name: z for name, z in known.items() if name not in draws}


def _may_share_axes(rv: Variable, graph: Variable, model: pm.Model) -> bool:
    """Whether a deterministic and a variable may have the same axes: not if their dims differ."""
    known = (model.named_vars_to_dims.get(str(v.name)) for v in (rv, graph))
    dims = [tuple(names) for names in known if names]
    return graph.type.ndim == rv.type.ndim and (len(dims) < 2 or dims[0] == dims[1])


def _solve_affine(
    model: pm.Model, rv: Variable, graph: Variable, stored: xr.DataArray, draws: Draws
) -> np.ndarray | None:
    """Solution z of a + b z = `stored`; None if the graph has another form."""
    above = set(ancestors([graph], blockers=model.free_RVs))
    inputs = [v for v in model.free_RVs if v in above and v is not rv]
    if rv not in above or any(v.name not in draws for v in inputs):
        return None
    values = in_model_order(stored, model)
    shape = values.shape[2:]
    if not fits_shape(shape, rv.type.shape):
        return None
    probe = np.random.default_rng(0).standard_normal(shape)
    try:
        evaluate = _compile_at(graph, inputs, rv, (np.zeros(shape), np.ones(shape), probe))
        z = np.empty(values.shape)
        for chain, of_chain in enumerate(values):
            a, a_and_b, at_probe = evaluate(*(draws[str(v.name)][chain] for v in inputs))
            b = a_and_b - a
            if not np.allclose(at_probe, a + b * probe, MAX_ROUNDING, MAX_ROUNDING * abs(b).max()):
                return None
            with np.errstate(divide="ignore", invalid="ignore"):
                z[chain] = (of_chain - a) / b
    except (NotImplementedError, TypeError, ValueError):
        # An operation supports single draws only, or needs another shape.
        return None
    return z if np.isfinite(z).all() else None


def _compile_at(
    graph: Variable, inputs: Sequence[Variable], rv: Variable, values: Sequence[np.ndarray]
) -> Callable[..., list[np.ndarray]]:
    """Compile a graph at some values of `rv`, for many draws of its inputs at once."""
    single = {v: v.type(name=v.name) for v in inputs}
    graphs = [
        clone_replace([graph], {**single, rv: pt.constant(value)}, rebuild_strict=False)[0]
        for value in values
    ]
    many = {x: TensorType(x.dtype, (None, *x.type.shape))(x.name) for x in single.values()}
    return pytensor.function(list(many.values()), vectorize_graph(graphs, many), mode=IN_PYTHON)


def uncentred_intercepts(model: pm.Model, data: xr.DataTree) -> dict[str, np.ndarray]:
    """Draws of a Bambi model's intercepts for centred predictors: the shift by ``fit`` is undone.

    Bambi's own code shifts them a second time here, to find the shift that is then subtracted.
    SettingError if the Bambi model is not in this process: the PyMC model lacks the means.
    """
    backend = backend_of(model)
    if backend is None:
        raise SettingError(
            "model= is a PyMC model that no Bambi model of this process has built, and the trace "
            "is from Bambi's fit, which moves intercepts by means of predictors. Pass the "
            "bambi.Model as model=, built on the same data."
        )
    # Keep deterministics, which may be coefficients, except large ones with a value per row.
    posterior = data["posterior"].to_dataset().drop_dims(OBSERVATION_DIM, errors="ignore")
    twice = clean_trace(backend, xr.DataTree.from_dict({"posterior": posterior}))["posterior"]
    return {
        str(name): in_model_order((2.0 * posterior[name] - values).rename(name), model)
        for name, values in twice.data_vars.items()
        if not np.array_equal(values.transpose(*posterior[name].dims), posterior[name])
    }


def stand_ins(model: pm.Model) -> dict[Variable, Variable]:
    """Input variables that replace the random graphs of all free variables."""
    return {rv: rv.type(name=str(rv.name)) for rv in model.free_RVs}


def value_graphs(model: pm.Model, inputs: Mapping[Variable, Variable]) -> dict[Variable, Variable]:
    """Value variables as functions of the free variables, which `inputs` replace."""
    values = {}
    for rv, inner in inputs.items():
        transform = model.rvs_to_transforms[rv]
        if transform is not None:
            parameters = clone_replace(rv.owner.inputs, inputs, rebuild_strict=False)
            inner = transform.forward(inner, *parameters)
        values[model.rvs_to_values[rv]] = inner
    return values


def transformed_draws(draws: Draws, model: pm.Model) -> Draws:
    """Draws of value variables of a model, from draws of their free variables."""
    inputs = {rv: inner for rv, inner in stand_ins(model).items() if rv.name in draws}
    values, graphs = {}, {}
    for variable, graph in value_graphs(model, inputs).items():
        rv = model.values_to_rvs[variable]
        if model.rvs_to_transforms[rv] is None:
            values[str(variable.name)] = draws[str(rv.name)]
        else:
            graphs[str(variable.name)] = graph
    if not graphs:
        return values
    names = list(inputs.values())
    function = compile_graph(names, list(graphs.values()), on_unused_input="ignore")
    shape = next(iter(draws.values())).shape[:2]
    results = [
        function(*(np.asarray(draws[str(v.name)][index], v.type.dtype) for v in names))
        for index in track_progress("Transforming draws", list(np.ndindex(shape)))
    ]
    for name, column in zip(graphs, zip(*results, strict=True), strict=True):
        values[name] = np.reshape(column, (*shape, *np.shape(column[0])))
    return values
