"""Log-likelihoods, predictions and leave-one-out cross-validation of chosen observations."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
import pytensor
import xarray as xr
from arviz_base import dict_to_dataset
from numpy.random import Generator
from pymc.distributions.distribution import PartialObservedRV, SymbolicRandomVariable
from pymc.pytensorf import compile as compile_graph
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import walk as visit
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type_other import NoneTypeT
from xarray.backends import BackendArray
from xarray.core import indexing

from pymc_minibatch_mh.data import Column
from pymc_minibatch_mh.diagnostics.draws import (
    Draws,
    posterior_draws,
    require_same_data,
    stand_ins,
    track_progress,
    value_graphs,
)
from pymc_minibatch_mh.errors import MinibatchError, SettingError, UnsupportedModelError
from pymc_minibatch_mh.functions.base import operation_name
from pymc_minibatch_mh.model.independence import BatchWalk, inputs_of_values
from pymc_minibatch_mh.model.independence_rules import MixedRowsError
from pymc_minibatch_mh.model.inputs import (
    ModelArrays,
    as_generator,
    as_numeric_array,
    resolve_model,
)
from pymc_minibatch_mh.model.potentials import term_of_whole
from pymc_minibatch_mh.model.stored_ops import stored_arrays
from pymc_minibatch_mh.model.terms import read_term
from pymc_minibatch_mh.progress import show_progress

#: Chunk size of full-data evaluations, in observations.
CHUNK = 65_536


class BatchFunction:
    """Function of a batch of rows (axis 0), compiled once for all draws and batches.

    Arguments are `inputs` for the free variables, the number of rows, and batches of data arrays.
    """

    def __init__(
        self,
        inputs: Iterable[Variable],
        output: Variable,
        length: Variable,
        batches: Sequence[tuple[Column, Variable]],
        random_seed: Any = None,
    ) -> None:
        self._inputs = {str(v.name): v for v in inputs}
        self._batches = batches
        self._function = compile_graph(
            [*self._inputs.values(), length, *(batch for _, batch in batches)],
            output,
            random_seed=random_seed,
            on_unused_input="ignore",
        )

    def batch(self, rows: slice | np.ndarray) -> list[np.ndarray]:
        """Rows of all data arrays, in the types of the graph."""
        return [
            np.ascontiguousarray(column.read(rows), batch.type.dtype)
            for column, batch in self._batches
        ]

    def __call__(
        self, point: Mapping[str, np.ndarray], length: int, batch: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Evaluate a batch of `length` rows at a point of the free variables."""
        values = [
            np.ascontiguousarray(point[name], v.type.dtype).reshape(np.shape(point[name]))
            for name, v in self._inputs.items()
        ]
        return np.asarray(self._function(*values, np.asarray(length), *batch))

    def at_draws(self, draws: Draws, rows: np.ndarray) -> np.ndarray:
        """Evaluate rows draw by draw, shape (chain, draw, row, ...)."""
        chains, count = next(iter(draws.values())).shape[:2]
        batch, out = self.batch(rows), None
        for chain, draw in track_progress("Evaluating draws", list(np.ndindex(chains, count))):
            point = {name: values[chain, draw] for name, values in draws.items()}
            values = self(point, len(rows), batch)
            if out is None:
                out = np.empty((chains, count, *values.shape), values.dtype)
            out[chain, draw] = values
        return np.empty((chains, count, len(rows))) if out is None else out


class RowLogLikelihood(BatchFunction):
    """Log-likelihood of each observation of an observed variable, or of each row of a potential."""

    def __init__(self, model: pm.Model, var_name: str | None) -> None:
        rv = observed_variable(model, var_name, model.potentials)
        names = {v: str(model.values_to_rvs[v].name) for v in model.value_vars}
        self.arrays = ModelArrays()
        read = term_of_whole if rv in model.potentials else read_term
        term = read(model, rv, names, arrays=self.arrays)
        inputs = stand_ins(model)
        values = value_graphs(model, inputs)
        (logp,) = clone_replace([term.logp], values, rebuild_strict=False)
        self.name, self.n_rows = term.name, term.n_rows
        super().__init__(inputs.values(), logp, term.length, term.batches)

    def at_point(self, point: Mapping[str, np.ndarray]) -> np.ndarray:
        """Log-likelihood of all observations at one point, shape (N,)."""
        out = np.empty(self.n_rows)
        for first in track_progress("Evaluating all observations", range(0, self.n_rows, CHUNK)):
            last = min(first + CHUNK, self.n_rows)
            out[first:last] = self(point, last - first, self.batch(slice(first, last)))
        return out


def observed_variable(
    model: pm.Model, var_name: str | None, potentials: Sequence[Variable] = ()
) -> Variable:
    """Observed variable or potential with a name; by default the only one, observed ones first."""
    by_name = {str(rv.name): rv for rv in (*model.observed_RVs, *potentials)}
    first = model.observed_RVs or potentials
    if var_name is None and len(first) == 1:
        return first[0]
    if var_name not in by_name:
        problem = f"var_name={var_name!r} names no observed variable of this model"
        if var_name is None and by_name:
            what = "observed variables" if model.observed_RVs else "potentials"
            problem = f"var_name= is not given, and this model has {len(first)} {what}"
        raise SettingError(f"{problem}. Choose from {sorted(by_name)}.")
    return by_name[var_name]


def row_numbers(observations: Any, n_rows: int, name: str) -> np.ndarray:
    """Validated numbers of observations, as int64."""
    numbers = as_numeric_array("observations= has", observations)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or numbers.size == 0:
        raise SettingError(
            f"observations={observations!r} are not numbers of observations of {name!r}. Give a "
            "sequence of integers."
        )
    if numbers.min() < 0 or numbers.max() >= n_rows:
        outside = numbers[(numbers < 0) | (numbers >= n_rows)][0]
        raise SettingError(
            f"observations= contains {outside}, but {name!r} has {n_rows:,} observations. Choose "
            f"from 0 to {n_rows - 1}."
        )
    return numbers.astype(np.int64)


def row_dimension(model: pm.Model, name: str) -> str:
    """Name of the axis of observations in a trace."""
    dims = model.named_vars_to_dims.get(name)
    return str(dims[0]) if dims and dims[0] is not None else f"{name}_dim_0"


def label_rows(
    values: np.ndarray, rows: np.ndarray, model: pm.Model, name: str, draws: xr.Dataset | None
) -> xr.Dataset:
    """Dataset of values, shape (observation, ...), or (chain, draw, observation, ...) for draws."""
    dims = [row_dimension(model, name), *list(model.named_vars_to_dims.get(name) or ())[1:]]
    dims += [f"{name}_dim_{k}" for k in range(len(dims), values.ndim)]
    labels = model.coords.get(dims[0])
    coords: dict[str, Any] = {dims[0]: rows if labels is None else [labels[row] for row in rows]}
    if draws is not None:
        dims = ["chain", "draw", *dims]
        coords |= {dim: draws.coords[dim] for dim in dims[:2]}
    return xr.Dataset({name: (dims[: values.ndim], values)}, coords)


@show_progress("Reading the likelihood")
def log_likelihood(
    data: xr.DataTree,
    observations: Sequence[int] | np.ndarray,
    *,
    model: pm.Model | None = None,
    var_name: str | None = None,
) -> xr.DataTree:
    """Evaluate the log-likelihood of chosen observations at every draw.

    Observations come from the model's current data, including changes by :func:`pymc.set_data`.
    No array of all observations times all draws is made.

    Parameters
    ----------
    data
        Trace of :func:`pymc.sample` or :func:`sample`.
    observations
        Numbers of observations, from 0, in any order.
    model
        The model; by default the model of the context.
    var_name
        Name of the observed variable; by default the only one.

    Returns
    -------
    DataTree
        Group ``log_likelihood`` with dimensions ``chain``, ``draw`` and the first one of the
        variable, labelled by the model's coordinates, or else by numbers; and the group
        ``posterior`` of the trace, which :func:`arviz.loo` needs, too. An observation with several
        values counts as one, with the sum of their log-likelihoods.

    Raises
    ------
    UnsupportedModelError
        If the observations cannot be proven to be independent given the parameters.
    SettingError
        If `observations`, `var_name` or `data` do not fit the model.

    Examples
    --------
    >>> with model:
    ...     tree = log_likelihood(trace, observations=[3, 42])
    >>> tree["log_likelihood"]["late"].dims
    ('chain', 'draw', 'late_dim_0')
    """
    model = resolve_model(model)
    likelihood = RowLogLikelihood(model, var_name)
    chosen = row_numbers(observations, likelihood.n_rows, likelihood.name)
    values = likelihood.at_draws(posterior_draws(data, model), chosen)
    posterior = data["posterior"].to_dataset()
    dataset = label_rows(values, chosen, model, likelihood.name, posterior)
    return xr.DataTree.from_dict({"posterior": posterior, "log_likelihood": dataset})


#: Modules of random variables whose batch axes are independent, as in NumPy. Variables that call a
#: function of the user, such as CustomDist(random=...), belong to other modules.
BATCHED_MODULES = ("pytensor.tensor.random.", "pymc.distributions.")


@show_progress("Reading the likelihood")
def posterior_predictive(
    data: xr.DataTree,
    observations: Sequence[int] | np.ndarray,
    *,
    model: pm.Model | None = None,
    var_name: str | None = None,
    random_seed: Any = None,
) -> xr.DataTree:
    """Draw chosen observations anew, one set of them per draw of the posterior.

    Neither other observations nor their parameters are computed: the variable's random graph is
    rebuilt for the chosen ones.

    Parameters
    ----------
    data, observations, model, var_name
        Trace, numbers of observations, and the model's observed variable, as in
        :func:`log_likelihood`.
    random_seed
        Seed of the draws.

    Returns
    -------
    DataTree
        Group ``posterior_predictive`` with dimensions ``chain``, ``draw`` and those of the
        variable, and group ``observed_data`` with the same observations as they were observed.
        Both are labelled by the model's coordinates, or else by numbers. ArviZ's predictive checks,
        such as :func:`arviz.plot_ppc_dist`, take the tree directly.

    Raises
    ------
    UnsupportedModelError
        If the draws of observations cannot be proven to be independent given the parameters.
    SettingError
        If `observations`, `var_name` or `data` do not fit the model.

    Examples
    --------
    >>> with model:
    ...     tree = posterior_predictive(trace, observations=range(100))
    >>> tree["posterior_predictive"]["late"].sizes["late_dim_0"]
    100
    """
    model = resolve_model(model)
    generator = as_generator("random_seed", random_seed)
    rv = observed_variable(model, var_name)
    name, inputs = str(rv.name), stand_ins(model)
    walk = PredictiveWalk(name, _number_of_rows(model, rv), {v: v.name for v in inputs.values()})
    (graph,) = clone_replace([rv], inputs, rebuild_strict=False)
    batch = _batch_of_draws(walk, graph)
    chosen = row_numbers(observations, walk.n_rows, name)
    seed = int(generator.integers(2**63)) if isinstance(random_seed, Generator) else random_seed
    sample = BatchFunction(inputs.values(), batch, walk.length, list(walk.batches.values()), seed)
    values = sample.at_draws(posterior_draws(data, model), chosen)
    observed, posterior = _observed_rows(model, rv, chosen), data["posterior"].to_dataset()
    return xr.DataTree.from_dict(
        {
            "posterior_predictive": label_rows(values, chosen, model, name, posterior),
            "observed_data": label_rows(observed, chosen, model, name, None),
        }
    )


def _observed_rows(model: pm.Model, rv: Variable, chosen: np.ndarray) -> np.ndarray:
    """Observed values of chosen rows, which may be stored or computed from data."""
    walk = BatchWalk(str(rv.name), _number_of_rows(model, rv), {})
    batch = walk.rows(model.rvs_to_values[rv], 0)
    read = BatchFunction((), batch, walk.length, list(walk.batches.values()))
    return read({}, len(chosen), read.batch(chosen))


class PredictiveWalk(BatchWalk):
    """Walk through a random graph, with the observation axis carried through random variables.

    Random values are independent along all axes except the core axes of a draw.
    """

    def __init__(self, name: str, n_rows: int, names: dict[Variable, str]) -> None:
        super().__init__(name, n_rows, names)
        self._by_rows: Counter[Apply] = Counter()

    def require_single_draws(self) -> None:
        """Raise a MixedRowsError if a random variable is used twice, or both by rows and whole."""
        shared = visit(self.shared_by_all, inputs_of_values)
        others = {v.owner for v in shared if v.owner is not None}
        twice = [node for node, count in self._by_rows.items() if count > 1 or node in others]
        if twice:
            op = twice[0].op
            raise MixedRowsError(op, f"all rows of {operation_name(op)} enter each of them")

    def _batch_of(self, variable: Variable, axis: int) -> Variable:
        op = variable.owner.op if variable.owner is not None else None
        if isinstance(op, RandomVariable | SymbolicRandomVariable):
            self._by_rows[variable.owner] += 1
        if isinstance(op, RandomVariable):
            if not type(op).__module__.startswith(BATCHED_MODULES):
                why = f"{operation_name(op)} is not known to draw its rows independently"
                raise MixedRowsError(op, why)
            return self._draws_of_batch(variable.owner, axis)
        if isinstance(op, SymbolicRandomVariable):
            opened = op.fgraph.bind(variable.owner.inputs)
            return self.rows(opened[variable.owner.outputs.index(variable)], axis)
        if isinstance(op, ViewOp):
            return self.rows(variable.owner.inputs[0], axis)
        return super()._batch_of(variable, axis)

    def _draws_of_batch(self, node: Apply, axis: int) -> Variable:
        op = node.op
        _, size, *parameters = node.inputs
        n_batch = node.outputs[1].type.ndim - op.ndim_supp
        if axis >= n_batch:
            raise MixedRowsError(op, f"{operation_name(op)} draws all of its values together")
        batches = []
        for parameter, n_core in zip(parameters, op.ndims_params, strict=True):
            batch_axis = axis - n_batch + (parameter.type.ndim - n_core)
            shared = batch_axis < 0 or parameter.type.broadcastable[batch_axis]
            batches.append(self.whole(parameter) if shared else self.rows(parameter, batch_axis))
        lengths = None
        if not isinstance(size.type, NoneTypeT):
            lengths = [self.length if k == axis else size[k] for k in range(n_batch)]
        rng = pytensor.shared(np.random.default_rng())
        return op.make_node(rng, lengths, *batches).outputs[1]


def _batch_of_draws(walk: PredictiveWalk, graph: Variable) -> Variable:
    if isinstance(graph.owner.op, PartialObservedRV):
        raise _unsupported_error(walk.name, "it has missing values that PyMC imputes")
    if graph.type.ndim == 0:
        raise _unsupported_error(walk.name, "it has a single value")
    try:
        batch = walk.rows(graph, 0)
        walk.require_single_draws()
    except (MixedRowsError, UnsupportedModelError) as error:
        cause = error.why if isinstance(error, MixedRowsError) else str(error)
        raise _unsupported_error(walk.name, cause) from error
    return batch


def _unsupported_error(name: str, cause: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"{name!r}: some of its observations cannot be drawn without the others ({cause}). Use "
        "pm.sample_posterior_predictive(), which draws all of them, with as few draws of the "
        "posterior as memory allows."
    )


def _number_of_rows(model: pm.Model, rv: Variable) -> int:
    value = model.rvs_to_values[rv]
    stored = stored_arrays([value])
    if stored:
        return int(stored[0].shape[0])
    return int(value.type.shape[0] or value.shape[0].eval()) if value.type.ndim else 1


class LazyLogLikelihood(BackendArray):
    """Log-likelihoods, shape (chain, draw, N), evaluated when xarray indexes them."""

    def __init__(self, likelihood: RowLogLikelihood, draws: Draws) -> None:
        self._likelihood, self._draws = likelihood, draws
        self._last_key: list[bytes] = []
        self.shape = *next(iter(draws.values())).shape[:2], likelihood.n_rows
        self.dtype = np.dtype(float)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        """Evaluate the entries that a key of xarray selects."""
        support = indexing.IndexingSupport.OUTER
        return indexing.explicit_indexing_adapter(key, self.shape, support, self._evaluate_at)

    def _evaluate_at(self, key: tuple[Any, ...]) -> np.ndarray:
        chain, draw, row = (
            np.arange(n)[k] if isinstance(k, slice) else np.asarray(k)
            for k, n in zip(key, self.shape, strict=True)
        )
        key_bytes = [part.tobytes() for part in (chain, draw, row)]
        # ArviZ reads the chosen observations three times: keep the last result.
        if key_bytes != self._last_key:
            entries = np.ix_(np.atleast_1d(chain), np.atleast_1d(draw))
            chosen = {name: values[entries] for name, values in self._draws.items()}
            self._last_key = key_bytes
            self._values = self._likelihood.at_draws(chosen, np.atleast_1d(row))
        return self._values.reshape(chain.shape + draw.shape + row.shape)


@show_progress("Reading the likelihood")
def loo_subsample(
    data: xr.DataTree,
    observations: int | np.ndarray = 400,
    *,
    model: pm.Model | None = None,
    var_name: str | None = None,
    random_seed: Any = None,
    **settings: Any,
) -> Any:
    """Estimate the expected log predictive density of all observations from a few of them.

    The log-likelihood is evaluated at every draw for the chosen observations, and at the posterior
    mean for all. The sum over all is corrected by the mean difference between the two in the chosen
    observations: the difference estimator of Magnusson et al., computed by ArviZ. The result is
    *approximate*; ``subsampling_se`` estimates the error from choosing, which vanishes if all
    observations are chosen. Memory holds one number per observation, and one number per draw of a
    chosen observation.

    Parameters
    ----------
    data, model, var_name
        Trace, and the model's observed variable, as in :func:`log_likelihood`.
    observations
        Number of observations to choose at random, or their numbers. The estimate is biased for
        numbers that were not chosen at random.
    random_seed
        Seed of the choice. By default ArviZ's own, so that models of the same data are compared by
        the same observations.
    **settings
        Passed on to :func:`arviz.loo_subsample`: ``pointwise``, ``reff``, ...

    Returns
    -------
    ELPDData
        ArviZ's result, for :func:`arviz.compare` among others.

    Raises
    ------
    UnsupportedModelError
        If the observations cannot be proven to be independent given the parameters.
    StaleDataError
        If the model's data are not those in the groups ``observed_data`` and ``constant_data``.
    MinibatchError
        If an observation has no finite log-likelihood at the posterior mean.
    SettingError
        If `observations`, `var_name` or `data` do not fit the model.

    Examples
    --------
    >>> with model:
    ...     loo = loo_subsample(trace, observations=400)
    >>> loo.subsample_size
    400

    References
    ----------
    Magnusson, Andersen, Jonasson, Vehtari (2019), "Bayesian leave-one-out cross-validation for
    large data", ICML, doi:10.48550/arXiv.1904.10679.
    """
    model = resolve_model(model)
    if random_seed is not None:
        settings["seed"] = as_generator("random_seed", random_seed)
    likelihood = RowLogLikelihood(model, var_name)
    draws = posterior_draws(data, model)
    require_same_data(data, likelihood.arrays)
    chosen = _check_observations(observations, likelihood)
    at_mean = likelihood.at_point(posterior_mean(draws))
    if not np.isfinite(at_mean).all():
        raise MinibatchError(
            f"{likelihood.name!r} has no finite log-likelihood at the posterior mean, first in "
            f"observation {int(np.flatnonzero(~np.isfinite(at_mean))[0])}, so differences from "
            "it have no mean. Correct that observation, or use az.loo()."
        )
    name, dim = likelihood.name, row_dimension(model, likelihood.name)
    lazy = indexing.LazilyIndexedArray(LazyLogLikelihood(likelihood, draws))
    # ArviZ uses only the number of observations, so zeros replace their values.
    unread = np.broadcast_to(np.float64(0.0), at_mean.shape)
    tree = xr.DataTree.from_dict(
        {
            "/posterior": dict_to_dataset(dict(draws), check_conventions=False),
            "/log_likelihood": xr.Dataset({name: (("chain", "draw", dim), lazy)}),
            "/observed_data": xr.Dataset({name: (dim, unread)}),
        }
    )
    return az.loo_subsample(
        tree,
        chosen,
        var_name=name,
        method="plpd",
        log_lik_fn=lambda *_: xr.DataArray(at_mean, dims=dim),
        **settings,
    )


def _check_observations(observations: Any, likelihood: RowLogLikelihood) -> Any:
    if isinstance(observations, int | np.integer) and not isinstance(observations, bool):
        if not 0 < observations <= likelihood.n_rows:
            raise SettingError(
                f"observations={observations} cannot be chosen from {likelihood.name!r}. Choose a "
                f"number from 1 to {likelihood.n_rows:,}, or give a sequence of numbers."
            )
        return int(observations)
    return row_numbers(observations, likelihood.n_rows, likelihood.name)


def posterior_mean(draws: Draws) -> dict[str, np.ndarray]:
    """Mean of every variable, rounded if the variable is discrete."""
    means = {name: values.mean(axis=(0, 1)) for name, values in draws.items()}
    return {name: x if draws[name].dtype.kind == "f" else np.rint(x) for name, x in means.items()}
