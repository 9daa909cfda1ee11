"""Which observed variables are subsampled, and each of them read as rows."""

from collections.abc import Sequence

import numpy as np
import pymc as pm
from pymc.distributions.distribution import PartialObservedRV
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.scalar.basic import Cast
from pytensor.tensor.elemwise import Elemwise

from pymc_minibatch_mh.errors import SettingError, UnsplittableModelError, refuse
from pymc_minibatch_mh.likelihood.batch import WAY_ON, BatchTerm, batch_term, data_values

#: Likelihood terms with fewer rows are evaluated in full.
MIN_ROWS = 1_000


def chosen_terms(model: pm.Model, observed: Sequence[str] | None, min_rows: int) -> list[Variable]:
    """Return the observed variables that are subsampled."""
    by_name = {rv.name: rv for rv in model.observed_RVs}
    if observed is not None:
        observed = [observed] if isinstance(observed, str) else list(observed)
        unknown = [name for name in observed if name not in by_name]
        if unknown or not observed:
            raise SettingError(
                f"observed={observed!r} names no observed variable of this model"
                f"{f' with {unknown[0]!r}' if unknown else ''}. Choose from {sorted(by_name)}."
            )
        if len(set(observed)) < len(observed):
            raise SettingError(f"observed={observed!r} names a variable twice. Name each once.")
        return [by_name[name] for name in observed]
    chosen = [rv for rv in model.observed_RVs if _n_rows(model, rv) >= min_rows]
    if not chosen:
        raise UnsplittableModelError(
            f"No observed variable has at least {min_rows:,} rows, so there is nothing to gain "
            "from subsampling. Sample with pm.NUTS(), or name the variables in observed=[...]."
        )
    return chosen


def _n_rows(model: pm.Model, rv: Variable) -> int:
    value = _without_casts(model.rvs_to_values[rv])
    if isinstance(value, Constant | SharedVariable):
        shape = np.shape(data_values(value))
        return int(shape[0]) if shape else 1
    static = value.type.shape
    return MIN_ROWS if not static or static[0] is None else int(static[0])


def _without_casts(value: Variable) -> Variable:
    # PyMC casts the integers of a pm.Data to the type of the distribution.
    while (
        value.owner is not None
        and isinstance(value.owner.op, Elemwise)
        and isinstance(value.owner.op.scalar_op, Cast)
    ):
        (value,) = value.owner.inputs
    return value


def term_of(model: pm.Model, rv: Variable, names: dict[Variable, str]) -> BatchTerm:
    """Read one observed variable as rows; raises as :func:`batch_term`."""
    name = str(rv.name)
    value = _without_casts(model.rvs_to_values[rv])
    whole_name = name.removesuffix("_observed")
    if isinstance(rv.owner.op, PartialObservedRV) or (
        whole_name != name and f"{whole_name}_unobserved" in names.values()
    ):
        raise refuse(
            whole_name,
            "has missing values that PyMC imputes, one latent variable each",
            "Drop the rows with missing values, or sample with pm.NUTS().",
        )
    if not isinstance(value, Constant | SharedVariable):
        raise refuse(
            name,
            f"is observed through {value}, an expression instead of a data array",
            "Pass the array itself, or a pm.Data of it, as observed=.",
        )
    observations = data_values(value)
    if observations.dtype.kind == "f" and np.isnan(observations).any():
        raise refuse(
            name, "has missing values (NaN) in its data", "Drop the rows with missing values."
        )
    (logp,) = model.logp(vars=[rv], sum=False)
    op = rv.owner.op
    per_value = 0 < observations.ndim <= logp.type.ndim and not getattr(op, "ndim_supp", 0)
    if not per_value:
        kind = next(iter(getattr(op, "_print_name", None) or ()), type(op).__name__)
        raise refuse(
            name,
            f"is {'an' if kind[0] in 'AEIOU' else 'a'} {kind}: its {observations.size:,} values "
            "are not conditionally independent given the parameters, or are not known to be",
            WAY_ON,
        )
    return batch_term(name, logp, observations.shape[0], names)
