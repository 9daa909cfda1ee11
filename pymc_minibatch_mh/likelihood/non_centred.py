"""Variables that rows meet only as part of a + B z, where coordinates α = a + B z make rows linear.

With its Jacobian, every map is exact. That rows are linear in α is seen by taking them apart again
in the new coordinates; a map that does not bring that about is dropped, and the reason is kept.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.scalar import basic as scalar
from pytensor.tensor.elemwise import Elemwise

from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.likelihood.exprs import (
    Affine,
    Apply,
    Constant,
    Expr,
    Gather,
    Place,
    places_of,
)
from pymc_minibatch_mh.likelihood.factorization import (
    Block,
    Factorization,
    Reparametrization,
    reparametrized,
)
from pymc_minibatch_mh.likelihood.function import LinearForm, LoweredRow, lowered_rows
from pymc_minibatch_mh.likelihood.maps import NonCentred
from pymc_minibatch_mh.likelihood.patterns import is_a, is_positive, reachable, without

#: Entries that are scaled each by one of its own, at most: each becomes an expression of its own.
MOST_ENTRIES = 25


@dataclass(frozen=True)
class Factor:
    """A function of the position without data: an operation and operands, as nested tuples."""

    expression: tuple
    positive: bool
    places: frozenset[int]

    @property
    def divides(self) -> bool:
        """Whether it is a reciprocal, such as exp(-x): a divisor of rows is their noise."""
        kind, *parts = self.expression
        if kind != "apply" or not isinstance(parts[0], scalar.Exp):
            return kind == "apply" and isinstance(parts[0], scalar.Reciprocal)
        inner = parts[1]
        return inner[0] == "linear" and all(k < 0.0 for k, _ in inner[1])


@dataclass(frozen=True)
class Occurrence:
    """One way in which rows meet a coordinate: the term and the data that it is multiplied by.

    Beside the factors lie coordinates that are no such function: entries that data choose. Those
    outside multiply a function of the coordinate, as of a variable that is bounded.
    """

    data: Hashable
    factors: tuple[Factor, ...]
    beside: frozenset[int] = frozenset()
    outside: frozenset[int] = frozenset()

    @property
    def by_itself(self) -> bool:
        """Whether no other coordinate multiplies it as it is."""
        return not any(factor.expression[0] == "linear" for factor in self.factors)

    @property
    def counted(self) -> Counter[Factor]:
        """How often each factor is there."""
        return Counter(self.factors)


#: First coordinate, step and number of those that are met in one way, chosen by data or not.
Column = tuple[int, int, int]


def _places_in_column(column: Column) -> range:
    first, step, count = column
    return range(first, first + step * count, step)


class _Times(NamedTuple):
    """All that multiplies a sum: also functions of entries that its own data choose."""

    data: frozenset[Expr] = frozenset()
    factors: tuple[Factor, ...] = ()
    chosen: tuple[Expr, ...] = ()
    beside: frozenset[int] = frozenset()
    outside: frozenset[int] = frozenset()


class _Walk:
    """A walk down an expression, to all ways in which a row meets coordinates."""

    def __init__(self, row: LoweredRow) -> None:
        self.found: defaultdict[Column, set[Occurrence]] = defaultdict(set)
        self._term = row.term.name
        waiting = [(row.root, _Times())]
        seen = set(waiting)
        while waiting:
            here = waiting.pop()
            for after in self._inside(*here):
                if after not in seen:
                    seen.add(after)
                    waiting.append(after)

    def _inside(self, expr: Expr, times: _Times) -> list[tuple[Expr, _Times]]:
        if expr.is_data:
            return []
        if isinstance(expr, Affine):
            self._meet(expr, times)
            return []
        if is_a(expr, scalar.Add):
            return [(x, times) for x in expr.inputs]
        if is_a(expr, scalar.Mul):
            return self._of_product(expr, times)
        outside = times.outside | _outside(expr, times.factors)
        return [(x, _Times(outside=outside)) for x in expr.inputs]

    def _of_product(self, expr: Expr, times: _Times) -> list[tuple[Expr, _Times]]:
        known = [x for x in expr.inputs if x.is_data]
        others = [x for x in expr.inputs if not x.is_data]
        data = times.data.union(*map(_leaves, known))
        linear = [x for x in others if isinstance(x, Affine) or is_a(x, scalar.Add)]
        chosen: set[Expr] = set()
        after: list[tuple[Expr, _Times]] = []
        for x in linear:
            rest = without(others, x)
            if isinstance(x, Affine) and any(isinstance(y, Affine) and not factor(y) for y in rest):
                # A slope of entries that data choose: the other of the two occurs, times this one.
                continue
            with_it = [y for y in rest if not factor(y) and _index_of(y) in _indices(x)]
            chosen.update(with_it)
            beside = _read_in([y for y in rest if not factor(y) and y not in with_it])
            factors = (*times.factors, *_factors(rest))
            after.append((x, _Times(data, factors, tuple(with_it), times.beside | beside)))
        walked = [x for x in others if x not in linear and x not in chosen]
        for x in walked:
            if not (linear and factor(x)):
                every = [*times.factors, *_factors(others)]
                after.append((x, _Times(outside=_outside(x, every))))
        return after

    def _meet(self, expr: Affine, times: _Times) -> None:
        for term in expr.terms:
            place = term.place
            all_data = self._term, times.data.union(*map(_leaves, term.monomial))
            if not isinstance(place, Gather):
                columns = {(place, 1, 1): times.factors}
            elif not times.chosen:
                columns = {(place.first, place.step, place.size): times.factors}
            else:
                entries = [(*times.factors, *_factors(times.chosen, k)) for k in range(place.size)]
                columns = {(k, 1, 1): x for k, x in zip(places_of(place), entries, strict=True)}
            for column, factors in columns.items():
                self.found[column].add(Occurrence(all_data, factors, times.beside, times.outside))


def _outside(expr: Expr, factors: Sequence[Factor]) -> frozenset[int]:
    """Return the factors of a function of one coordinate; none for other functions."""
    forms = [x for x in reachable(expr) if isinstance(x, Affine)]
    if len(forms) != 1 or len(forms[0].terms) != 1:
        return frozenset()
    return frozenset[int]().union(*(x.places for x in factors if not x.divides))


def _indices(expr: Expr) -> set[tuple[Expr, int]]:
    """Return by which data, and from how few, all of a sum is chosen; nothing if not all is."""
    places = [term.place for term in expr.terms] if isinstance(expr, Affine) else []
    found = {(p.index, p.size) for p in places if isinstance(p, Gather)}
    everywhere = all(isinstance(p, Gather) and p.size <= MOST_ENTRIES for p in places)
    return found if everywhere and len(found) == 1 else set()


def _index_of(expr: Expr) -> tuple[Expr, int] | None:
    """Return by which data all is chosen that a function of entries depends on."""
    found = [_indices(x) for x in reachable(expr) if isinstance(x, Affine)]
    alike = bool(found) and all(len(x) == 1 and x == found[0] for x in found)
    return next(iter(found[0])) if alike and factor(expr, 0) is not None else None


def _factors(exprs: Iterable[Expr], entry: int | None = None) -> list[Factor]:
    """Return the expressions that are functions of the position."""
    return [known for expr in exprs if (known := factor(expr, entry)) is not None]


def _read_in(chosen: Sequence[Expr]) -> frozenset[int]:
    forms = [x for expr in chosen for x in reachable(expr) if isinstance(x, Affine)]
    places = [term.place for form in forms for term in form.terms]
    return frozenset(p.first if isinstance(p, Gather) else p for p in places)


def _leaves(expr: Expr) -> set[Expr]:
    """Return the factors of a product of data but its numbers."""
    if isinstance(expr, Constant):
        return set()
    if is_a(expr, scalar.Mul):
        return set().union(*map(_leaves, expr.inputs))
    return {expr}


def factor(expr: Expr, entry: int | None = None) -> Factor | None:
    """Return a function of the position, or of the entry that data choose; else None."""
    expression = _expression(expr, entry)
    if expression is None:
        return None
    return Factor(expression, is_positive(expr), frozenset(_places(expression)))


def _expression(expr: Expr, entry: int | None) -> tuple | None:
    if isinstance(expr, Constant):
        return "number", float(expr.value)
    if isinstance(expr, Affine):
        offset = _expression(expr.offset, entry)
        places = [_chosen_place(t.place, entry) for t in expr.terms]
        if offset is None or None in places or any(t.monomial for t in expr.terms):
            return None
        factors = (t.factor for t in expr.terms)
        return "linear", tuple(zip(factors, places, strict=True)), offset
    if not isinstance(expr, Apply):
        return None
    inputs = [_expression(x, entry) for x in expr.inputs]
    return None if None in inputs else ("apply", expr.op, *inputs)


def _chosen_place(place: Place, entry: int | None) -> int | None:
    if not isinstance(place, Gather):
        return place
    return None if entry is None else place.first + place.step * entry


def _places(expression: tuple) -> set[int]:
    kind, *parts = expression
    if kind == "number":
        return set()
    if kind == "linear":
        return {place for _, place in parts[0]}
    return set().union(*map(_places, parts[1:]))


def _graph(expression: tuple, position: Variable) -> Any:
    kind, *parts = expression
    if kind == "number":
        return pt.constant(np.float64(parts[0]))
    if kind == "linear":
        terms, offset = parts
        summed = [position[place] if k == 1.0 else k * position[place] for k, place in terms]
        known = [] if offset[1:] == (0.0,) else [_graph(offset, position)]
        return pt.add(*summed, *known) if len(summed) + len(known) > 1 else summed[0]
    op, *operands = parts
    return Elemwise(op)(*(_graph(x, position) for x in operands))


Factors = Counter[Factor]


@dataclass(frozen=True)
class _Plan:
    """Entries of B for a set of groups: rows of the lower triangle, as products of factors."""

    places: np.ndarray
    rows: tuple[tuple[Factors, ...], ...]

    @property
    def factors(self) -> set[Factor]:
        return {factor for row in self.rows for entry in row for factor in entry}

    @property
    def depends_on(self) -> set[int]:
        return {place for factor in self.factors for place in factor.places}

    @property
    def positive(self) -> bool:
        return all(factor.positive for row in self.rows for factor in row[-1])


def in_linear_coordinates(factorization: Factorization) -> Factorization:
    """Return a model in coordinates in which rows are linear, or itself if nothing is to be mapped.

    The field ``coordinates`` says why a variable that rows meet in products is not mapped.
    """
    try:
        rows = lowered_rows(factorization)
    except BoundsError:
        return factorization
    met: defaultdict[Column, set[Occurrence]] = defaultdict(set)
    for row in rows:
        for column, ways in _Walk(row).found.items():
            met[column] |= ways
    searches = [
        _Search(factorization, block, name, met) for block, name in real_blocks(factorization)
    ]
    scaled, refused = _mapped_together(factorization, searches)
    if not scaled and not refused:
        return factorization
    return reparametrized(
        factorization, Reparametrization(tuple(_located(factorization, scaled)), tuple(refused))
    )


def _mapped_together(
    factorization: Factorization, searches: Sequence["_Search"]
) -> tuple[list[NonCentred], list[tuple[str, str]]]:
    """Return the maps of all blocks, which may share a scale, and why others have none."""
    refused: list[tuple[str, str]] = []
    while True:
        plans: dict[_Search, list[_Plan]] = {}
        for search in searches:
            try:
                plans[search] = search.plans()
            except _RefusedError as reason:
                refused.append((search.name, str(reason)))
        mapped = {int(k) for found in plans.values() for plan in found for k in plan.places.flat}
        depending = [one for one in plans if any(p.depends_on & mapped for p in plans[one])]
        refused += [(one.name, "is multiplied by what is mapped too") for one in depending]
        searches = [one for one in plans if plans[one] and one not in depending]
        if depending:
            continue
        scaled = [search.scaled(plan) for search in searches for plan in plans[search]]
        left = _places_in(_forms(factorization, scaled)) if scaled else set()
        again = [search.keeps_out(plans[search], left) for search in searches]
        if not any(again):
            return scaled, refused


class _RefusedError(Exception):
    """Why a variable stays as it is."""


def real_blocks(factorization: Factorization) -> list[tuple[Block, str]]:
    """Return own blocks that can take any real value, and the names of their variables."""
    return [
        (block, name)
        for block, name in zip(factorization.blocks, factorization.natural, strict=True)
        if factorization.first <= block.start < block.stop
        and np.isneginf(factorization.lower[block.start : block.stop]).all()
        and np.isposinf(factorization.upper[block.start : block.stop]).all()
    ]


class _Search:
    """The search for the B of one block."""

    def __init__(
        self,
        factorization: Factorization,
        block: Block,
        name: str,
        met: dict[Column, set[Occurrence]],
    ) -> None:
        self.name = name
        self._is_bounded = block.name != name
        self._split = factorization
        self._met = {
            column: ways for column, ways in met.items() if block.start <= column[0] < block.stop
        }
        alone = [c for c, ways in met.items() if any(way.by_itself for way in ways)]
        places = {k for column in alone for k in _places_in_column(column)}
        factors = {f for ways in self._met.values() for way in ways for f in way.factors}
        # Coordinates that rows read beside the products, such as the scale of their noise.
        self._kept_out = {f for f in factors if f.places & places}

    def keeps_out(self, plans: Sequence[_Plan], left: set[int]) -> bool:
        """Leave out of B the coordinates that rows still read after a candidate map."""
        again = {f for plan in plans for f in plan.factors if f.places & left}
        self._kept_out |= again
        return bool(again)

    def plans(self) -> list[_Plan]:
        """Return B for the groups of the block, none if rows meet it in no product."""
        plans = self._plans()
        if not plans:
            self._require_none_lost()
            self._require_none_beside()
        self._require_valid(plans)
        return plans

    def _require_none_lost(self) -> None:
        """Refuse a factor that scales the block everywhere, but is in the rows besides."""
        shared = [
            reduce(lambda x, y: x & y, (w.counted for w in ways)) for ways in self._met.values()
        ]
        lost = {f for factors in shared for f in factors if f in self._kept_out and not f.divides}
        if lost:
            names = self._names({k for f in lost for k in f.places})
            raise _RefusedError(
                f"is multiplied by {names} in rows, which also depend on {names} by itself, so "
                "that no coordinates make them linear in it"
            )

    def _require_none_beside(self) -> None:
        """Refuse a block that is multiplied by others in ways that no map undoes."""
        ways = [way for found in self._met.values() for way in found]
        outside = set().union(*(way.outside for way in ways))
        if outside and self._is_bounded:
            names = self._names(outside)
            raise _RefusedError(
                f"is bounded and multiplied by {names} in rows, so that coordinates in which they "
                f"are linear would have bounds that move with {names}"
            )
        beside = set().union(*(way.beside for way in ways))
        if beside:
            raise _RefusedError(
                f"is multiplied by entries of {self._names(beside)} that data choose, which is "
                f"undone for {MOST_ENTRIES} entries at most, and where the same data choose all of "
                "what they multiply"
            )

    def _names(self, places: Iterable[int]) -> str:
        return ", ".join(sorted({repr(_name_at(self._split, k)) for k in places}))

    def _plans(self) -> list[_Plan]:
        """Return B for the groups of the block; none where nothing multiplies it."""
        ways = {
            column: [
                replace(way, factors=tuple(f for f in way.factors if f not in self._kept_out))
                for way in ways
            ]
            for column, ways in self._met.items()
        }
        if not any(way.factors for found in ways.values() for way in found):
            return []
        common = self._common(ways)
        if all(common.values()):
            return _by_factors(common)
        triangle = _triangle(ways)
        if triangle is None:
            raise _RefusedError(
                "is multiplied by other parameters in some places of the rows and not in others, "
                "so that no coordinates make them linear in it"
            )
        return [triangle]

    def _common(self, ways: dict[Column, list[Occurrence]]) -> dict[int, Factors]:
        """Return the common factor of each coordinate wherever it occurs."""
        found: dict[int, Factors] = {}
        for column, of_column in ways.items():
            shared = reduce(lambda x, y: x & y, (way.counted for way in of_column))
            for place in _places_in_column(column):
                found[place] = found[place] & shared if place in found else shared
        return found

    def _require_valid(self, plans: Sequence[_Plan]) -> None:
        for plan in plans:
            names = self._names(plan.depends_on)
            if not plan.positive:
                raise _RefusedError(
                    f"is multiplied by a function of {names} that is not known to be positive, so "
                    "that coordinates in which rows are linear would not be one to one"
                )
            if min(plan.depends_on) < self._split.first:
                raise _RefusedError(
                    f"is multiplied by {names}, which another step moves. Let this step move both"
                )

    def scaled(self, plan: _Plan) -> NonCentred:
        """Return the map of a plan."""
        position = self._split.position
        rows = tuple(tuple(_product(entry, position) for entry in row) for row in plan.rows)
        names = dict.fromkeys(_name_at(self._split, k) for k in sorted(plan.depends_on))
        simple = len(plan.rows) == 1 and len(names) == 1
        size = "".join(names) if simple else f"f({', '.join(names)})"
        nowhere = (-1,) * len(plan.rows)
        words = f"{size} × {self.name}"
        return NonCentred(self.name, plan.places, words, position, rows, nowhere)


def _located(factorization: Factorization, scaled: Sequence[NonCentred]) -> list[NonCentred]:
    """Return maps with the locations that come with every α of one map and nowhere else."""
    forms = _forms(factorization, scaled)
    mapped = {int(k) for one in scaled for k in one.places.flat}
    columns = [_coefficients(forms, set(map(int, p))) for one in scaled for p in one.places.T]
    found = [-1] * len(columns)
    for block, _ in real_blocks(factorization):
        for place in range(block.start, block.stop):
            alike = [k for k, c in enumerate(columns) if c == _coefficients(forms, {place})]
            if place not in mapped and len(alike) == 1 and found[alike[0]] < 0:
                found[alike[0]] = place
    places = iter(found)
    located = [
        _at(one, tuple(next(places) for _ in one.locations), factorization) for one in scaled
    ]
    left = _places_in(_forms(factorization, located))
    return [
        other if left.isdisjoint(other.locations) else one
        for one, other in zip(scaled, located, strict=True)
    ]


def _at(one: NonCentred, locations: tuple[int, ...], factorization: Factorization) -> NonCentred:
    shifts = dict.fromkeys(_name_at(factorization, k) for k in locations if k >= 0)
    return replace(one, locations=locations, words=" + ".join([*shifts, one.words]))


def _name_at(factorization: Factorization, place: int) -> str:
    names = zip(factorization.blocks, factorization.natural, strict=True)
    return next(name for block, name in names if place < block.stop)


def _by_factors(common: dict[int, Factors]) -> list[_Plan]:
    """Return a B of one number for the coordinates that share it."""
    groups: defaultdict[frozenset, list[int]] = defaultdict(list)
    for place, factors in sorted(common.items()):
        groups[frozenset(factors.items())].append(place)
    return [_Plan(np.array(places)[:, None], ((common[places[0]],),)) for places in groups.values()]


def _triangle(ways: dict[Column, list[Occurrence]]) -> _Plan | None:
    """Return a triangular B: every entry of α goes with data of its own."""
    entries: dict[object, dict[Column, Factors]] = defaultdict(dict)
    for column, of_column in ways.items():
        for way in of_column:
            if entries[way.data].setdefault(column, way.counted) != way.counted:
                return None
    order: list[Column] = []
    rows = []
    for row in sorted(entries.values(), key=len):
        new = [column for column in row if column not in order]
        if len(new) != 1:
            return None
        order += new
        rows.append(tuple(row.get(column, Counter()) for column in order))
    if len({count for _, _, count in order}) != 1 or len(order) != len(ways):
        return None
    places = np.stack([_places_in_column(column) for column in order], axis=1)
    return _Plan(places, tuple(rows))


def _product(factors: Factors, position: Variable) -> Variable:
    """Return a product of factors; without any, of a triangle's entry, zero."""
    graphs = [_graph(factor.expression, position) for factor in factors.elements()]
    if not graphs:
        return pt.constant(0.0)
    return graphs[0] if len(graphs) == 1 else pt.mul(*graphs)


def _forms(factorization: Factorization, scaled: Sequence[NonCentred]) -> list[LinearForm]:
    """Return the linear forms of the rows in new coordinates."""
    there = reparametrized(factorization, Reparametrization(tuple(scaled)))
    return [form for row in lowered_rows(there) for form in row.arguments.forms]


def _places_in(forms: Sequence[LinearForm]) -> set[int]:
    """Return the coordinates that forms depend on."""
    return {k for form in forms for term in form.terms for k in places_of(term.place)}


def _coefficients(forms: Sequence[LinearForm], places: set[int]) -> dict:
    """Return the coefficients of some coordinates: form and data -> number."""
    found: defaultdict[tuple, float] = defaultdict(float)
    for k, form in enumerate(forms):
        for term in form.terms:
            if places.issuperset(places_of(term.place)):
                found[k, term.monomial] += term.factor
    return dict(found)
