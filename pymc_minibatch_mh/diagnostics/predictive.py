"""Log-likelihoods, predictions and leave-one-out cross-validation of chosen observations."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
import pytensor
import xarray as xr
from numpy.random import Generator
from pymc.distributions.distribution import PartialObservedRV, SymbolicRandomVariable
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import walk as visit
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type_other import NoneTypeT
from xarray.backends import BackendArray
from xarray.core import indexing

from pymc_minibatch_mh.diagnostics.chosen_rows import (
    BatchFunction,
    counted,
    observed_variable,
    posterior_draws,
    require_same_data,
    row_dimension,
    row_numbers,
    stand_ins,
    with_labels,
)
from pymc_minibatch_mh.errors import MinibatchError, SettingError, UnsupportedModelError
from pymc_minibatch_mh.functions.base import operation_name
from pymc_minibatch_mh.model.independence import BatchWalk, inputs_of_values
from pymc_minibatch_mh.model.independence_rules import MixedRowsError
from pymc_minibatch_mh.model.inputs import ModelArrays, generator_of, model_of
from pymc_minibatch_mh.model.stored_ops import stored_arrays
from pymc_minibatch_mh.model.terms import term_of
from pymc_minibatch_mh.progress import showing

#: Rows that a pass over all of them reads at a time.
CHUNK = 65_536


class RowLogLikelihood:
    """Log-likelihood of each observation of one observed variable.

    UnsupportedModelError if observations cannot be proven to be independent given the parameters;
    SettingError if `var_name` names no observed variable.
    """

    def __init__(self, model: pm.Model, var_name: str | None) -> None:
        rv = observed_variable(model, var_name)
        names = {v: str(model.values_to_rvs[v].name) for v in model.value_vars}
        self.arrays = ModelArrays()
        term = term_of(model, rv, names, arrays=self.arrays)
        given = stand_ins(model)
        (logp,) = clone_replace([term.logp], values_of(model, given), rebuild_strict=False)
        self.name, self.n_rows = term.name, term.n_rows
        self._function = BatchFunction(
            {str(v.name): v for v in given.values()}, logp, term.length, term.batches
        )

    def at_draws(self, draws: Mapping[str, np.ndarray], rows: np.ndarray) -> np.ndarray:
        """Return the log-likelihood of chosen rows, shape (chain, draw, row)."""
        return self._function.at_draws(draws, rows)

    def at_point(self, point: Mapping[str, np.ndarray]) -> np.ndarray:
        """Log-likelihood of all observations at one point, shape (N,)."""
        out = np.empty(self.n_rows)
        for first in counted("Evaluating all observations", range(0, self.n_rows, CHUNK)):
            last = min(first + CHUNK, self.n_rows)
            batch = self._function.batch(slice(first, last))
            out[first:last] = self._function(point, last - first, batch)
        return out


def values_of(model: pm.Model, given: Mapping[Variable, Variable]) -> dict[Variable, Variable]:
    """Return the value variables as functions of the free variables themselves."""
    values = {}
    for rv, inner in given.items():
        transform = model.rvs_to_transforms[rv]
        if transform is not None:
            parameters = clone_replace(rv.owner.inputs, given, rebuild_strict=False)
            inner = transform.forward(inner, *parameters)
        values[model.rvs_to_values[rv]] = inner
    return values


@showing("Reading the likelihood")
def log_likelihood(
    data: xr.DataTree,
    observations: Sequence[int] | np.ndarray,
    *,
    model: pm.Model | None = None,
    var_name: str | None = None,
) -> xr.DataTree:
    """Evaluate the log-likelihood of chosen observations at every draw.

    Observations come from the model's present data: after :func:`pymc.set_data`, from the new ones.
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
    model = model_of(model)
    likelihood = RowLogLikelihood(model, var_name)
    chosen = row_numbers(observations, likelihood.n_rows, likelihood.name)
    values = likelihood.at_draws(posterior_draws(data, model), chosen)
    posterior = data["posterior"].to_dataset()
    found = with_labels(values, chosen, model, likelihood.name, posterior)
    return xr.DataTree.from_dict({"posterior": posterior, "log_likelihood": found})


#: Where random variables are defined that follow NumPy's rules of batches. One that calls a
#: function of the user, as a CustomDist(random=...), is defined elsewhere.
KNOWN = ("pytensor.tensor.random.", "pymc.distributions.")


@showing("Reading the likelihood")
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
    rebuilt for the chosen ones. Observations come from the model's present data: after
    :func:`pymc.set_data`, from the new ones.

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
    model = model_of(model)
    generator = generator_of("random_seed", random_seed)
    rv = observed_variable(model, var_name)
    name = str(rv.name)
    given = stand_ins(model)
    names = {v: str(v.name) for v in given.values()}
    walk = PredictiveWalk(name, _number_of_rows(model, rv), names)
    (graph,) = clone_replace([rv], given, rebuild_strict=False)
    batch = _batch_of_draws(walk, graph)
    chosen = row_numbers(observations, walk.n_rows, name)
    draw = BatchFunction(
        {names[v]: v for v in names},
        batch,
        walk.length,
        list(walk.batches.values()),
        int(generator.integers(2**63)) if isinstance(random_seed, Generator) else random_seed,
    )
    values = draw.at_draws(posterior_draws(data, model), chosen)
    posterior = data["posterior"].to_dataset()
    return xr.DataTree.from_dict(
        {
            "posterior_predictive": with_labels(values, chosen, model, name, posterior),
            "observed_data": with_labels(_observed(model, rv, chosen), chosen, model, name, None),
        }
    )


def _observed(model: pm.Model, rv: Variable, chosen: np.ndarray) -> np.ndarray:
    """Chosen observations of a variable, which may be stored or computed from data."""
    walk = BatchWalk(str(rv.name), _number_of_rows(model, rv), {})
    batch = walk.rows(model.rvs_to_values[rv], 0)
    read = BatchFunction({}, batch, walk.length, list(walk.batches.values()))
    return read({}, len(chosen), read.batch(chosen))


class PredictiveWalk(BatchWalk):
    """Walk a random graph backwards, carrying the observation axis through its random variables.

    Values of a random variable are independent along all axes but those of one draw: rows of the
    draws depend on the same rows of the parameters. In a log-likelihood no random variable is
    left, so that only this walk has a rule for them.
    """

    def __init__(self, name: str, n_rows: int, names: dict[Variable, str]) -> None:
        super().__init__(name, n_rows, names)
        self._by_rows: Counter[Apply] = Counter()

    def require_single_draws(self) -> None:
        """Refuse graphs that use the draws of a random variable by rows and in another way."""
        shared = visit(self.shared_by_all, inputs_of_values)
        others = {v.owner for v in shared if v.owner is not None}
        twice = [node for node, count in self._by_rows.items() if count > 1 or node in others]
        if twice:
            op = twice[0].op
            raise MixedRowsError(op, f"all rows of {operation_name(op)} enter each of them")

    def _build(self, variable: Variable, axis: int) -> Variable:
        op = variable.owner.op if variable.owner is not None else None
        if isinstance(op, RandomVariable | SymbolicRandomVariable):
            self._by_rows[variable.owner] += 1
        if isinstance(op, RandomVariable):
            if not type(op).__module__.startswith(KNOWN):
                why = f"{operation_name(op)} is not known to draw its rows independently"
                raise MixedRowsError(op, why)
            return self._draws(variable.owner, axis)
        if isinstance(op, SymbolicRandomVariable):
            place = variable.owner.outputs.index(variable)
            opened = op.fgraph.bind(variable.owner.inputs)
            return self.rows(opened[place], axis)
        if isinstance(op, ViewOp):
            return self.rows(variable.owner.inputs[0], axis)
        return super()._build(variable, axis)

    def _draws(self, node: Apply, axis: int) -> Variable:
        op = node.op
        _, size, *parameters = node.inputs
        n_batch = node.outputs[1].type.ndim - op.ndim_supp
        if axis >= n_batch:
            raise MixedRowsError(op, f"{operation_name(op)} draws all of its values together")
        batches = []
        for parameter, n_core in zip(parameters, op.ndims_params, strict=True):
            own = axis - n_batch + (parameter.type.ndim - n_core)
            shared = own < 0 or parameter.type.broadcastable[own]
            batches.append(self.whole(parameter) if shared else self.rows(parameter, own))
        lengths = None
        if not isinstance(size.type, NoneTypeT):
            lengths = [self.length if k == axis else size[k] for k in range(n_batch)]
        rng = pytensor.shared(np.random.default_rng())
        return op.make_node(rng, lengths, *batches).outputs[1]


def _batch_of_draws(walk: PredictiveWalk, graph: Variable) -> Variable:
    if isinstance(graph.owner.op, PartialObservedRV):
        raise _refused(walk.name, "it has missing values that PyMC imputes")
    if graph.type.ndim == 0:
        raise _refused(walk.name, "it has a single value")
    try:
        batch = walk.rows(graph, 0)
        walk.require_single_draws()
    except (MixedRowsError, UnsupportedModelError) as error:
        cause = error.why if isinstance(error, MixedRowsError) else str(error)
        raise _refused(walk.name, cause) from error
    return batch


def _refused(name: str, cause: str) -> UnsupportedModelError:
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
    """Log-likelihoods of shape (chain, draw, N) that are evaluated where they are indexed.

    ArviZ chooses the rows and indexes an array of all of them; xarray reads such an array as it
    reads one in a file.
    """

    def __init__(self, likelihood: RowLogLikelihood, draws: Mapping[str, np.ndarray]) -> None:
        self._likelihood = likelihood
        self._draws = draws
        self._asked: list[bytes] = []
        chains, count = next(iter(draws.values())).shape[:2]
        self.shape = chains, count, likelihood.n_rows
        self.dtype = np.dtype(float)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        """Evaluate the selection of a key of xarray."""
        support = indexing.IndexingSupport.OUTER
        return indexing.explicit_indexing_adapter(key, self.shape, support, self._evaluate)

    def _evaluate(self, key: tuple[Any, ...]) -> np.ndarray:
        chain, draw, row = (
            np.arange(n)[k] if isinstance(k, slice) else np.asarray(k)
            for k, n in zip(key, self.shape, strict=True)
        )
        asked = [part.tobytes() for part in (chain, draw, row)]
        # ArviZ reads the observations that it chose three times.
        if asked != self._asked:
            chosen = {
                name: values[np.ix_(np.atleast_1d(chain), np.atleast_1d(draw))]
                for name, values in self._draws.items()
            }
            self._asked = asked
            self._values = self._likelihood.at_draws(chosen, np.atleast_1d(row))
        return self._values.reshape(chain.shape + draw.shape + row.shape)


@showing("Reading the likelihood")
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
    data
        Trace of :func:`pymc.sample` or :func:`sample`.
    observations
        Number of observations to choose at random, or their numbers. The estimate is biased for
        numbers that were not chosen at random.
    model
        The model; by default the model of the context.
    var_name
        Name of the observed variable; by default the only one.
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
    model = model_of(model)
    if random_seed is not None:
        settings["seed"] = generator_of("random_seed", random_seed)
    likelihood = RowLogLikelihood(model, var_name)
    draws = posterior_draws(data, model)
    require_same_data(data, likelihood.arrays)
    chosen = _checked(observations, likelihood)
    at_mean = likelihood.at_point(posterior_mean(draws))
    if not np.isfinite(at_mean).all():
        raise MinibatchError(
            f"{likelihood.name!r} has no finite log-likelihood at the posterior mean, first in "
            f"observation {int(np.flatnonzero(~np.isfinite(at_mean))[0])}, so differences from "
            "it have no mean. Correct that observation, or use az.loo()."
        )
    name, dim = likelihood.name, row_dimension(model, likelihood.name)
    lazy = indexing.LazilyIndexedArray(LazyLogLikelihood(likelihood, draws))
    every = ("chain", "draw", dim), lazy
    # ArviZ reads no more of the observations than their number.
    unread = np.broadcast_to(np.float64(0.0), at_mean.shape)
    tree = xr.DataTree.from_dict(
        {
            "/posterior": _dataset(draws),
            "/log_likelihood": xr.Dataset({name: every}),
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


def _dataset(draws: Mapping[str, np.ndarray]) -> xr.Dataset:
    """Return draws as a group, with axes that only their own variable has."""
    return xr.Dataset(
        {
            name: (("chain", "draw", *(f"{name}_dim_{k}" for k in range(x.ndim - 2))), x)
            for name, x in draws.items()
        }
    )


def _checked(observations: Any, likelihood: RowLogLikelihood) -> Any:
    if isinstance(observations, int | np.integer) and not isinstance(observations, bool):
        if not 0 < observations <= likelihood.n_rows:
            raise SettingError(
                f"observations={observations} cannot be chosen from {likelihood.name!r}. Choose a "
                f"number from 1 to {likelihood.n_rows:,}, or give a sequence of numbers."
            )
        return int(observations)
    return row_numbers(observations, likelihood.n_rows, likelihood.name)


def posterior_mean(draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the mean of every variable, rounded where the variable is discrete."""
    means = {name: values.mean(axis=(0, 1)) for name, values in draws.items()}
    return {
        name: mean if draws[name].dtype.kind == "f" else np.rint(mean)
        for name, mean in means.items()
    }
