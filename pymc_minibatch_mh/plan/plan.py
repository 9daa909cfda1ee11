"""All that passes over all rows have found: control variates, their remainders, bounds."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from pymc_minibatch_mh.bounds.block_tables import AnyTables, BlockTables
from pymc_minibatch_mh.bounds.parts import PartTables, part_tables
from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.compiled.graphs import names_of_terms
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.data.source import EvenRows, NumberedRows, StoredRows, read_columns
from pymc_minibatch_mh.errors import SettingError, SourceError
from pymc_minibatch_mh.model.inputs import storage_of
from pymc_minibatch_mh.native.bound_tables import NO_ROWS, TOTAL
from pymc_minibatch_mh.native.posterior import Reference, whitened_norm
from pymc_minibatch_mh.native.scale_conditional import ScaleConditional
from pymc_minibatch_mh.plan.bound_sources import BoundSource, DerivedBounds, functions_of
from pymc_minibatch_mh.plan.violations import (
    PREPARATION_SEED,
    BoundCheck,
    audited_parts,
    seeded_moves,
    sizes_of_many,
    violation_message,
)
from pymc_minibatch_mh.reference.arrow_reference import GroupedReference
from pymc_minibatch_mh.reference.mode import Calibration, calibrate
from pymc_minibatch_mh.reference.posterior import Target
from pymc_minibatch_mh.reference.scale_tables import scale_conditional
from pymc_minibatch_mh.structure.row_function import RowFunction
from pymc_minibatch_mh.threads import one_thread_of_blas


@dataclass(frozen=True, eq=False)
class Requirements:
    """Facts of all rows that a method needs before it subsamples them.

    `calibration` asks for the sizes of remainders, to choose batches by, and for heavy rows;
    `bounds` are the source of bounds. `precondition` refuses terms by a BoundsError before any
    search. `in_memory` says that rows are found by their numbers, or drawn without bounds.
    """

    calibration: bool = False
    bounds: BoundSource | None = None
    precondition: Callable[[Sequence[RowFunction]], None] | None = None
    in_memory: bool = False

    @property
    def derives(self) -> bool:
        """Whether bounds are derived from the model."""
        return self.bounds is not None and self.bounds.derived

    @property
    def given(self) -> bool:
        """Whether the user gave bounds."""
        return self.bounds is not None and not self.bounds.derived


#: Moves by which full passes are forecast, and how many of them may read all rows.
MOVES, MOST_PASSES = 10_000, 1
#: Rows, evenly spread, that are read twice where something is wrong with their numbers.
READ_AGAIN = 1_000
#: Share of the fetched rows below which it is said that few are used.
FEW_KEPT = 0.01

_log = logging.getLogger("pymc")


def require_drawn_ahead(requirements: Requirements, name: str) -> None:
    """Refuse methods that draw rows in another way than evenly or by derived bounds."""
    otherwise = requirements.given or requirements.in_memory
    if otherwise or requirements.derives == requirements.calibration:
        raise SettingError(
            f"{name!r}: data of Rows(...) are fetched ahead, drawn uniformly or by derived "
            "bounds. This step draws them in another way, evaluates all of them at every update "
            "or finds them by number. Use TunaMH(), ScalableSubsamplingMH() or FactorizedMH() "
            "without bounds=; BarkerMinibatchMH(), PenaltyMH() or AustereMH(); or give the model "
            "arrays in memory."
        )


def require_same_again(target: Target) -> None:
    """Refuse stored arrays that differ when they are read again, by a SourceError."""
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
                f"{column.name!r} has different values each time that row "
                f"{wrong[0]}{source.place(int(wrong[0]))} is read, for example because Dask draws "
                "random numbers. Store the array, or call its persist() first."
            )


def gaussian_draw(reference: Reference, rng: np.random.Generator, scale: float) -> np.ndarray:
    """Return a position from the Gaussian approximation of a centre, `scale` times as wide."""
    noise = rng.standard_normal(reference.centre.size)
    return reference.centre + scale * (reference.factor @ noise)


def require_possible(model: CompiledModel, requirements: Requirements) -> None:
    """Refuse a model for reasons that its graph has, before any search, pass or compilation.

    BoundsError where no row could be bounded as a method needs, whatever the data and the mode are;
    UnsupportedModelError for an operation without derivatives; SettingError for a method that does
    not draw stored rows ahead.
    """
    # First, as methods without bounds are no way out of this.
    model.require_derivatives()
    terms = model.factorization.terms
    if any(storage_of(term) is not None for term in terms):
        require_drawn_ahead(requirements, terms[0].name)
    if requirements.bounds is not None:
        requirements.bounds.require_possible(model)
    if requirements.precondition is not None:
        requirements.precondition(functions_of(model))


class Sought(NamedTuple):
    """The rows that a centre was sought for, and control variates of these, before others came."""

    n_rows: int
    reference: Reference


@dataclass(frozen=True, eq=False)
class Plan:
    """A model prepared for a method; frozen.

    `heavy` are the rows that tests on batches read at every update; `calibration` is of the others.
    `violation` is an objection of rows to the bounds, or empty. All of these are None where they
    were not asked for. The centre was sought by the marginal density of the scales `marginal`, and
    by the rows `sought`, if more have arrived since. With `elements` these move each by itself:
    metric and expansion are theirs, and `parts` bound rows in the place of `tables`.
    """

    target: Target
    requirements: Requirements
    reference: Reference
    calibration: Calibration | None = None
    heavy: np.ndarray | None = None
    tables: AnyTables | None = None
    violation: str | None = None
    marginal: tuple[int, ...] = ()
    sought: Sought | None = None
    elements: GroupedReference | None = None
    parts: PartTables | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind the readers of rows of this process."""
        return {name: value for name, value in self.__dict__.items() if name != "held"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Derive bounds anew whose file is gone, and bound rows that are there."""
        self.__dict__.update(state)
        if self.tables is None and self.violation is not None:
            self.__dict__["tables"] = replace(self, violation="").completed().tables
        elif isinstance(self.tables, BlockTables):
            self.__dict__["tables"] = self.tables.of_functions(functions_of(self.target))

    @property
    def n_rows(self) -> int:
        """Number of rows over all terms."""
        return self.target.source.n_rows

    @property
    def n_drawn(self) -> int:
        """Number of rows that tests on batches draw from."""
        return self.n_rows - (0 if self.heavy is None else self.heavy.size)

    @property
    def drawn_from(self) -> BlockTables | EvenRows | NumberedRows | None:
        """The pool of stored rows, drawn by bounds or evenly, or asked for; None for memory."""
        if self.target.source.in_memory:
            return None
        if isinstance(self.tables, BlockTables):
            return self.tables
        source = self.target.source
        assert isinstance(source, StoredRows)
        if self.tables is not None:
            return NumberedRows(source, self.tables.heavy, self.tables.c)
        return EvenRows(source, NO_ROWS if self.heavy is None else self.heavy)

    @property
    def draws_ahead(self) -> bool:
        """Whether rows are drawn ahead of moves, from where they are stored."""
        return isinstance(self.drawn_from, BlockTables | EvenRows)

    @property
    def bytes_of_copy(self) -> int:
        """Size of the copy of rows by which candidates are dropped; 0 where there is none."""
        return self.tables.copy.lines.nbytes if isinstance(self.tables, Tables) else 0

    @cached_property
    def typical_sizes(self) -> list[float]:
        """C M of typical moves where they are bounded, C that of the rows that are drawn."""
        if self.parts is not None:
            return []
        assert self.tables is not None
        totals = self.tables.heads_of_drawn[:, TOTAL]
        moves = seeded_moves(self.target, self.reference, self.tables)
        return [float(totals[move.table] * move.m) for move in moves]

    @cached_property
    def scale_conditional(self) -> ScaleConditional | None:
        """The posterior as normal given the scales of a hierarchy, where that is of help."""
        return scale_conditional(self.target, self.reference)

    def completed(self) -> Self:
        """Return this with all that is needed and was not found yet; BoundsError without bounds."""
        found, requirements = self, self.requirements
        if found.elements is not None:
            return found if found.parts is not None else found._by_parts(found.elements)
        if requirements.calibration and found.calibration is None:
            found = found._calibrated()
        source = requirements.bounds
        if source is not None and found.tables is not None and not source.has_made(found.tables):
            # Those of another method on the same model, or of a file of its.
            found = replace(found, tables=None, violation=None)
        if source is not None and found.tables is None:
            found = replace(found, tables=source.tables(found.target, found.reference))
        if found.tables is not None and found.violation is None:
            found = replace(found, violation=found.audited(PREPARATION_SEED))
        return found

    @one_thread_of_blas
    def around(self, start: np.ndarray) -> Self:
        """Return the same around the mode that a search from `start` ends at."""
        rng = np.random.default_rng(PREPARATION_SEED)
        if self.elements is not None:
            return self._by_parts(self.elements.around(self.target, start))
        reference, marginal = self.target.expand(start, rng)
        found = replace(self._without_measurements(), reference=reference, marginal=marginal)
        return found.completed()

    @one_thread_of_blas
    def at(self, reference: Reference, elements: GroupedReference | None = None) -> Self:
        """Return this around another centre, with its control variates and the bounds there.

        Where elements move each by itself, the centre's geometry is theirs.
        """
        if elements is not None and self.elements is not None:
            pairs = zip(elements, self.elements, strict=True)
            same = all(np.array_equal(np.asarray(x), np.asarray(own)) for x, own in pairs)
            found = self if same else self._by_parts(elements)
            return replace(found, reference=reference)
        own = self.reference
        same = np.array_equal(reference.centre, own.centre)
        if same and np.array_equal(reference.whitener, own.whitener):
            return replace(self, reference=reference)
        return replace(self._without_measurements(), reference=reference).completed()

    @cached_property
    def bound_check(self) -> BoundCheck:
        """Differences of stored rows, with their bounds."""
        return BoundCheck.by_tables(self.target, self.tables)

    @property
    def bounds(self) -> AnyTables | PartTables | None:
        """The bounds of rows, however they are kept; None for methods without."""
        return self.tables if self.parts is None else self.parts

    def distance(self, position: np.ndarray) -> float:
        """Return the distance of a position from the centre, in posterior standard deviations."""
        if self.elements is not None:
            return self.elements.distance(position)
        return float(whitened_norm(self.reference.whitener, position, self.reference.centre))

    def gaussian_draw(self, rng: np.random.Generator, scale: float) -> np.ndarray:
        """Return a position from the Gaussian approximation, `scale` times as wide."""
        if self.elements is not None:
            return self.elements.draw(rng, scale)
        return gaussian_draw(self.reference, rng, scale)

    def _by_parts(self, elements: GroupedReference) -> Self:
        """Return this around the centre of `elements`, with the bounds of rows there."""
        found = replace(
            self._without_measurements(),
            reference=elements.reference(self.target.inverse_temperature),
            elements=elements,
            parts=part_tables(self.target, elements),
        )
        self.target.release()
        return replace(found, violation=found.audited(PREPARATION_SEED))

    def require_few_full_passes(
        self, most_drawn: float, forecast: Callable[[np.random.Generator], int] | None = None
    ) -> None:
        """Refuse stored rows of which more than one pass in `MOVES` updates is forecast.

        A pass decides where more than `most_drawn` rows would be drawn; `forecast` counts them
        where bounds do not.
        """
        if self.target.source.in_memory:
            return
        tell_of_uneven(self)
        rng = np.random.default_rng(PREPARATION_SEED)
        if forecast is None:
            require_few(full_passes_by_bounds(self, most_drawn, rng), self)
        else:
            require_few(forecast(rng), self, most_drawn)

    def audited(self, seed: int, rows: np.ndarray | None = None) -> str:
        """Return an objection of rows, by default all or many, to the bounds; or ""."""
        rng = np.random.default_rng(seed)
        if self.elements is not None and self.parts is not None:
            return audited_parts(self.target, self.elements, self.parts, rng)
        if self.tables is None:
            return ""
        source = self.requirements.bounds or DerivedBounds()
        return source.audit(self.target, self.reference, self.tables, rng, rows)

    def violation_by(self, row: int, ratio: float, position: np.ndarray, new: np.ndarray) -> str:
        """Message about a row that exceeds its bound in a move."""
        source = self.requirements.bounds or DerivedBounds()
        return violation_message(self.target, row, position, new, *source.excess(ratio))

    def _without_measurements(self) -> Self:
        nothing: dict[str, Any] = dict.fromkeys(("calibration", "heavy", "tables", "violation"))
        return replace(self, **nothing, sought=None)

    def _calibrated(self) -> Self:
        """Return this with the remainders of the rows measured that are drawn."""
        target, rng = self.target, np.random.default_rng(PREPARATION_SEED)
        # Heavy rows are known only where typical moves are: around a mode.
        sought = target.covariance is None
        measured, heavy = calibrate(
            target.full_data, target.taylor_order, self.reference, rng, seeks_heavy=sought
        )
        return replace(self, calibration=measured, heavy=heavy)


def full_passes_by_bounds(plan: Plan, most_drawn: float, rng: np.random.Generator) -> int:
    """Return how many of `MOVES` moves are forecast to read all rows, by their bounds."""
    assert plan.tables is not None
    sizes = sizes_of_many(plan.target, plan.reference, plan.tables, rng, MOVES)
    # One that is not bounded reads all rows, however many may be drawn.
    return int(np.count_nonzero(~((sizes <= most_drawn) & (sizes < np.inf))))


def tell_of_uneven(plan: Plan) -> None:
    """Warn where chains fetch most stored rows in vain."""
    tables = plan.tables
    if not isinstance(tables, BlockTables) or plan.n_rows <= tables.most_at_once:
        return
    share = max(tables.kept_share(table) for table in range(tables.n_tables))
    if share < FEW_KEPT:
        _log.warning(
            "%s: chains use one in %s stored rows that they fetch, because bounds differ widely "
            "within a block of %s rows. Sort the rows by how well they fit the model, worst "
            "last, or give the model arrays in memory.",
            names_of_terms(plan.target.factorization),
            f"{1.0 / share:,.0f}",
            f"{tables.length:,}",
        )


def require_few(passes: int, plan: Plan, most_in_batch: float | None = None) -> None:
    """Refuse a model of which more than one pass over all stored rows in `MOVES` is forecast.

    Passes are those of moves, or those of looks at batches from `most_in_batch` rows on.
    """
    if passes <= MOST_PASSES:
        return
    names = names_of_terms(plan.target.factorization)
    counted, rows = f"of {MOVES:,} proposals, {passes:,}", f"all {plan.n_rows:,} stored rows"
    cause = f"{counted} would evaluate {rows}"
    groups = ", such as fewer groups" if plan.target.n_elements else ""
    way_on = f"Use fewer parameters with more rows each{groups}"
    if most_in_batch is not None:
        cause = f"{cause}, because their batches exceed {most_in_batch:,.0f} rows"
        way_on = (
            "Use a larger full_pass_above=, control variates of order 2, TunaMH(), or fewer "
            "parameters with more rows each"
        )
    raise SettingError(
        f"{names}: {cause}. Sampling would take as long as that many passes over the data. "
        f"{way_on}; or give the model arrays in memory, where explain(model) tells more."
    )
