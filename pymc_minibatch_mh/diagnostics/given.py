"""Checks of a trace that users hand over."""

from typing import Any

import xarray as xr

from pymc_minibatch_mh.errors import SettingError


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
