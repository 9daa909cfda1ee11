"""Which directions the rows of each group depend on: of all coordinates, a row reads a few.

A row changes in a move by what lies along its own linear forms, and its bound holds with M of that
part of the move alone. Rows of one group of a hierarchy, or with the same indicators, read the same
few directions. Those that all rows read are kept once, those of the groups beside them; M is then
the largest of the groups'. With 30 groups of two effects each it is that of five directions, of 66.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh.bounds.interval import Array
from pymc_minibatch_mh.model.row.cells import Cell, Gather, Term
from pymc_minibatch_mh.model.row.function import RowFunction
from pymc_minibatch_mh.model.row.values import RowData

#: Directions of all groups together, at most: each of them takes time at every update.
MOST_DIRECTIONS = 512
#: Share of rows up to which those that a column is not zero in count as a group.
SPARSE = 0.5
#: Rows that tell this share, and rows that are read at a time.
SAMPLE, CHUNK = 2_000, 65_536


class Groups(NamedTuple):
    """Whitened directions that rows depend on.

    Parameters
    ----------
    shared : ndarray, shape (s, d)
        Those that may matter to all rows, orthonormal.
    own : ndarray, shape (groups * each, d)
        Those of the groups beside them, group by group, orthonormal with them. A group that has
        fewer than others ends in zeros.
    each
        Number of directions of a group.
    """

    shared: Array
    own: Array
    each: int

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.own) // self.each

    @property
    def size(self) -> int:
        """Number of directions that a row depends on, at most."""
        return len(self.shared) + self.each


class _Part(NamedTuple):
    """Terms of a form that are multiplied by the same data."""

    terms: Sequence[Term]
    monomial: tuple[Cell, ...]

    @property
    def indices(self) -> list[Cell]:
        """The data that choose coordinates."""
        return [term.place.index for term in self.terms if isinstance(term.place, Gather)]

    def weight(self, data: RowData) -> Array:
        """Return the data that the terms are multiplied by."""
        result = np.ones(data.rows.size)
        for cell in self.monomial:
            result = result * data.value(cell)
        return result

    def direction(self, chosen: dict[Cell, int], size: int) -> Array:
        """Return the direction that the terms read, given what data choose."""
        result = np.zeros(size)
        for term in self.terms:
            place = term.place
            if isinstance(place, Gather):
                index = chosen[place.index]
                place = place.first + place.step * (index + place.size * (index < 0))
            result[place] += term.factor
        return result


def groups_of(functions: Sequence[RowFunction], factor: Array) -> Groups | None:
    """Return the directions that the rows of each group depend on; None where these are too many.

    Parameters
    ----------
    functions
        The terms.
    factor : ndarray, shape (d, d)
        L, by which positions are whitened: a form of coefficients v is Lᵀv.
    """
    size = len(factor)
    shared: list[Array] = []
    own: dict[frozenset[bytes], Array] = {}
    for function in functions:
        common, apart = _directions(function, size)
        shared += common
        own |= apart
        if len(own) > MOST_DIRECTIONS:
            return None
    # A group that reads no more than another one needs no line of its own.
    largest = [lines for key, lines in own.items() if not any(key < other for other in own)]
    each = max((len(lines) for lines in largest), default=0)
    if not each or len(largest) * each > MOST_DIRECTIONS or len(shared) + each >= size:
        return None
    return _whitened(np.reshape(shared, (-1, size)), largest, each, factor)


def _whitened(shared: Array, own: Sequence[Array], each: int, factor: Array) -> Groups:
    basis = np.linalg.qr(factor.T @ shared.T)[0]
    lines = np.zeros((len(own), each, len(factor)))
    for found, directions in zip(lines, own, strict=True):
        # The first columns of the orthonormal basis are those of the shared one again.
        both = np.linalg.qr(np.concatenate([basis, factor.T @ directions.T], axis=1))[0]
        found[: len(directions)] = both[:, len(shared) :].T
    return Groups(np.ascontiguousarray(basis.T), lines.reshape(-1, len(factor)), each)


def _directions(
    function: RowFunction, size: int
) -> tuple[list[Array], dict[frozenset[bytes], Array]]:
    """Return the directions that all rows of a term read, and those of each of its groups."""
    parts = list(_parts(function))
    sparse = [part for part in parts if _is_sparse(function, part)]
    patterns = _patterns(function, parts, sparse)
    if len(patterns) > MOST_DIRECTIONS:
        sparse = []
        patterns = _patterns(function, parts, sparse)
    fixed = [part for part in parts if not part.indices and part not in sparse]
    indices = _indices(parts)
    own = {}
    for pattern in patterns[: MOST_DIRECTIONS + 1]:
        chosen = dict(zip(indices, pattern.tolist(), strict=False))
        missing = [p for p, read in zip(sparse, pattern[len(indices) :], strict=True) if not read]
        read = [part for part in parts if part not in fixed and part not in missing]
        lines = [part.direction(chosen, size) for part in read]
        own[frozenset(line.tobytes() for line in lines)] = np.reshape(lines, (-1, size))
    return [part.direction({}, size) for part in fixed], own


def _parts(function: RowFunction) -> Iterator[_Part]:
    for form in function.arguments:
        terms = defaultdict[tuple[Cell, ...], list[Term]](list)
        for term in form.terms:
            terms[term.monomial].append(term)
        yield from (_Part(own, monomial) for monomial, own in terms.items())


def _indices(parts: Sequence[_Part]) -> list[Cell]:
    return list(dict.fromkeys(index for part in parts for index in part.indices))


def _is_sparse(function: RowFunction, part: _Part) -> bool:
    if not part.monomial:
        return False
    rows = np.unique(np.linspace(0, function.n_rows - 1, SAMPLE).astype(np.int64))
    return float(np.mean(part.weight(RowData(function, rows)) != 0.0)) <= SPARSE


def _patterns(function: RowFunction, parts: Sequence[_Part], sparse: Sequence[_Part]) -> np.ndarray:
    """Return what data choose and which sparse parts are read, as far as rows differ in it."""
    found = np.empty((0, len(_indices(parts)) + len(sparse)), np.int64)
    for first in range(0, function.n_rows, CHUNK):
        data = RowData(function, slice(first, min(first + CHUNK, function.n_rows)))
        columns = [data.value(index).astype(np.int64) for index in _indices(parts)]
        columns += [(part.weight(data) != 0.0).astype(np.int64) for part in sparse]
        if not columns:
            return found[:0]
        columns = [np.broadcast_to(column, data.rows.size) for column in columns]
        found = np.unique(np.concatenate([found, np.stack(columns, axis=1)]), axis=0)
        if len(found) > MOST_DIRECTIONS:
            break
    return found
