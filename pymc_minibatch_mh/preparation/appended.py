"""Rows that arrive: what was found of the rows before them, and the new rows alone read.

Sums and bounds belong to a centre. Around the centre that is there, the sums of the gradients and
of the Hessians of the new rows are added to those of the old ones, which is exact, and bounds of
the new rows hold over the same trust regions. Chains then sample the posterior of all rows, as
around any other centre; proposals are made around the old one. That is as good as long as the
mode, by one Newton step from the sums, has moved by a fraction of a standard deviation since the
centre was sought, in however many parts the rows have arrived.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.data import Column
from pymc_minibatch_mh.data.files import AGAIN
from pymc_minibatch_mh.data.stored import StoredRows, read_columns
from pymc_minibatch_mh.errors import BoundsError, SettingError, SourceError, StaleDataError
from pymc_minibatch_mh.expansion.target import Target
from pymc_minibatch_mh.kernels.surrogate import Surrogate
from pymc_minibatch_mh.model.reading.digest import split_digests
from pymc_minibatch_mh.preparation.prepared import PREPARATION_SEED, Prepared, Sought

_log = logging.getLogger("pymc")

#: Standard deviations by which the mode may have moved, and share of the rows that may be new.
FURTHEST, MOST_NEW = 0.5, 0.25
#: Rows, evenly spread, by which old rows are recognised, and new ones that are asked for a density.
RECOGNISED = 10_000
#: Old rows that are held against their bounds once more.
AUDITED_AGAIN = 300


def appended(before: Prepared, target: Target, start: np.ndarray) -> Prepared | None:
    """Return what was found of a model's first rows, extended by its others.

    Parameters
    ----------
    before
        What was found, on rows that are stored.
    target
        The same model on those rows and others behind them.
    start : ndarray, shape (d,)
        Where the new rows have to have a likelihood. The old ones were asked when they were
        prepared.

    Returns
    -------
    Prepared or None
        None where all has to be found anew, which is said with the reason.

    Raises
    ------
    SettingError
        If rows are not stored.
    StaleDataError
        If the model is another one, or its first rows are others.
    MinibatchError
        If the start has no density, or one of the new rows none there.
    """
    _require_same(before, target)
    n_before, n_rows = before.n_rows, target.source.n_rows
    target.require_finite(start, RECOGNISED, first=min(n_before, n_rows - 1))
    sought = before.sought or Sought(n_before, before.surrogate)
    if n_rows - sought.n_rows > MOST_NEW * n_rows:
        return _told(f"{n_rows - sought.n_rows:,} of {n_rows:,} rows are new")
    tables, found, rows = before.tables, before.surrogate, np.arange(n_before, n_rows)
    assert not isinstance(tables, Tables)
    if not rows.size:
        tables = None if tables is None else tables.of_functions(_functions(target))
        return replace(before, target=target, tables=tables)
    new = target.passes.likelihood(found.centre, hessian=found.order == 2, rows=rows)
    if not np.isfinite(new.value):
        return _told("a new row has no likelihood at the centre of the old ones")
    if found.order >= 1:
        found = found._replace(gradient=found.gradient + new.gradient)
    if found.order == 2:
        found = found._replace(hessian=found.hessian + new.hessian)
    moved = _moved(target, sought.surrogate, found)
    if not moved <= FURTHEST:
        return _told(f"the mode has moved by {moved:.2g} standard deviations")
    try:
        if tables is not None:
            tables = tables.extended(_functions(target))
    except BoundsError:
        return _told("a new row has no bound around the centre of the old ones")
    # How large remainders are, batches are chosen by: it is measured on all rows.
    unmeasured = replace(before, calibration=None, heavy=None)
    longer = replace(unmeasured, target=target, surrogate=found, tables=tables, sought=sought)
    return replace(longer, violation=_violation(longer, rows))


def _violation(found: Prepared, rows: np.ndarray) -> str | None:
    """Return what rows have against bounds of which those of the old rows were audited before.

    A few of these are asked again.
    """
    if found.violation != "":
        return found.violation
    old = np.linspace(0, rows[0] - 1, min(AUDITED_AGAIN, int(rows[0]))).astype(np.int64)
    return found.audited(PREPARATION_SEED, np.concatenate([old, rows]))


def _functions(target: Target) -> list:
    functions = target.row_functions
    assert not isinstance(functions, BoundsError)
    return functions


def _told(why: str) -> Prepared | None:
    _log.info("prepared= is not extended, as %s: all rows are read.", why)
    return None


def _moved(target: Target, s: Surrogate, found: Surrogate) -> float:
    """Return how far a Newton step goes from the centre, in old standard deviations.

    What it would be by the sums `s` of the rows that the centre was sought for, which need not be
    their mode, is taken off.
    """
    prior = target.passes.prior(s.centre, hessian=True)
    old = prior.gradient + s.inverse_temperature * s.gradient
    new = prior.gradient + s.inverse_temperature * found.gradient
    precision = s.whitener.T @ s.whitener
    longer = precision
    if s.order == 2:
        longer = precision - s.inverse_temperature * (found.hessian - s.hessian)
    step = np.linalg.solve(longer, new) - np.linalg.solve(precision, old)
    return float(np.linalg.norm(s.whitener @ step))


def _require_same(before: Prepared, target: Target) -> None:
    old = before.target
    if not isinstance(old.source, StoredRows) or not isinstance(target.source, StoredRows):
        raise SettingError(
            "prepared= is a step whose data are in memory, which is no quicker to extend than to "
            "build anew. Leave it out, or give both models their data by Rows(...)."
        )
    ours, theirs = split_digests(target.split), split_digests(old.split)
    settings = "taylor_order", "inverse_temperature"
    differs = next((what for what in {**ours, **theirs} if ours.get(what) != theirs.get(what)), "")
    differs = differs or next((x for x in settings if getattr(old, x) != getattr(target, x)), "")
    if not differs and not _are_equal(old.covariance, target.covariance):
        differs = "covariance"
    if differs:
        raise StaleDataError(
            f"prepared= is a step on a model that differs in {differs}. Leave it out."
        )
    if target.source.n_rows < old.source.n_rows:
        raise StaleDataError(
            f"prepared= is a step on {old.source.n_rows:,} rows, and this model has "
            f"{target.source.n_rows:,}. Leave it out."
        )
    chosen = np.unique(np.linspace(0, old.source.n_rows - 1, RECOGNISED).astype(np.int64))
    known = _read_before(old.source.columns, chosen)
    for one, other in zip(known, target.source.columns, strict=True):
        if not np.array_equal(one.values, other.read(chosen), equal_nan=True):
            raise StaleDataError(
                f"prepared= is a step on other rows: {one.name!r} differs in one of the first "
                f"{old.source.n_rows:,}. Leave it out."
            )


def _read_before(columns: tuple[Column, ...], rows: np.ndarray) -> tuple[Column, ...]:
    """Return the rows of a step by which those of another model are recognised.

    Raises
    ------
    StaleDataError
        If they are not there any more, as in a file that was written anew with more rows.
    """
    try:
        return read_columns(columns, rows)
    except SourceError as error:
        cause = str(error).removesuffix(f" {AGAIN}")
        raise StaleDataError(
            f"prepared= is a step whose rows are not there to be recognised: {cause} Files of a "
            "step have to stay as they are until it is extended: put new rows into further files "
            "of a table, or write longer arrays to files of other names; or leave it out."
        ) from error


def _are_equal(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))
