"""Coordinates α = a + B z that make observations linear, if they depend on z through α alone.

In a model with ``mu + tau * z[group]`` observations contain products of parameters. They are linear
in α = mu + tau z, as in the same model with ``Normal(mu, tau)``. See Papaspiliopoulos, Roberts &
Sköld (2007), doi:10.1214/088342307000000014, on both parametrisations of a hierarchy.

With its Jacobian, every bijection is exact. Lowering the observations again in the new coordinates
shows whether they are linear; otherwise the bijection is dropped, and the reason kept.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice
from operator import and_, mul
from typing import Any, Self

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.data.source import consecutive_slice
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.expressions.graph import coordinates_at
from pymc_minibatch_mh.model.bijection import Bijection, IndexedValues
from pymc_minibatch_mh.model.factorization import Factorization
from pymc_minibatch_mh.model.layout import Block
from pymc_minibatch_mh.reparametrize.base import reparametrize_by
from pymc_minibatch_mh.structure.predictors import LinearForm, indexed_coordinates, read_coordinates
from pymc_minibatch_mh.structure.products import (
    MAX_ENTRIES,
    Column,
    FactorCounts,
    Occurrence,
    PositionFactor,
    find_occurrences,
)
from pymc_minibatch_mh.structure.row_function import linear_forms, lowered_rows


@dataclass(frozen=True, eq=False)
class NonCentred(Bijection):
    """Coordinates α_g = a + B z_g instead of z_g, for all groups g.

    Each z_g has a row of `indices`, shape (G, q), and a_1..a_q are at `locations`, -1 for zero. The
    lower triangle of B consists of products of factors, which have the same values in positions and
    in the model's own variables. The diagonal is positive.
    """

    scale: tuple[tuple[FactorCounts, ...], ...]
    locations: tuple[int, ...]

    @property
    def factors(self) -> set[PositionFactor]:
        """All factors in B."""
        return {factor for row in self.scale for entry in row for factor in entry}

    @property
    def scales(self) -> set[int]:
        """Coordinates that B depends on."""
        return {place for factor in self.factors for place in factor.places}

    @property
    def coordinates(self) -> set[int]:
        """Coordinates that the bijection changes or depends on."""
        return {*self.moved_indices, *self.locations, *self.scales}

    @property
    def is_one_to_one(self) -> bool:
        """Whether the diagonal of B is provably positive."""
        return all(factor.positive for row in self.scale for factor in row[-1])

    def renumbered(self, new: np.ndarray) -> Self:
        """The same bijection where coordinate k of the position has the number new[k]."""
        rows = (
            tuple(Counter({f.renumbered(new): n for f, n in entry.items()}) for entry in row)
            for row in self.scale
        )
        locations = tuple(int(new[k]) if k >= 0 else k for k in self.locations)
        return replace(self, indices=new[self.indices], scale=tuple(rows), locations=locations)

    def inverse(self, position: Any) -> list[IndexedValues]:
        """Solution z of B z = α - a, by forward substitution."""
        z: list[Any] = []
        for row, places, location in self._rows_at(position):
            right = position[consecutive_slice(places)] - location
            for entry, known in zip(row[:-1], z, strict=True):
                right = right - entry * known
            z.append(right / row[-1])
        return list(zip(self.indices.T, z, strict=True))

    def forward(self, values: np.ndarray) -> list[IndexedValues]:
        """Coordinates α."""
        z = [values[places] for places in self.indices.T]
        rows = self._rows_at(values)
        return [(places, sum(map(mul, row, z)) + location) for row, places, location in rows]

    def log_jacobian(self, position: Any) -> Any:
        """Log-Jacobian -G log |B|."""
        log = pt.log if isinstance(position, Variable) else np.log
        return -sum(len(self.indices) * log(row[-1]) for row, _, _ in self._rows_at(position))

    def _rows_at(self, position: Any) -> list[tuple[list[Any], np.ndarray, Any]]:
        """For each entry of α: its row of B, its coordinates, and its location."""
        # A scale may overflow in the far tail; the density is zero there.
        with np.errstate(all="ignore"):
            scale = [[_factor_product(entry, position) for entry in row] for row in self.scale]
        locations = [position[k] if k >= 0 else 0.0 for k in self.locations]
        return list(zip(scale, self.indices.T, locations, strict=True))


def _factor_product(factors: FactorCounts, position: Any) -> Any:
    """Product of factors, an entry of B; 0 without factors."""
    values = [factor.at(position) for factor in factors.elements()]
    return reduce(mul, values) if values else np.float64(0.0)


class _NotLinearError(Exception):
    """Reason why a variable keeps its coordinates."""


def in_linear_coordinates(factorization: Factorization) -> Factorization:
    """Factorization with linear predictors; ``refused`` names unchanged blocks, with reasons."""
    try:
        known = find_occurrences(lowered_rows(factorization))
    except BoundsError:
        return factorization
    blocks = factorization.real_blocks
    searches = [_ScaleSearch(factorization, block, name, known) for block, name in blocks]
    mapped, maps, refused = _map_blocks(factorization, searches)
    if maps:
        factorization = _with_locations(factorization, mapped, maps)
    return replace(factorization, refused=tuple(refused)) if refused else factorization


def _map_blocks(
    factorization: Factorization, searches: Sequence["_ScaleSearch"]
) -> tuple[Factorization, list[NonCentred], list[tuple[str, str]]]:
    """Mapped factorization, bijections of its blocks, and names of other blocks with reasons."""
    refused: list[tuple[str, str]] = []
    while True:
        found: dict[_ScaleSearch, list[NonCentred]] = {}
        for search in searches:
            try:
                found[search] = search.maps()
            except _NotLinearError as reason:
                refused.append((search.name, str(reason)))
        moved = set[int]().union(*(one.moved_indices for maps in found.values() for one in maps))
        depending = [one for one in found if any(x.scales & moved for x in found[one])]
        refused += [
            (one.name, "is multiplied by another reparametrised variable") for one in depending
        ]
        searches = [one for one in found if found[one] and one not in depending]
        if depending:
            continue
        maps = [one for search in searches for one in found[search]]
        mapped = reparametrize_by(factorization, maps) if maps else factorization
        left = read_coordinates(linear_forms(mapped)) if maps else set()
        again = [search.keeps_out(found[search], left) for search in searches]
        if not any(again):
            return mapped, maps, refused


class _ScaleSearch:
    def __init__(
        self,
        factorization: Factorization,
        block: Block,
        name: str,
        known: Mapping[Column, set[Occurrence]],
    ) -> None:
        self.name = name
        self._is_bounded = block.name != name
        self._factorization = factorization
        self._known = {c: ways for c, ways in known.items() if block.start <= c[0] < block.stop}
        factors = {f for ways in self._known.values() for way in ways for f in way.factors}
        alone = (c for c, ways in known.items() if any(way.by_itself for way in ways))
        # Coordinates that also occur outside of products, such as the scale of the noise.
        places = set[int]().union(*alone)
        self._kept_out = {f for f in factors if f.places & places}

    def keeps_out(self, maps: Sequence[NonCentred], left: set[int]) -> bool:
        """Exclude factors from B if observations still contain them; return whether any were."""
        again = {f for one in maps for f in one.factors if f.places & left}
        self._kept_out |= again
        return bool(again)

    def maps(self) -> list[NonCentred]:
        """Valid, labelled bijections of the groups; empty if no parameter multiplies the block."""
        maps = self._group_bijections()
        if not maps:
            self._require_none_lost()
            self._require_none_beside()
        for one in maps:
            self._require_valid(one)
        return [replace(one, label=self._describe_scale(one)) for one in maps]

    def _require_none_lost(self) -> None:
        """Raise _NotLinearError if a factor of the whole block also occurs without the block."""
        shared = [_shared_factors(ways) for ways in self._known.values()]
        lost = {f for factors in shared for f in factors if f in self._kept_out and not f.divides}
        if lost:
            names = self._names_of(k for f in lost for k in f.places)
            raise _NotLinearError(
                f"is multiplied by {names} in observations that also depend on {names} alone, so "
                "no reparametrisation makes them linear in it"
            )

    def _require_none_beside(self) -> None:
        """Raise _NotLinearError if the block has multipliers that no bijection removes."""
        ways = [way for found in self._known.values() for way in found]
        outside = set().union(*(way.outside for way in ways))
        if outside and self._is_bounded:
            names = self._names_of(outside)
            raise _NotLinearError(
                f"is bounded and multiplied by {names} in observations, so its bounds after a "
                f"reparametrisation would change with {names}"
            )
        beside = set().union(*(way.beside for way in ways))
        chosen = beside & indexed_coordinates(linear_forms(self._factorization))
        if chosen:
            raise _NotLinearError(
                f"is multiplied by entries of {self._names_of(chosen)} that data choose; this is "
                f"supported for at most {MAX_ENTRIES} entries, if the same data choose "
                "everything that they multiply"
            )
        if beside:
            raise _NotLinearError(
                f"is multiplied by functions of {self._names_of(beside)} that differ between "
                "observations, so no reparametrisation makes them linear in it"
            )

    def _require_valid(self, one: NonCentred) -> None:
        names = self._names_of(one.scales)
        if not one.is_one_to_one:
            raise _NotLinearError(
                f"is multiplied by a function of {names} that is not known to be positive, so a "
                "reparametrisation would not be one to one"
            )
        if min(one.scales) < self._factorization.first:
            raise _NotLinearError(
                f"is multiplied by {names}, which belongs to another step. Let this step update "
                "both"
            )

    def _names_of(self, places: Iterable[int]) -> str:
        return ", ".join(sorted({repr(self._factorization.name_at(k)) for k in places}))

    def _describe_scale(self, one: NonCentred) -> str:
        names = dict.fromkeys(map(self._factorization.name_at, sorted(one.scales)))
        simple = len(one.scale) == 1 and len(names) == 1
        size = "".join(names) if simple else f"f({', '.join(names)})"
        return f"{size} × {self.name}"

    def _group_bijections(self) -> list[NonCentred]:
        """Bijections of the groups of the block; empty if no usable factor multiplies the block."""

        def without_kept_out(way: Occurrence) -> Occurrence:
            return replace(way, factors=tuple(f for f in way.factors if f not in self._kept_out))

        ways = {k: [without_kept_out(w) for w in old] for k, old in self._known.items()}
        if not any(way.factors for found in ways.values() for way in found):
            return []
        common: dict[int, FactorCounts] = {}
        for column, of_column in ways.items():
            shared = _shared_factors(of_column)
            common |= {k: common[k] & shared if k in common else shared for k in column}
        if all(common.values()):
            return self._by_factors(common)
        triangle = self._triangular_map(ways)
        if triangle is None:
            raise _NotLinearError(
                "is multiplied by other parameters in some places of the likelihood and not in "
                "others, so no reparametrisation makes observations linear in it"
            )
        return [triangle]

    def _map_of(self, places: np.ndarray, scale: Sequence[tuple[FactorCounts, ...]]) -> NonCentred:
        return NonCentred(self.name, places, "", tuple(scale), (-1,) * len(scale))

    def _by_factors(self, common: Mapping[int, FactorCounts]) -> list[NonCentred]:
        """Bijections with a scalar B, one for each set of coordinates with equal factors."""
        groups: defaultdict[frozenset, list[int]] = defaultdict(list)
        for place, factors in sorted(common.items()):
            groups[frozenset(factors.items())].append(place)
        return [self._map_of(np.array(k)[:, None], [(common[k[0]],)]) for k in groups.values()]

    def _triangular_map(self, ways: Mapping[Column, Sequence[Occurrence]]) -> NonCentred | None:
        """Bijection with a triangular B; None unless every entry of α has its own data factor."""
        entries: defaultdict[tuple, dict[Column, FactorCounts]] = defaultdict(dict)
        for column, of_column in ways.items():
            for way in of_column:
                entry = entries[way.term, way.data]
                if entry.setdefault(column, way.counted) != way.counted:
                    return None
        order: list[Column] = []
        rows, known = [], []
        for row in sorted(entries.values(), key=len):
            # An entry of α may occur with several data factors, such as the outcome.
            if row in known:
                continue
            known.append(row)
            new = [column for column in row if column not in order]
            if len(new) != 1:
                return None
            order += new
            rows.append(tuple(row.get(column, Counter()) for column in order))
        if len(set(map(len, order))) != 1 or len(order) != len(ways):
            return None
        return self._map_of(np.stack(order, axis=1), rows)


def _shared_factors(ways: Iterable[Occurrence]) -> FactorCounts:
    return reduce(and_, (way.counted for way in ways))


def _with_locations(
    factorization: Factorization, mapped: Factorization, maps: Sequence[NonCentred]
) -> Factorization:
    """Factorization with a location in each α: a coordinate with the same coefficients in rows."""
    forms = linear_forms(mapped)
    moved = set[int]().union(*(one.moved_indices for one in maps))
    columns = [_form_coefficients(forms, set(map(int, p))) for one in maps for p in one.indices.T]
    found = [-1] * len(columns)
    for block, _ in factorization.real_blocks:
        for place in sorted({*range(block.start, block.stop)} - moved):
            own = _form_coefficients(forms, {place})
            alike = [k for k, column in enumerate(columns) if column == own]
            if len(alike) == 1 and found[alike[0]] < 0:
                found[alike[0]] = place
    if max(found) < 0:
        return mapped
    places, located = iter(found), []
    for one in maps:
        locations = tuple(islice(places, len(one.locations)))
        shifts = dict.fromkeys(factorization.name_at(k) for k in locations if k >= 0)
        label = " + ".join([*shifts, one.label])
        located.append(replace(one, locations=locations, label=label))
    tried = reparametrize_by(factorization, located)
    left = read_coordinates(linear_forms(tried))
    pairs = zip(maps, located, strict=True)
    kept = [other if left.isdisjoint(other.locations) else one for one, other in pairs]
    return tried if kept == located else reparametrize_by(factorization, kept)


def _form_coefficients(forms: Sequence[LinearForm], places: set[int]) -> dict:
    """Coefficients of some coordinates: predictor and data -> number."""
    found: defaultdict[tuple, float] = defaultdict(float)
    for k, form in enumerate(forms):
        for term in form.terms:
            if places.issuperset(coordinates_at(term.place)):
                found[k, term.monomial] += term.factor
    return dict(found)
