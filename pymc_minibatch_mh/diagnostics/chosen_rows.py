"""Functions of chosen observations of one observed variable, evaluated at draws of a trace."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pymc.pytensorf import compile as compile_graph
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.data import Column
from pymc_minibatch_mh.diagnostics.free_draws import as_in_model, centred, solved
from pymc_minibatch_mh.errors import SettingError, StaleDataError
from pymc_minibatch_mh.model.bambi import is_fitted
from pymc_minibatch_mh.model.inputs import ModelArrays, array_of, fits
from pymc_minibatch_mh.progress import counting


def trace_of(data: Any) -> xr.DataTree:
    """The trace that was given as `data`; SettingError if it is no tree of groups."""
    if not isinstance(data, xr.DataTree):
        raise SettingError(
            f"data={type(data).__name__} is no trace. Pass the trace that pm.sample() returns."
        )
    return data


def require_same_data(trace: xr.DataTree, arrays: ModelArrays) -> None:
    """Refuse, by a StaleDataError, other data than a trace was drawn with and holds."""
    groups = [trace[name] for name in ("observed_data", "constant_data") if name in trace.children]
    kept = {name: values for group in groups for name, values in group.data_vars.items()}
    for name, array in arrays.named():
        if not isinstance(array, np.ndarray) or name not in kept:
            continue
        if not np.array_equal(kept[name].to_numpy(), array):
            raise StaleDataError(
                f"{name!r} changed after this trace was drawn. Sample again, or restore the data."
            )


#: A choice of rows: a slice, or their numbers.
Rows = slice | np.ndarray


class BatchFunction:
    """A graph of a batch of rows, compiled once for all draws and batches.

    The output is in terms of inputs, stand-ins for the free variables by name, of the number of
    rows, an int64 scalar, and of stand-ins for batches of the data arrays; rows are its axis 0.
    """

    def __init__(
        self,
        inputs: Mapping[str, Variable],
        output: Variable,
        length: Variable,
        batches: Sequence[tuple[Column, Variable]],
        random_seed: Any = None,
    ) -> None:
        self._inputs = dict(inputs)
        self._columns = [column for column, _ in batches]
        self._function = compile_graph(
            [*self._inputs.values(), length, *(batch for _, batch in batches)],
            output,
            random_seed=random_seed,
            on_unused_input="ignore",
        )
        self._dtypes = [batch.type.dtype for _, batch in batches]

    def batch(self, rows: Rows) -> list[np.ndarray]:
        """Read some rows of all data arrays, in the types that the graph takes."""
        return [
            np.ascontiguousarray(column.read(rows), dtype)
            for column, dtype in zip(self._columns, self._dtypes, strict=True)
        ]

    def __call__(
        self, point: Mapping[str, np.ndarray], length: int, batch: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Evaluate a batch of `length` rows at a point given by the names of free variables."""
        values = [
            np.ascontiguousarray(point[name], v.type.dtype).reshape(np.shape(point[name]))
            for name, v in self._inputs.items()
        ]
        return np.asarray(self._function(*values, np.asarray(length), *batch))

    def at_draws(self, draws: Mapping[str, np.ndarray], rows: np.ndarray) -> np.ndarray:
        """Evaluate rows at draws, each of shape (chain, draw, ...), draw by draw."""
        chains, count = next(iter(draws.values())).shape[:2]
        batch, out = self.batch(rows), None
        for chain, draw in counted("Evaluating draws", list(np.ndindex(chains, count))):
            point = {name: values[chain, draw] for name, values in draws.items()}
            values = self(point, len(rows), batch)
            if out is None:
                out = np.empty((chains, count, *values.shape), values.dtype)
            out[chain, draw] = values
        return np.empty((chains, count, len(rows))) if out is None else out


def counted[T](label: str, parts: Sequence[T]) -> Iterator[T]:
    """Yield parts of some work, and show the share of them that is done."""
    with counting(label, len(parts)) as advance:
        for part in parts:
            yield part
            advance()


def stand_ins(model: pm.Model) -> dict[Variable, Variable]:
    """Return an input for every free variable, in the place of its random draws."""
    return {rv: rv.type(name=str(rv.name)) for rv in model.free_RVs}


def observed_variable(model: pm.Model, var_name: str | None) -> Variable:
    """Return the observed variable of a name, by default the only one."""
    by_name = {str(rv.name): rv for rv in model.observed_RVs}
    if var_name is None and len(by_name) == 1:
        return next(iter(by_name.values()))
    if var_name is None and by_name:
        raise SettingError(
            f"var_name= is not given, and this model has {len(by_name)} observed variables. Choose "
            f"from {sorted(by_name)}."
        )
    if var_name not in by_name:
        raise SettingError(
            f"var_name={var_name!r} names no observed variable of this model. Choose from "
            f"{sorted(by_name)}."
        )
    return by_name[var_name]


def row_numbers(observations: Any, n_rows: int, name: str) -> np.ndarray:
    """Numbers of chosen observations as int64, after a check."""
    numbers = array_of("observations= has", observations)
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


def posterior_draws(data: xr.DataTree, model: pm.Model) -> dict[str, np.ndarray]:
    """Draws of the free variables of a trace: name -> array of shape (chain, draw, ...).

    Variables that the trace lacks are solved for from its deterministics, and what Bambi's ``fit``
    has changed is undone. SettingError if the trace holds no posterior, or not all free variables.
    """
    if "posterior" not in trace_of(data).children:
        raise SettingError(
            "data= has no group 'posterior'. Pass the trace that pm.sample() returns."
        )
    posterior = data["posterior"].to_dataset()
    names = [str(rv.name) for rv in model.free_RVs]
    held = {x: as_in_model(posterior[x], model) for x in names if x in posterior.data_vars}
    draws = {**held, **solved(model, posterior, held)}
    missing = [name for name in names if name not in draws]
    if missing:
        dropped = is_fitted(data) and missing[0].endswith("_offset")
        raise SettingError(
            f"{missing[0]!r} is a free variable of the model, but not in the trace. "
            + (
                "Pass omit_offsets=False to Bambi's fit, which drops names that end so."
                if dropped
                else "Sample this very model, and leave no free variable out of "
                "pm.sample(var_names=...)."
            )
        )
    if is_fitted(data):
        draws |= centred(model, data)
    for rv in model.free_RVs:
        name = str(rv.name)
        shape = draws[name].shape[2:]
        if not fits(shape, rv.type.shape):
            raise SettingError(
                f"{name!r} has draws of shape {shape} in the trace, but shape {rv.type.shape} in "
                "the model. Sample this very model."
            )
    return draws


def row_dimension(model: pm.Model, name: str) -> str:
    """Return the name of the axis of the rows in a trace."""
    dims = model.named_vars_to_dims.get(name)
    return str(dims[0]) if dims and dims[0] is not None else f"{name}_dim_0"


def with_labels(
    values: np.ndarray, rows: np.ndarray, model: pm.Model, name: str, draws: xr.Dataset | None
) -> xr.Dataset:
    """Name the axes of values of observations, shape (observation, ...), or of these at `draws`."""
    dims = [row_dimension(model, name), *list(model.named_vars_to_dims.get(name) or ())[1:]]
    dims += [f"{name}_dim_{k}" for k in range(len(dims), values.ndim)]
    labels = model.coords.get(dims[0])
    coords: dict[str, Any] = {dims[0]: rows if labels is None else [labels[row] for row in rows]}
    first: list[str] = []
    if draws is not None:
        first = ["chain", "draw"]
        coords |= {dim: draws.coords[dim] for dim in first}
    return xr.Dataset({name: ([*first, *dims][: values.ndim], values)}, coords)
