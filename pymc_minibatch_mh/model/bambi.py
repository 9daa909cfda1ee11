"""Bambi models: their PyMC model, names for their data, and cleaned traces.

Bambi is optional: nothing here imports it, and its classes are recognised by module and name.
"""

import gc
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeGuard
from weakref import WeakSet

import numpy as np
import pymc as pm
import xarray as xr
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorConstant

#: Name of the dim along which Bambi's observations lie.
OBSERVATION_DIM = "__obs__"
#: Models whose data arrays already have Bambi's names.
_NAMED: WeakSet[pm.Model] = WeakSet()


class BambiModel(Protocol):
    """Attributes of a ``bambi.Model`` that this package uses."""

    built: bool
    backend: Any
    family: Any

    def build(self) -> None:
        """Build the PyMC model."""


def is_bambi_model(model: object) -> TypeGuard[BambiModel]:
    """Whether an object is a ``bambi.Model``."""
    classes = [(c.__module__, c.__name__) for c in type(model).__mro__]
    return ("bambi.models", "Model") in classes


def pymc_model_behind(model: BambiModel) -> pm.Model:
    """PyMC model behind a Bambi model, built first if necessary."""
    if not model.built:
        model.build()
    return model.backend.model


def response_parameters(model: object) -> set[str]:
    """Deterministics such as ``mu`` that Bambi's ``fit`` drops; empty for other PyMC models."""
    if not is_bambi_model(model):
        return set()
    computed = {str(v.name) for v in model.backend.model.deterministics}
    return computed & set(model.family.likelihood.params)


def backend_of(model: pm.Model) -> Any | None:
    """Bambi backend that built a PyMC model, if this process still has it.

    A PyMC model holds no reference to its backend, and users pass ``model.backend.model``. So the
    garbage collector's objects are searched, which takes a fraction of a second, and only for
    models with Bambi's dim.
    """
    kind = getattr(sys.modules.get("bambi.backend.pymc"), "PyMCModel", None)
    if OBSERVATION_DIM not in model.coords or kind is None:
        return None
    backends = (x for x in gc.get_objects() if type(x) is kind)
    return next((one for one in backends if one.model is model), None)


def is_fitted(data: xr.DataTree) -> bool:
    """Whether a trace comes from Bambi's ``fit``, which sets an attribute of its groups."""
    return any(group.attrs.get("modeling_interface") == "bambi" for group in data.children.values())


def clean_trace(backend: Any, data: xr.DataTree) -> xr.DataTree:
    """Copy of a trace after the default cleaning of Bambi's ``fit``, such as shifted intercepts."""
    return backend._clean_results(data.copy(), True, False)


def name_data(model: pm.Model) -> None:
    """Name a Bambi model's data arrays, independently of how the user passes the model."""
    backend = backend_of(model) if model not in _NAMED else None
    _NAMED.add(model)
    if backend is None:
        return
    names = list(_named_arrays(backend.distributional_components))
    outputs = [component.output for component in backend.distributional_components.values()]
    for constant in ancestors([x for x in outputs if isinstance(x, Variable)]):
        if isinstance(constant, TensorConstant) and constant.name is None and constant.type.ndim:
            data = np.squeeze(constant.data)
            found = (name for name, array in names if np.array_equal(np.squeeze(array), data))
            constant.name = next(found, None)


def _named_arrays(components: Mapping[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
    """Names and arrays of predictors' data: design matrices, slope predictors, group indices."""
    for name, component in components.items():
        terms = component.component
        of = "" if terms.is_parent else f"_{name}"
        if terms.common_terms:
            matrix = np.column_stack([term.data for term in terms.common_terms.values()])
            yield f"design_matrix{of}", matrix
            yield f"design_matrix{of}", matrix - matrix.mean(0)
        for term in terms.group_specific_terms.values():
            expression, _, factor = term.name.partition("|")
            yield expression.removeprefix(of[1:] + "_"), term.predictor
            yield factor, term.group_index
