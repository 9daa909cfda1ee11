"""Checks of what users hand over along with a model: the model itself, variables, points, seeds."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
from pymc.util import get_random_generator
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.errors import SettingError

#: Name of an observed variable -> one number per row, or the numbers where there is one variable.
#: Where its data are of Rows(...), what stands for an array of these.
Weights = Mapping[str, Any] | np.ndarray | Sequence[float] | Variable


def model_of(model: Any) -> pm.Model:
    """Return the model that was given, or else that of the context.

    Raises
    ------
    SettingError
        If there is no model.
    """
    if model is None:
        model = pm.Model.get_context(error_if_none=False)
        if model is None:
            raise SettingError(
                "model= is not given, and no model is open. Pass model=, or call this inside of "
                "'with model:'."
            )
    if not isinstance(model, pm.Model):
        raise SettingError(
            f"model={type(model).__name__} is not a PyMC model. Pass the pm.Model that holds the "
            "variables."
        )
    return model


def value_variables(model: pm.Model, vars: Any) -> list[Variable]:
    """Return the value variables of variables that were given, each of them once.

    Raises
    ------
    SettingError
        If one of them is no free variable of the model, or is given twice.
    """
    given = list(vars) if isinstance(vars, Sequence) and not isinstance(vars, str) else [vars]
    free = [str(rv.name) for rv in model.free_RVs]
    values: list[Variable] = []
    for variable in given:
        if not isinstance(variable, Variable):
            raise SettingError(
                f"vars= contains {variable!r}, which is no variable. Pass variables themselves, "
                f"such as vars=[model[{free[0] if free else 'x'!r}]]."
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


def point_of(model: pm.Model, point: Any) -> dict[str, np.ndarray]:
    """Return a point that was given, by the names of the value variables.

    Raises
    ------
    SettingError
        If a value variable has no value, or one of another shape.
    """
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
                f"initial_point= has no value of {name!r}. Give one of each value variable, under "
                f"the names {[str(v.name) for v in model.value_vars]}."
            )
        values[name] = _array(name, point[name], variable.type.shape)
    return values


def array_of(subject: str, values: Any) -> np.ndarray:
    """Return what was given as numbers as an array; objects that are numbers as numbers.

    Parameters
    ----------
    subject
        Who has the values, for messages: "weights= of 'y' have".
    values
        Anything; the array is one of objects or text where this holds no numbers.

    Raises
    ------
    SettingError
        If entries are masked.
    """
    if np.ma.is_masked(values):
        raise SettingError(
            f"{subject} masked entries, whose values are missing. Give numbers without a mask."
        )
    try:
        array = np.asarray(values)
        return np.asarray(array.tolist()) if array.dtype.kind == "O" else array
    except ValueError:
        return np.asarray(values, dtype=object)


def _array(name: str, value: Any, shape: tuple[int | None, ...]) -> np.ndarray:
    array = array_of(f"initial_point= has {name!r} with", value)
    fits = array.ndim == len(shape) and all(
        known in (None, length) for known, length in zip(shape, array.shape, strict=True)
    )
    if not fits or array.dtype.kind not in "fiub":
        raise SettingError(
            f"initial_point= has {name!r} of type {array.dtype} and shape {array.shape}, which "
            f"the variable has not. Give real numbers of shape {shape}."
        )
    return array


def generator_of(name: str, seed: Any) -> np.random.Generator:
    """Return the generator of a seed that was given as the setting `name`.

    Raises
    ------
    SettingError
        If NumPy makes no generator of it, or it is one that has no seed sequence.
    """
    if isinstance(seed, np.random.Generator) and seed.bit_generator.seed_seq is None:
        raise SettingError(
            f"{name}={seed} has no seed sequence, of which the generators of chains are made. "
            "Give an integer of 0 or more, or a generator of numpy.random.default_rng."
        )
    try:
        return get_random_generator(seed)
    except (TypeError, ValueError) as error:
        raise SettingError(
            f"{name}={seed!r} is no seed. Give an integer of 0 or more, or a generator of NumPy."
        ) from error
