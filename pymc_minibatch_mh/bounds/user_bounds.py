"""Bounds that a user gives."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.kernels.moves import DIRECTIONAL, GIVEN
from pymc_minibatch_mh.model.reading.inputs import array_of


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds ``β |r_i(θ') - r_i(θ)| <= c_i M(θ, θ')`` that were derived by hand.

    They are taken as they are: the trace is exact if they hold, which nobody has verified. Every
    row that is read is checked.

    Parameters
    ----------
    c : array_like, shape (N,)
        c_i >= 0 of every row, rows of all subsampled terms one after the other.
    metric : callable or None
        M(θ, θ'), a function of two ravelled positions of shape (d,) that numba can compile,
        symmetric and non-negative. None stands for the M of automatic bounds: the distance in
        posterior standard deviations at ``taylor_order=0``, and the larger powers of it that
        belong to orders 1 and 2.
    """

    c: ArrayLike
    metric: Callable[..., float] | None = None

    def tables(self, n_rows: int) -> Tables:
        """Return the one table, without a radius.

        Raises
        ------
        SettingError
            If there is not one finite, non-negative number per row, or the metric is no function.
        """
        if self.metric is not None and not callable(self.metric):
            raise SettingError(
                f"bounds=Bounds(c, metric) has metric={self.metric!r}, which is no function. Give "
                "one of two positions, or leave it out for that of derived bounds."
            )
        given = array_of("bounds=Bounds(c) has a c with", self.c)
        try:
            c = given.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise SettingError(
                "bounds=Bounds(c) has a c that is no array of numbers. Give one number per row of "
                "the subsampled terms."
            ) from error
        if c.shape != (n_rows,):
            raise SettingError(
                f"bounds=Bounds(c) has c of shape {c.shape} for {n_rows:,} rows. Give one number "
                "per row of the subsampled terms."
            )
        if not (np.isfinite(c) & (c >= 0.0)).all():
            row = int(np.argmin(np.isfinite(c) & (c >= 0.0)))
            raise SettingError(
                f"bounds=Bounds(c) has c[{row}]={c[row]}, which bounds nothing. Give finite, "
                "non-negative numbers."
            )
        single = c.astype(np.float32)
        single = np.where(single < c, np.nextafter(single, np.float32(np.inf)), single)
        kind = DIRECTIONAL if self.metric is None else GIVEN
        heads = np.array([[np.inf, kind, single.sum(dtype=np.float64)]])
        return Tables(heads, single[None], float("nan"), verified=False, metric=self.metric)
