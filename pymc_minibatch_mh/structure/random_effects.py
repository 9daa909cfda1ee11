"""Random effects that are conditionally independent given all other parameters.

The levels of a grouping factor are independent if every observation depends on at most one of them,
and the prior is a sum of functions of one level each. Linear predictors show the first condition.
*Labels* prove the second: they pass through the prior's operations and tell which level a number
depends on. The prior may *couple* levels of different factors, for example correlated intercepts
and slopes.

Crossed levels, several in each observation, such as the skills of both teams of a match, depend on
each other. They belong to the *border*: coordinates that are proposed jointly with the common
effects. Bounds use which of the crossed levels an observation depends on.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, zip_longest
from typing import Any, NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.traversal import ancestors, toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as scalar
from pytensor.tensor.basic import Alloc, Join, MakeVector, ScalarFromTensor, Split, TensorFromScalar
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.linalg.solvers.triangular import SolveTriangular
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedSubtensor,
    IncSubtensor,
    Subtensor,
)

from pymc_minibatch_mh.expressions.graph import Expr, Gather, Monomial
from pymc_minibatch_mh.functions.base import operation_name
from pymc_minibatch_mh.model.constant_data import AS_SAMPLED, IN_PYTHON
from pymc_minibatch_mh.model.factorization import Factorization
from pymc_minibatch_mh.structure.row_function import RowFunction

#: Operations that only permute, copy or reshape their first input.
_PERMUTES = (
    DimShuffle, Reshape, SpecifyShape, Subtensor, AdvancedSubtensor, Alloc, Split,
    CheckAndRaise, ScalarFromTensor, TensorFromScalar,
)  # fmt: skip
#: Operations that concatenate several inputs; and operations that assign to a part of an input.
_JOINS, _SETS = (Join, MakeVector), (IncSubtensor, AdvancedIncSubtensor)


#: Maximum number of grouping factors; more have too many pairs of effects in each observation.
MAX_FACTORS = 8
#: Maximum number of crossed levels: with 3,000, nearly every proposal evaluates all observations.
MAX_CROSSED_LEVELS = 2_000
#: A factor is split into one of these numbers of parts: the first for which the prior couples no
#: levels of one part. 1 is no split; 3 and 5 suit random walks of order one and two.
_SPLITS = (1, 3, 5)


class NotSeparableError(Exception):
    """Reason why no effects are conditionally independent."""


@dataclass(frozen=True, eq=False)
class GroupingFactor:
    """Grouping factor with levels at the coordinates `places`, int64, shape (G,), in index order.

    An observation has at most one level. `readings` are, for each term, pairs of argument number
    and monomial that depend on the factor. Index values `first`, `first` + `every`, … are levels.
    """

    name: str
    places: np.ndarray
    readings: tuple[tuple[tuple[int, Monomial], ...], ...]
    first: int = 0
    every: int = 1

    def of_index(self, index: np.ndarray) -> np.ndarray:
        """Level of each index value, -1 if it is no level of this factor."""
        number, beside = np.divmod(index - self.first, self.every)
        return np.where(beside == 0, number, -1)

    def split_by_remainder(self, every: int) -> list["GroupingFactor"]:
        """Split the levels into several factors, by the remainder of their index modulo `every`."""
        firsts = range(min(every, self.places.size))
        return [replace(self, places=self.places[k::every], first=k, every=every) for k in firsts]


@dataclass(frozen=True, eq=False)
class RandomEffects:
    """Grouping factors, largest first; jointly proposed coordinates (*border*); unused coordinates.

    The border is common effects, then crossed levels: an observation depends on one level of each
    crossed factor in `chosen`, whose `places` may coincide. `others` are in no observation.

    `coupled`, int64, shape (k, 2), are pairs of levels of different factors, numbered across all
    factors, that occur in one part of the prior. Each second level has one first level.
    """

    factors: tuple[GroupingFactor, ...]
    border: np.ndarray
    others: np.ndarray
    chosen: tuple[GroupingFactor, ...] = ()
    coupled: np.ndarray = field(default_factory=lambda: np.empty((0, 2), np.int64))

    @property
    def labels(self) -> np.ndarray:
        """Coordinates of all levels, factor by factor, shape (L,)."""
        return _concatenated_places(self.factors)

    @property
    def choices(self) -> np.ndarray:
        """Concatenated coordinates of the crossed factors `chosen`, shape (K,)."""
        return _concatenated_places(self.chosen)

    @property
    def chosen_places(self) -> np.ndarray:
        """Coordinates of crossed levels, shape (c,), which come last in the border."""
        return np.unique(self.choices)

    @property
    def names(self) -> str:
        """Comma-separated names of all grouping factors."""
        return ", ".join(dict.fromkeys(one.name for one in (*self.factors, *self.chosen)))


def _concatenated_places(factors: Sequence[GroupingFactor]) -> np.ndarray:
    return np.concatenate([np.empty(0, np.int64), *(factor.places for factor in factors)])


def find_random_effects(
    factorization: Factorization, functions: Sequence[RowFunction]
) -> RandomEffects:
    """Random effects of observations; NotSeparableError if effects are used in two ways."""
    found: defaultdict[tuple[int, int, int], list[list[tuple[int, Monomial]]]] = defaultdict(
        lambda: [[] for _ in functions]
    )
    border: set[int] = set()
    for k, function in enumerate(functions):
        for a, form in enumerate(function.arguments):
            for term in form.terms:
                place = term.place
                if isinstance(place, Gather):
                    found[place.first, place.step, place.size][k].append((a, term))
                else:
                    border.add(place)
    if not found:
        raise NotSeparableError("no parameter is indexed by data")
    if len(found) > MAX_FACTORS:
        name = factorization.name_at(max(found, key=lambda own: own[2])[0])
        raise NotSeparableError(
            f"{name!r} is indexed as more than {MAX_FACTORS} grouping factors, for example by "
            "two indices at once"
        )
    taken: dict[int, str] = {}
    factors: list[GroupingFactor] = []
    chosen: list[GroupingFactor] = []
    for own in sorted(found, key=lambda own: -own[2]):
        places = own[0] + own[1] * np.arange(own[2])
        name = factorization.name_at(int(places[0]))
        for place in places.tolist():
            if place in taken or place in border:
                raise NotSeparableError(
                    f"{name!r} has effects that observations use in two ways, for example by two "
                    "indices or in a sum over all"
                )
            taken[place] = name
        apart = [GroupingFactor(name, places, readings) for readings in _by_index(found[own])]
        (factors if len(apart) == 1 else chosen).extend(apart)
    others = sorted(set(range(factorization.size)) - set(taken) - border)
    together = np.unique(_concatenated_places(chosen))
    _require_few(chosen, together.size)
    whole = np.concatenate([np.array(sorted(border), np.int64), together])
    return RandomEffects(tuple(factors), whole, np.array(others, np.int64), tuple(chosen))


def _require_few(chosen: Sequence[GroupingFactor], size: int) -> None:
    if size > MAX_CROSSED_LEVELS:
        raise NotSeparableError(
            f"{chosen[0].name!r} is indexed twice in one row, and its {size:,} effects, which are "
            f"updated together, are more than {MAX_CROSSED_LEVELS:,}"
        )


def _by_index(
    readings: Sequence[Sequence[tuple[int, Monomial]]],
) -> list[tuple[tuple[tuple[int, Monomial], ...], ...]]:
    """Lists of a factor's occurrences in each term, one list per indexing data array."""
    lists = []
    for own in readings:
        by_index = defaultdict[Expr, list[tuple[int, Monomial]]](list)
        for a, term in own:
            assert isinstance(term.place, Gather)
            by_index[term.place.index].append((a, term))
        lists.append(list(map(tuple, by_index.values())))
    return list(zip_longest(*lists, fillvalue=()))


class LevelPrior(NamedTuple):
    """Grouping factors, and graphs of shape (G,) with the prior of each factor's levels."""

    elements: RandomEffects
    densities: list[Variable]


def split_prior(factorization: Factorization, elements: RandomEffects) -> LevelPrior:
    """Split the prior by levels; NotSeparableError if it is not provably a sum over them."""
    prior = _PriorSum(factorization)
    pieces = [piece for factor in elements.factors for piece in prior.smallest_split(factor)]
    pieces.sort(key=lambda piece: -piece.factor.places.size)
    if len(pieces) > MAX_FACTORS:
        raise NotSeparableError(
            f"{pieces[0].factor.name!r} and others make more than {MAX_FACTORS} factors"
        )
    found = replace(elements, factors=tuple(piece.factor for piece in pieces))
    return LevelPrior(
        replace(found, coupled=_coupled_pairs(pieces)), [prior.density(piece) for piece in pieces]
    )


def prior_without(factorization: Factorization, coordinates: np.ndarray) -> Variable:
    """Graph of the prior without the summands that depend on some coordinates, shape (G, q).

    NotSeparableError unless each summand depends on the coordinates of at most one group.
    """
    return _PriorSum(factorization).without(coordinates)


class _LabelledFactor(NamedTuple):
    """A grouping factor, and a label for every entry of each part of the prior."""

    factor: GroupingFactor
    labels: list[np.ndarray]


class _PriorSum:
    """The log-prior as a sum of parts, each a sum of the entries of an array."""

    def __init__(self, factorization: Factorization) -> None:
        graph = FunctionGraph(outputs=[factorization.prior], clone=True, copy_inputs=False)
        AS_SAMPLED.rewrite(graph)
        self._size = factorization.size
        # Sums of arrays are replaced by the arrays, so that each summand gets its own label.
        self._parts = [
            (part.owner.inputs[0] if isinstance(part.owner_op, Sum) else part, sign)
            for part, sign in _signed_addends(graph.outputs[0])
        ]
        self._known = _LevelLabels(factorization, [part for part, _ in self._parts])

    def smallest_split(self, factor: GroupingFactor) -> list[_LabelledFactor]:
        """Smallest split of a factor without coupled levels in any part."""
        refused: list[NotSeparableError] = []
        for every in _SPLITS:
            try:
                pieces = [self._labelled_factor(one) for one in factor.split_by_remainder(every)]
                _coupled_pairs(pieces)
            except NotSeparableError as reason:
                refused.append(reason)
            else:
                return pieces
        raise refused[0]

    def _labelled_factor(self, factor: GroupingFactor) -> _LabelledFactor:
        return _LabelledFactor(factor, self._labels_of(factor.places))

    def _labels_of(self, coordinates: np.ndarray) -> list[np.ndarray]:
        """Number of the line of coordinates, shape (G,) or (G, q), that each summand depends on."""
        labels = np.full(self._size, -1)
        labels[coordinates.T] = np.arange(len(coordinates))
        self._known.assign(labels)
        return [self._known.of(part).ravel() for part, _ in self._parts]

    def without(self, coordinates: np.ndarray) -> Variable:
        """Graph of all summands of the prior that do not depend on some coordinates."""
        total = pt.constant(0.0)
        labels = self._labels_of(coordinates)
        for (part, sign), label in zip(self._parts, labels, strict=True):
            outside = np.flatnonzero(label < 0)
            if outside.size:
                untouched = outside.size == label.size
                total += sign * (part if untouched else _entries_of(part, outside)).sum()
        return total

    def density(self, piece: _LabelledFactor) -> Variable:
        """Graph of the log-prior of each level of a factor, shape (G,)."""
        size = piece.factor.places.size
        total = pt.zeros(size)
        for (part, sign), label in zip(self._parts, piece.labels, strict=True):
            places = np.flatnonzero(label >= 0)
            if places.size:
                total += sign * _sum_by_level(part.ravel(), places, label[places], size)
        return total


def _entries_of(part: Variable, numbers: np.ndarray) -> Variable:
    """Some entries of a ravelled array, of whose operands only these are computed."""
    if part.type.ndim != 1:
        return part.ravel()[numbers]
    if part.type.shape == (1,):
        return part
    if isinstance(part.owner_op, Elemwise):
        return part.owner_op(*(_entries_of(x, numbers) for x in part.owner.inputs))
    return part[numbers]


def _coupled_pairs(pieces: Sequence[_LabelledFactor]) -> np.ndarray:
    """Pairs of levels, numbered across all factors, that occur in one entry of the prior."""
    starts = np.cumsum([0, *(piece.factor.places.size for piece in pieces)])
    labels = [np.concatenate(piece.labels) for piece in pieces]
    pairs = [np.empty((0, 2), np.int64)]
    for f, g in combinations(range(len(pieces)), 2):
        both = (labels[f] >= 0) & (labels[g] >= 0)
        found = np.stack([starts[f] + labels[f][both], starts[g] + labels[g][both]], axis=1)
        found = np.unique(found, axis=0)
        unique = [np.unique(own).size == own.size for own in found.T]
        if not any(unique):
            names = f"{pieces[f].factor.name!r} and {pieces[g].factor.name!r}"
            raise NotSeparableError(f"{names} have a prior that couples many effects of both")
        pairs.append(found if unique[1] else found[:, ::-1])
    return np.concatenate(pairs)


def _sum_by_level(numbers: Variable, places: np.ndarray, own: np.ndarray, size: int) -> Variable:
    if np.array_equal(places, np.arange(places[0], places[0] + places.size)):
        chosen = numbers[int(places[0]) : int(places[-1]) + 1]
    else:
        chosen = numbers[places]
    if np.array_equal(own, np.arange(size)):
        return chosen
    return pt.zeros(int(size))[own].inc(chosen)


def _signed_addends(graph: Variable, sign: float = 1.0) -> Iterator[tuple[Variable, float]]:
    op, inputs = graph.owner_op, list(graph.owner.inputs) if graph.owner else []
    inner = op.scalar_op if isinstance(op, Elemwise) else None
    # PyMC also sums scalar potentials; such a sum of one number is skipped.
    of_one = isinstance(op, Sum) and inputs[0].type.ndim == 0
    if not of_one and not isinstance(inner, scalar.Add | scalar.Cast | scalar.Sub | scalar.Neg):
        yield graph, sign
        return
    for k, one in enumerate(inputs):
        negative = isinstance(inner, scalar.Neg) or (isinstance(inner, scalar.Sub) and k == 1)
        yield from _signed_addends(one, -sign if negative else sign)


class _LevelLabels:
    """Level labels of graphs' entries: the level that an entry depends on; -1 if there is none."""

    def __init__(self, factorization: Factorization, graphs: Sequence[Variable]) -> None:
        self._factorization = factorization
        position, others = factorization.position, factorization.other_values
        moved = set(_variables_between(graphs, position))
        self._fixed = {v for v in ancestors(graphs) if v not in moved}
        self._nodes = [node for node in toposort(graphs) if moved.intersection(node.outputs)]
        asked = {v for node in self._nodes for v in (*node.inputs, *node.outputs)} | set(graphs)
        values = [v for v in asked if not isinstance(v, Constant) and hasattr(v.type, "ndim")]
        # Shapes, and indices of operations that rearrange entries, do not depend on the position.
        evaluate = pytensor.function(
            [position, others], values, mode=IN_PYTHON, on_unused_input="ignore"
        )
        with np.errstate(all="ignore"):
            found = evaluate(np.full(factorization.size, 0.5), np.zeros(others.type.shape or 0))
        self._values: dict[Variable, Any] = dict(zip(values, found, strict=True))
        self._known: dict[Variable, np.ndarray] = {}

    def assign(self, labels: np.ndarray) -> None:
        """Label the coordinates and everything that depends on them."""
        self._known = {self._factorization.position: labels}
        for node in self._nodes:
            self._pass_labels(node)

    def of(self, variable: Variable) -> np.ndarray:
        """Label of each entry of a variable."""
        if variable not in self._known:
            self._known[variable] = np.full(np.shape(self._data_of(variable)), -1)
        return self._known[variable]

    def _data_of(self, variable: Variable) -> Any:
        return variable.data if isinstance(variable, Constant) else self._values[variable]

    def _pass_labels(self, node: Apply) -> None:
        op, inputs = node.op, node.inputs
        labels = [self.of(v) for v in inputs if hasattr(v.type, "ndim")]
        if not any((own >= 0).any() for own in labels):
            return
        if isinstance(op, Elemwise):
            self._known |= dict.fromkeys(node.outputs, self._combine_labels(node, labels))
        elif isinstance(op, CAReduce):
            self._known[node.outputs[0]] = self._reduce_labels(node, labels[0], op.axis)
        elif isinstance(op, Blockwise):
            self._known[node.outputs[0]] = self._of_batches(node, labels)
        elif isinstance(op, Dot | SolveTriangular):
            self._known[node.outputs[0]] = self._of_product(node, *labels)
        elif isinstance(op, _PERMUTES):
            self._move_labels(node, 1)
        elif isinstance(op, _JOINS):
            self._move_labels(node, len(inputs))
        elif isinstance(op, _SETS) and getattr(op, "set_instead_of_inc", False):
            self._move_labels(node, 2)
        else:
            raise self._not_separable(labels, f"has a prior that uses {operation_name(op)}")

    def _combine_labels(self, node: Apply, labels: Sequence[np.ndarray]) -> np.ndarray:
        spread = np.broadcast_arrays(*labels)
        largest = np.max(spread, axis=0)
        if any(((own >= 0) & (own != largest)).any() for own in spread):
            name = operation_name(node.op)
            raise self._not_separable(labels, f"has a prior in which {name} couples two effects")
        return largest

    def _reduce_labels(self, node: Apply, labels: np.ndarray, axis: Any) -> np.ndarray:
        """Common level label along some axes; NotSeparableError if it has several levels."""
        largest = labels.max(axis=axis, initial=-1)
        kept = largest if axis is None else np.expand_dims(largest, axis)
        if ((labels >= 0) & (labels != kept)).any():
            name = operation_name(node.op)
            raise self._not_separable([labels], f"has a prior in which {name} couples effects")
        return np.asarray(largest)

    def _of_product(self, node: Apply, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Labels of A B or A⁻¹ B; every row of the inverse depends on all of A."""
        lines = self._reduce_labels(node, left, -1 if isinstance(node.op, Dot) else None)
        columns = self._reduce_labels(node, right, 0)
        if lines.ndim:
            lines = lines.reshape(lines.shape + (1,) * columns.ndim)
        output = np.shape(self._data_of(node.outputs[0]))
        return np.broadcast_to(self._combine_labels(node, [lines, columns]), output)

    def _of_batches(self, node: Apply, labels: Sequence[np.ndarray]) -> np.ndarray:
        """Level labels of a batched operation: all output entries of a batch element share one."""
        output, n_batch = np.shape(self._data_of(node.outputs[0])), node.op.batch_ndim(node)
        own = [self._reduce_labels(node, x, tuple(range(n_batch, x.ndim))) for x in labels]
        combined = self._combine_labels(node, own)
        whole = combined.reshape(combined.shape + (1,) * (len(output) - n_batch))
        return np.broadcast_to(whole, output)

    def _move_labels(self, node: Apply, count: int) -> None:
        """Label the output of an operation that rearranges entries, by applying it to labels."""
        moved, name = node.inputs[:count], operation_name(node.op)
        labels = [self.of(v) for v in moved]
        if any(v not in self._fixed for v in node.inputs if v not in moved):
            raise self._not_separable(labels, f"has a prior that is indexed by {name}")
        given = [
            self.of(v).astype(v.type.dtype) if v in moved else self._data_of(v) for v in node.inputs
        ]
        # Booleans and small integers cannot represent all labels.
        if any((one != own).any() for one, own in zip(labels, given, strict=False)):
            raise self._not_separable(labels, f"has a prior that goes through {name} of no reals")
        if isinstance(node.op, CheckAndRaise):
            self._known[node.outputs[0]] = labels[0]
            return
        storage: list[list[Any]] = [[None] for _ in node.outputs]
        node.op.perform(node, given, storage)
        for output, (found,) in zip(node.outputs, storage, strict=True):
            self._known[output] = np.asarray(found).astype(np.int64)

    def _not_separable(self, labels: Sequence[np.ndarray], cause: str) -> NotSeparableError:
        position = self._known[self._factorization.position]
        some = max(int(own.max(initial=-1)) for own in labels)
        name = self._factorization.name_at(int(np.flatnonzero(position == some)[0]))
        return NotSeparableError(f"{name!r} {cause}")


def _variables_between(graphs: Sequence[Variable], source: Variable) -> Iterator[Variable]:
    moved = {source}
    yield source
    for node in toposort(graphs):
        if moved.intersection(node.inputs) and not isinstance(node.op, Shape | Shape_i):
            moved.update(node.outputs)
            yield from node.outputs
