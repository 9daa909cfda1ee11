"""Audits of bounds before a chain relies on them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple, Self

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
    """Compiled rows and bounds of their changes, sent to the place where data are stored."""

    rows: PlacedRows
    bounds: BlockBounds | None

    @classmethod
    def by_tables(cls, target: Target, tables: AnyTables | None) -> Self:
        """Check that contains block bounds, if any; other bounds are sent with each block."""
        return cls(target.rows, tables.bounds if isinstance(tables, BlockTables) else None)

    def block_spreads(
        self,
        source: ArrayRows,
        tables: AnyTables | None,
        asked: Sequence[tuple[slice | np.ndarray, SpreadIn]],
        label: str = READING,
    ) -> Iterator[Spread]:
        """Summary of the remainder differences of each block, computed where it is stored."""
        blocks: list[RowBlock] = []
        for rows, question in asked:
            table = question.move.table
            c = tables.c[table, rows] if table >= 0 and isinstance(tables, Tables) else None
            blocks.append((rows, partial(spread_of, question, c)))
        return over_rows(self, source, blocks, label)


def spread_of(
    asked: SpreadIn, c: np.ndarray | None, check: BoundCheck, block: ArrayRows, numbers: np.ndarray
) -> Spread:
    """Summary of the remainder differences of a block, with bounds `c` or else from `check`."""
    if c is None and asked.move.table >= 0:
        assert check.bounds is not None
        c = check.bounds.of_block(asked.move.table, block)
    placed = check.rows.on_block(block)
    return asked.of(placed.space(asked.move.order), numbers, c)


#: Seed of all preparations, so that equal models are prepared alike.
PREPARATION_SEED = 20_170_808
#: Maximum numbers of audited proposals and of row differences (of stored rows: per proposal).
MAX_MOVES = 4
MAX_CHANGES = 1_000_000
#: Number of rows per chunk of an audit.
CHUNK = 65_536
#: Lower and upper limits of coordinates without restrictions.
NO_SUPPORT = np.asarray(-np.inf), np.asarray(np.inf)


class BoundedPosterior(NamedTuple):
    """A posterior around a reference, with bounds of its rows."""

    target: Target
    reference: Reference
    tables: AnyTables

    def objection(self, rng: np.random.Generator, rows: np.ndarray | None = None) -> str:
        """Message about a bound violated by typical proposals, or ""; SettingError if M < 0.

        For stored data, evenly spaced rows out of `rows` (default: all) are checked.
        """
        for move in self.audited_moves(rng):
            here, there, _ = move.ends
            ratio, row = self._largest_ratio(move, rows)
            if not ratio <= 1.0:
                return violation_message(self.target, row, here, there, *exceeds_bound(ratio))
        return ""

    def audited_moves(self, rng: np.random.Generator) -> Iterator[BoundedMove]:
        """Typical proposals for an audit; fewer if bounds are derived and rows are many."""
        moves, target = MAX_MOVES, self.target
        if self.tables.verified:
            evaluated = target.source.n_rows * target.evaluations
            moves = int(np.clip(MAX_CHANGES // evaluated, 1, MAX_MOVES))
        # Bounds matter inside the support only: elsewhere no rows are evaluated.
        support = target.factorization.lower, target.factorization.upper
        return islice(self.typical_moves(rng, support), moves)

    def _largest_ratio(self, move: BoundedMove, rows: np.ndarray | None) -> tuple[float, int]:
        """Largest ratio of a row's change to its bound in a proposal, and the row."""
        target, tables = self.target, self.tables
        if target.source.in_memory:
            assert isinstance(tables, Tables)
            return target.full_data.largest_ratio(move, tables.c[move.table])
        if rows is None:
            rows = target.spread(MAX_CHANGES)
        elif rows.size > MAX_CHANGES:
            rows = rows[np.linspace(0, rows.size - 1, MAX_CHANGES).astype(np.int64)]
        # Compile row functions here once, instead of in every thread.
        target.rows.space(move.order)
        chunks = np.array_split(rows, -(-rows.size // CHUNK))
        asked = [(chunk, SpreadIn(move, 0, NO_ROWS, n_top=1)) for chunk in chunks]
        check = BoundCheck.by_tables(target, tables)
        found = check.block_spreads(target.source, tables, asked, "Checking bounds")
        pairs = zip(chunks, found, strict=True)
        return max((own.ratio, int(chunk[own.row])) for chunk, own in pairs)

    def seeded_moves(self) -> Iterator[BoundedMove]:
        """Typical proposals that are the same in every preparation of a model."""
        return self.typical_moves(np.random.default_rng(PREPARATION_SEED))

    def sizes_of_many(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Product C M, C = Σ c_i, of each of `count` typical proposals; infinite without bounds."""
        reference = self.reference
        noise = rng.standard_normal((count, 2, reference.centre.size))
        return sizes_between(self._arrays, reference, reference.centre + noise @ reference.factor.T)

    def typical_moves(
        self, rng: np.random.Generator, support: tuple[np.ndarray, np.ndarray] = NO_SUPPORT
    ) -> Iterator[BoundedMove]:
        """Proposals with bounds, among :data:`MAX_MOVES` pairs of draws from the normal density."""
        arrays, reference = self._arrays, self.reference
        for _ in range(MAX_MOVES):
            noise = rng.standard_normal((2, reference.centre.size))
            here, there = np.clip(reference.centre + noise @ reference.factor.T, *support)
            _require_metric(self.tables, here, there)
            best, m = table_of_move(arrays, reference, here, there)
            ends, beta = (here, there, reference.centre), reference.inverse_temperature
            if best >= 0:
                yield BoundedMove(self.target.taylor_order, ends, best, m, beta)

    @property
    def _arrays(self) -> BoundTables:
        tables = self.tables
        arrays = tables.without_sampling_tables._replace(headers=tables.heads_of_drawn)
        if tables.verified:
            arrays = arrays._replace(unread=whitened_directions(self.target, self.reference))
        return arrays


def audited_parts(
    target: Target, found: GroupedReference, tables: PartTables, rng: np.random.Generator
) -> str:
    """Message about a row that exceeds its bound in a typical proposal, or ""."""
    here, there = (found.draw(rng, 1.0) for _ in range(2))
    ratio, row = largest_of_parts(target, found, tables, here, there)
    if not ratio > 1.0:
        return ""
    return violation_message(target, row, here, there, *exceeds_bound(ratio))


def largest_of_parts(
    target: Target, found: GroupedReference, tables: PartTables, here: np.ndarray, there: np.ndarray
) -> tuple[float, int]:
    """Largest ratio of a row's change to its bound between two positions, and the row.

    NaN and -1 if common effects exceed their radius; rows whose group effects exceed theirs have 0.
    """
    move, parts = found.ends(here, there), tables.parts
    if not max(move.border[:2]) <= parts.border_radius:
        return np.nan, -1
    # A row without a level has index -1, which selects the appended True.
    inside = np.append(np.maximum(np.abs(move.here), np.abs(move.there)) <= parts.radii, True)
    ceilings = tables.row_ceilings(move)
    ends, rows = (here, there, found.centre), np.arange(ceilings.size)
    differences, scales = np.empty((2, ceilings.size))
    differences_of(target.space, ends, rows, differences, scales)
    differences[~inside[parts.elements].all(axis=1)] = 0.0
    return largest_of(differences, scales, ceilings, 1.0, target.inverse_temperature)


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
    """Two phrases for a message: how far a row exceeds its bound, and the setting to change."""
    return f"changes by {ratio:.3g} times its bound", "bounds"


def violation_message(
    target: Target, row: int, position: np.ndarray, new: np.ndarray, excess: str, setting: str
) -> str:
    """Message about a row that exceeded its bound in a proposal."""
    name, inside = target.term_and_row(row)
    show = np.array2string
    return (
        f"{name!r}: row {inside} {excess} in the move from "
        f"{show(position, precision=6, threshold=20)} to {show(new, precision=6, threshold=20)} "
        f"(unconstrained values), so the draws would not be exact. Enlarge custom {setting}, "
        "report derived ones, or use PenaltyMH(), which needs none."
    )
