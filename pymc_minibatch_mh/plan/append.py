"""Plans extended by appended rows, which are stored after the rows that a step was prepared on.

Sums and bounds of the new rows around the old centre are added to the old ones. This is exact, and
efficient as long as the mode has moved by a fraction of a standard deviation.
"""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh.data import Column
from pymc_minibatch_mh.data.files import BUILD_AGAIN
from pymc_minibatch_mh.data.source import StoredRows, read_columns
from pymc_minibatch_mh.errors import SettingError, SourceError, StaleDataError
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.plan.identity import first_difference, split_digests
from pymc_minibatch_mh.plan.plan import IN_MEMORY
from pymc_minibatch_mh.reference.target import Target

#: Maximum shift of the mode in standard deviations, and fraction of new rows, to extend a plan.
MAX_MODE_SHIFT, MAX_NEW_SHARE = 0.5, 0.25
#: Number of old rows that are compared to identify the data, and of new rows that are evaluated.
RECOGNITION_ROWS = 10_000
#: Number of old rows whose bounds are checked again when a plan is extended.
AUDITED_OLD_ROWS = 300


class Sought(NamedTuple):
    """Number of rows in the mode search, and control variates from only these rows."""

    n_rows: int
    reference: Reference


class NotExtendedError(Exception):
    """Reason why a plan cannot be extended, so that everything is prepared anew."""


def extended_sums(
    target: Target, found: Reference, sought: Sought, new_rows: np.ndarray
) -> Reference:
    """Control variates with new rows added; NotExtendedError if these are many or move the mode."""
    if found.order == 3:
        raise NotExtendedError("expansions of order 3 are summed over all rows")
    n_new, n_rows = target.source.n_rows - sought.n_rows, target.source.n_rows
    if n_new > MAX_NEW_SHARE * n_rows:
        raise NotExtendedError(f"{n_new:,} of {n_rows:,} rows are new")
    new = target.full_data.likelihood(found.centre, hessian=found.order >= 2, rows=new_rows)
    if not np.isfinite(new.value):
        raise NotExtendedError("a new row has no likelihood at the centre of the old ones")
    if found.order >= 1:
        found = found._replace(gradient=found.gradient + new.gradient)
    if found.order >= 2:
        found = found._replace(hessian=found.hessian + new.hessian)
    moved = _mode_shift(target, sought.reference, found)
    if not moved <= MAX_MODE_SHIFT:
        raise NotExtendedError(f"the mode has moved by {moved:.2g} standard deviations")
    return found


def audited_rows(new_rows: np.ndarray) -> np.ndarray:
    """Row numbers of all new and a few old rows, whose bounds are checked."""
    n_before = int(new_rows[0])
    old = np.linspace(0, n_before - 1, min(AUDITED_OLD_ROWS, n_before)).astype(np.int64)
    return np.concatenate([old, new_rows])


def _mode_shift(target: Target, s: Reference, found: Reference) -> float:
    """Distance between the Newton steps with new sums `found` and old sums `s`, in old sd."""
    prior = target.full_data.prior(s.centre, hessian=True)
    old = prior.gradient + s.inverse_temperature * s.gradient
    new = prior.gradient + s.inverse_temperature * found.gradient
    precision = s.whitener.T @ s.whitener
    longer = precision
    if s.order >= 2:
        longer = precision - s.inverse_temperature * (found.hessian - s.hessian)
    step = np.linalg.solve(longer, new) - np.linalg.solve(precision, old)
    return float(np.linalg.norm(s.whitener @ step))


def require_same_rows(before: Target, target: Target, start: np.ndarray) -> None:
    """Raise an error if the first rows of a model differ from the rows of an earlier step.

    SettingError if rows are not stored, StaleDataError if the model or the first rows differ,
    MinibatchError if a new row has zero density at the start.
    """
    old, new = before.source, target.source
    if not isinstance(old, StoredRows) or not isinstance(new, StoredRows):
        raise SettingError(IN_MEMORY)
    if differs := _first_difference(before, target):
        raise StaleDataError(
            f"prepared= is a step on a model that differs in {differs}. Leave it out."
        )
    if new.n_rows < old.n_rows:
        raise StaleDataError(
            f"prepared= is a step on {old.n_rows:,} rows, and this model has {new.n_rows:,}. "
            "Leave it out."
        )
    chosen = np.unique(np.linspace(0, old.n_rows - 1, RECOGNITION_ROWS).astype(np.int64))
    known = _read_old_rows(old.columns, chosen)
    for one, other in zip(known, new.columns, strict=True):
        if not np.array_equal(one.values, other.read(chosen), equal_nan=True):
            raise StaleDataError(
                f"prepared= is a step on other rows: {one.name!r} differs in one of the first "
                f"{old.n_rows:,}. Leave it out."
            )
    target.require_finite(start, RECOGNITION_ROWS, first=min(old.n_rows, new.n_rows - 1))


def _first_difference(before: Target, target: Target) -> str:
    """First difference between two models or their settings, in words; empty if they are equal."""
    settings = "taylor_order", "inverse_temperature", "covariance"
    return first_difference(
        split_digests(before.factorization), split_digests(target.factorization)
    ) or next(
        (x for x in settings if not np.array_equal(getattr(before, x), getattr(target, x))), ""
    )


def _read_old_rows(columns: tuple[Column, ...], rows: np.ndarray) -> tuple[Column, ...]:
    """Rows of the earlier step that identify its data; StaleDataError if they cannot be read."""
    try:
        return read_columns(columns, rows)
    except SourceError as error:
        cause = str(error).removesuffix(f" {BUILD_AGAIN}")
        raise StaleDataError(
            f"prepared= is a step whose rows cannot be recognised: {cause} Its files must not "
            "change until it is extended. Put new rows into further files of a table, write "
            "longer arrays to files with other names, or leave it out."
        ) from error
