"""Variables that rows meet only as part of a + B z, where coordinates α = a + B z make rows linear.

What is tried here needs no proof to be exact: with its Jacobian, every map is. That rows are linear
in α is seen by taking them apart again in the new coordinates; a map that does not bring that about
is dropped, and the reason is kept.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.model.reading.coordinates import Coordinates, in_coordinates
from pymc_minibatch_mh.model.reading.maps import Scaled
from pymc_minibatch_mh.model.reading.split import Block, Split
from pymc_minibatch_mh.model.row.cells import Gather
from pymc_minibatch_mh.model.row.function import LinearForm, lowered_rows
from pymc_minibatch_mh.model.row.meetings import MOST_ENTRIES, Column, Factor, Meeting, meetings

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


def in_linear_coordinates(split: Split) -> Split:
    """Return a model in coordinates in which rows are linear, where it is not written in them.

    Parameters
    ----------
    split
        A model in its own variables.

    Returns
    -------
    Split
        `split` itself if there is nothing to map. Why a variable that rows meet in products with
        others is not mapped stands in the field ``coordinates``.
    """
    try:
        rows = lowered_rows(split)
    except BoundsError:
        return split
    met: defaultdict[Column, set[Meeting]] = defaultdict(set)
    for row in rows:
        for column, ways in meetings(row).items():
            met[column] |= ways
    searches = [_Search(split, block, name, met) for block, name in _candidates(split)]
    scaled, refused = _mapped_together(split, searches)
    if not scaled and not refused:
        return split
    scaled = _located(split, scaled)
    return in_coordinates(split, Coordinates(tuple(scaled), tuple(refused)))


def _mapped_together(
    split: Split, searches: Sequence["_Search"]
) -> tuple[list[Scaled], list[tuple[str, str]]]:
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
        left = _places_in(_forms(split, scaled)) if scaled else set()
        again = [search.keeps_out(plans[search], left) for search in searches]
        if not any(again):
            return scaled, refused


class _RefusedError(Exception):
    """Why a variable stays as it is."""


def _candidates(split: Split) -> list[tuple[Block, str]]:
    """Return own blocks that can take any real value, and the names of their variables."""
    return [
        (block, name)
        for block, name in zip(split.blocks, split.natural, strict=True)
        if block.start >= split.first
        and block.stop > block.start
        and np.isneginf(split.lower[block.start : block.stop]).all()
        and np.isposinf(split.upper[block.start : block.stop]).all()
    ]


class _Search:
    """The search for the B of one block."""

    def __init__(
        self, split: Split, block: Block, name: str, met: dict[Column, set[Meeting]]
    ) -> None:
        self.name = name
        self._is_bounded = block.name != name
        self._split = split
        self._met = {
            column: ways for column, ways in met.items() if block.start <= column[0] < block.stop
        }
        alone = [c for c, ways in met.items() if any(way.by_itself for way in ways)]
        places = {k for first, step, n in alone for k in range(first, first + step * n, step)}
        factors = {f for ways in self._met.values() for way in ways for f in way.factors}
        # What rows depend on beside the products, as on the scale of their own noise.
        self._kept_out = {f for f in factors if f.places & places}

    def keeps_out(self, plans: Sequence[_Plan], left: set[int]) -> bool:
        """Leave out of B what rows still depend on in the coordinates of a plan."""
        again = {f for plan in plans for f in plan.factors if f.places & left}
        self._kept_out |= again
        return bool(again)

    def plans(self) -> list[_Plan]:
        """Return B for the groups of the block, none if rows meet it in no product.

        Raises
        ------
        _RefusedError
            If they do, but no map makes rows linear in it.
        """
        plans = self._plans()
        if not plans:
            self._require_none_lost()
            self._require_none_beside()
        self._require_valid(plans)
        return plans

    def _require_none_lost(self) -> None:
        """Refuse in words what scales the block everywhere, but is in the rows besides."""
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
        """Refuse in words what is multiplied by others in ways that no map undoes."""
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

    def _common(self, ways: dict[Column, list[Meeting]]) -> dict[int, Factors]:
        """Return what multiplies each coordinate wherever it is met."""
        found: dict[int, Factors] = {}
        for (first, step, count), of_column in ways.items():
            shared = reduce(lambda x, y: x & y, (way.counted for way in of_column))
            for place in range(first, first + step * count, step):
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

    def scaled(self, plan: _Plan) -> Scaled:
        """Return the map of a plan."""
        position = self._split.position
        rows = tuple(tuple(_product(entry, position) for entry in row) for row in plan.rows)
        names = dict.fromkeys(_name_at(self._split, k) for k in sorted(plan.depends_on))
        simple = len(plan.rows) == 1 and len(names) == 1
        size = "".join(names) if simple else f"f({', '.join(names)})"
        nowhere = (-1,) * len(plan.rows)
        words = f"{size} × {self.name}"
        return Scaled(self.name, plan.places, words, position, rows, nowhere)


def _located(split: Split, scaled: Sequence[Scaled]) -> list[Scaled]:
    """Return maps with the locations that come with every α of one map and nowhere else."""
    forms = _forms(split, scaled)
    mapped = {int(k) for one in scaled for k in one.places.flat}
    columns = [_coefficients(forms, set(map(int, p))) for one in scaled for p in one.places.T]
    found = [-1] * len(columns)
    for block, _ in _candidates(split):
        for place in range(block.start, block.stop):
            alike = [k for k, c in enumerate(columns) if c == _coefficients(forms, {place})]
            if place not in mapped and len(alike) == 1 and found[alike[0]] < 0:
                found[alike[0]] = place
    places = iter(found)
    located = [_at(one, tuple(next(places) for _ in one.locations), split) for one in scaled]
    left = _places_in(_forms(split, located))
    return [
        other if left.isdisjoint(other.locations) else one
        for one, other in zip(scaled, located, strict=True)
    ]


def _at(one: Scaled, locations: tuple[int, ...], split: Split) -> Scaled:
    shifts = dict.fromkeys(_name_at(split, k) for k in locations if k >= 0)
    return replace(one, locations=locations, words=" + ".join([*shifts, one.words]))


def _name_at(split: Split, place: int) -> str:
    names = zip(split.blocks, split.natural, strict=True)
    return next(name for block, name in names if place < block.stop)


def _by_factors(common: dict[int, Factors]) -> list[_Plan]:
    """Return a B of one number for the coordinates that share it."""
    groups: defaultdict[frozenset, list[int]] = defaultdict(list)
    for place, factors in sorted(common.items()):
        groups[frozenset(factors.items())].append(place)
    return [_Plan(np.array(places)[:, None], ((common[places[0]],),)) for places in groups.values()]


def _triangle(ways: dict[Column, list[Meeting]]) -> _Plan | None:
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
    places = np.stack([np.arange(k, k + step * count, step) for k, step, count in order], axis=1)
    return _Plan(places, tuple(rows))


def _product(factors: Factors, position: Variable) -> Variable:
    """Return a product of factors; without any, of a triangle's entry, zero."""
    graphs = [factor.graph(position) for factor in factors.elements()]
    if not graphs:
        return pt.constant(0.0)
    return graphs[0] if len(graphs) == 1 else pt.mul(*graphs)


def _forms(split: Split, scaled: Sequence[Scaled]) -> list[LinearForm]:
    """Return the linear forms of the rows in new coordinates."""
    there = in_coordinates(split, Coordinates(tuple(scaled)))
    return [form for row in lowered_rows(there) for form in row.arguments.forms]


def _places_in(forms: Sequence[LinearForm]) -> set[int]:
    """Return the coordinates that forms depend on."""
    return {k for form in forms for term in form.terms for k in _coordinates(term.place)}


def _coordinates(place: int | Gather) -> range:
    if isinstance(place, Gather):
        return range(place.first, place.first + place.step * place.size, place.step)
    return range(place, place + 1)


def _coefficients(forms: Sequence[LinearForm], places: set[int]) -> dict:
    """Return what some coordinates are multiplied by: form and data -> number."""
    found: defaultdict[tuple, float] = defaultdict(float)
    for k, form in enumerate(forms):
        for term in form.terms:
            if places.issuperset(_coordinates(term.place)):
                found[k, term.monomial] += term.factor
    return dict(found)
