"""Audits of bounds before a chain relies on them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Self

import numpy as np

from pymc_minibatch_mh.bounds.block_tables import AnyTables, BlockBounds, BlockTables
from pymc_minibatch_mh.bounds.part_tables import PartTables
from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.compiled.model import PlacedRows
from pymc_minibatch_mh.data import ArrayRows, RowBlock
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.native.bound_tables import NO_ROWS, BoundTables, sizes_between, table_of_move
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.native.row_sums import differences_of, largest_of
from pymc_minibatch_mh.reference.arrow_reference import GroupedReference
from pymc_minibatch_mh.reference.full_data import READING, BoundedMove, Spread, SpreadIn, over_rows
from pymc_minibatch_mh.reference.target import Target, whitened_directions


@dataclass(frozen=True, eq=False)
class BoundCheck:
    """Compiled rows with the bounds of their changes, which travel to stored rows."""

    rows: PlacedRows
    bounds: BlockBounds | None

    @classmethod
    def by_tables(cls, target: Target, tables: AnyTables | None) -> Self:
        """Check with the bounds of blocks; other bounds travel with their rows."""
        return cls(target.rows, tables.bounds if isinstance(tables, BlockTables) else None)

    def block_spreads(
        self,
        source: ArrayRows,
        tables: AnyTables | None,
        asked: Sequence[tuple[slice | np.ndarray, SpreadIn]],
        label: str = READING,
    ) -> Iterator[Spread]:
        """Spread of the differences of each block of stored rows, computed at the rows."""
        blocks: list[RowBlock] = []
        for rows, question in asked:
            table = question.move.table
            c = tables.c[table, rows] if table >= 0 and isinstance(tables, Tables) else None
            blocks.append((rows, partial(spread_of, question, c)))
        return over_rows(self, source, blocks, label)


def spread_of(
    asked: SpreadIn, c: np.ndarray | None, check: BoundCheck, block: ArrayRows, numbers: np.ndarray
) -> Spread:
    """Spread of the differences of a block, with bounds `c` or else the bounds of the check."""
    if c is None and asked.move.table >= 0:
        assert check.bounds is not None
        c = check.bounds.of_block(asked.move.table, block)
    placed = check.rows.on_block(block)
    return asked.of(placed.space(asked.move.order), numbers, c)


#: Seed of all preparations, so that equal models are prepared alike.
PREPARATION_SEED = 20_170_808
#: Moves of an audit with all rows, and changes of rows at most for derived bounds.
MOVES, CHANGES = 4, 1_000_000
#: Rows of a chunk of an audit.
CHUNK = 65_536
#: Ends of coordinates without a support.
NO_SUPPORT = np.asarray(-np.inf), np.asarray(np.inf)


def objection_of(
    target: Target,
    reference: Reference,
    tables: AnyTables,
    rng: np.random.Generator,
    rows: np.ndarray | None = None,
) -> str:
    """Violation of the bounds in a typical move, or ""; SettingError for a negative metric.

    Of stored rows, evenly spread ones are checked, by default of all, or of `rows`.
    """
    for move in audited_moves(target, reference, tables, rng):
        here, there, _ = move.ends
        ratio, row = _largest_ratio(target, tables, move, rows)
        if not ratio <= 1.0:
            return violation_message(target, row, here, there, *exceeds_bound(ratio))
    return ""


def audited_moves(
    target: Target, reference: Reference, tables: AnyTables, rng: np.random.Generator
) -> Iterator[BoundedMove]:
    """Typical moves of an audit, fewer for many rows with derived bounds."""
    moves = MOVES
    if tables.verified:
        moves = int(np.clip(CHANGES // target.source.n_rows, 1, MOVES))
    # Positions outside of the support are rejected without rows.
    support = target.factorization.lower, target.factorization.upper
    return islice(typical_moves(target, reference, tables, rng, support), moves)


def audited_parts(
    target: Target, found: GroupedReference, tables: PartTables, rng: np.random.Generator
) -> str:
    """Violation of a row's bound in a typical move, or ""."""
    here, there = (found.draw(rng, 1.0) for _ in range(2))
    ratio, row = largest_of_parts(target, found, tables, here, there)
    if not ratio > 1.0:
        return ""
    return violation_message(target, row, here, there, *exceeds_bound(ratio))


def largest_of_parts(
    target: Target, found: GroupedReference, tables: PartTables, here: np.ndarray, there: np.ndarray
) -> tuple[float, int]:
    """Largest ratio of a row's change to its bound between two ends, and the row.

    NaN and -1 with the border beyond its radius; rows of effects beyond their radius do not count.
    """
    move, parts = found.ends(here, there), tables.parts
    if not max(move.border[:2]) <= parts.border_radius:
        return np.nan, -1
    # The index -1, for no element, selects the appended True.
    inside = np.append(np.maximum(np.abs(move.here), np.abs(move.there)) <= parts.radii, True)
    ceilings = tables.row_ceilings(move)
    ends, rows = (here, there, found.centre), np.arange(ceilings.size)
    differences, scales = np.empty((2, ceilings.size))
    differences_of(target.space, ends, rows, differences, scales)
    differences[~inside[parts.elements].all(axis=1)] = 0.0
    return largest_of(differences, scales, ceilings, 1.0, target.inverse_temperature)


def _largest_ratio(
    target: Target, tables: AnyTables, move: BoundedMove, rows: np.ndarray | None
) -> tuple[float, int]:
    """Largest ratio of a row's change to its bound in a move, and the row."""
    if target.source.in_memory:
        assert isinstance(tables, Tables)
        return target.full_data.largest_ratio(move, tables.c[move.table])
    if rows is None:
        rows = target.spread(CHANGES)
    elif rows.size > CHANGES:
        rows = rows[np.linspace(0, rows.size - 1, CHANGES).astype(np.int64)]
    # Compiled once, and not in every thread.
    target.rows.space(move.order)
    asked = SpreadIn(move, 0, NO_ROWS, n_top=1)
    chunks = np.array_split(rows, -(-rows.size // CHUNK))
    check, questions = BoundCheck.by_tables(target, tables), [(chunk, asked) for chunk in chunks]
    found = check.block_spreads(target.source, tables, questions, "Checking bounds")
    return max((own.ratio, int(chunk[own.row])) for chunk, own in zip(chunks, found, strict=True))


def seeded_moves(target: Target, reference: Reference, tables: AnyTables) -> Iterator[BoundedMove]:
    """Typical moves that are the same in every preparation of a model."""
    return typical_moves(target, reference, tables, np.random.default_rng(PREPARATION_SEED))


def sizes_of_many(
    target: Target, reference: Reference, tables: AnyTables, rng: np.random.Generator, count: int
) -> np.ndarray:
    """C M of many typical moves at once, infinite without a bound."""
    noise = rng.standard_normal((count, 2, reference.centre.size))
    ends = reference.centre + noise @ reference.factor.T
    return sizes_between(_arrays(target, reference, tables), reference, ends)


def typical_moves(
    target: Target,
    reference: Reference,
    tables: AnyTables,
    rng: np.random.Generator,
    support: tuple[np.ndarray, np.ndarray] = NO_SUPPORT,
) -> Iterator[BoundedMove]:
    """Moves with bounds among :data:`MOVES` moves between points of the Gaussian approximation."""
    arrays = _arrays(target, reference, tables)
    for _ in range(MOVES):
        noise = rng.standard_normal((2, reference.centre.size))
        here, there = np.clip(reference.centre + noise @ reference.factor.T, *support)
        _require_metric(tables, here, there)
        best, m = table_of_move(arrays, reference, here, there)
        ends, beta = (here, there, reference.centre), reference.inverse_temperature
        if best >= 0:
            yield BoundedMove(target.taylor_order, ends, best, m, beta)


def _arrays(target: Target, reference: Reference, tables: AnyTables) -> BoundTables:
    arrays = tables.without_sampling_tables._replace(headers=tables.heads_of_drawn)
    if tables.verified:
        arrays = arrays._replace(unread=whitened_directions(target, reference))
    return arrays


def _require_metric(tables: AnyTables, here: np.ndarray, there: np.ndarray) -> None:
    if tables.metric is None:
        return
    m = min(tables.metric_between(here, there), tables.metric_between(there, here))
    if m < 0.0:
        raise SettingError(
            f"bounds=Bounds(c, metric) has a metric of {m:g} for a move, which bounds nothing. "
            "Give one that is never negative."
        )


def exceeds_bound(ratio: float) -> tuple[str, str]:
    """Excess of a row over its bound, and the setting of such bounds, for messages."""
    return f"changes by {ratio:.3g} times its bound", "bounds"


def violation_message(
    target: Target, row: int, position: np.ndarray, new: np.ndarray, excess: str, setting: str
) -> str:
    """Message about a row that exceeded its bound in a move."""
    name, inside = target.term_and_row(row)
    show = np.array2string
    return (
        f"{name!r}: row {inside} {excess} in the move from "
        f"{show(position, precision=6, threshold=20)} to {show(new, precision=6, threshold=20)} "
        f"(unconstrained values), so the draws would not be exact. Enlarge custom {setting}, "
        "report derived ones, or use PenaltyMH(), which needs none."
    )
