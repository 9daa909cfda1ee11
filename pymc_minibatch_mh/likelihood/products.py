"""Coefficients that rows meet in products with the parts of a simplex, as in monotonic effects.

In ``b * cumsum(chi)[level]`` rows are products of b with parts of χ. With t = |b| χ as coordinates
they are linear. What is tried here needs no proof to be exact: that rows are linear in t is seen by
taking them apart again, and a map that does not bring that about is dropped.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytensor
from pytensor.scalar import basic as scalar

from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.likelihood.cells import Affine, Cell, Gather
from pymc_minibatch_mh.likelihood.derived import IN_PYTHON
from pymc_minibatch_mh.likelihood.function import LoweredRow, lowered_rows
from pymc_minibatch_mh.likelihood.maps import Product
from pymc_minibatch_mh.likelihood.patterns import divided_by, is_a, number, reachable
from pymc_minibatch_mh.likelihood.split import Block, Coordinates, Split, in_coordinates

#: Of the points at which a variable is seen to be a simplex of logits.
SEED = 11


@dataclass(frozen=True)
class Pair:
    """A simplex, and the coefficient that rows multiply it by.

    Parameters
    ----------
    name, coefficient
        The names of the two.
    places : tuple of int
        Where the logits lie in the position, then the coefficient.
    """

    name: str
    coefficient: str
    places: tuple[int, ...]

    def map(self, sign: float) -> Product:
        """Return the map for a sign of the coefficient, 1 or -1."""
        words = f"{self.coefficient} × {self.name}"
        words = words if sign > 0.0 else f"-{words}"
        return Product(self.name, np.array(self.places), words, sign)


def pairs_of(split: Split) -> tuple[list[Pair], list[tuple[str, str]]]:
    """Return the pairs of a model in its own variables, and simplexes that have none, with why."""
    try:
        rows = lowered_rows(split)
    except BoundsError:
        return [], []
    met: defaultdict[int, set[int]] = defaultdict(set)
    for row in rows:
        _meet(row, met)
    pairs: list[Pair] = []
    refused: list[tuple[str, str]] = []
    names = list(zip(split.blocks, split.natural, strict=True))
    coefficients = {k: name for block, name in names for k in _own_real(split, block)}
    for block, name in names:
        logits = range(block.start, block.stop)
        by = {k for j in logits for k in met[j] if k in coefficients} - set(logits)
        if not by or not _is_simplex(split, block, name):
            continue
        if len(by) == 1:
            (place,) = by
            pairs.append(Pair(name, _named(split, place), (*logits, place)))
        else:
            several = ", ".join(repr(_named(split, k)) for k in sorted(by))
            refused.append((name, f"is multiplied by several coefficients, {several}"))
    shared = {p.places[-1] for p in pairs for q in pairs if p is not q and _meets(p, q)}
    refused += [
        (p.name, f"is multiplied by {p.coefficient!r}, which multiplies another simplex too")
        for p in pairs
        if p.places[-1] in shared
    ]
    return [p for p in pairs if p.places[-1] not in shared], refused


def in_products(split: Split, there: Split, pairs: Sequence[Pair], signs: Sequence[float]) -> Split:
    """Return a model with products of coefficients and simplexes among its coordinates.

    Parameters
    ----------
    split
        The model in its own variables.
    there
        The same in the coordinates that it has already.
    pairs
        What is multiplied.
    signs
        The signs of the coefficients.
    """
    known = there.coordinates or Coordinates(())
    maps = [pair.map(sign) for pair, sign in zip(pairs, signs, strict=True)]
    mapped = {pair.coefficient.partition("[")[0] for pair in pairs} | {p.name for p in pairs}
    refused = tuple(one for one in known.refused if one[0] not in mapped)
    return in_coordinates(split, Coordinates((*known.maps, *maps), refused))


def linear_pairs(
    split: Split, there: Split, pairs: Sequence[Pair]
) -> tuple[list[Pair], list[tuple[str, str]]]:
    """Return the pairs in whose products rows are linear, and why the others are not mapped."""
    kept: list[Pair] = []
    refused: list[tuple[str, str]] = []
    for pair in pairs:
        if there.coordinates is not None and any(map(there.coordinates.depend_on, pair.places)):
            refused.append((pair.name, f"is multiplied by {pair.coefficient!r}, which is mapped"))
        elif any(map(_divides, lowered_rows(in_products(split, there, [pair], [1.0])))):
            reason = f"rows depend on {pair.coefficient!r} and on it in other ways than by products"
            refused.append((pair.name, reason))
        else:
            kept.append(pair)
    return kept, refused


def _divides(row: LoweredRow) -> bool:
    """Whether rows are still divided by the sum of products."""
    return any(divided_by(row.cells, cell) is not None for cell in reachable(row.root))


def _meet(row: LoweredRow, met: defaultdict[int, set[int]]) -> None:
    """Note which coordinates other functions of coordinates are multiplied by."""
    for cell in reachable(row.root):
        others = [x for x in cell.inputs if not x.is_data] if is_a(cell, scalar.Mul) else []
        for x in others:
            place = _coordinate(x)
            if place is not None:
                for k in set().union(*(_coordinates(other) for other in others if other is not x)):
                    met[k].add(place)


def _coordinate(cell: Cell) -> int | None:
    """Return the coordinate that a cell is a multiple of."""
    if not isinstance(cell, Affine) or len(cell.terms) > 1 or number(cell.offset) != 0.0:
        return None
    place = cell.terms[0].place
    return None if isinstance(place, Gather) else place


def _coordinates(cell: Cell) -> set[int]:
    terms = [t for x in reachable(cell) if isinstance(x, Affine) for t in x.terms]
    return {t.place for t in terms if isinstance(t.place, int)}


def _own_real(split: Split, block: Block) -> list[int]:
    """Return coordinates of a block of this step that can take any real value."""
    return [
        k
        for k in range(max(block.start, split.first), block.stop)
        if np.isneginf(split.lower[k]) and np.isposinf(split.upper[k])
    ]


def _is_simplex(split: Split, block: Block, name: str) -> bool:
    """Whether a variable is the softmax of a block of this step and of minus its sum."""
    graph, size = split.natural[name], block.stop - block.start
    if graph.type.ndim != 1 or len(block.shape) != 1 or block.start < split.first:
        return False
    function = pytensor.function(
        [split.position, split.other_values], graph, mode=IN_PYTHON, on_unused_input="ignore"
    )
    position = np.random.default_rng(SEED).standard_normal(split.size)
    logits = position[block.start : block.stop]
    shares = np.exp([*logits, -logits.sum()])
    found = function(position, np.zeros(split.other_values.type.shape))
    return found.shape == (size + 1,) and np.allclose(found, shares / shares.sum(), rtol=1e-12)


def _named(split: Split, place: int) -> str:
    names = zip(split.blocks, split.natural, strict=True)
    block, name = next((b, name) for b, name in names if place < b.stop)
    if not block.shape:
        return name
    return name + str([int(k) for k in np.unravel_index(place - block.start, block.shape)])


def _meets(one: Pair, other: Pair) -> bool:
    return one.places[-1] == other.places[-1]
