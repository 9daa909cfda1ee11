"""Selection of the subsampled observed variables, and their likelihood terms."""

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.distribution import PartialObservedRV
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Cast
from pytensor.tensor.sharedvar import TensorSharedVariable
from pytensor.tensor.variable import TensorConstant
from scipy.sparse import issparse

from pymc_minibatch_mh.data.source import StoredArray
from pymc_minibatch_mh.errors import SettingError, UnsupportedModelError, refusal_message
from pymc_minibatch_mh.model.constant_data import (
    as_plain_tensor,
    compute_constant,
    data_behind,
    has_dims,
    with_dims_removed,
)
from pymc_minibatch_mh.model.independence import Likelihood, batch_term, data_values
from pymc_minibatch_mh.model.independence_rules import USE_NUTS
from pymc_minibatch_mh.model.inputs import ModelArrays, term_storage
from pymc_minibatch_mh.model.stored_ops import require_rows_subsampled, stored_array

#: Exceptions that PyTensor raises for non-numeric arrays.
_NOT_WRITTEN = (AttributeError, NotImplementedError, TypeError)


#: Cache: model -> its variables with values and transforms, and the log-densities of all of them,
#: because PyMC builds all log-densities to return any one.
_WRITTEN: WeakKeyDictionary[pm.Model, tuple[list[Any], dict[Variable, Variable]]] = (
    WeakKeyDictionary()
)


def log_densities(model: pm.Model, vars: Sequence[Variable]) -> list[Variable]:
    """Log-density graphs of some variables and potentials, one for each."""
    state = [*model.rvs_to_values.items(), *model.rvs_to_transforms.items(), *model.potentials]
    written = _WRITTEN.get(model)
    if written is None or written[0] != state:
        every = [*model.basic_RVs, *model.potentials]
        try:
            graphs = model.logp(vars=every, sum=False)
        except _NOT_WRITTEN as error:
            said = (str(error) or type(error).__name__).splitlines()[0]
            raise UnsupportedModelError(
                f"{_first_unwritable(model)!r} has a log-density that PyMC cannot build ({said}). "
                "Correct its function; if that uses a masked, big-endian or object array, give it "
                "np.asarray(x, dtype=float)."
            ) from error
        written = _WRITTEN[model] = state, dict(zip(every, graphs, strict=True))
    return [written[1][variable] for variable in vars]


def _first_unwritable(model: pm.Model) -> str:
    for variable in model.basic_RVs:
        try:
            pm.logp(variable, model.rvs_to_values[variable])
        except _NOT_WRITTEN:
            break
    return str(variable.name)


#: Minimum number of rows of a subsampled likelihood term; smaller terms are evaluated in full.
MIN_ROWS = 1_000


def subsampled_variables(
    model: pm.Model,
    observed: Sequence[str] | None,
    min_rows: int,
    observation_dims: Sequence[str] = (),
) -> list[Variable]:
    """Observed variables that are subsampled, and potentials that may be."""
    _check_dims(model, observation_dims)
    by_name = {rv.name: rv for rv in (*model.observed_RVs, *model.potentials)}
    if observed is not None:
        return [by_name[name] for name in _checked_names(model, observed, observation_dims)]
    rows = {rv: number_of_rows(model, rv, observation_dims) for rv in by_name.values()}
    if max(rows.values(), default=-1) < min_rows:
        raise _nothing_to_subsample(model, min_rows)
    return [rv for rv, n in rows.items() if n >= min_rows and _has_density(model, rv)]


def _has_density(model: pm.Model, rv: Variable) -> bool:
    """Whether a variable's log-density is not the number 0: another one may have that of both.

    pymc_extras writes so what depends on one marginalised state.
    """
    (logp,) = log_densities(model, [rv])
    return not (isinstance(logp, Constant) and logp.type.ndim == 0 and logp.data == 0)


def _checked_names(
    model: pm.Model, observed: Sequence[str], observation_dims: Sequence[str]
) -> list[str]:
    known = sorted(rv.name for rv in (*model.observed_RVs, *model.potentials))
    if not isinstance(observed, Sequence):
        raise SettingError(f"observed={observed!r} is not a list of names. Choose from {known}.")
    names = [observed] if isinstance(observed, str) else list(observed)
    for name in names:
        if f"{name}_observed" in known and f"{name}_unobserved" in model.named_vars:
            raise _imputation_error(name)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise SettingError(
            f"observed={observed!r} names no observed variable of this model"
            f"{f' with {unknown[0]!r}' if unknown else ''}. Choose from {known}."
        )
    if len(set(names)) < len(names):
        raise SettingError(f"observed={observed!r} names a variable twice. Name each once.")
    for name in names:
        if observation_dims and not _own_dims(model, name, observation_dims):
            raise SettingError(
                f"{name!r} has none of observation_dims={list(observation_dims)!r}: its dims are "
                f"{list(model.named_vars_to_dims.get(name, ()))}. Name the one along which its "
                "observations lie, or leave it out of observed=."
            )
    return names


def _nothing_to_subsample(model: pm.Model, min_rows: int) -> UnsupportedModelError:
    if model.observed_RVs:
        names = ", ".join(repr(str(rv.name)) for rv in model.observed_RVs)
        return UnsupportedModelError(
            f"{names}: no observed variable has {min_rows:,} rows, so subsampling gains nothing. "
            'Sample with pm.NUTS(), or name the variables in observed=["..."].'
        )
    if not model.potentials:
        return UnsupportedModelError(
            "observed= is in no distribution of the model, so there is nothing to subsample. "
            "Declare the likelihood with observed=."
        )
    return UnsupportedModelError(
        f"{model.potentials[0].name!r} is a potential without data of {min_rows:,} rows, and this "
        "model has no observed variable, so there is nothing to subsample. Sample with pm.NUTS()."
    )


def _check_dims(model: pm.Model, observation_dims: Sequence[str]) -> None:
    if isinstance(observation_dims, str):
        raise SettingError(
            f"observation_dims={observation_dims!r} is a string. Use a list of names of dims, such "
            f"as [{observation_dims!r}]."
        )
    known = {dim for dims in model.named_vars_to_dims.values() for dim in dims} | set(model.coords)
    for dim in observation_dims:
        if dim not in known:
            raise SettingError(
                f"observation_dims={list(observation_dims)!r} names {dim!r}, which is not a dim "
                f"of this model. Choose from {sorted(filter(None, known))}."
            )


def observation_axis(model: pm.Model, rv: Variable, observation_dims: Sequence[str]) -> int:
    """Axis whose dim is in `observation_dims`, or else the first axis."""
    axes = _own_dims(model, str(rv.name), observation_dims)
    if len(axes) > 1:
        raise SettingError(
            f"{rv.name!r} has more than one of observation_dims={list(observation_dims)!r}: its "
            f"dims are {list(model.named_vars_to_dims[rv.name])}. Observations lie along one axis "
            "of a variable, so name one of them only."
        )
    return axes[0] if axes else 0


def _own_dims(model: pm.Model, name: str, observation_dims: Sequence[str]) -> list[int]:
    own = model.named_vars_to_dims.get(name, ())
    return [axis for axis, dim in enumerate(own) if dim in observation_dims]


def number_of_rows(model: pm.Model, rv: Variable, observation_dims: Sequence[str] = ()) -> int:
    """Number of observations of an observed variable, MIN_ROWS if unknown; rows of a potential."""
    if rv in model.potentials:
        return longest_data(log_densities(model, [rv]))
    axis = observation_axis(model, rv, observation_dims)
    value = _without_casts(model.rvs_to_values[rv])
    stored, shape = stored_array(value), value.type.shape
    if stored is not None:
        shape = stored.shape
    elif isinstance(value, Constant | SharedVariable):
        shape = np.shape(data_values(value)) or (1,) * (axis + 1)
    return MIN_ROWS if not shape or shape[axis] is None else int(shape[axis])


def longest_data(graphs: Sequence[Variable]) -> int:
    """Largest number of entries on the first axis of the data arrays behind graphs, or 0."""
    lengths = [0]
    for v in ancestors(list(graphs)):
        stored = stored_array(v)
        if stored is not None:
            lengths.append(stored.shape[0])
        elif isinstance(v, TensorConstant | TensorSharedVariable) and v.type.ndim:
            lengths.append(np.shape(data_values(v))[0])
    return max(lengths)


def _without_casts(value: Variable) -> Variable:
    # PyMC casts the integers of a pm.Data to the type of the distribution.
    while isinstance(getattr(value.owner_op, "scalar_op", None), Cast):
        (value,) = value.owner.inputs
    return value


def read_term(
    model: pm.Model,
    rv: Variable,
    names: dict[Variable, str],
    observation_dims: Sequence[str] = (),
    arrays: ModelArrays | None = None,
) -> Likelihood:
    """Likelihood term of one observed variable."""
    name = str(rv.name)
    value = _without_casts(model.rvs_to_values[rv])
    observations = _complete_observations(rv, value, names)
    axis = observation_axis(model, rv, observation_dims)
    (logp,) = log_densities(model, [rv])
    _keep_names(rv, logp)
    if arrays is not None:
        arrays.add([logp], name)
    response = value
    if value.owner is not None and isinstance(observations, np.ndarray):
        # An expression of data is evaluated once, for all rows.
        response = pt.constant(observations, name=value.name or name)
        computed = with_dims_removed([logp], {value: response})
        (logp,) = clone_replace([logp], computed, rebuild_strict=False)
    one_draw = getattr(rv.owner.op, "ndim_supp", 0) >= observations.ndim
    if one_draw or not 0 < logp.type.ndim <= observations.ndim:
        raise refusal_message(
            name,
            f"is {_distribution_name(rv)}: its {observations.size:,} values are not conditionally "
            "independent given the parameters, or are not known to be",
            USE_NUTS,
        )
    logp_axis = _axis_of_logp(value, logp, axis)
    if logp_axis is None:
        raise refusal_message(
            name,
            f"is {_distribution_name(rv)}, whose axis {axis} holds the entries of one observation",
            "Name the dim of the observations in observation_dims=, or put them on the first axis.",
        )
    rows_first = pt.moveaxis(as_plain_tensor(logp), logp_axis, 0)
    term = batch_term(name, rows_first, observations.shape[axis], names, response)
    term.axis = logp_axis
    return term


def _keep_names(rv: Variable, logp: Variable) -> None:
    """Copy names to the constants that PyTensor made from named ones by dropping axes."""
    before, after = (
        [v for v in ancestors([graph]) if type(v) is TensorConstant and v.type.ndim]
        for graph in (rv, logp)
    )
    named = [(v.name, np.squeeze(v.data)) for v in before if v.name is not None]
    for folded in after:
        same = (name for name, data in named if np.array_equal(data, np.squeeze(folded.data)))
        folded.name = folded.name or next(same, None)


def require_alone(rest: Mapping[str, Sequence[Variable]], terms: Sequence[Likelihood]) -> None:
    """Raise an error if data in Rows(...) are in only some subsampled terms, or in `rest`."""
    require_rows_subsampled(rest)
    stored = [term for term in terms if term_storage(term) is not None]
    if stored and len(terms) > 1:
        other = next(term for term in terms if term is not stored[0])
        raise refusal_message(
            other.name,
            f"is subsampled beside {stored[0].name!r}, whose data are in Rows(...)",
            "Put the data of both into one Rows(...), or name one of them in observed=[...].",
        )


def _axis_of_logp(value: Variable, logp: Variable, axis: int) -> int | None:
    """Observation axis of the log-likelihood; None if observations were summed."""
    if not has_dims(logp):
        # A multivariate observation lies on the last axes, which its log-density lacks.
        return axis if axis < logp.type.ndim else None
    dim = value.type.dims[axis]
    return logp.type.dims.index(dim) if dim in logp.type.dims else None


def _distribution_name(rv: Variable) -> str:
    op = rv.owner.op
    kind = next(iter(getattr(op, "_print_name", None) or ()), type(op).__name__)
    # PyMC creates a class per variable for some distributions, named after the variable as well.
    kind = kind.removesuffix(f"_{rv.name}")
    return f"{'an' if kind[0] in 'AEIOU' else 'a'} {kind}"


def _imputation_error(name: str) -> UnsupportedModelError:
    return refusal_message(
        name,
        "has missing values that PyMC imputes, one latent variable each",
        "Drop the rows with missing values, or sample with pm.NUTS().",
    )


def _complete_observations(
    rv: Variable, value: Variable, names: dict[Variable, str]
) -> np.ndarray | StoredArray:
    """Observations of a variable, computed if needed; UnsupportedModelError if some are missing."""
    name = str(rv.name)
    whole_name = name.removesuffix("_observed")
    if isinstance(rv.owner.op, PartialObservedRV) or (
        whole_name != name and f"{whole_name}_unobserved" in names.values()
    ):
        raise _imputation_error(whole_name)
    stored = stored_array(value)
    if stored is not None:
        return stored
    is_array = isinstance(value, Constant | SharedVariable)
    if not is_array and data_behind(value) is None:
        raise refusal_message(
            name,
            f"is observed through {value}, an expression of more than data in memory",
            "Pass an array, a pm.Data, or an expression of these, as observed=.",
        )
    observations = data_values(value) if is_array else compute_constant(value)
    if issparse(observations):
        raise refusal_message(name, "is observed as a sparse matrix", "Give it an array.")
    if observations.dtype.kind == "f" and np.isnan(observations).any():
        raise refusal_message(
            name, "has missing values (NaN) in its data", "Drop the rows with missing values."
        )
    return observations
