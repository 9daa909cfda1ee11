"""A model prepared for a method: control variates, bounds and other precomputed quantities."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from pymc_minibatch_mh import costs
from pymc_minibatch_mh.bounds.block_tables import AnyTables, BlockTables
from pymc_minibatch_mh.bounds.bound_check import BoundCheck, violation_message
from pymc_minibatch_mh.bounds.part_tables import PartTables
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.data.source import EvenRows, NumberedRows, StoredRows, read_columns
from pymc_minibatch_mh.errors import SettingError, SourceError
from pymc_minibatch_mh.model.factorization import WholeDraws
from pymc_minibatch_mh.model.inputs import term_storage
from pymc_minibatch_mh.native.elements import ScaleConditional
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.native.skew_map import SkewMap
from pymc_minibatch_mh.plan.bound_sources import BoundSource, DerivedBounds, functions_of
from pymc_minibatch_mh.reference.arrow_reference import GroupedReference
from pymc_minibatch_mh.reference.mode import Calibration
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.structure.row_function import RowFunction


@dataclass(frozen=True, eq=False)
class Requirements:
    """Quantities that a method needs from full-data evaluations before it subsamples.

    `calibration`: moments of the remainders, which set batch sizes, and influential rows. `bounds`:
    source of bounds. `precondition`: raises BoundsError for unsupported terms before any search.
    `in_memory`: data must be in memory, because rows cannot be prefetched.
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
    def bounds_groups(self) -> bool:
        """Whether groups can be observations: bounds are those of remainders, or not needed."""
        return self.bounds is None or type(self.bounds) is DerivedBounds

    @property
    def given(self) -> bool:
        """Whether the user gave bounds."""
        return self.bounds is not None and not self.bounds.derived


#: Number of evenly spaced rows that are read twice, to detect values that change.
READ_AGAIN = 1_000


def require_drawn_ahead(requirements: Requirements, name: str) -> None:
    """Raise SettingError unless a method draws rows uniformly or by derived bounds."""
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
    """Raise SourceError if stored arrays have other values when they are read again."""
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
    """Raise an error if the model graph rules out a method, before any search or compilation.

    BoundsError if no row can have the bounds that the method needs, for any data and mode;
    UnsupportedModelError for an operation without derivatives; SettingError for a method that
    cannot prefetch stored rows.
    """
    # Check derivatives for every method, because those without bounds need them as well.
    model.require_derivatives()
    terms = model.factorization.terms
    if any(term_storage(term) is not None for term in terms):
        require_drawn_ahead(requirements, terms[0].name)
    if requirements.bounds is not None:
        requirements.bounds.require_possible(model)
    if requirements.precondition is not None:
        requirements.precondition(functions_of(model))


#: Whether a way to sample group effects is used; "always" raises an error if it is impossible.
WhenUsed = Literal["never", "where possible", "always"]


class EffectMoves(NamedTuple):
    """Ways to sample group effects: integrated out of small groups, or accepted one at a time."""

    integrated: WhenUsed = "never"
    by_elements: WhenUsed = "never"


#: Proposals of all parameters together.
TOGETHER = EffectMoves()

#: Error message for the extension of a plan whose data are in memory.
IN_MEMORY = (
    "prepared= is a step whose data are in memory, so extending it is not faster than building a "
    "new one. Leave it out, or give both models their data by Rows(...)."
)


#: Control variates with a dense precision matrix, or with common and group effects.
Expansion = Reference | GroupedReference


@dataclass(frozen=True, eq=False)
class Plan(ABC):
    """A model prepared for a method; frozen.

    `reference` has the centre. `violation` describes a violated bound: empty if there is none, None
    if bounds were not checked. Fields that the method does not need are None.
    """

    target: Target
    requirements: Requirements
    reference: Reference
    violation: str | None = None
    #: Width of the posterior relative to the Gaussian approximation.
    width: ClassVar[float] = 1.0
    #: Moments of the remainders, which set batch sizes, and influential rows, always evaluated.
    calibration: Calibration | None = None
    heavy: np.ndarray | None = None
    #: Bounds of rows; each table covers some of the proposals.
    tables: AnyTables | None = None
    #: Why effects are sampled in this way, in words; empty if that is not known.
    reason: str = ""

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without readers of rows and addresses, which belong to this process."""
        return {k: v for k, v in self.__dict__.items() if k not in ("bound_check", "geometry")}

    @property
    def scale_conditional(self) -> ScaleConditional | None:
        """Normal approximation of effects given their scales; None if it does not help."""
        return None

    @property
    def skew_map(self) -> SkewMap | None:
        """Map to a skewed posterior; None if it does not help."""
        return None

    @property
    def heavy_tails(self) -> Mapping[str, float]:
        """Efficiency of proposals along coordinates whose tail they lack; empty if not measured."""
        return {}

    @property
    def largest_skewness(self) -> Sequence[tuple[str, float]]:
        """The most skewed coordinate and its skewness; empty if not measured."""
        return ()

    @property
    def bounds(self) -> AnyTables | PartTables | None:
        """Bounds of rows: tables, or separable bounds; None for methods without bounds."""
        return self.tables

    @property
    def blocks(self) -> GroupedReference | None:
        """Geometry of effects that are accepted one at a time; None if none are."""
        return None

    @cached_property
    def bound_check(self) -> BoundCheck:
        """Comparison of stored rows' changes with their bounds."""
        return BoundCheck.by_tables(self.target, self.tables)

    @property
    def expansion(self) -> Expansion:
        """Centre, metric and expansion, from which :meth:`at` rebuilds the plan."""
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
    def rows_in_prior(self) -> int:
        """Number of rows of potentials that every update evaluates with the prior part."""
        return sum(n_rows for n_rows, _ in self.target.factorization.in_full.values())

    @property
    def n_drawn(self) -> int:
        """Number of rows from which batches are drawn: all except influential ones."""
        return self.n_rows - (0 if self.heavy is None else self.heavy.size)

    @property
    def drawn_from(self) -> BlockTables | EvenRows | NumberedRows | None:
        """Sampler of stored rows, by bounds, uniformly or by number; None for rows in memory."""
        return None

    @property
    def draws_ahead(self) -> bool:
        """Whether rows are sampled and fetched from storage before proposals are made."""
        return isinstance(self.drawn_from, BlockTables | EvenRows)

    @property
    def bytes_of_copy(self) -> int:
        """Size of the whitened copy by which candidates are rejected, in bytes; 0 without it."""
        return 0

    @property
    def draws_by_groups(self) -> bool:
        """Whether candidates are drawn at rates that add up over groups of observations."""
        return False

    @property
    def typical_sizes(self) -> list[float]:
        """Expected draws C M at χ = 0 of typical bounded proposals; C omits influential rows."""
        return []

    @property
    def seconds_of_row(self) -> float:
        """Cost of an observation that is drawn at random, in seconds."""
        cached = self.target.source.nbytes < costs.MIN_UNCACHED_BYTES
        return costs.CACHED_OBSERVATION if cached else costs.OBSERVATION

    @property
    def usual_distance(self) -> float:
        """Root mean square distance of posterior draws from the centre, √d times `width`."""
        return float(np.sqrt(self.reference.centre.size) * self.width)

    def completed(self) -> Self:
        """Plan with everything that its method needs; BoundsError if a row has no bound."""
        return self

    def without_unasked(self) -> Self:
        """Plan without quantities that its method does not need."""
        return self

    @abstractmethod
    def around(self, start: np.ndarray) -> Self:
        """Plan around the mode found by a search from `start`."""

    @abstractmethod
    def at(self, expansion: Any) -> Self:
        """Plan around the centre of another expansion, with bounds there."""

    def extended(self, target: Target, start: np.ndarray) -> "Plan | None":
        """Plan extended by further stored rows; None if everything has to be prepared anew.

        SettingError if rows are in memory, StaleDataError if the model or the first rows differ.
        """
        raise SettingError(IN_MEMORY)

    @abstractmethod
    def objection_to(self, moves: EffectMoves) -> str:
        """Error text if the step must update effects in another way than this plan; else ""."""

    def for_step(self, target: Target, requirements: Requirements) -> Self:
        """The same plan for the target and the requirements of a step."""
        return replace(self, target=target, requirements=requirements)

    @property
    def seconds_of_effects(self) -> float:
        """Time to draw all effects that are integrated out for one stored draw; 0 without them."""
        return 0.0

    @property
    def described(self) -> Target:
        """Posterior of all variables, which reports describe."""
        return self.target

    #: What an update draws, in words.
    units: ClassVar[str] = "observations"

    @property
    def integrated(self) -> str:
        """Effects that are integrated out and how, in words; empty if there are none."""
        return ""

    def unravel(
        self, position: np.ndarray, point: Mapping[str, np.ndarray], number: int = 0
    ) -> dict:
        """Copy of `point` with the value variables of a position, effects included.

        Effects that are integrated out are drawn for the `number` of a chain's draw.
        """
        return self.target.factorization.unravel(position, point)

    def whole_draws(
        self, positions: np.ndarray, first: int = 0, chosen: Sequence[int] | None = None
    ) -> WholeDraws:
        """All variables at draws, effects included; `positions`, (chains, draws, d), are lost.

        `first` is the number of the first draw in its chain. With groups `chosen`, effects of
        others may be NaN.
        """
        return self.own_draws(positions)

    def values_at(self, position: np.ndarray) -> np.ndarray:
        """Log-likelihood of each observation."""
        return self.target.full_data.values(position)

    def own_draws(self, positions: np.ndarray) -> WholeDraws:
        """Variables of the position at draws; `positions`, (chains, draws, d), are overwritten."""
        return self.target.factorization.draws(positions)

    def bound_ratio(self, position: np.ndarray, new: np.ndarray) -> tuple[float, int]:
        """Maximum ratio of a row's change to its bound between two positions, and the row.

        NaN and -1 if no bound covers the two positions.
        """
        return np.nan, -1

    @abstractmethod
    def objection_of(self, seed: int, rows: np.ndarray | None = None) -> str:
        """Description of a violated bound in `rows` (default: all or many); "" if there is none."""

    def violation_by(self, row: int, ratio: float, position: np.ndarray, new: np.ndarray) -> str:
        """Message about a row that exceeds its bound in a proposal."""
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
        """Basis of the likelihood's null space, shape (k, d), and whitened lengths, shape (k,)."""

    @abstractmethod
    def describe_centre(self) -> str:
        """Description of the centre, such as "near the mode of the joint density"."""

    @abstractmethod
    def stored_arrays(self) -> dict[str, np.ndarray]:
        """Arrays to write to a file, by name."""

    def require_few_full_passes(
        self, most_drawn: float, forecast: Callable[[np.random.Generator], int] | None = None
    ) -> None:
        """Raise SettingError if more than one of thousands of proposals needs all stored rows.

        A proposal needs them if more than `most_drawn` rows would be drawn; `forecast` counts such
        proposals for methods without bounds.
        """
        return


def record_arrays(name: str, record: Any) -> dict[str, np.ndarray]:
    """Fields of a named tuple as arrays, with names that begin with `name`; empty for None."""
    fields = {} if record is None else record._asdict()
    return {f"{name}_{field}": np.asarray(value) for field, value in fields.items()}


def optional_record(name: str, kind: Any, stored: dict[str, np.ndarray]) -> Any:
    """Named tuple read from an archive; None if all arrays are missing, KeyError if some are."""
    known = any(field.startswith(f"{name}_") for field in stored)
    return stored_record(name, kind, stored) if known else None


def stored_record(name: str, kind: Any, stored: dict[str, np.ndarray]) -> Any:
    """Named tuple read from an archive; KeyError if an array is missing."""
    values = [stored[f"{name}_{field}"] for field in kind._fields]
    return kind(*(value if value.ndim else value.item() for value in values))
