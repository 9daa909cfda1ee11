"""Passes over the rows of a model with elements: sums that no d × d matrix holds.

A row reads coefficients x_a of the border, shape (n,), in each of its m arguments, and of each
factor f one element, times z_fa. The Hessian of all rows is that of the border, a line for every
element, the elements' diagonal, and *cells*: pairs of elements of two factors that some row reads.
What rows choose of the border is read as elements are, and put in its place once all is summed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from pymc_minibatch_mh.compiled.form_rows import FormRows
from pymc_minibatch_mh.expressions.graph import Gather, Monomial
from pymc_minibatch_mh.native.library import FunctionAt
from pymc_minibatch_mh.reference.full_data import on_all_cores
from pymc_minibatch_mh.structure.predictors import LinearForm
from pymc_minibatch_mh.structure.random_effects import GroupingFactor, RandomEffects
from pymc_minibatch_mh.structure.row_function import RowData, RowFunction

#: Rows that are read at a time, and numbers of some of them that are in memory at once: 64 MB.
CHUNK, MOST_NUMBERS = 65_536, 2**23


class Read(NamedTuple):
    """What some rows of a term read: `first` is their first number through all terms."""

    term: int
    first: int
    #: Coefficients of the border but for what rows choose, shape (m, rows, n - c); elements,
    #: numbered through all factors, -1 for none, shape (factors, rows); and their coefficients,
    #: shape (factors, m, rows).
    border: np.ndarray
    elements: np.ndarray
    weights: np.ndarray
    #: What a row chooses of the last c coordinates of the border, numbered through all that choose
    #: and in the border, shape (choices, rows) each, and the coefficients, (choices, m, rows).
    chosen: np.ndarray
    columns: np.ndarray
    chosen_weights: np.ndarray
    #: Numbers of the row function beside its arguments, shape (rows, leaves).
    leaves: np.ndarray

    def some(self, rows: Any) -> "Read":
        """Return the linear predictors and effects of some rows."""
        return self._replace(
            border=self.border[:, rows],
            elements=self.elements[:, rows],
            weights=self.weights[:, :, rows],
            chosen=self.chosen[:, rows],
            columns=self.columns[:, rows],
            chosen_weights=self.chosen_weights[:, :, rows],
            leaves=self.leaves[rows],
        )

    def forms(self, border: np.ndarray, elements: np.ndarray) -> np.ndarray:
        """Return the forms of a border and elements, shape (m, rows)."""
        found = self.border @ border[: self.border.shape[2]]
        for own, weights, values in (
            (self.elements, self.weights, elements),
            (self.columns, self.chosen_weights, border),
        ):
            found = found + np.einsum("fmr,fr->mr", weights, np.where(own >= 0, values[own], 0.0))
        return found


@dataclass(frozen=True, eq=False)
class ElementSums:
    """Value, slopes and second derivatives of the rows, L elements and a border of n."""

    value: float
    border: np.ndarray
    elements: np.ndarray
    #: Shapes (n, n), (L, n) and (L,); and the cells, a symmetric sparse matrix (L, L).
    border_hessian: np.ndarray
    between: np.ndarray
    diagonal: np.ndarray
    cells: sparse.csr_array

    @property
    def hessian_of_elements(self) -> sparse.csr_array:
        """The Hessian in the elements."""
        return sparse.csr_array(self.cells + sparse.diags_array(self.diagonal))


class ElementRows:
    """The rows of a model, by border and elements; read once, and kept."""

    def __init__(
        self, functions: Sequence[RowFunction], compiled: FormRows, elements: RandomEffects
    ) -> None:
        self._functions, self._compiled = functions, compiled
        self.factors, self._choices = elements.factors, elements.chosen
        self.starts = starts_of(elements.factors)
        self.n_rows = sum(function.n_rows for function in functions)
        # The last coordinates of the border are those that rows choose.
        self._border, together = elements.border, elements.chosen_places
        self._n_fixed = self._border.size - together.size
        self._columns = self._n_fixed + np.searchsorted(together, elements.choices)
        #: Elements and chosen coordinates.
        self._size = int(self.starts[-1]) + together.size

    @cached_property
    def chunks(self) -> list[Read]:
        """All rows, as they are read."""
        ends = np.concatenate([[0], np.cumsum([f.n_rows for f in self._functions])])
        asked = [
            (k, int(ends[k]), first, min(first + CHUNK, function.n_rows))
            for k, function in enumerate(self._functions)
            for first in range(0, function.n_rows, CHUNK)
        ]
        return list(on_all_cores(lambda one: self._read(*one), asked))

    def _read(self, term: int, before: int, start: int, stop: int) -> Read:
        function = self._functions[term]
        data = RowData(function, slice(start, stop))
        m, n, size = len(function.arguments), self._n_fixed, stop - start
        border = np.zeros((m, size, n))
        columns = {place: k for k, place in enumerate(self._border[:n].tolist())}
        for a, form in enumerate(function.arguments):
            for part in _fixed(form):
                border[a, :, columns[part.place]] += data.weight(part)
        elements, weights = _chosen(self.factors, term, data, m)
        chosen, chosen_weights = _chosen(self._choices, term, data, m)
        there = np.append(self._columns, -1)[chosen]
        leaves = [np.broadcast_to(data.value(x), size) for x in self._compiled.leaves[term]]
        taken = np.stack([*leaves], axis=1) if leaves else np.empty((size, 0))
        read = border, elements, weights, chosen, there, chosen_weights
        return Read(term, before + start, *read, taken.astype(np.float64))

    def _groups(self, read: Read) -> tuple[np.ndarray, np.ndarray]:
        """Return what rows read of each factor and by each choice, numbered through, and weights.

        Chosen coordinates come after the elements; -1 is none, shape (factors and choices, rows).
        """
        away = int(self.starts[-1]) - self._n_fixed
        chosen = np.where(read.columns >= 0, away + read.columns, -1)
        weights = np.concatenate([read.weights, read.chosen_weights])
        return np.concatenate([read.elements, chosen]), weights

    @cached_property
    def _cells(self) -> tuple[list[np.ndarray], np.ndarray]:
        """The cell of every pair of groups in each chunk, shape (pairs, rows), and their keys."""
        pairs = list(combinations(range(len(self.factors) + len(self._choices)), 2))
        keys = []
        for read in self.chunks:
            own, _ = self._groups(read)
            keys.append(np.stack([_key(own[f], own[g], self._size) for f, g in pairs]))
        known = np.unique(np.concatenate(keys, axis=1))
        return [np.searchsorted(known, own) for own in keys], known

    def sums(self, border: np.ndarray, elements: np.ndarray) -> ElementSums:
        """Return the sums over all rows for values of border and elements."""
        numbers = range(len(self.chunks))
        several = len(self.factors) + len(self._choices) > 1
        cells = self._cells if several else ([], np.empty(0, np.int64))

        slopes_of = self._compiled.slopes()

        def of_chunk(k: int) -> list[np.ndarray]:
            read = self.chunks[k]
            found = self._derivatives(slopes_of, read, border, elements, _n_slopes(read))
            own = cells[0][k] if several else np.empty((0, 0), np.int64)
            return self._summed(read, found, own, cells[1].size)

        parts = on_all_cores(of_chunk, numbers)
        value, fixed, slopes, within, lines, diagonal, shared = (
            sum(x) for x in zip(*parts, strict=True)
        )
        # Effects that rows choose belong to the common parameters.
        n, matrix = int(self.starts[-1]), self._matrix(cells[1], shared)
        chosen = matrix[n:, n:].toarray() + np.diag(diagonal[n:])
        return ElementSums(
            float(value),
            np.concatenate([fixed, slopes[n:]]),
            slopes[:n],
            np.block([[within, lines[n:].T], [lines[n:], chosen]]),
            np.hstack([lines[:n], matrix[:n, n:].toarray()]),
            diagonal[:n],
            sparse.csr_array(matrix[:n, :n]),
        )

    def _summed(
        self, read: Read, found: np.ndarray, cells: np.ndarray, n_cells: int
    ) -> list[np.ndarray]:
        m, size, (numbers, z) = len(read.border), self._size, self._groups(read)
        slopes = found[1 : 1 + m]
        bends = np.array([[found[second(m, a, b)] for b in range(m)] for a in range(m)])
        weighted = np.einsum("abr,brj->arj", bends, read.border)
        gradient, diagonal = np.zeros((2, size))
        between = np.zeros((size, self._n_fixed))
        bent = np.einsum("fbr,abr->far", z, bends)
        for f, number in enumerate(numbers):
            there, own = number >= 0, np.maximum(number, 0)
            gradient += np.bincount(own, there * (z[f] * slopes).sum(axis=0), size)
            diagonal += np.bincount(own, there * (z[f] * bent[f]).sum(axis=0), size)
            lines = np.einsum("ar,arj->rj", z[f] * there, weighted)
            chosen = sparse.csr_array(
                (np.ones(own.size), own, np.arange(own.size + 1)), (own.size, size)
            )
            between = between + chosen.T @ lines
        values = np.zeros(n_cells)
        for cell, (f, g) in zip(cells, combinations(range(len(numbers)), 2), strict=False):
            there = (numbers[f] >= 0) & (numbers[g] >= 0)
            values += np.bincount(cell, there * (z[f] * bent[g]).sum(axis=0), n_cells)
        return [
            found[0].sum(),
            np.einsum("ar,arj->j", slopes, read.border),
            gradient,
            np.tensordot(read.border, weighted, axes=([0, 1], [0, 1])),
            between,
            diagonal,
            values,
        ]

    def _matrix(self, keys: np.ndarray, values: np.ndarray) -> sparse.csr_array:
        size, known = self._size, keys >= 0
        one, other = np.divmod(keys[known], size)
        half = sparse.coo_array((values[known], (one, other)), shape=(size, size))
        return sparse.csr_array(half + half.T)

    def skewness(
        self,
        border: np.ndarray,
        elements: np.ndarray,
        factor: np.ndarray,
        response: np.ndarray,
        variances: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return by how much an average over a normal distribution changes the slopes of the rows.

        That is ½ Σ f_abc cov_bc, summed by border, of which T is the `factor`, and elements, which
        follow it by a response of shape (L, n) and spread independently beside it.
        """
        n, lines = int(self.starts[-1]), np.concatenate([response, factor[self._n_fixed :]])
        spread = np.concatenate([variances, np.zeros(self._size - n)])

        thirds_of = self._compiled.thirds()

        def of_chunk(read: Read) -> list[np.ndarray]:
            m = len(read.border)
            count = m * (m + 1) * (m + 2) // 6
            thirds = self._derivatives(thirds_of, read, border, elements, count)
            numbers, weights = self._groups(read)
            read = read._replace(elements=numbers, weights=weights)
            cov = self._covariances(read, factor[: self._n_fixed], lines, spread)
            bent = np.array([_contracted(thirds, cov, a, m) for a in range(m)])
            found = np.zeros(self._size)
            for own, weight in zip(numbers, weights, strict=True):
                values = (own >= 0) * (weight * bent).sum(axis=0)
                found += np.bincount(np.maximum(own, 0), values, self._size)
            return [np.einsum("ar,arj->j", bent, read.border), found]

        fixed, own = (sum(x) for x in zip(*on_all_cores(of_chunk, self.chunks), strict=True))
        return np.concatenate([fixed, own[n:]]), own[:n]

    def _covariances(
        self, read: Read, factor: np.ndarray, lines: np.ndarray, spread: np.ndarray
    ) -> np.ndarray:
        """Return the covariances of the arguments of rows, shape (m, m, rows)."""
        found, rows = [], max(1, MOST_NUMBERS // max(1, factor.shape[1]))
        for first in range(0, read.elements.shape[1], rows):
            some = read.some(slice(first, first + rows))
            ways = self.directions(some, factor, lines)
            own = np.where(some.elements >= 0, spread[some.elements], 0.0)
            cov = np.einsum("arj,brj->abr", ways, ways)
            found.append(cov + np.einsum("far,fbr,fr->abr", some.weights, some.weights, own))
        return np.concatenate(found, axis=2)

    @staticmethod
    def directions(read: Read, factor: np.ndarray, response: np.ndarray) -> np.ndarray:
        """Return v of each argument in each row, shape (m, rows, n): it departs by v·w."""
        found = read.border @ factor
        for f, own in enumerate(read.elements):
            lines = np.where(own[:, None] >= 0, response[own], 0.0)
            found += read.weights[f][:, :, None] * lines
        return found

    @staticmethod
    def _derivatives(
        functions: Sequence[FunctionAt],
        read: Read,
        border: np.ndarray,
        elements: np.ndarray,
        count: int,
    ) -> np.ndarray:
        """Return derivatives by arguments of some rows, shape (derivatives, rows)."""
        forms = read.forms(border, elements)
        inputs = np.ascontiguousarray(np.concatenate([forms.T, read.leaves], axis=1))
        out = np.empty((len(inputs), count))
        functions[read.term](inputs, out, len(inputs))
        return np.ascontiguousarray(out.T)


def second(m: int, a: int, b: int) -> int:
    """Return the place of a second derivative among value, gradient and Hessian of a row."""
    low, high = min(a, b), max(a, b)
    return 1 + m + low * m - low * (low - 1) // 2 + high - low


def _n_slopes(read: Read) -> int:
    """Return how many derivatives up to the second order a row has, with its value."""
    m = len(read.border)
    return 1 + m + m * (m + 1) // 2


def starts_of(factors: Sequence[GroupingFactor]) -> np.ndarray:
    """Return where the elements of each factor begin, numbered through all, shape (F + 1,)."""
    return np.cumsum([0, *(factor.places.size for factor in factors)], dtype=np.int64)


def _chosen(
    factors: Sequence[GroupingFactor], term: int, data: RowData, m: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return what rows read of each factor, shape (factors, rows), and the coefficients."""
    size, starts = data.rows.size, starts_of(factors)
    elements, weights = np.full((len(factors), size), -1), np.zeros((len(factors), m, size))
    for f, factor in enumerate(factors):
        for a, part in factor.readings[term]:
            place = part.place
            assert isinstance(place, Gather)
            own = factor.of_index(data.index(place))
            elements[f] = np.where(own >= 0, starts[f] + own, -1)
            weights[f, a] += np.where(own >= 0, data.weight(part), 0.0)
        # As of a reference level, which has no effect.
        elements[f, ~weights[f].any(axis=0)] = -1
    return elements, weights


def _key(one: np.ndarray, other: np.ndarray, size: int) -> np.ndarray:
    return np.where((one >= 0) & (other >= 0), one * size + other, -1)


def _fixed(form: LinearForm) -> Iterator[Monomial]:
    return (term for term in form.terms if not isinstance(term.place, Gather))


def _contracted(thirds: np.ndarray, cov: np.ndarray, a: int, m: int) -> np.ndarray:
    """Return ½ Σ_bc f_abc cov_bc; third derivatives are in the order of a <= b <= c."""
    places: dict[tuple[int, ...], int] = {
        index: k
        for k, index in enumerate(
            (a, b, c) for a in range(m) for b in range(a, m) for c in range(b, m)
        )
    }
    pairs = ((b, c) for b in range(m) for c in range(m))
    return 0.5 * sum(thirds[places[tuple(sorted((a, b, c)))]] * cov[b, c] for b, c in pairs)
