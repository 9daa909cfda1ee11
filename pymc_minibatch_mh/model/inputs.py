"""Checks of user arguments: the model itself, variables, points, seeds."""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pymc as pm
from pymc.util import get_random_generator
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.op import HasInnerGraph
from pytensor.graph.replace import clone_replace

from pymc_minibatch_mh.data import Column
from pymc_minibatch_mh.data.source import Storage, StoredArray
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.model.bambi import is_bambi_model, name_data, pymc_model_behind
from pymc_minibatch_mh.model.independence import Likelihood, data_values
from pymc_minibatch_mh.model.stored_ops import stored_array


def resolve_model(model: Any) -> pm.Model:
    """PyMC model of a PyMC or Bambi argument; the model of the context if it is None."""
    if model is None:
        model = pm.Model.get_context(error_if_none=False)
        if model is None:
            raise SettingError(
                "model= is missing, and no model is open. Pass model=, or call this inside 'with "
                "model:'."
            )
    if is_bambi_model(model):
        model = pymc_model_behind(model)
    if not isinstance(model, pm.Model):
        raise SettingError(
            f"model={type(model).__name__} is not a PyMC model. Pass the pm.Model that holds the "
            "variables, or a bambi.Model."
        )
    name_data(model)
    return model


def value_variables(model: pm.Model, vars: Any) -> list[Variable]:
    """Value variables of the user's `vars`, each once."""
    given = list(vars) if isinstance(vars, Sequence) and not isinstance(vars, str) else [vars]
    free = [str(rv.name) for rv in model.free_RVs]
    values: list[Variable] = []
    for variable in given:
        if not isinstance(variable, Variable):
            raise SettingError(
                f"vars= contains {variable!r}, which is not a variable. Pass variables "
                f"themselves, such as vars=[model[{free[0] if free else 'x'!r}]]."
            )
        value = model.rvs_to_values.get(variable, variable)
        if value not in model.value_vars:
            what = "is observed" if value in model.rvs_to_values.values() else "is not in the model"
            raise SettingError(
                f"vars= contains {variable.name!r}, which {what} and cannot be sampled. Choose "
                f"from {free}."
            )
        if value in values:
            raise SettingError(f"vars= contains {variable.name!r} twice. Name each once.")
        values.append(value)
    return values


def resolve_point(model: pm.Model, point: Any) -> dict[str, np.ndarray]:
    """User's point, checked: name of each value variable -> array."""
    if not isinstance(point, Mapping):
        raise SettingError(
            f"initial_point={type(point).__name__} is not a point. Give a dictionary such as "
            "model.initial_point(): names of value variables and their arrays."
        )
    values = {}
    for variable in model.value_vars:
        name = str(variable.name)
        if name not in point:
            raise SettingError(
                f"initial_point= has no value for {name!r}. Give one for each value variable, "
                f"with the names {[str(v.name) for v in model.value_vars]}."
            )
        shape = variable.type.shape
        array = as_numeric_array(f"initial_point= has {name!r} with", point[name])
        if not fits_shape(array.shape, shape) or array.dtype.kind not in "fiub":
            raise SettingError(
                f"initial_point= has {name!r} of type {array.dtype} and shape {array.shape}, which "
                f"does not fit the variable. Give real numbers of shape {shape}."
            )
        values[name] = array
    return values


def as_numeric_array(subject: str, values: Any) -> np.ndarray:
    """User values as an array; an object array of numbers becomes a numeric one."""
    if np.ma.is_masked(values):
        raise SettingError(
            f"{subject} masked entries, whose values are missing. Give numbers without a mask."
        )
    try:
        array = np.asarray(values)
        return np.asarray(array.tolist()) if array.dtype.kind == "O" else array
    except ValueError:
        return np.asarray(values, dtype=object)


def fits_shape(shape: Sequence[int], declared: Sequence[int | None]) -> bool:
    """Whether a shape equals a declared shape in all lengths that are known."""
    pairs = zip(shape, declared, strict=False)
    return len(shape) == len(declared) and all(known in (None, length) for length, known in pairs)


def as_generator(name: str, seed: Any) -> np.random.Generator:
    """Random generator from the seed in the setting `name`."""
    if isinstance(seed, np.random.Generator) and seed.bit_generator.seed_seq is None:
        raise SettingError(
            f"{name}={seed} has no seed sequence, from which the generators of chains are made. "
            "Give an integer of 0 or more, or a generator of numpy.random.default_rng."
        )
    if isinstance(seed, np.random.RandomState):
        # Without a seed sequence no generators can be spawned; like PyMC, draw numbers instead.
        seed = seed.randint(2**30, size=4)
    try:
        return get_random_generator(seed)
    except (TypeError, ValueError) as error:
        raise SettingError(
            f"{name}={seed!r} is not a seed. Give an integer of 0 or more, or a generator of NumPy."
        ) from error


def likelihood_names(terms: Sequence[Likelihood]) -> list[str]:
    """Names of the observed variables behind terms."""
    return [one.name for term in terms for one in term.likelihoods]


def term_storage(term: Likelihood) -> Storage | None:
    """Storage of a term's rows; None if they are in memory."""
    arrays = (column.values for column, _ in term.batches)
    return next((x.storage for x in arrays if isinstance(x, StoredArray)), None)


def join_terms(terms: Sequence[Likelihood]) -> list[Likelihood]:
    """Merge terms with data in one storage into a single term, so that each row is read once."""
    storages = {id(term_storage(term)) for term in terms}
    if len(terms) < 2 or len(storages) > 1 or term_storage(terms[0]) is None:
        return list(terms)
    first = terms[0]
    batches: dict[str, tuple[Column, Variable]] = {}
    replaced: dict[Variable, Variable] = {term.length: first.length for term in terms}
    for column, batch in (pair for term in terms for pair in term.batches):
        # Several terms may read the same stored array.
        _, replaced[batch] = batches.setdefault(column.values.name, (column, batch))
    logps = clone_replace([term.logp for term in terms], replaced, rebuild_strict=False)
    name, total = " and ".join(term.name for term in terms), reduce(add, logps)
    held = [*batches.values()]
    return [Likelihood(name, first.n_rows, total, first.length, held, joined=tuple(terms))]


class ModelArrays:
    """Arrays that graphs are computed from, with names for messages; pickles omit them."""

    def __init__(self) -> None:
        self._names: dict[Variable, str] = {}
        self._seen: set[Variable] = set()

    def __reduce__(self) -> tuple[type, tuple[()]]:
        """Pickle as an empty collection."""
        return type(self), ()

    def add(self, graphs: Sequence[Variable], owner: str) -> None:
        """Collect the arrays and numbers that graphs depend on."""
        waiting = list(reversed(graphs))
        while waiting:
            variable = waiting.pop()
            if variable in self._seen:
                continue
            self._seen.add(variable)
            stored = stored_array(variable)
            if stored is not None:
                self._names[variable] = stored.name
            elif isinstance(variable, Constant | SharedVariable):
                kind = "data array" if getattr(variable.type, "ndim", 0) else "number"
                self._names[variable] = variable.name or f"a {kind} of {owner}"
            elif variable.owner is not None:
                op = getattr(variable.owner.op, "core_op", variable.owner.op)
                # Inner graphs may contain arrays of the user.
                inner = op.inner_outputs if isinstance(op, HasInnerGraph) else ()
                waiting += reversed([*variable.owner.inputs, *inner])

    def named_arrays(self) -> Iterator[tuple[str, np.ndarray | Storage]]:
        """Distinct current arrays with their names; for stored arrays, their storage."""
        known: dict[int, np.ndarray | Storage] = {}
        for variable, name in self._names.items():
            for array in _input_arrays(variable):
                if id(array) not in known:
                    known[id(array)] = array
                    yield name, array


def _input_arrays(variable: Variable) -> Sequence[np.ndarray | Storage]:
    stored = stored_array(variable)
    if stored is not None:
        return [stored.storage]
    shared = isinstance(variable, SharedVariable)
    held = variable.get_value(borrow=True) if shared else variable.data
    if isinstance(held, np.ndarray | np.generic):
        return [data_values(variable)]
    parts = (getattr(held, name, None) for name in ("data", "indices", "indptr"))
    return [part for part in parts if isinstance(part, np.ndarray)]
