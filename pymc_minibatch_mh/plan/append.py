"""Plans extended by appended rows, which are stored behind the rows that a step was prepared on.

Sums and bounds of the new rows around the old centre are added to those of the others. This is
exact, and efficient as long as the mode has moved by a fraction of a standard deviation.
"""

import logging
from dataclasses import replace

import numpy as np

from pymc_minibatch_mh.bounds.block_tables import BlockTables
from pymc_minibatch_mh.bounds.bound_check import PREPARATION_SEED
from pymc_minibatch_mh.data import Column
from pymc_minibatch_mh.data.files import BUILD_AGAIN
from pymc_minibatch_mh.data.source import StoredRows, read_columns
from pymc_minibatch_mh.errors import BoundsError, SettingError, SourceError, StaleDataError
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.plan.bound_sources import functions_of
from pymc_minibatch_mh.plan.dense import DensePlan, Sought
from pymc_minibatch_mh.plan.file import first_difference, split_digests
from pymc_minibatch_mh.plan.plan import Plan
from pymc_minibatch_mh.reference.target import Target

_log = logging.getLogger("pymc")

#: Standard deviations by which the mode may have moved, and share of the rows that may be new.
MAX_MODE_SHIFT, MAX_NEW_SHARE = 0.5, 0.25
#: Evenly spread rows that identify the old rows, and new rows whose density is checked.
RECOGNITION_ROWS = 10_000
#: Old rows whose bounds are checked again.
AUDITED_OLD_ROWS = 300


def extend_plan(before: Plan, target: Target, start: np.ndarray) -> Plan | None:
    """Plan of a model's first stored rows, extended by the others; None to prepare all anew.

    SettingError if rows are not stored, StaleDataError if model or first rows are others,
    MinibatchError if a new row has no density at the start.
    """
    _require_same_rows(before, target)
    assert isinstance(before, DensePlan)
    n_before, n_rows = before.n_rows, target.source.n_rows
    target.require_finite(start, RECOGNITION_ROWS, first=min(n_before, n_rows - 1))
    sought = before.sought or Sought(n_before, before.reference)
    if n_rows - sought.n_rows > MAX_NEW_SHARE * n_rows:
        return _log_reason(f"{n_rows - sought.n_rows:,} of {n_rows:,} rows are new")
    tables, found, rows = before.tables, before.reference, np.arange(n_before, n_rows)
    if not rows.size:
        if isinstance(tables, BlockTables):
            tables = tables.of_functions(functions_of(target))
        return replace(before, target=target, tables=tables)
    new = target.full_data.likelihood(found.centre, hessian=found.order == 2, rows=rows)
    if not np.isfinite(new.value):
        return _log_reason("a new row has no likelihood at the centre of the old ones")
    if found.order >= 1:
        found = found._replace(gradient=found.gradient + new.gradient)
    if found.order == 2:
        found = found._replace(hessian=found.hessian + new.hessian)
    moved = _mode_shift(target, sought.reference, found)
    if not moved <= MAX_MODE_SHIFT:
        return _log_reason(f"the mode has moved by {moved:.2g} standard deviations")
    try:
        # Bounds that are kept beside a copy of the rows are found anew, around the same centre.
        of_blocks = tables if isinstance(tables, BlockTables) else None
        tables = of_blocks and of_blocks.extended(functions_of(target))
    except BoundsError:
        return _log_reason("a new row has no bound around the centre of the old ones")
    # How large remainders are, batches are chosen by: it is measured on all rows.
    unmeasured = replace(before, calibration=None, heavy=None)
    longer = replace(unmeasured, target=target, reference=found, tables=tables, sought=sought)
    return replace(longer, violation=None if tables is None else _bound_violation(longer, rows))


def _bound_violation(found: DensePlan, rows: np.ndarray) -> str | None:
    """Message about a new row, or one of a few old rows, above its bound; empty without one."""
    if found.violation != "":
        return found.violation
    old = np.linspace(0, rows[0] - 1, min(AUDITED_OLD_ROWS, int(rows[0]))).astype(np.int64)
    return found.audited(PREPARATION_SEED, np.concatenate([old, rows]))


def _log_reason(why: str) -> Plan | None:
    _log.info("Cannot extend prepared=, because %s. Evaluating all observations instead.", why)
    return None


def _mode_shift(target: Target, s: Reference, found: Reference) -> float:
    """Newton step from the centre, less that of the old sums `s`, in old standard deviations."""
    prior = target.full_data.prior(s.centre, hessian=True)
    old = prior.gradient + s.inverse_temperature * s.gradient
    new = prior.gradient + s.inverse_temperature * found.gradient
    precision = s.whitener.T @ s.whitener
    longer = precision
    if s.order == 2:
        longer = precision - s.inverse_temperature * (found.hessian - s.hessian)
    step = np.linalg.solve(longer, new) - np.linalg.solve(precision, old)
    return float(np.linalg.norm(s.whitener @ step))


def _require_same_rows(before: Plan, target: Target) -> None:
    old = before.target
    if not isinstance(old.source, StoredRows) or not isinstance(target.source, StoredRows):
        raise SettingError(
            "prepared= is a step whose data are in memory, so extending it is not faster than "
            "building a new one. Leave it out, or give both models their data by Rows(...)."
        )
    ours, theirs = split_digests(target.factorization), split_digests(old.factorization)
    settings = "taylor_order", "inverse_temperature", "covariance"
    differs = first_difference(theirs, ours) or next(
        (x for x in settings if not np.array_equal(getattr(old, x), getattr(target, x))), ""
    )
    if differs:
        raise StaleDataError(
            f"prepared= is a step on a model that differs in {differs}. Leave it out."
        )
    if target.source.n_rows < old.source.n_rows:
        raise StaleDataError(
            f"prepared= is a step on {old.source.n_rows:,} rows, and this model has "
            f"{target.source.n_rows:,}. Leave it out."
        )
    chosen = np.unique(np.linspace(0, old.source.n_rows - 1, RECOGNITION_ROWS).astype(np.int64))
    known = _read_old_rows(old.source.columns, chosen)
    for one, other in zip(known, target.source.columns, strict=True):
        if not np.array_equal(one.values, other.read(chosen), equal_nan=True):
            raise StaleDataError(
                f"prepared= is a step on other rows: {one.name!r} differs in one of the first "
                f"{old.source.n_rows:,}. Leave it out."
            )


def _read_old_rows(columns: tuple[Column, ...], rows: np.ndarray) -> tuple[Column, ...]:
    """Rows of the earlier step that identify its data; StaleDataError if they are lost."""
    try:
        return read_columns(columns, rows)
    except SourceError as error:
        cause = str(error).removesuffix(f" {BUILD_AGAIN}")
        raise StaleDataError(
            f"prepared= is a step whose rows cannot be recognised: {cause} Its files must not "
            "change until it is extended. Put new rows into further files of a table, write "
            "longer arrays to files with other names, or leave it out."
        ) from error
