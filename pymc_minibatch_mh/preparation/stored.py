"""What is asked of a method and a model whose rows are stored."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from pymc_minibatch_mh.bounds.blocks import BlockTables
from pymc_minibatch_mh.data.stored import StoredRows, read_columns
from pymc_minibatch_mh.errors import SettingError, SourceError
from pymc_minibatch_mh.expansion.target import Target
from pymc_minibatch_mh.preparation.needs import Needs
from pymc_minibatch_mh.preparation.violations import sizes_of_many

if TYPE_CHECKING:
    from pymc_minibatch_mh.preparation.prepared import Prepared

#: Moves by which full passes are forecast, and how many of them may read all rows.
MOVES, MOST_PASSES = 10_000, 1
#: Rows, evenly spread, that are read twice where something is wrong with what they gave.
READ_AGAIN = 1_000
#: Share of the fetched rows below which it is said that few are used.
FEW_KEPT = 0.01

_log = logging.getLogger("pymc")


def require_drawn_ahead(needs: Needs, name: str) -> None:
    """Refuse methods that draw rows in another way than evenly or by derived bounds.

    Raises
    ------
    SettingError
        Naming the observed variable.
    """
    if not (needs.only_derived_bounds or needs.only_batches):
        raise SettingError(
            f"{name!r}: data of Rows(...) are drawn ahead, evenly or by bounds that are derived "
            "from the model. This step draws them otherwise, reads all of them at every update or "
            "finds them by their numbers. Use TunaMH(), ScalableSubsamplingMH() or FactorizedMH() "
            "without bounds=; BarkerMinibatchMH(), PenaltyMH() or AustereMH(); or give the model "
            "arrays in memory."
        )


def require_same_again(target: Target) -> None:
    """Refuse stored arrays that are others when they are read again.

    Raises
    ------
    SourceError
        Naming the array and the row.
    """
    source = target.source
    if not isinstance(source, StoredRows):
        return
    rows = target.spread(READ_AGAIN)
    read = [read_columns(source.columns, rows) for _ in range(2)]
    for column, again in zip(*read, strict=True):
        same = (column.values == again.values) | (column.values != column.values)
        wrong = rows[~same.reshape(len(rows), -1).all(axis=1)]
        if wrong.size:
            raise SourceError(
                f"{column.name!r} has other numbers each time that row {wrong[0]}"
                f"{source.place(int(wrong[0]))} is read, as where Dask draws random numbers in the "
                "computation. Store the array, or call its persist() before, so that rows stay."
            )


def full_passes_by_bounds(prepared: Prepared, most_drawn: float, rng: np.random.Generator) -> int:
    """Return how many of `MOVES` moves are forecast to read all rows.

    Parameters
    ----------
    prepared
        Bounds of all rows.
    most_drawn
        Rows above which a move is decided by all of them.
    rng
        Draws pairs of points of the Gaussian approximation.
    """
    assert prepared.tables is not None
    sizes = sizes_of_many(prepared.target, prepared.surrogate, prepared.tables, rng, MOVES)
    # One that is not bounded reads all rows, however many may be drawn.
    return int(np.count_nonzero(~((sizes <= most_drawn) & (sizes < np.inf))))


def tell_of_uneven(prepared: Prepared) -> None:
    """Say where most rows that chains fetch are fetched in vain.

    Parameters
    ----------
    prepared
        The model, whose rows are stored.
    """
    tables = prepared.tables
    if not isinstance(tables, BlockTables) or prepared.n_rows <= tables.most_at_once:
        return
    share = max(tables.kept_share(table) for table in range(tables.n_tables))
    if share < FEW_KEPT:
        _log.warning(
            "%s: one of %s stored rows that chains fetch is used, as the bounds of rows in one "
            "block of %s differ so much: chains wait for rows. Sort the rows, those that fit the "
            "model worst last, or give the model arrays in memory.",
            ", ".join(repr(term.name) for term in prepared.target.split.terms),
            f"{1.0 / share:,.0f}",
            f"{tables.length:,}",
        )


def require_few(passes: int, prepared: Prepared, most_in_batch: float | None = None) -> None:
    """Refuse a model of which chains would read all stored rows again and again.

    Parameters
    ----------
    passes
        How many of `MOVES` moves are forecast to read all rows.
    prepared
        The model.
    most_in_batch
        Rows from which on a look reads all of them, for tests that draw batches.

    Raises
    ------
    SettingError
        If it is more than one; tells how many.
    """
    if passes <= MOST_PASSES:
        return
    names = ", ".join(repr(term.name) for term in prepared.target.split.terms)
    counted, rows = f"{passes:,} of {MOVES:,} moves would", f"all {prepared.n_rows:,} stored rows"
    cause = f"{counted} read {rows}, so that"
    groups = ", such as fewer groups" if prepared.target.has_groups else ""
    way_on = f"Use fewer parameters with more rows each{groups}"
    if most_in_batch is not None:
        cause = f"batches from {most_in_batch:,.0f} rows on read {rows}: {counted}, so that"
        way_on = (
            "Use a larger full_pass_above=, control variates of order 2, TunaMH(), or fewer "
            "parameters with more rows each"
        )
    raise SettingError(
        f"{names}: {cause} sampling would take longer than reading them as often. "
        f"{way_on}; or give the model arrays in memory, where explain(model) tells more."
    )
