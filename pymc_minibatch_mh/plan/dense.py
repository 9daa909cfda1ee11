"""Plan with a dense precision matrix, and bounds for proposals of all coordinates."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from pymc_minibatch_mh.bounds.block_tables import BlockTables
from pymc_minibatch_mh.bounds.bound_check import PREPARATION_SEED, BoundedPosterior
from pymc_minibatch_mh.bounds.geometry import Groups
from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.compiled.graphs import term_names
from pymc_minibatch_mh.data.source import EvenRows, NumberedRows, StoredRows
from pymc_minibatch_mh.errors import BoundsError, SettingError
from pymc_minibatch_mh.native.bound_tables import NO_ROWS, TOTAL
from pymc_minibatch_mh.native.elements import ScaleConditional
from pymc_minibatch_mh.native.posterior import Reference, whitened_norm
from pymc_minibatch_mh.native.skew_map import SkewMap
from pymc_minibatch_mh.native.whitened_copy import NO_COPY, WhitenedCopy
from pymc_minibatch_mh.plan.append import (
    NotExtendedError,
    Sought,
    audited_rows,
    extended_sums,
    require_same_rows,
)
from pymc_minibatch_mh.plan.bound_sources import DerivedBounds, functions_of
from pymc_minibatch_mh.plan.plan import (
    EffectMoves,
    Plan,
    Requirements,
    optional_record,
    record_arrays,
    stored_record,
)
from pymc_minibatch_mh.reference.mode import Calibration, calibrate_remainders
from pymc_minibatch_mh.reference.scale_tables import scale_conditional
from pymc_minibatch_mh.reference.skewness import skew_map
from pymc_minibatch_mh.reference.tails import can_measure, heavy_tails, largest_skewness
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.threads import one_thread_of_blas

#: Number of trial proposals, and maximum number of them that may evaluate all stored rows.
MOVES, MAX_PASSES = 10_000, 1
#: Minimum fraction of fetched rows that chains use; below it, a warning is logged.
MIN_KEPT_SHARE = 0.01
#: Fields of bounds tables that a file stores.
TABLE_FIELDS = ("headers", "c", "verified", "heavy")
#: Fields that only tables over slabs have.
SLAB_FIELDS = ("along", "intervals")

_log = logging.getLogger("pymc")


@dataclass(frozen=True, eq=False)
class DensePlan(Plan):
    """Plan with a dense precision matrix, and bounds for proposals of all coordinates.

    `marginal` are the coordinates of the scales whose marginal density the mode search maximised.
    If rows were appended later, `sought` describes the rows of that search.
    """

    marginal: tuple[int, ...] = ()
    sought: Sought | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Derive bounds again if their file is gone; connect bounds of blocks to stored rows."""
        self.__dict__.update(state)
        if self.tables is None and self.violation is not None:
            self.__dict__["tables"] = replace(self, violation="").completed().tables
        elif isinstance(self.tables, BlockTables):
            self.__dict__["tables"] = self.tables.of_functions(functions_of(self.target))

    def for_step(self, target: Target, requirements: Requirements) -> Self:
        """The same plan, of its order, for the target and the requirements of a step."""
        return super().for_step(_of_order(self.reference, target), requirements)

    @classmethod
    def from_arrays(cls, target: Target, stored: dict[str, np.ndarray]) -> Self:
        """Plan read from the arrays of a file; KeyError if an array is missing."""
        tables, copy = None, optional_record("copy", WhitenedCopy, stored)
        if "headers" in stored:
            fields: dict[str, Any] = {name: stored[name] for name in TABLE_FIELDS}
            fields |= {name: stored.get(name) for name in SLAB_FIELDS}
            fields["verified"] = bool(fields["verified"])
            groups = optional_record("groups", Groups, stored)
            tables = Tables(**fields, groups=groups, copy=copy.aligned_lines() if copy else NO_COPY)
        reference = stored_record("reference", Reference, stored)
        return cls(
            _of_order(reference, target),
            Requirements(),
            reference,
            calibration=optional_record("calibration", Calibration, stored),
            heavy=stored.get("heavy_in_batches"),
            tables=tables,
            marginal=tuple(map(int, stored["marginal"])),
        )

    def stored_arrays(self) -> dict[str, np.ndarray]:
        """Arrays to write to a file, by name, without custom bounds that have a metric."""
        arrays = {"marginal": np.array(self.marginal, dtype=np.int64)}
        arrays |= record_arrays("reference", self.reference)
        arrays |= record_arrays("calibration", self.calibration)
        if self.calibration is not None and self.heavy is not None:
            arrays["heavy_in_batches"] = self.heavy
        tables = self.tables
        if isinstance(tables, Tables) and tables.metric is not None:
            _log.warning(
                "The file has no bounds, because it cannot store the metric of bounds=Bounds(c, "
                "metric). Pass bounds= again with prepared=; otherwise they are derived from the "
                "model."
            )
        elif isinstance(tables, Tables):
            names = TABLE_FIELDS if tables.along is None else TABLE_FIELDS + SLAB_FIELDS
            arrays |= {name: np.asarray(getattr(tables, name)) for name in names}
            arrays |= record_arrays("groups", tables.groups)
            arrays |= record_arrays("copy", tables.copy if tables.copy.lines.size else None)
        return arrays

    @property
    def drawn_from(self) -> BlockTables | EvenRows | NumberedRows | None:
        """Source of stored rows: drawn by bounds, uniformly or by number; None in memory."""
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
    def bytes_of_copy(self) -> int:
        """Size of the whitened copy by which candidates are rejected, in bytes; 0 without it."""
        return self.tables.copy.lines.nbytes if isinstance(self.tables, Tables) else 0

    @property
    def draws_by_groups(self) -> bool:
        """Whether candidates are drawn at rates that add up over groups of observations."""
        return isinstance(self.tables, Tables) and self.tables.has_members

    @cached_property
    def typical_sizes(self) -> list[float]:
        """Expected draws C M at χ = 0 of typical bounded proposals; C omits influential rows."""
        totals = self._bounded.tables.heads_of_drawn[:, TOTAL]
        return [float(totals[x.table] * x.m) for x in self._bounded.seeded_moves()]

    @property
    def _bounded(self) -> BoundedPosterior:
        assert self.tables is not None
        return BoundedPosterior(self.target, self.reference, self.tables)

    @cached_property
    def scale_conditional(self) -> ScaleConditional | None:
        """Normal approximation of effects given their scales; None if it does not help."""
        return scale_conditional(self.target, self.reference)

    @cached_property
    def skew_map(self) -> SkewMap | None:
        """Map to a skewed posterior, through the tables of scales if any; None if no gain."""
        return skew_map(self.target, self.reference, self.scale_conditional)

    @cached_property
    def heavy_tails(self) -> Mapping[str, float]:
        """Efficiency of proposals along coordinates whose tail they lack."""
        if self.integrated:
            # Nodes of integrals over effects hold near the centre only.
            return {}
        return heavy_tails(self.target, self.reference, (self.scale_conditional, self.skew_map))

    @property
    def largest_skewness(self) -> Sequence[tuple[str, float]]:
        """The most skewed coordinate and its skewness; empty if not measured."""
        if self.integrated or not can_measure(self.target, self.reference):
            return ()
        return (largest_skewness(self.target, self.reference),)

    def completed(self) -> Self:
        """Plan with everything that its method needs; BoundsError if a row has no bound."""
        found = self
        source = self.requirements.bounds
        if self.requirements.calibration and found.calibration is None:
            found = found._with_calibration()
        if source is not None and found.tables is not None and not source.has_made(found.tables):
            # Discard tables of another kind, which another method or a file provided.
            found = replace(found, tables=None, violation=None)
        if source is not None and found.tables is None:
            found = replace(found, tables=source.tables(found.target, found.reference))
        if found.tables is not None and found.violation is None:
            found = replace(found, violation=found.objection_of(PREPARATION_SEED))
        return found

    def without_unasked(self) -> Self:
        """Plan without quantities that its method does not need."""
        found = self
        if not self.requirements.derives_bounds:
            found = replace(found, tables=None, violation=None)
        if not self.requirements.calibration:
            found = replace(found, calibration=None, heavy=None)
        return found

    @one_thread_of_blas
    def around(self, start: np.ndarray) -> Self:
        """Plan around the mode found by a search from `start`."""
        rng = np.random.default_rng(PREPARATION_SEED)
        reference, marginal = self.target.expand(start, rng)
        found = replace(self._without_measurements(), reference=reference, marginal=marginal)
        return found.completed()

    @one_thread_of_blas
    def at(self, expansion: Reference) -> Self:
        """Plan around the centre of other control variates, with bounds there."""
        known = self.reference
        same = np.array_equal(expansion.centre, known.centre)
        if same and np.array_equal(expansion.whitener, known.whitener):
            return replace(self, reference=expansion)
        return replace(self._without_measurements(), reference=expansion).completed()

    def extended(self, target: Target, start: np.ndarray) -> Self | None:
        """Plan extended by further stored rows; None if everything has to be prepared anew."""
        require_same_rows(self.target, target, start)
        rows = np.arange(self.n_rows, target.source.n_rows)
        # Only bounds of blocks are extended; other bounds are derived again at the same centre.
        of_blocks = self.tables if isinstance(self.tables, BlockTables) else None
        if not rows.size:
            tables = of_blocks.of_functions(functions_of(target)) if of_blocks else self.tables
            return replace(self, target=target, tables=tables)
        sought, why = self.sought or Sought(self.n_rows, self.reference), ""
        try:
            found = extended_sums(target, self.reference, sought, rows)
            tables = of_blocks and of_blocks.extended(functions_of(target))
        except NotExtendedError as reason:
            why = str(reason)
        except BoundsError:
            why = "a new row has no bound around the centre of the old ones"
        if why:
            _log.info(
                "Cannot extend prepared=, because %s. Evaluating all observations instead.", why
            )
            return None
        # The moments of remainders, which set batch sizes, are measured again on all rows.
        unmeasured = replace(self, calibration=None, heavy=None)
        longer = replace(unmeasured, target=target, reference=found, tables=tables, sought=sought)
        if tables is None or self.violation != "":
            return replace(longer, violation=None if tables is None else self.violation)
        return replace(longer, violation=longer.objection_of(PREPARATION_SEED, audited_rows(rows)))

    def objection_to(self, moves: EffectMoves) -> str:
        """Error text for a step that requires effects one at a time, unlike this plan; else ""."""
        if moves.by_elements == "always":
            return "together, but this one has to update them one at a time. Leave blocks= out"
        if moves.integrated == "always":
            return "together, but this one has to integrate them out. Leave blocks= out"
        return ""

    @property
    def covariance(self) -> np.ndarray:
        """Covariance of the Gaussian approximation, shape (d, d)."""
        return self.reference.factor @ self.reference.factor.T

    def distance(self, position: np.ndarray) -> float:
        """Distance of a position from the centre, in posterior standard deviations."""
        return float(whitened_norm(self.reference.whitener, position, self.reference.centre))

    def gaussian_draw(self, rng: np.random.Generator, scale: float) -> np.ndarray:
        """Position from the Gaussian approximation, `scale` times as wide."""
        noise = rng.standard_normal(self.reference.centre.size)
        return self.reference.centre + scale * (self.reference.factor @ noise)

    def unread_steps(self) -> tuple[np.ndarray, np.ndarray]:
        """Basis of the likelihood's null space, shape (k, d), and whitened lengths, shape (k,)."""
        directions = self.target.compiled.null_space
        return directions, np.linalg.norm(directions @ self.reference.whitener.T, axis=1)

    def describe_centre(self) -> str:
        """Where the centre is, in words."""
        if self.target.covariance is not None:
            return "the start, as centre='start' asks for"
        if not self.marginal:
            return "near the mode of the joint density"
        parts = self.target.factorization
        names = [
            repr(name)
            for block, name in zip(parts.blocks, parts.natural, strict=True)
            if any(block.start <= k < block.stop for k in self.marginal)
        ]
        listed = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
        return (
            f"near the mode of the marginal density of {listed}, with all else integrated over, as "
            "the joint density of a hierarchy has none"
        )

    def require_few_full_passes(
        self, most_drawn: float, forecast: Callable[[np.random.Generator], int] | None = None
    ) -> None:
        """Raise SettingError if more than one of `MOVES` proposals needs all stored rows."""
        if self.target.source.in_memory:
            return
        warn_of_uneven_bounds(self)
        rng = np.random.default_rng(PREPARATION_SEED)
        if forecast is not None:
            require_few(forecast(rng), self, most_drawn)
            return
        sizes = self._bounded.sizes_of_many(rng, MOVES)
        # A proposal without a bound evaluates all rows, even if `most_drawn` is infinite.
        few = (sizes <= most_drawn) & (sizes < np.inf)
        require_few(int(np.count_nonzero(~few)), self)

    def objection_of(self, seed: int, rows: np.ndarray | None = None) -> str:
        """Description of a violated bound in `rows` (default: all or many); "" if there is none."""
        if self.tables is None:
            return ""
        source, rng = self.requirements.bounds or DerivedBounds(), np.random.default_rng(seed)
        return source.audit(self._bounded, rng, rows)

    def _without_measurements(self) -> Self:
        nothing: dict[str, Any] = dict.fromkeys(("calibration", "heavy", "tables", "violation"))
        return replace(self, **nothing, sought=None)

    def _with_calibration(self) -> Self:
        """Plan with measured moments of the remainders, and with influential rows."""
        target, rng = self.target, np.random.default_rng(PREPARATION_SEED)
        # Influential rows are defined by typical proposals, which are known around a mode only.
        sought = target.covariance is None
        measured, heavy = calibrate_remainders(
            target.full_data, target.taylor_order, self.reference, rng, seeks_heavy=sought
        )
        return replace(self, calibration=measured, heavy=heavy)


def _of_order(reference: Reference, target: Target) -> Target:
    """Target with the order of control variates, if this was chosen by a forecast."""
    return target.at_order(reference.order) if target.chooses_order else target


def warn_of_uneven_bounds(plan: DensePlan) -> None:
    """Log a warning if chains use few of the stored rows that they fetch."""
    tables = plan.tables
    if not isinstance(tables, BlockTables) or plan.n_rows <= tables.most_at_once:
        return
    share = max(tables.kept_share(table) for table in range(tables.n_tables))
    if share < MIN_KEPT_SHARE:
        _log.warning(
            "%s: chains use one in %s stored rows that they fetch, because bounds differ widely "
            "within a block of %s rows. Sort the rows by how well they fit the model, worst "
            "last, or give the model arrays in memory.",
            term_names(plan.target.factorization),
            f"{1.0 / share:,.0f}",
            f"{tables.length:,}",
        )


def require_few(passes: int, plan: DensePlan, most_in_batch: float | None = None) -> None:
    """Raise SettingError if more than MAX_PASSES of MOVES proposals evaluate all stored rows.

    `passes` counts them. They exceed the batch size `most_in_batch`, None for tests by bounds.
    """
    if passes <= MAX_PASSES:
        return
    names = term_names(plan.target.factorization)
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
