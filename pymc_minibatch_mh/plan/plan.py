"""A model prepared for a method: control variates, bounds of rows, and all else computed once."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np

from pymc_minibatch_mh.bounds.block_tables import AnyTables, BlockTables
from pymc_minibatch_mh.bounds.bound_check import BoundCheck, violation_message
from pymc_minibatch_mh.bounds.part_tables import PartTables
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.data.source import EvenRows, NumberedRows, StoredRows, read_columns
from pymc_minibatch_mh.errors import SettingError, SourceError
from pymc_minibatch_mh.model.inputs import term_storage
from pymc_minibatch_mh.native.elements import ScaleConditional
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.plan.bound_sources import BoundSource, DerivedBounds, functions_of
from pymc_minibatch_mh.reference.arrow_reference import GroupedReference
from pymc_minibatch_mh.reference.mode import Calibration
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.structure.row_function import RowFunction


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
    def derives_bounds(self) -> bool:
        """Whether bounds are derived from the model."""
        return self.bounds is not None and self.bounds.derived

    @property
    def given(self) -> bool:
        """Whether the user gave bounds."""
        return self.bounds is not None and not self.bounds.derived


#: Rows, evenly spread, that are read twice where something is wrong with their numbers.
READ_AGAIN = 1_000


def require_drawn_ahead(requirements: Requirements, name: str) -> None:
    """Refuse methods that draw rows in another way than evenly or by derived bounds."""
    otherwise = requirements.given or requirements.in_memory
    if otherwise or requirements.derives_bounds == requirements.calibration:
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


def require_possible(model: CompiledModel, requirements: Requirements) -> None:
    """Refuse a model for reasons that its graph has, before any search, pass or compilation.

    BoundsError where no row could be bounded as a method needs, whatever the data and the mode are;
    UnsupportedModelError for an operation without derivatives; SettingError for a method that does
    not draw stored rows ahead.
    """
    # First, as methods without bounds are no way out of this.
    model.require_derivatives()
    terms = model.factorization.terms
    if any(term_storage(term) is not None for term in terms):
        require_drawn_ahead(requirements, terms[0].name)
    if requirements.bounds is not None:
        requirements.bounds.require_possible(model)
    if requirements.precondition is not None:
        requirements.precondition(functions_of(model))


#: Whether elements move each by itself: not, where the model lets them, or else not at all.
ByElements = Literal["never", "where separable", "always"]
#: Message for a plan that is not extended by further rows.
IN_MEMORY = (
    "prepared= is a step whose data are in memory, so extending it is not faster than building a "
    "new one. Leave it out, or give both models their data by Rows(...)."
)

#: Whether a plan has the control variates of a matrix, or those of a border and elements.
Expansion = Reference | GroupedReference


@dataclass(frozen=True, eq=False)
class Plan(ABC):
    """A model prepared for a method; frozen.

    `reference` has the centre, and `violation` is an objection of rows to the bounds, empty if
    there is none, None if rows were not checked. All that a method does not ask for is None.
    """

    target: Target
    requirements: Requirements
    reference: Reference
    violation: str | None = None
    #: Width of draws relative to the Gaussian approximation.
    width: ClassVar[float] = 1.0
    #: Sizes of remainders, by which batches are chosen, and rows that every update reads as well.
    calibration: Calibration | None = None
    heavy: np.ndarray | None = None
    #: Bounds of rows, by tables of the moves that they serve.
    tables: AnyTables | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind the readers of rows, and addresses, of this process."""
        return {k: v for k, v in self.__dict__.items() if k not in ("bound_check", "geometry")}

    @property
    def scale_conditional(self) -> ScaleConditional | None:
        """The posterior as normal given the scales of a hierarchy, where that is of help."""
        return None

    @property
    def bounds(self) -> AnyTables | PartTables | None:
        """Bounds of rows, by tables or by parts; None for methods without."""
        return self.tables

    @property
    def blocks(self) -> GroupedReference | None:
        """Geometry of effects that are accepted or rejected one at a time; None without any."""
        return None

    @cached_property
    def bound_check(self) -> BoundCheck:
        """Differences of stored rows, with their bounds."""
        return BoundCheck.by_tables(self.target, self.tables)

    @property
    def expansion(self) -> Expansion:
        """Centre, metric and expansion, by which :meth:`at` finds all else."""
        return self.reference

    @property
    def covariance(self) -> np.ndarray | None:
        """Covariance of the Gaussian approximation, shape (d, d); None without a d × d matrix."""
        return None

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
        return None

    @property
    def draws_ahead(self) -> bool:
        """Whether rows are drawn ahead of moves, from where they are stored."""
        return isinstance(self.drawn_from, BlockTables | EvenRows)

    @property
    def bytes_of_copy(self) -> int:
        """Size of the copy of rows by which candidates are dropped; 0 where there is none."""
        return 0

    @property
    def typical_sizes(self) -> list[float]:
        """C M of typical moves where they are bounded, C that of the rows that are drawn."""
        return []

    @property
    def usual_distance(self) -> float:
        """Root mean square distance of draws from the centre, spread by :attr:`width`."""
        return float(np.sqrt(self.reference.centre.size) * self.width)

    def completed(self) -> Self:
        """Plan with all that its method needs; BoundsError if a row has no bound."""
        return self

    def without_unasked(self) -> Self:
        """Plan with no more than its method needs."""
        return self

    @abstractmethod
    def around(self, start: np.ndarray) -> Self:
        """Plan around the mode that a search from `start` ends at."""

    @abstractmethod
    def at(self, expansion: Any) -> Self:
        """Plan around another centre, with the expansion and the bounds there."""

    def extended(self, target: Target, start: np.ndarray) -> "Plan | None":
        """Plan of these first stored rows and of further ones; None to prepare all anew.

        SettingError if rows are in memory, StaleDataError if model or first rows are others.
        """
        raise SettingError(IN_MEMORY)

    @abstractmethod
    def objection_to(self, by_elements: ByElements) -> str:
        """How effects are updated, if a step has to update them otherwise, and a remedy; or ""."""

    def bound_ratio(self, position: np.ndarray, new: np.ndarray) -> tuple[float, int]:
        """Largest change of a row between two positions, relative to its bound, and the row.

        NaN and -1 where no bound holds between any two positions.
        """
        return np.nan, -1

    @abstractmethod
    def objection_of(self, seed: int, rows: np.ndarray | None = None) -> str:
        """Objection of rows, by default all or many, to the bounds; or ""."""

    def violation_by(self, row: int, ratio: float, position: np.ndarray, new: np.ndarray) -> str:
        """Message about a row that exceeds its bound in a move."""
        source = self.requirements.bounds or DerivedBounds()
        return violation_message(self.target, row, position, new, *source.excess(ratio))

    @abstractmethod
    def distance(self, position: np.ndarray) -> float:
        """Distance of a position from the centre, in posterior standard deviations."""

    @abstractmethod
    def gaussian_draw(self, rng: np.random.Generator, scale: float) -> np.ndarray:
        """Position from the Gaussian approximation, `scale` times as wide."""

    @abstractmethod
    def unread_steps(self) -> tuple[np.ndarray, np.ndarray]:
        """Directions that no row reads, shape (k, d), and their whitened lengths, shape (k,)."""

    @abstractmethod
    def describe_centre(self) -> str:
        """Where the centre is, in words."""

    @abstractmethod
    def stored_arrays(self) -> dict[str, np.ndarray]:
        """Arrays of a file by their names."""

    def require_few_full_passes(
        self, most_drawn: float, forecast: Callable[[np.random.Generator], int] | None = None
    ) -> None:
        """Refuse stored rows of which more than one pass in thousands of updates is forecast.

        A pass decides where more than `most_drawn` rows would be drawn; `forecast` counts them
        where bounds do not.
        """
        return


def record_arrays(name: str, record: Any) -> dict[str, np.ndarray]:
    """Arrays of a named tuple by names that begin with its own; none of None."""
    fields = {} if record is None else record._asdict()
    return {f"{name}_{field}": np.asarray(value) for field, value in fields.items()}


def optional_record(name: str, kind: Any, stored: dict[str, np.ndarray]) -> Any:
    """A named tuple of arrays and numbers; None without its arrays, KeyError with a part of it."""
    known = any(field.startswith(f"{name}_") for field in stored)
    return stored_record(name, kind, stored) if known else None


def stored_record(name: str, kind: Any, stored: dict[str, np.ndarray]) -> Any:
    """A named tuple of arrays and numbers; KeyError for a part of it."""
    values = [stored[f"{name}_{field}"] for field in kind._fields]
    return kind(*(value if value.ndim else value.item() for value in values))
