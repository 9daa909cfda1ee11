"""Groups as observations: the rows of each group, with its effects integrated out by nodes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from pymc_minibatch_mh.compiled.form_rows import DataLeaves, FormRows, TermLayout
from pymc_minibatch_mh.data import ArrayRows
from pymc_minibatch_mh.expressions.graph import CoordinateIndex, Gather, Monomial
from pymc_minibatch_mh.expressions.patterns import with_quick_choices
from pymc_minibatch_mh.native.forms import RowSpace
from pymc_minibatch_mh.native.library import LaidOut, function
from pymc_minibatch_mh.structure.predictors import LinearForm, read_coordinates
from pymc_minibatch_mh.structure.row_function import RowFunction, predictor_forms
from pymc_minibatch_mh.structure.small_groups import SmallGroups


class Nodes(NamedTuple):
    """Nodes z of q effects, shape (groups, q, nodes), and log weights, shape (groups, nodes)."""

    z: np.ndarray
    log_weights: np.ndarray

    def some(self, numbers: np.ndarray) -> "Nodes":
        """Nodes of some groups."""
        return Nodes(self.z[numbers], self.log_weights[numbers])


class ScaleRecord(NamedTuple):
    """Entry of the effects' factor, whose power `root` is a coordinate: ``mh_scale``."""

    row: int
    column: int
    coordinate: int
    root: int
    spread: float

    def value_at(self, positions: np.ndarray) -> np.ndarray:
        """Entry at positions of shape (..., d)."""
        return self.spread * positions[..., self.coordinate] ** (1.0 / self.root)


class GroupRecord(NamedTuple):
    """Groups with their rows, nodes and compiled functions: ``mh_groups``."""

    size: int
    order: int
    n_terms: int
    n_nodes: int
    n_effects: int
    terms: LaidOut
    rows: np.ndarray
    starts: np.ndarray
    nodes: np.ndarray
    log_weights: np.ndarray
    location: np.ndarray
    offsets: np.ndarray
    scales: tuple[ScaleRecord, ...]

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return self.starts.shape[1] - 1


@dataclass(frozen=True, eq=False)
class GroupLayout:
    """Rows of all groups as functions of the position and, as last coordinates, the own effects.

    `rows` are row numbers within the terms, sorted by term and group, from `starts` on, shape
    (terms, groups + 1). The effects' mean is `location` θ + `offsets`, shapes (q, d) and (q,).
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
        order, starts, begin = [], [], 0
        for levels in groups.levels:
            ends = np.searchsorted(np.sort(levels), np.arange(groups.n_groups + 1))
            order.append(np.argsort(levels, kind="stable"))
            starts.append(begin + ends)
            begin += levels.size
        size, new = total - groups.coordinates.size, groups.without(total)
        location = np.zeros((len(groups.effects), size))
        for line, effect in zip(location, groups.effects, strict=True):
            for k, weight in effect.location:
                line[new[k]] += weight
        moved = tuple(
            replace(f, arguments=tuple(_moved_form(x, groups, new, size) for x in f.arguments))
            for f in functions
        )
        scales = tuple(
            ScaleRecord(x.row, x.column, int(new[x.coordinate]), root, x.spread)
            for x, root in zip(groups.scales, roots, strict=True)
        )
        offsets = np.array([effect.offset for effect in groups.effects])
        rows = np.concatenate(order).astype(np.int64)
        return cls(groups, moved, size, location, offsets, scales, rows, np.array(starts, np.int64))

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return self.starts.shape[1] - 1

    def some(self, numbers: np.ndarray) -> Self:
        """Layout of some groups, which are numbered anew."""
        firsts, counts = self.starts[:, numbers], np.diff(self.starts, axis=1)[:, numbers]
        begins = np.cumsum(counts.ravel()) - counts.ravel()
        rows = np.repeat(firsts.ravel() - begins, counts.ravel()) + np.arange(counts.sum())
        begins, ends = begins.reshape(counts.shape), np.cumsum(counts.sum(axis=1))
        starts = np.concatenate([begins, ends[:, None]], axis=1)
        return replace(self, rows=self.rows[rows], starts=starts)

    @property
    def is_read(self) -> np.ndarray:
        """Whether groups depend on a coordinate, shape (d,)."""
        read = read_coordinates(predictor_forms(self.functions))
        read = read.union(scale.coordinate for scale in self.scales)
        return (self.location != 0.0).any(axis=0) | np.isin(np.arange(self.size), list(read))

    def record(self, nodes: Nodes, terms: LaidOut, order: int) -> GroupRecord:
        """C record with some nodes, and with terms that have compiled functions."""
        return GroupRecord(
            self.size, order, len(self.functions), nodes.z.shape[2], nodes.z.shape[1], terms,
            self.rows, self.starts, *nodes, self.location, self.offsets, self.scales,
        )  # fmt: skip


def _moved_form(form: LinearForm, groups: SmallGroups, new: np.ndarray, size: int) -> LinearForm:
    """Linear predictor of a position without effects and, as last coordinates, the own effects."""
    firsts = groups.coordinates[0].tolist()

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
    cheap_hessian, has_skewness = True, False

    def __init__(self, layout: GroupLayout, nodes: Nodes, source: ArrayRows) -> None:
        self.layout, self.nodes, self.source = layout, nodes, source
        self.context = np.array(source.others_address, dtype=np.int64)
        quick = [replace(f, root=with_quick_choices(f.exprs, f.root)) for f in layout.functions]
        self._forms = FormRows(quick, layout.size + len(layout.offsets))

    @property
    def evaluations(self) -> float:
        """Mean number of a group's rows times nodes."""
        layout = self.layout
        return max(layout.rows.size / layout.n_groups, 1.0) * self.nodes.z.shape[2]

    def at_nodes(self, nodes: Nodes) -> "GroupRows":
        """The same groups and compiled functions, at other nodes."""
        _ = self.terms  # shared by the copy
        other = object.__new__(GroupRows)
        other.__dict__.update({**self.__dict__, "nodes": nodes})
        return other

    def some(self, numbers: np.ndarray) -> "GroupRows":
        """Some of the groups, with the same compiled functions."""
        other = self.at_nodes(self.nodes.some(numbers))
        other.layout = self.layout.some(numbers)
        return other

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
        return LaidOut("mh_groups", self.layout.record(self.nodes, self.terms, order))

    def record_of_scales(self) -> LaidOut:
        """C record of the groups in coordinates of the scales themselves, not of their squares."""
        record = self.layout.record(self.nodes, self.terms, 2)
        scales = tuple(scale._replace(root=1) for scale in record.scales)
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
