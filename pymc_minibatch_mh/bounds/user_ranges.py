"""Ranges of log-likelihoods that a user gives."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pymc_minibatch_mh.bounds.ranges import table_of_ranges
from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.model.reading.inputs import array_of


@dataclass(frozen=True, eq=False)
class Ranges:
    """Ranges ``low_i <= ℓ_i(θ) - ℓ_i(θ̂) <= high_i`` for every θ, which were derived by hand.

    They are of the log-likelihood of a row as the model has it, at temperature 1, relative to its
    value at the centre θ̂, so that constants do not count. They are taken as they are: the trace is
    exact if they hold, which nobody has verified. Every row that is read is checked.

    Parameters
    ----------
    low, high : array_like, shape (N,)
        Ends of the range of every row, ``low <= 0 <= high``, rows of all subsampled terms one after
        the other. Where only the width w of a range is known, -w and w are ends of it.
    """

    low: ArrayLike
    high: ArrayLike

    def tables(self, n_rows: int, inverse_temperature: float) -> Tables:
        """Return them as tables.

        Raises
        ------
        SettingError
            If there is not one finite number per row and end, or 0 is not between them.
        """
        low, high = self._end("low", n_rows), self._end("high", n_rows)
        wrong = ~((low <= 0.0) & (high >= 0.0))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise SettingError(
                f"ranges=Ranges(low, high) has low[{row}]={low[row]} and high[{row}]={high[row]}, "
                "between which 0 is not, the value at the centre. Give ends relative to that."
            )
        beta = inverse_temperature
        return table_of_ranges(beta * low, beta * high, verified=False)

    def _end(self, name: str, n_rows: int) -> np.ndarray:
        given = array_of(f"ranges=Ranges(low, high) has a {name} with", getattr(self, name))
        try:
            end = given.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise SettingError(
                f"ranges=Ranges(low, high) has a {name} that is no array of numbers. Give one "
                "number per row of the subsampled terms."
            ) from error
        if end.shape != (n_rows,):
            raise SettingError(
                f"ranges=Ranges(low, high) has {name} of shape {end.shape} for {n_rows:,} rows. "
                "Give one number per row of the subsampled terms."
            )
        if not np.isfinite(end).all():
            row = int(np.argmin(np.isfinite(end)))
            raise SettingError(
                f"ranges=Ranges(low, high) has {name}[{row}]={end[row]}, which bounds nothing. "
                "Give finite numbers."
            )
        return end
