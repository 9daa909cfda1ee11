"""Groups as observations: the rows of each group, with its effects integrated out by nodes."""

import threading
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from pymc_minibatch_mh.compiled.form_rows import DataLeaves, FormRows, TermLayout
from pymc_minibatch_mh.data import ArrayRows, RowBlock
from pymc_minibatch_mh.data.source import consecutive_slice, read_columns
from pymc_minibatch_mh.errors import MinibatchError
from pymc_minibatch_mh.expressions.graph import CoordinateIndex, Gather, Monomial
from pymc_minibatch_mh.expressions.patterns import with_quick_choices
from pymc_minibatch_mh.native.forms import RowSpace
from pymc_minibatch_mh.native.library import LaidOut, ffi, function
from pymc_minibatch_mh.structure.predictors import LinearForm, read_coordinates
from pymc_minibatch_mh.structure.row_function import RowFunction, predictor_forms, with_rows
from pymc_minibatch_mh.structure.small_groups import SmallGroups
from pymc_minibatch_mh.threads import map_in_threads


class Nodes(NamedTuple):
    """Nodes z of q effects, shape (groups, q, nodes), and log weights, shape (groups, nodes)."""

    z: np.ndarray
    log_weights: np.ndarray

    def some(self, numbers: np.ndarray) -> "Nodes":
        """Nodes of some groups."""
        return Nodes(self.z[numbers], self.log_weights[numbers])


class ScaleRecord(NamedTuple):
    """Entry of the effects' factor, whose power `root` is a coordinate: ``mh_scale``.

    The entry is the constant `spread` if the root is 0.
    """

    row: int
    column: int
    coordinate: int
    root: int
    spread: float

    def value_at(self, positions: np.ndarray) -> np.ndarray:
        """Entry at positions of shape (..., d)."""
        values = positions[..., self.coordinate]
        return self.spread * (values ** (1.0 / self.root) if self.root else np.ones_like(values))


class GroupRecord(NamedTuple):
    """Groups with their rows, nodes and compiled functions: ``mh_groups``."""

    size: int
    order: int
    n_terms: int
    n_nodes: int
    n_integrated: int
    n_effects: int
    terms: LaidOut
    rows: np.ndarray
    starts: np.ndarray
    nodes: np.ndarray
    log_weights: np.ndarray
    location: np.ndarray
    offsets: np.ndarray
    scales: tuple[ScaleRecord, ...]
    fetch: Any = None

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return self.starts.shape[1] - 1


@dataclass(frozen=True, eq=False)
class GroupLayout:
    """Rows of all groups as functions of the position and, as last coordinates, the own effects.

    Rows of large groups are observations of their own, after the groups: terms, which follow those
    of the groups, have the effects of large groups as coordinates.

    `rows` are row numbers within the terms, sorted by term and group, from `starts` on, shape
    (terms, groups + 1); none of stored rows, which lie in this order. The effects' mean is
    `location` θ + `offsets`, shapes (q, d) and (q,).
    """

    groups: SmallGroups
    functions: tuple[RowFunction, ...]
    size: int
    location: np.ndarray
    offsets: np.ndarray
    scales: tuple[ScaleRecord, ...]
    rows: np.ndarray
    starts: np.ndarray

    @classmethod
    def from_functions(
        cls, functions: Sequence[RowFunction], groups: SmallGroups, total: int, roots: Sequence[int]
    ) -> Self:
        """Layout for row functions of all `total` coordinates, effects included."""
        counts, rows = groups.counts, [np.argsort(x, kind="stable") for x in groups.levels]
        if groups.large.size:
            counts, rows = _apart(groups)
        ends = np.cumsum(counts).reshape(counts.shape)
        starts = np.concatenate([ends[:, :1] - counts[:, :1], ends], axis=1)
        size, new = total - groups.coordinates.size, groups.without(total)
        location = np.zeros((len(groups.effects), size))
        for line, effect in zip(location, groups.effects, strict=True):
            for k, weight in effect.location:
                line[new[k]] += weight
        moved = tuple(
            replace(f, arguments=tuple(_moved_form(x, groups, new, size) for x in f.arguments))
            for f in functions
        )
        if groups.large.size:
            moved += tuple(_of_large_groups(f, groups, new) for f in functions)
        scales = tuple(
            ScaleRecord(x.row, x.column, 0, 0, x.spread)
            if x.is_constant
            else ScaleRecord(x.row, x.column, int(new[x.coordinate]), root, x.spread)
            for x, root in zip(groups.scales, roots, strict=True)
        )
        offsets = np.array([effect.offset for effect in groups.effects])
        order = np.concatenate(rows).astype(np.int64)
        return cls(groups, moved, size, location, offsets, scales, order, starts)

    @property
    def free_scales(self) -> tuple[ScaleRecord, ...]:
        """Scales that depend on a coordinate."""
        return tuple(scale for scale in self.scales if scale.root)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return self.starts.shape[1] - 1

    @property
    def n_rows(self) -> int:
        """Number of rows of all terms."""
        return int(self.starts[-1, -1])

    @property
    def n_integrated(self) -> int:
        """Number of terms whose rows read effects that are integrated out: those of the groups."""
        groups = self.groups
        return len(self.functions) // (2 if groups.n_groups < groups.counts.shape[1] else 1)

    def n_evaluations(self, n_nodes: int) -> int:
        """Number of rows times nodes: rows of large groups are evaluated once."""
        rows = self.starts[:, -1] - self.starts[:, 0]
        return int(rows[: self.n_integrated].sum() * n_nodes + rows[self.n_integrated :].sum())

    @property
    def is_stored(self) -> bool:
        """Whether rows are in storage, in the order of their groups."""
        return any(function.is_stored for function in self.functions)

    def some(self, numbers: np.ndarray) -> Self:
        """Layout of some groups, which are numbered anew."""
        firsts, counts = self.starts[:, numbers], np.diff(self.starts, axis=1)[:, numbers]
        begins = np.cumsum(counts.ravel()) - counts.ravel()
        rows = np.repeat(firsts.ravel() - begins, counts.ravel()) + np.arange(counts.sum())
        begins, ends = begins.reshape(counts.shape), np.cumsum(counts.sum(axis=1))
        starts = np.concatenate([begins, ends[:, None]], axis=1)
        return replace(self, rows=rows if self.is_stored else self.rows[rows], starts=starts)

    @property
    def is_read(self) -> np.ndarray:
        """Whether groups depend on a coordinate, shape (d,)."""
        read = read_coordinates(predictor_forms(self.functions))
        read = read.union(scale.coordinate for scale in self.free_scales)
        return (self.location != 0.0).any(axis=0) | np.isin(np.arange(self.size), list(read))

    def record(self, nodes: Nodes, terms: LaidOut, order: int) -> GroupRecord:
        """C record with some nodes, and with terms that have compiled functions."""
        return GroupRecord(
            self.size, order, len(self.functions), nodes.z.shape[2], self.n_integrated,
            nodes.z.shape[1], terms, self.rows, self.starts, *nodes, self.location, self.offsets,
            self.scales,
        )  # fmt: skip


def _apart(groups: SmallGroups) -> tuple[np.ndarray, list[np.ndarray]]:
    """Numbers of rows and rows by term: of groups, then of each row of large groups by itself."""
    is_large = np.isin(np.arange(groups.counts.shape[1]), groups.large)
    order = [np.argsort(levels, kind="stable") for levels in groups.levels]
    apart = [is_large[levels[x]] for levels, x in zip(groups.levels, order, strict=True)]
    alone = np.repeat(np.eye(len(order), dtype=np.int64), [x.sum() for x in apart], axis=1)
    counts = np.block(
        [
            [groups.counts[:, groups.small], np.zeros_like(alone)],
            [np.zeros((len(order), groups.n_groups), np.int64), alone],
        ]
    )
    pairs = list(zip(order, apart, strict=True))
    return counts, [*(x[~large] for x, large in pairs), *(x[large] for x, large in pairs)]


def _of_large_groups(function: RowFunction, groups: SmallGroups, new: np.ndarray) -> RowFunction:
    """Row function in which the effects of large groups are coordinates."""
    factors = {e.factor.places[0]: e.factor for e in groups.effects}

    def moved(index: CoordinateIndex) -> CoordinateIndex:
        if not isinstance(index, Gather):
            return int(new[index])
        if index.first not in factors:
            return replace(index, first=int(new[index.first]))
        factor = factors[index.first]
        left = new[factor.places[groups.large]]
        step = int(left[1] - left[0]) if left.size > 1 else 1
        levels = factor.of_index(np.arange(index.size))
        table = np.searchsorted(groups.large, levels).clip(0, left.size - 1)
        number = function.exprs.lookup(table.astype(np.int64), index.index)
        return Gather(int(left[0]), step, left.size, number)

    forms = tuple(
        LinearForm(tuple(Monomial(t.factor, t.monomial, moved(t.place)) for t in form.terms))
        for form in function.arguments
    )
    return replace(function, arguments=forms)


def _moved_form(form: LinearForm, groups: SmallGroups, new: np.ndarray, size: int) -> LinearForm:
    """Linear predictor of a position without effects and, as last coordinates, the own effects."""
    firsts = groups.all_coordinates[0].tolist()

    def moved(index: CoordinateIndex) -> CoordinateIndex:
        if not isinstance(index, Gather):
            return int(new[index])
        if index.first in firsts:
            return size + firsts.index(index.first)
        return replace(index, first=int(new[index.first]))

    return LinearForm(tuple(Monomial(t.factor, t.monomial, moved(t.place)) for t in form.terms))


class GroupRows:
    """Groups as observations, in memory, at frozen nodes."""

    #: Groups have Hessians at the price of their rows; no compiled averages of third derivatives.
    cheap_hessian, has_skewness, without_second = True, False, ""

    def __init__(self, layout: GroupLayout, nodes: Nodes, source: ArrayRows) -> None:
        self.layout, self.nodes, self.source = layout, nodes, source
        self.context = np.array(source.others_address, dtype=np.int64)
        quick = [replace(f, root=with_quick_choices(f.exprs, f.root)) for f in layout.functions]
        self._forms = FormRows(quick, layout.size + len(layout.offsets))

    @property
    def evaluations(self) -> float:
        """Mean number of a group's rows times nodes."""
        layout = self.layout
        return max(layout.n_evaluations(self.nodes.z.shape[2]) / layout.n_groups, 1.0)

    def at_nodes(self, nodes: Nodes) -> "GroupRows":
        """The same groups and compiled functions, at other nodes."""
        _ = self.terms  # shared by the copy
        other = object.__new__(type(self))
        other.__dict__.update({**self.__dict__, "nodes": nodes})
        return other

    def some(self, numbers: np.ndarray) -> "GroupRows":
        """Some of the groups, with the same compiled functions."""
        other = self.at_nodes(self.nodes.some(numbers))
        other.layout = self.layout.some(numbers)
        return other

    def part(self, first: int, last: int) -> tuple["GroupRows", int, int]:
        """Rows in memory with groups `first` to `last` - 1, and their numbers there."""
        return self, first, last

    def at(self, source: ArrayRows) -> "GroupRows":
        """The same groups and compiled functions, with the other variables of a source."""
        other = self.at_nodes(self.nodes)
        other.source = source
        other.context = np.array(source.others_address, dtype=np.int64)
        return other

    def on_block(self, block: ArrayRows) -> Self:
        """The groups themselves, because their rows are in memory."""
        return self

    @cached_property
    def terms(self) -> LaidOut:
        """C records of the terms, with compiled functions."""
        leaves = [DataLeaves(function) for function in self.layout.functions]
        roles = {name: getattr(self._forms, name)() for name in ("values", "slopes", "thirds")}
        layouts = [
            TermLayout(f.arguments, leaf, taken)
            for f, leaf, taken in zip(
                self.layout.functions, leaves, self._forms.leaves, strict=True
            )
        ]
        self._layouts: Any = layouts
        return LaidOut(
            "mh_term",
            [
                layout.term._replace(**{name: compiled[k] for name, compiled in roles.items()})
                for k, layout in enumerate(layouts)
            ],
        )

    def record(self, order: int = 2) -> LaidOut:
        """C record of the groups with remainders of an order."""
        return LaidOut("mh_groups", self._record(order))

    def _record(self, order: int) -> GroupRecord:
        return self.layout.record(self.nodes, self.terms, order)

    def record_of_scales(self) -> LaidOut:
        """C record of the groups in coordinates of the scales themselves, not of their squares."""
        record = self.layout.record(self.nodes, self.terms, 2)
        scales = tuple(scale._replace(root=min(scale.root, 1)) for scale in record.scales)
        return LaidOut("mh_groups", record._replace(scales=scales))

    def space(
        self, order: int | None = None, *, derivatives: bool = False, skewness: bool = False
    ) -> RowSpace:
        """Addresses of the groups' data and compiled functions, for remainders of an `order`."""
        starts = self.source.term_starts
        record = self.record(2 if order is None else order)
        return RowSpace(self.layout.size, starts, self.context, groups=record)

    def values_at(self, theta: np.ndarray, groups: np.ndarray) -> np.ndarray:
        """F_q of some groups, shape (groups, nodes)."""
        out = np.empty((groups.size, self.nodes.z.shape[2]))
        function("mh_values_of_nodes")(self.record(), theta, groups, groups.size, out)
        return out

    def describe_undefined(self, term: int, row: int, position: np.ndarray) -> str:
        """Description of a group without finite derivatives."""
        return f"in group {row} of {self.layout.groups.name!r}"


class StoredGroupRows(GroupRows):
    """Groups whose rows are in storage, sorted by group, and are read when they are needed."""

    #: Rows and record that compiled code evaluates now, by thread.
    _fetched = threading.local()
    #: Error that ended a request of compiled code.
    _error: BaseException | None = None

    @cached_property
    def terms(self) -> None:  # type: ignore[override]
        """None: terms have addresses once their rows are read."""

    def some(self, numbers: np.ndarray) -> GroupRows:
        """Some of the groups, read into memory."""
        order, inverse = np.unique(numbers, return_inverse=True)
        layout = self.layout.some(order)
        (function,) = layout.functions
        columns = read_columns(function.columns, consecutive_slice(layout.rows))
        read = with_rows(function, ArrayRows(columns, [layout.n_rows]))
        layout = replace(layout, functions=(read,), rows=np.arange(layout.n_rows))
        other = object.__new__(GroupRows)
        other.__dict__.update({k: v for k, v in self.__dict__.items() if k != "terms"})
        other.layout = layout if np.array_equal(order, numbers) else layout.some(inverse)
        other.nodes = self.nodes.some(numbers)
        return other

    def part(self, first: int, last: int) -> tuple[GroupRows, int, int]:
        """Rows with groups `first` to `last` - 1, read into memory, and their numbers there."""
        return self.some(np.arange(first, last)), 0, last - first

    def record(self, order: int = 2) -> LaidOut:
        """C record whose rows are fetched, for remainders of an order."""

        def fetch(numbers: Any, n: int) -> Any:
            chosen = np.frombuffer(ffi.buffer(numbers, 8 * n), np.int64)
            rows = self.some(chosen)
            # The record has addresses of columns, which the rows keep.
            self._fetched.rows, self._fetched.record = rows, rows.record(order)
            return self._fetched.record.at

        def note(_: Any, error: BaseException, __: Any) -> None:
            self._error = error

        called = ffi.callback("mh_fetch", fetch, error=ffi.NULL, onerror=note)
        return LaidOut("mh_groups", super()._record(order)._replace(fetch=called))

    def error(self) -> BaseException:
        """Return and clear the error that ended a request of compiled code."""
        error, self._error = self._error, None
        return error or MinibatchError("Stored observations could not be fetched.")

    def values_at(self, theta: np.ndarray, groups: np.ndarray) -> np.ndarray:
        """F_q of some groups, shape (groups, nodes)."""
        return self.some(groups).values_at(theta, np.arange(groups.size))


class StoredGroups(ArrayRows):
    """Numbers of groups whose rows are in storage: a full-data evaluation reads them in blocks."""

    def map_blocks(self, work: Any, blocks: Sequence[RowBlock]) -> Generator[Any]:
        """Read each block of groups, and apply its function in threads; results are in order."""

        def compute_block(block: RowBlock) -> Any:
            numbers, call = block
            if isinstance(numbers, slice):
                numbers = np.arange(numbers.start, numbers.stop)
            if not isinstance(work, StoredGroupRows):
                return call(work, self, numbers)
            return call(work.some(numbers), self, np.arange(numbers.size))

        return map_in_threads(compute_block, blocks)
