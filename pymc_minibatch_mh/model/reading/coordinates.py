"""Coordinates of the position in which rows are affine, in the place of the model's own variables.

A model that is written as ``mu + tau * z[group]`` has rows that are products of parameters. In
α = mu + tau z they are linear, as in the same model written with ``Normal(mu, tau)``. Whatever the
map, density and draws are those of the model: the density is multiplied by the Jacobian of the map,
which is exact, and draws are mapped back. See Papaspiliopoulos, Roberts & Sköld (2007),
doi:10.1214/088342307000000014, on both ways to write a hierarchy.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable, equal_computations
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors

from pymc_minibatch_mh.model.reading.maps import Map

if TYPE_CHECKING:
    from pymc_minibatch_mh.model.reading.split import Split


@dataclass(frozen=True, eq=False)
class Coordinates:
    """A map between positions and the model's own value variables, both ravelled.

    Parameters
    ----------
    maps
        Maps of a few coordinates each. No map depends on what another moves.
    refused
        Names of others that rows meet in products, and why these are not mapped.
    """

    maps: tuple[Map, ...]
    refused: tuple[tuple[str, str], ...] = ()

    @property
    def ends(self) -> set[int]:
        """Coordinates that lie between 0 and infinity."""
        return set().union(*(one.ends for one in self.maps))

    @property
    def logs(self) -> set[int]:
        """Coordinates whose logarithm, times a number, is what rows were written in."""
        return set().union(*(one.logs for one in self.maps))

    @property
    def sums(self) -> set[tuple[int, ...]]:
        """Coordinates that have a sum, which is positive, by which rows divide."""
        return set().union(*(one.sums for one in self.maps))

    def within(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of the support of positions, from those of values, both shaped (d,)."""
        places = sorted(self.ends)
        lower, upper = lower.copy(), upper.copy()
        lower[places], upper[places] = 0.0, np.inf
        return lower, upper

    def depend_on(self, place: int) -> bool:
        """Whether maps depend on a coordinate, or move it."""
        return any(one.depends_on(place) for one in self.maps)

    def mirrored(self, positions: np.ndarray) -> np.ndarray:
        """Return positions, of any shape, with negative ones that begin at 0 made positive."""
        places, found = sorted(self.ends), positions.copy()
        found[..., places] = np.abs(found[..., places])
        return found

    def values(self, positions: np.ndarray) -> np.ndarray:
        """Return the model's own variables at positions, both of shape (n, d)."""
        values = positions.copy()
        for one in self.maps:
            one.set_values(positions, values)
        return values

    def positions(self, values: np.ndarray) -> np.ndarray:
        """Return the positions of the model's own variables, both of shape (n, d)."""
        positions = values.copy()
        for one in self.maps:
            one.set_positions(values, positions)
        return positions

    def graph(self, position: Variable) -> Variable:
        """Return the graph of the model's own variables at a position."""
        (size,) = position.type.shape
        order, entries, n_entries = np.arange(size), [position], size
        for places, graph in (placed for one in self.maps for placed in one.graphs(position)):
            order[places] = n_entries + np.arange(places.size)
            entries.append(graph)
            n_entries += places.size
        return pt.concatenate(entries)[order]

    def log_jacobians(self, positions: np.ndarray) -> np.ndarray:
        """Return log |∂ values / ∂ position| at positions of shape (n, d), shape (n,)."""
        found = (one.log_jacobians(positions) for one in self.maps)
        return sum(found, start=np.zeros(len(positions)))

    def log_jacobian(self, position: Variable) -> Variable:
        """Return the graph of log |∂ values / ∂ position|."""
        return sum((one.log_jacobian(position) for one in self.maps), start=pt.constant(0.0))


def in_coordinates(split: "Split", coordinates: Coordinates) -> "Split":
    """Return a split model whose position lies in other coordinates, with their Jacobian.

    Parameters
    ----------
    split
        The model in its own variables.
    coordinates
        The map.
    """
    position = split.position.type("position")
    own = split.prior, *(term.logp for term in split.terms), *split.natural.values()
    shorter = {
        computed: graph
        for one in coordinates.maps
        for name, graph in one.natural(position).items()
        for computed in _computations(split.natural[name], own)
    }
    values = {split.position: coordinates.graph(position)}
    prior, *graphs = clone_replace(list(clone_replace(list(own), shorter)), values)
    terms = [replace(t, logp=logp) for t, logp in zip(split.terms, graphs, strict=False)]
    natural = dict(zip(split.natural, graphs[len(terms) :], strict=True))
    lower, upper = coordinates.within(split.lower, split.upper)
    return replace(
        split,
        position=position,
        lower=lower,
        upper=upper,
        prior=prior + coordinates.log_jacobian(position),
        terms=tuple(terms),
        natural=natural,
        coordinates=coordinates,
    )


def _computations(graph: Variable, among: Iterable[Variable]) -> list[Variable]:
    """Return all variables that are computed as a graph is."""
    if graph.owner is None:
        return [graph]
    return [
        one
        for one in ancestors(list(among))
        if one.owner is not None
        and one.owner.op == graph.owner.op
        and one.type == graph.type
        and equal_computations([one], [graph])
    ]
