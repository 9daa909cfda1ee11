"""Draws of free variables that a trace lacks, or holds on another scale than its model.

Bambi's ``fit`` drops the offset z of a group effect, kept as the deterministic a + b z, and moves
intercepts to predictors that are not centred.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import xarray as xr
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace, vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.type import TensorType

from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.model.bambi import ROWS, backend_of, cleaned
from pymc_minibatch_mh.model.inputs import fits

#: Draws by the names of variables, each of shape (chain, draw, ...).
type Draws = Mapping[str, np.ndarray]

#: Deterministics of a few operations: nothing is compiled.
IN_PYTHON = Mode(linker="py", optimizer=None)
#: Rounding error that an affine function may show, in its largest slope.
RELATIVE = 1e-9


def as_in_model(draws: xr.DataArray, model: pm.Model) -> np.ndarray:
    """Draws with the axes in the model's order, (chain, draw, ...): a trace may have another."""
    dims = model.named_vars_to_dims.get(str(draws.name)) or ()
    named = set(dims) <= set(draws.dims)
    return draws.transpose("chain", "draw", *(dims if named else ()), ...).to_numpy()


def solved(model: pm.Model, posterior: xr.Dataset, draws: Draws) -> dict[str, np.ndarray]:
    """Draws of free variables that are not among `draws`, solved for from deterministics.

    A variable z is found from a deterministic a + b z of the trace, entry by entry, whose a and b
    depend on known variables. Those found first help to find others.
    """
    known = dict(draws)
    for rv in model.free_RVs:
        for graph in model.deterministics if rv.name not in known else ():
            if graph.name in posterior.data_vars and _has_axes_of(rv, graph, model):
                z = _solution(model, rv, graph, posterior[graph.name], known)
                if z is not None:
                    known[str(rv.name)] = z
                    break
    return {name: z for name, z in known.items() if name not in draws}


def _has_axes_of(rv: Variable, graph: Variable, model: pm.Model) -> bool:
    """Whether a deterministic can have the axes of a variable, as far as is known.

    Dims tell effects of groups from deterministics of all rows, which may be large.
    """
    known = (model.named_vars_to_dims.get(str(v.name)) for v in (rv, graph))
    dims = [tuple(names) for names in known if names]
    return graph.type.ndim == rv.type.ndim and (len(dims) < 2 or dims[0] == dims[1])


def _solution(
    model: pm.Model, rv: Variable, graph: Variable, told: xr.DataArray, draws: Draws
) -> np.ndarray | None:
    """Return z where a + b z has the values `told`; None if the graph is of another kind."""
    above = set(ancestors([graph], blockers=model.free_RVs))
    inputs = [v for v in model.free_RVs if v in above and v is not rv]
    if rv not in above or any(v.name not in draws for v in inputs):
        return None
    values = as_in_model(told, model)
    shape = values.shape[2:]
    if not fits(shape, rv.type.shape):
        return None
    probe = np.random.default_rng(0).standard_normal(shape)
    try:
        evaluate = _at_many(graph, inputs, rv, (np.zeros(shape), np.ones(shape), probe))
        z = np.empty(values.shape)
        for chain, of_chain in enumerate(values):
            a, a_and_b, at_probe = evaluate(*(draws[str(v.name)][chain] for v in inputs))
            b = a_and_b - a
            if not np.allclose(at_probe, a + b * probe, RELATIVE, RELATIVE * np.abs(b).max()):
                return None
            with np.errstate(divide="ignore", invalid="ignore"):
                z[chain] = (of_chain - a) / b
    except (NotImplementedError, TypeError, ValueError):
        # An operation that serves one draw only, or that needs another shape.
        return None
    return z if np.isfinite(z).all() else None


def _at_many(
    graph: Variable, inputs: Sequence[Variable], rv: Variable, values: Sequence[np.ndarray]
) -> Callable[..., list[np.ndarray]]:
    """Compile a graph at each of some values of `rv`, for many draws of its inputs at once."""
    single = {v: v.type(name=v.name) for v in inputs}
    graphs = [
        clone_replace([graph], {**single, rv: pt.constant(value)}, rebuild_strict=False)[0]
        for value in values
    ]
    many = {x: TensorType(x.dtype, (None, *x.type.shape))(x.name) for x in single.values()}
    return pytensor.function(list(many.values()), vectorize_graph(graphs, many), mode=IN_PYTHON)


def centred(model: pm.Model, data: xr.DataTree) -> dict[str, np.ndarray]:
    """Draws of the intercepts of a model of Bambi, from a trace of its ``fit``.

    ``fit`` moves intercepts by a sum of coefficients that depends on no intercept. Bambi's own code
    moves them once more here: the model's intercepts lie as far on the other side.

    SettingError if the Bambi model is not in this process: the PyMC model holds no means.
    """
    backend = backend_of(model)
    if backend is None:
        raise SettingError(
            "model= is a PyMC model that no Bambi model of this process has built, and the trace "
            "is from Bambi's fit, which moves intercepts by means of predictors. Pass the "
            "bambi.Model as model=, built on the same data."
        )
    posterior = data["posterior"].to_dataset()
    # Coefficients may be deterministics; those of all rows are not needed, and may be large.
    posterior = posterior.drop_dims(ROWS, errors="ignore")
    twice = cleaned(backend, xr.DataTree.from_dict({"posterior": posterior}))["posterior"]
    moved = {
        name: values
        for name, values in twice.data_vars.items()
        if not np.array_equal(values.transpose(*posterior[name].dims), posterior[name])
    }
    return {
        str(name): as_in_model((2.0 * posterior[name] - values).rename(name), model)
        for name, values in moved.items()
    }
