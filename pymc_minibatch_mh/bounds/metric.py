"""The M of bounds that a user gives, compiled."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numba.core.errors import NumbaError

from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.kernels.signatures import METRIC_SIGNATURE


def compiled_metric(metric: Callable[..., float]) -> Any:
    """Return a metric as a first-class function (``METRIC``).

    A first-class function cannot raise: numba would go on as if it had returned 0, and no row
    would be read. Where the user's function raises, this one is NaN, and all rows decide.

    Raises
    ------
    SettingError
        If numba cannot compile it.
    """
    inner = njit(getattr(metric, "py_func", metric))

    def guarded(position, new):  # type: ignore[no-untyped-def]
        try:
            return inner(position, new)
        except Exception:
            return np.nan

    try:
        return njit(METRIC_SIGNATURE)(guarded)
    except NumbaError as error:
        raise SettingError(
            f"bounds=Bounds(c, metric) has a metric that numba cannot compile: {error}. Write it "
            "as a function of two vectors, with NumPy operations and loops only."
        ) from error
