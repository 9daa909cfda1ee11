"""The log-likelihood of chosen rows at every draw, and of all rows at one point."""

from collections.abc import Mapping, Sequence

import numpy as np
import pymc as pm
import xarray as xr
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace

from pymc_minibatch_mh.diagnostics.after.chosen_rows import (
    BatchFunction,
    observed_variable,
    of_chosen_rows,
    posterior_draws,
    row_numbers,
    stand_ins,
)
from pymc_minibatch_mh.model.reading.inputs import model_of
from pymc_minibatch_mh.model.reading.model_arrays import ModelArrays
from pymc_minibatch_mh.model.reading.terms import term_of

#: Rows that a pass over all of them reads at a time.
CHUNK = 65_536


class RowLogLikelihood:
    """The log-likelihood of one observed variable, row by row.

    Parameters
    ----------
    model
        The model.
    var_name
        Name of the observed variable; by default the only one.

    Raises
    ------
    UnsplittableModelError
        If its rows cannot be proven to be independent given the parameters.
    SettingError
        If `var_name` names no observed variable.
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
        """Return the log-likelihood of all rows at one point, shape (N,), in one pass."""
        out = np.empty(self.n_rows)
        for first in range(0, self.n_rows, CHUNK):
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


def log_likelihood(
    trace: xr.DataTree,
    rows: Sequence[int] | np.ndarray,
    *,
    model: pm.Model | None = None,
    var_name: str | None = None,
) -> xr.DataArray:
    """Evaluate the log-likelihood of chosen rows at every draw.

    The rows are those that the model holds now: after :func:`pymc.set_data`, new ones. Memory is
    that of the result: no array of all rows times all draws is made.

    Parameters
    ----------
    trace
        What :func:`pymc.sample` returned.
    rows
        Row numbers, from 0, in any order.
    model
        The model; by default that of the context.
    var_name
        Name of the observed variable; by default the only one.

    Returns
    -------
    DataArray
        Log-likelihood with dimensions ``chain``, ``draw`` and the first one of the variable,
        labelled by the model's coordinates, or else by row numbers. A row of several values has
        their sum.

    Raises
    ------
    UnsplittableModelError
        If the rows cannot be proven to be independent given the parameters.
    SettingError
        If `rows`, `var_name` or `trace` do not fit the model.
    """
    model = model_of(model)
    likelihood = RowLogLikelihood(model, var_name)
    chosen = row_numbers(rows, likelihood.n_rows, likelihood.name)
    values = likelihood.at_draws(posterior_draws(trace, model), chosen)
    return of_chosen_rows(values, chosen, trace, model, likelihood.name)
