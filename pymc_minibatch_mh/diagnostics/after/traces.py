"""Checks of a trace that users hand over."""

from typing import Any

import numpy as np
import xarray as xr

from pymc_minibatch_mh.errors import SettingError, StaleDataError
from pymc_minibatch_mh.model.reading.model_arrays import ModelArrays


def trace_of(name: str, trace: Any) -> xr.DataTree:
    """Return the trace that was given as the argument `name`.

    Raises
    ------
    SettingError
        If it is no tree of groups.
    """
    if not isinstance(trace, xr.DataTree):
        raise SettingError(
            f"{name}={type(trace).__name__} is no trace. Give what pm.sample() returned."
        )
    return trace


def require_same_data(trace: xr.DataTree, arrays: ModelArrays) -> None:
    """Refuse data that are not those which a trace was drawn with, as far as it holds them.

    Parameters
    ----------
    trace
        What :func:`pymc.sample` returned: it keeps the observations and every ``pm.Data``.
    arrays
        What a log-likelihood is computed from now.

    Raises
    ------
    StaleDataError
        If one of the arrays has changed; names it.
    """
    groups = [trace[name] for name in ("observed_data", "constant_data") if name in trace.children]
    kept = {name: values for group in groups for name, values in group.data_vars.items()}
    for name, array in arrays.named():
        if not isinstance(array, np.ndarray) or name not in kept:
            continue
        if not np.array_equal(kept[name].to_numpy(), array):
            raise StaleDataError(
                f"{name!r} changed after this trace was drawn, whose draws belong to the data that "
                "they were drawn with. Sample again, or set the data back."
            )
