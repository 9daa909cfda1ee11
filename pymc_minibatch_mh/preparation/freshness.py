"""Noticing that a model or its data changed after a step was built from them."""

from collections.abc import Mapping
from typing import Any
from weakref import ReferenceType, ref

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.data import Contents
from pymc_minibatch_mh.errors import StaleDataError
from pymc_minibatch_mh.model.reading.model_arrays import ModelArrays

#: What a variable of a model is evaluated with: its value variable and its transform.
Declared = dict[Variable, tuple[Any, Any]]


class WatchedModel:
    """A model as it was when a step was built on it.

    Parameters
    ----------
    model
        The model.
    arrays
        What its log-density is computed from.
    given
        Arrays that the step was given besides, by name.

    Attributes
    ----------
    contents : Contents
        What all of these arrays held.

    Notes
    -----
    Arrays can be edited in place, and a shared variable can be given another array of the same
    numbers, so that all of their bytes are compared, and nothing else of them. Of the model's
    graphs, nothing is built again: they cannot change, but variables can come, go, or get other
    values and transforms.
    A pickle leaves the model behind: in another process nobody can change it. Here it is not kept
    alive: what nobody holds, nobody can change.
    """

    def __init__(
        self, model: pm.Model, arrays: ModelArrays, given: Mapping[str, np.ndarray]
    ) -> None:
        self._model: ReferenceType[pm.Model] | None = ref(model)
        self._declared = _declared(model)
        self._arrays = arrays
        self._given = dict(given)
        self.contents = self._read()

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind all that can change."""
        return {**self.__dict__, "_model": None, "_declared": {}, "_given": {}}

    def require_unchanged(self, step: str) -> None:
        """Refuse what changed, naming it and the step to build again.

        Raises
        ------
        StaleDataError
            If the model or its data are not those that the step was built on.
        """
        edited, changed = self._edited(), self._changed()
        if edited or changed:
            what, other = (edited, "another model") if edited else (changed, "other data")
            raise StaleDataError(
                f"{what} after this step was built, so its mode and its sums over the rows are "
                f"those of {other}. Build {step}() again."
            )

    @property
    def is_unchanged(self) -> bool:
        """Whether model and data are those that the step was built on."""
        return not (self._edited() or self._changed())

    def _edited(self) -> str:
        model = None if self._model is None else self._model()
        return "" if model is None else _difference(self._declared, _declared(model))

    def _changed(self) -> str:
        name = "" if self._model is None else self.contents.difference(self._read())
        return f"{name!r} changed" if name else ""

    def _read(self) -> Contents:
        return Contents.of([*self._arrays.named(), *self._given.items()])


def _declared(model: pm.Model) -> Declared:
    values, transforms = model.rvs_to_values, model.rvs_to_transforms
    summands = [*model.basic_RVs, *model.potentials]
    return {v: (values.get(v), transforms.get(v)) for v in summands}


def _difference(before: Declared, now: Declared) -> str:
    """Return what happened to the first variable that is not as it was, or an empty string."""
    for variable in {**before, **now}:
        if variable not in before:
            return f"{variable.name!r} was added to the model"
        if variable not in now:
            return f"{variable.name!r} was removed from the model"
        if any(a is not b for a, b in zip(before[variable], now[variable], strict=True)):
            return f"{variable.name!r} got other values or another transform"
    return ""
