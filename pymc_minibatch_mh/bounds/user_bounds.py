"""Custom bounds, which the user gives and which are not verified."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pymc_minibatch_mh.bounds.remainder import rounded_up
from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.model.inputs import as_numeric_array
from pymc_minibatch_mh.native.moves import DIRECTIONAL, GIVEN

_log = logging.getLogger("pymc")


def numbers_per_row(
    setting: str, name: str, given: ArrayLike, n_rows: int, least: float
) -> np.ndarray:
    """Custom numbers per row, float64; SettingError unless finite and >= `least`."""
    array = as_numeric_array(f"{setting} has a {name} with", given)
    per_row = "Give one number per row of the subsampled terms."
    try:
        numbers = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise SettingError(
            f"{setting} has a {name} that is not an array of numbers. {per_row}"
        ) from error
    if numbers.shape != (n_rows,):
        raise SettingError(
            f"{setting} has {name} of shape {numbers.shape} for {n_rows:,} rows. {per_row}"
        )
    bounds = np.isfinite(numbers) & (numbers >= least)
    if not bounds.all():
        row, signs = int(np.argmin(bounds)), ", non-negative" if least == 0.0 else ""
        raise SettingError(
            f"{setting} has {name}[{row}]={numbers[row]}, which bounds nothing. Give "
            f"finite{signs} numbers."
        )
    return numbers


@dataclass(frozen=True, eq=False)
class Bounds:
    """Custom bounds ``β |r_i(θ') - r_i(θ)| <= c_i M(θ, θ')``.

    They are not verified: the trace is exact if they hold. Every evaluated observation is checked.

    Parameters
    ----------
    c : array_like, shape (N,)
        c_i >= 0 of every observation, for all subsampled variables in order.
    metric : callable or None
        M(θ, θ'), a symmetric, non-negative function of two ravelled positions of shape (d,) that
        numba can compile. None selects the M of derived bounds: the distance in posterior standard
        deviations at ``taylor_order=0``, and its higher powers at orders 1 and 2.
    """

    c: ArrayLike
    metric: Callable[..., float] | None = None

    def tables(self, n_rows: int) -> Tables:
        """One table of infinite radius; SettingError unless each c is finite and >= 0."""
        if self.metric is not None and not callable(self.metric):
            raise SettingError(
                f"bounds=Bounds(c, metric) has metric={self.metric!r}, which is not a function. "
                "Give a function of two positions, or leave it out to use the metric of derived "
                "bounds."
            )
        single = rounded_up(numbers_per_row("bounds=Bounds(c)", "c", self.c, n_rows, 0.0))
        kind = DIRECTIONAL if self.metric is None else GIVEN
        headers = np.array([[np.inf, kind, single.sum(dtype=np.float64)]])
        return Tables(headers, single[None], verified=False, metric=self.metric)


def tell_of_unverified_bounds(names: str, setting: str) -> None:
    """Warn that custom bounds are not verified."""
    _log.warning(
        "%s: %s= are unverified. They are checked on all observations for some proposals, before "
        "sampling and after warm-up, and on every evaluated observation. Draws are exact if they "
        "hold everywhere.",
        names,
        setting,
    )
