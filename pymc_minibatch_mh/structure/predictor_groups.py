"""Groups of observations whose linear predictors depend on the same directions."""

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh.expressions.graph import Expr, Gather, Monomial
from pymc_minibatch_mh.functions.interval import Array
from pymc_minibatch_mh.structure.row_function import RowData, RowFunction

#: Maximum number of directions of all groups together; each costs time at every update.
MAX_DIRECTIONS = 512
#: Maximum fraction of nonzero entries in a data column that splits observations into groups.
MAX_SPARSE_SHARE = 0.5
#: Number of sampled rows that estimate this fraction, and number of rows read per block.
SAMPLE_ROWS, CHUNK_ROWS = 2_000, 65_536


class _PredictorPart(NamedTuple):
    terms: Sequence[Monomial]
    monomial: tuple[Expr, ...]

    @property
    def indices(self) -> list[Expr]:
        """Data that index coordinates."""
        return [term.place.index for term in self.terms if isinstance(term.place, Gather)]

    def weight(self, data: RowData) -> Array:
        """Product of the data factors of the terms, shape (rows,)."""
        return reduce(np.multiply, map(data.value, self.monomial), np.ones(data.rows.size))

    def direction(self, chosen: dict[Expr, int], size: int) -> Array:
        """Vector of the coefficients of the terms, for known index values, shape (d,)."""
        result = np.zeros(size)
        for term in self.terms:
            place = term.place
            if isinstance(place, Gather):
                index = chosen[place.index]
                place = place.first + place.step * (index + place.size * (index < 0))
            result[place] += term.factor
        return result


def group_directions(
    function: RowFunction, size: int
) -> tuple[list[Array], dict[frozenset[bytes], Array]]:
    """Directions common to all rows of a term, and the directions of each of its groups."""
    pairs = (pair for form in function.arguments for pair in form.by_data.items())
    parts = [_PredictorPart(terms, monomial) for monomial, terms in pairs]
    sparse = [part for part in parts if _is_sparse(function, part)]
    indices = list(dict.fromkeys(index for part in parts for index in part.indices))
    patterns = _row_patterns(function, indices, sparse)
    if len(patterns) > MAX_DIRECTIONS:
        sparse = []
        patterns = _row_patterns(function, indices, sparse)
    fixed = [part for part in parts if not part.indices and part not in sparse]
    own = {}
    for pattern in patterns[: MAX_DIRECTIONS + 1]:
        chosen = dict(zip(indices, pattern.tolist(), strict=False))
        missing = [p for p, read in zip(sparse, pattern[len(indices) :], strict=True) if not read]
        read = [part for part in parts if part not in fixed and part not in missing]
        lines = [part.direction(chosen, size) for part in read]
        own[frozenset(line.tobytes() for line in lines)] = np.reshape(lines, (-1, size))
    return [part.direction({}, size) for part in fixed], own


def _is_sparse(function: RowFunction, part: _PredictorPart) -> bool:
    if not part.monomial:
        return False
    rows = np.unique(np.linspace(0, function.n_rows - 1, SAMPLE_ROWS).astype(np.int64))
    return float(np.mean(part.weight(RowData(function, rows)) != 0.0)) <= MAX_SPARSE_SHARE


def _row_patterns(
    function: RowFunction, indices: Sequence[Expr], sparse: Sequence[_PredictorPart]
) -> np.ndarray:
    """Distinct combinations, over rows, of index values and nonzero indicators of sparse parts."""
    found = np.empty((0, len(indices) + len(sparse)), np.int64)
    for first in range(0, function.n_rows, CHUNK_ROWS):
        data = RowData(function, slice(first, min(first + CHUNK_ROWS, function.n_rows)))
        columns = [data.value(index).astype(np.int64) for index in indices]
        columns += [(part.weight(data) != 0.0).astype(np.int64) for part in sparse]
        if not columns:
            return found[:0]
        columns = [np.broadcast_to(column, data.rows.size) for column in columns]
        found = np.unique(np.concatenate([found, np.stack(columns, axis=1)]), axis=0)
        if len(found) > MAX_DIRECTIONS:
            break
    return found
