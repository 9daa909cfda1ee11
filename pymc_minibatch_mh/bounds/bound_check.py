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
from pymc_minibatch_mh.native.bound_tables import (
    NO_ROWS,
    BoundTables,
    sizes_between,
    table_of_move,
)
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.native.row_sums import differences_of, largest_of
from pymc_minibatch_mh.reference.arrow_reference import GroupedReference
from pymc_minibatch_mh.reference.full_data import (
    READING,
    BoundedMove,
    Spread,
    SpreadIn,
    over_rows,
)
from pymc_minibatch_mh.reference.target import Target, whitened_directions


@dataclass(frozen=True, eq=False)
class BoundCheck:
    """Compiled rows with the bounds of their changes, which are sent to where stored rows are."""

    rows: PlacedRows
    bounds: BlockBounds | None

    @classmethod
    def by_tables(cls, target: Target, tables: AnyTables | None) -> Self:
        """Check by bounds that are derived from each row; others are sent with their rows."""
        return cls(target.rows, tables.bounds if isinstance(tables, BlockTables) else None)

    def spreads(
        self,
        source: ArrayRows,
        tables: AnyTables | None,
        asked: Sequence[tuple[slice | np.ndarray, SpreadIn]],
        label: str = READING,
    ) -> Iterator[Spread]:
        """Spread of the differences of each block of stored rows, computed where these are."""
        blocks: list[RowBlock] = []
        for rows, question in asked:
            table = question.move.table
            c = tables.c[table, rows] if table >= 0 and isinstance(tables, Tables) else None
            blocks.append((rows, partial(spread_of, question, c)))
        return over_rows(self, source, blocks, label)


def spread_of(
    asked: SpreadIn,
    c: np.ndarray | None,
    check: BoundCheck,
    block: ArrayRows,
    numbers: np.ndarray,
) -> Spread:
    """Spread of the differences of a block, beside bounds `c` or else those of the check."""
    if c is None and asked.move.table >= 0:
        assert check.bounds is not None
        c = check.bounds.of_block(asked.move.table, block)
    placed = check.rows.on(block)
    return asked.of(placed.space(asked.move.order), numbers, c)


#: Seed of all that is random before a chain runs, so that equal models are prepared alike.
PREPARATION_SEED = 20_170_808
#: Moves that an audit makes, each with all rows, and changes of rows that it asks for at most
#: where the bounds were derived: those of a user are proven by nothing else.
MOVES, CHANGES = 4, 1_000_000
#: Rows that are held against their ranges, or stored ones against their bounds, at a time.
CHUNK = 65_536


def audited(
    target: Target,
    reference: Reference,
    tables: AnyTables,
    rng: np.random.Generator,
    rows: np.ndarray | None = None,
) -> str:
    """Return an objection to bounds, or an empty string; SettingError if a metric is negative.

    Stored rows are held against them in part: evenly spread ones, by default of all, or of `rows`.
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
    """Typical moves by which bounds are audited, fewer where many rows have derived ones."""
    moves = MOVES
    if tables.verified:
        moves = int(np.clip(CHANGES // target.source.n_rows, 1, MOVES))
    # A position outside of the support is refused before a row is read.
    support = target.factorization.lower, target.factorization.upper
    return islice(typical_moves(target, reference, tables, rng, support), moves)


def audited_parts(
    target: Target, found: GroupedReference, tables: PartTables, rng: np.random.Generator
) -> str:
    """Return an objection of a row to its ceiling in a typical move, or an empty string."""
    here, there = (found.draw(rng, 1.0) for _ in range(2))
    ratio, row = largest_of_parts(target, found, tables, here, there)
    if not ratio > 1.0:
        return ""
    return violation_message(target, row, here, there, *exceeds_bound(ratio))


def largest_of_parts(
    target: Target,
    found: GroupedReference,
    tables: PartTables,
    here: np.ndarray,
    there: np.ndarray,
) -> tuple[float, int]:
    """Return the largest ratio of a row's change to its ceiling between two ends, and the row.

    NaN and -1 where the border is beyond its radius; rows of effects beyond theirs are left out.
    """
    move, parts = found.ends(here, there), tables.parts
    if not max(move.border[:2]) <= parts.border_radius:
        return np.nan, -1
    # A row without an element of some factor reads the last of all, which is always within.
    inside = np.append(np.maximum(np.abs(move.here), np.abs(move.there)) <= parts.radii, True)
    ceilings = tables.ceilings(move)
    ends, rows = (here, there, found.centre), np.arange(ceilings.size)
    differences, scales = np.empty((2, ceilings.size))
    differences_of(target.space, ends, rows, differences, scales)
    differences[~inside[parts.elements].all(axis=1)] = 0.0
    return largest_of(differences, scales, ceilings, 1.0, target.inverse_temperature)


def _largest_ratio(
    target: Target, tables: AnyTables, move: BoundedMove, rows: np.ndarray | None
) -> tuple[float, int]:
    """Return the largest ratio of a row's change to its bound in a move, and the row."""
    if target.source.in_memory:
        assert isinstance(tables, Tables)
        return target.full_data.largest_ratio(move, tables.c[move.table])
    # Stored rows are held against their bounds a second time by some of them only.
    if rows is None:
        rows = target.spread(CHANGES)
    elif rows.size > CHANGES:
        rows = rows[np.linspace(0, rows.size - 1, CHANGES).astype(np.int64)]
    # Compiled here, and not in every thread.
    target.rows.space(move.order)
    asked = SpreadIn(move, 0, NO_ROWS, n_top=1)
    chunks = np.array_split(rows, -(-rows.size // CHUNK))
    check, questions = BoundCheck.by_tables(target, tables), [(chunk, asked) for chunk in chunks]
    found = check.spreads(target.source, tables, questions, "Checking bounds")
    return max((own.ratio, int(chunk[own.row])) for chunk, own in zip(chunks, found, strict=True))


def seeded_moves(target: Target, reference: Reference, tables: AnyTables) -> Iterator[BoundedMove]:
    """Typical moves that are the same in every preparation of a model."""
    return typical_moves(target, reference, tables, np.random.default_rng(PREPARATION_SEED))


def sizes_of_many(
    target: Target, reference: Reference, tables: AnyTables, rng: np.random.Generator, count: int
) -> np.ndarray:
    """Return C M of many moves at once as of :func:`moves_of_chains`; infinite where unbounded."""
    noise = rng.standard_normal((count, 2, reference.centre.size))
    ends = reference.centre + noise @ reference.factor.T
    return sizes_between(_arrays(target, reference, tables), reference, ends)


def typical_moves(
    target: Target,
    reference: Reference,
    tables: AnyTables,
    rng: np.random.Generator,
    support: tuple[np.ndarray, np.ndarray] = (np.asarray(-np.inf), np.asarray(np.inf)),
) -> Iterator[BoundedMove]:
    """Make moves between points of the Gaussian approximation, those that are bounded."""
    moves = islice(moves_of_chains(target, reference, tables, rng, support), MOVES)
    return (move for move in moves if move is not None)


def moves_of_chains(
    target: Target,
    reference: Reference,
    tables: AnyTables,
    rng: np.random.Generator,
    support: tuple[np.ndarray, np.ndarray] = (np.asarray(-np.inf), np.asarray(np.inf)),
) -> Iterator[BoundedMove | None]:
    """Make moves between points of the Gaussian approximation without end; None if unbounded."""
    arrays = _arrays(target, reference, tables)
    while True:
        noise = rng.standard_normal((2, reference.centre.size))
        here, there = np.clip(reference.centre + noise @ reference.factor.T, *support)
        _require_metric(tables, here, there)
        best, m = table_of_move(arrays, reference, here, there)
        ends = here, there, reference.centre
        made = BoundedMove(target.taylor_order, ends, best, m, reference.inverse_temperature)
        yield made if best >= 0 else None


def _arrays(target: Target, reference: Reference, tables: AnyTables) -> BoundTables:
    arrays = tables.undrawn._replace(headers=tables.heads_of_drawn)
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
    """How a row exceeds its bound, and the setting of such bounds, for messages."""
    return f"changes by {ratio:.3g} times its bound", "bounds"


def violation_message(
    target: Target, row: int, position: np.ndarray, new: np.ndarray, excess: str, setting: str
) -> str:
    """Return the message about a row that exceeded its bound in a move."""
    name, inside = target.term_and_row(row)
    show = np.array2string
    return (
        f"{name!r}: row {inside} {excess} in the move from "
        f"{show(position, precision=6, threshold=20)} to {show(new, precision=6, threshold=20)} "
        f"(unconstrained values), so the draws would not be exact. Enlarge custom {setting}, "
        "report derived ones, or use PenaltyMH(), which needs none."
    )
