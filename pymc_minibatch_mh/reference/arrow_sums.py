"""Sums over the rows of a model with many group effects, without a d × d matrix.

Each of a row's m linear predictors has coefficients x_a of the common effects (border), shape (n,),
and z_fa of one level of each factor f. The Hessian consists of the border's block, one row per
level, the levels' diagonal, and *cells*: pairs of levels of two factors that occur in one row.
Crossed levels are summed like group effects, and then moved to the border.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, combinations_with_replacement, product
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from pymc_minibatch_mh.compiled.form_rows import FormRows
from pymc_minibatch_mh.expressions.graph import Gather
from pymc_minibatch_mh.native.library import FunctionAt
from pymc_minibatch_mh.reference.arrow_reference import Arrow
from pymc_minibatch_mh.reference.full_data import on_all_cores
from pymc_minibatch_mh.structure.random_effects import GroupingFactor, RandomEffects
from pymc_minibatch_mh.structure.row_function import RowData, RowFunction

#: Number of rows per chunk; maximum number of values in working memory (64 MB).
CHUNK, MAX_NUMBERS = 65_536, 2**23


class Read(NamedTuple):
    """Coefficients and levels of rows of a term; `first` counts the rows before them."""

    term: int
    first: int
    #: Coefficients of common effects without crossed levels, shape (m, rows, n - c).
    border: np.ndarray
    #: Level of each row in each factor, then in each crossed factor, numbered over all factors, -1
    #: for none, shape (all factors, rows), and coefficients of levels, (all factors, m, rows).
    numbers: np.ndarray
    weights: np.ndarray
    #: Other inputs of the row function, such as outcomes, shape (rows, leaves).
    leaves: np.ndarray

    def of_rows(self, rows: Any) -> "Read":
        """Coefficients and levels of some of the rows."""
        return self._replace(
            border=self.border[:, rows],
            numbers=self.numbers[:, rows],
            weights=self.weights[:, :, rows],
            leaves=self.leaves[rows],
        )


@dataclass(frozen=True, eq=False)
class ElementSums:
    """Sums of value, gradient and Hessian blocks, for L group effects and n common effects."""

    value: float
    border: np.ndarray
    elements: np.ndarray
    #: Hessian blocks (n, n), (L, n), (L,), and sparse (L, L) for pairs of levels.
    border_hessian: np.ndarray
    between: np.ndarray
    diagonal: np.ndarray
    cells: sparse.csr_array

    @property
    def hessian_of_elements(self) -> sparse.csr_array:
        """Hessian in the group effects, shape (L, L)."""
        return sparse.csr_array(self.cells + sparse.diags_array(self.diagonal))


class ElementRows:
    """Rows of a model as functions of common and group effects, read into memory once."""

    def __init__(
        self, functions: Sequence[RowFunction], compiled: FormRows, elements: RandomEffects
    ) -> None:
        self._functions, self._compiled = functions, compiled
        self._group_numbers = *elements.factors, *elements.chosen
        self._n_factors, self.starts = len(elements.factors), starts_of(elements.factors)
        self.n_rows = sum(function.n_rows for function in functions)
        # The last coordinates of the border are the crossed levels.
        self._border, together = elements.border, elements.chosen_places
        self._n_fixed = self._border.size - together.size
        columns, n = np.searchsorted(together, elements.choices), int(self.starts[-1])
        self._columns, self._size = self._n_fixed + columns, n + together.size
        #: Index of each level within sums; crossed factors may share a coordinate, and so an index.
        self._shared = np.concatenate([np.arange(n), n + columns, [-1]])

    @cached_property
    def read_chunks(self) -> list[Read]:
        """Coefficients and levels of all rows, in chunks."""
        ends = np.concatenate([[0], np.cumsum([f.n_rows for f in self._functions])])
        asked = [
            (k, int(ends[k]), first, min(first + CHUNK, function.n_rows))
            for k, function in enumerate(self._functions)
            for first in range(0, function.n_rows, CHUNK)
        ]
        return list(on_all_cores(lambda one: self._read_chunk(*one), asked))

    def _read_chunk(self, term: int, before: int, start: int, stop: int) -> Read:
        function = self._functions[term]
        data = RowData(function, slice(start, stop))
        m, n, size = len(function.arguments), self._n_fixed, stop - start
        border = np.zeros((m, size, n))
        columns = {place: k for k, place in enumerate(self._border[:n].tolist())}
        for a, form in enumerate(function.arguments):
            for part in form.terms:
                if isinstance(part.place, Gather):
                    continue
                border[a, :, columns[part.place]] += data.weight(part)
        numbers, weights = _read_factors(self._group_numbers, term, data, m)
        leaves = [np.broadcast_to(data.value(x), size) for x in self._compiled.leaves[term]]
        taken = np.stack([*leaves], axis=1) if leaves else np.empty((size, 0))
        return Read(term, before + start, border, numbers, weights, taken.astype(np.float64))

    def forms(self, read: Read, border: np.ndarray, elements: np.ndarray) -> np.ndarray:
        """Linear predictors for values of common and group effects, shape (m, rows)."""
        found = read.border @ border[: self._n_fixed]
        values = np.append(elements, border[self._columns])
        taken = np.where(read.numbers >= 0, values[read.numbers], 0.0)
        for some in (slice(self._n_factors), slice(self._n_factors, None)):
            found = found + np.einsum("fmr,fr->mr", read.weights[some], taken[some])
        return found

    @cached_property
    def _cells_of_chunks(self) -> tuple[list[np.ndarray], np.ndarray]:
        """Index of the cell of each pair of levels, (pairs, rows) per chunk, and keys of cells."""
        pairs = list(combinations(range(len(self._group_numbers)), 2))
        keys = []
        for read in self.read_chunks:
            own = self._shared[read.numbers]
            both = [(own[f] >= 0) & (own[g] >= 0) for f, g in pairs]
            numbers = [own[f] * self._size + own[g] for f, g in pairs]
            keys.append(np.where(both, numbers, -1))
        known = np.unique(np.concatenate(keys, axis=1))
        return [np.searchsorted(known, own) for own in keys], known

    def sums(self, border: np.ndarray, elements: np.ndarray) -> ElementSums:
        """Sums over all rows for values of common and group effects."""
        several = len(self._group_numbers) > 1
        cells = self._cells_of_chunks if several else ([], np.empty(0, np.int64))
        slopes_of = self._compiled.slopes()

        def of_chunk(k: int) -> list[np.ndarray]:
            read, m = self.read_chunks[k], len(self.read_chunks[k].border)
            count = 1 + m + m * (m + 1) // 2
            found = self._derivatives_of_rows(slopes_of, read, border, elements, count)
            own = cells[0][k] if several else np.empty((0, 0), np.int64)
            return self._sum_chunk(read, found, own, cells[1].size)

        parts = on_all_cores(of_chunk, range(len(self.read_chunks)))
        value, fixed, slopes, within, lines, diagonal, shared = (
            sum(x) for x in zip(*parts, strict=True)
        )
        # Move sums of crossed levels to the common effects (border).
        n, known = int(self.starts[-1]), cells[1] >= 0
        pairs = np.divmod(cells[1][known], self._size)
        half = sparse.coo_array((shared[known], pairs), shape=(self._size, self._size))
        matrix = sparse.csr_array(half + half.T)
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

    def _sum_chunk(
        self, read: Read, found: np.ndarray, cells: np.ndarray, n_cells: int
    ) -> list[np.ndarray]:
        m, size, z = len(read.border), self._size, read.weights
        numbers = self._shared[read.numbers]
        slopes = found[1 : 1 + m]
        bends = np.array([[found[hessian_index(m, a, b)] for b in range(m)] for a in range(m)])
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

    def skewness(
        self, border: np.ndarray, elements: np.ndarray, arrow: Arrow
    ) -> tuple[np.ndarray, np.ndarray]:
        """Average gradient over a normal distribution minus the gradient: ½ Σ f_abc cov_bc.

        `arrow` is its precision: common effects are T w, and group effects respond to w by R₀ T w,
        with the covariance A_αα⁻¹ in addition.
        """
        n = int(self.starts[-1])
        factor = arrow.border_factor[: self._border.size]
        lines = np.concatenate([arrow.response @ arrow.border_factor, factor[self._n_fixed :]])
        thirds_of = self._compiled.thirds()

        def of_chunk(read: Read) -> list[np.ndarray]:
            m = len(read.border)
            count = m * (m + 1) * (m + 2) // 6
            thirds = self._derivatives_of_rows(thirds_of, read, border, elements, count)
            read = read._replace(numbers=self._shared[read.numbers])
            cov = self._argument_covariances(read, factor[: self._n_fixed], lines, arrow)
            bent = np.array([_contract_thirds(thirds, cov, a, m) for a in range(m)])
            found = np.zeros(self._size)
            for own, weight in zip(read.numbers, read.weights, strict=True):
                values = (own >= 0) * (weight * bent).sum(axis=0)
                found += np.bincount(np.maximum(own, 0), values, self._size)
            return [np.einsum("ar,arj->j", bent, read.border), found]

        fixed, own = (sum(x) for x in zip(*on_all_cores(of_chunk, self.read_chunks), strict=True))
        return np.concatenate([fixed, own[n:]]), own[:n]

    def _argument_covariances(
        self, read: Read, factor: np.ndarray, lines: np.ndarray, arrow: Arrow
    ) -> np.ndarray:
        """Covariances of the rows' linear predictors, shape (m, m, rows)."""
        found, rows = [], max(1, MAX_NUMBERS // max(1, factor.shape[1]))
        for first in range(0, read.numbers.shape[1], rows):
            some = read.of_rows(slice(first, first + rows))
            ways = self.argument_directions(some, factor, lines)
            cov = np.einsum("arj,brj->abr", ways, ways)
            for f, g in combinations_with_replacement(range(self._n_factors), 2):
                has_both = (some.numbers[f] >= 0) & (some.numbers[g] >= 0)
                left, right = some.numbers[f][has_both], some.numbers[g][has_both]
                shared = np.zeros(has_both.size)
                shared[has_both] = (
                    arrow.variances[left] if f == g else arrow.covariances(left, right)
                )
                part = np.einsum("ar,br,r->abr", some.weights[f], some.weights[g], shared)
                cov += part if f == g else part + part.swapaxes(0, 1)
            found.append(cov)
        return np.concatenate(found, axis=2)

    @staticmethod
    def argument_directions(read: Read, factor: np.ndarray, response: np.ndarray) -> np.ndarray:
        """Directions v of linear predictors, which change by v·w, shape (m, rows, n)."""
        found = read.border @ factor
        for f, own in enumerate(read.numbers):
            lines = np.where(own[:, None] >= 0, response[own], 0.0)
            found += read.weights[f][:, :, None] * lines
        return found

    def _derivatives_of_rows(
        self,
        functions: Sequence[FunctionAt],
        read: Read,
        border: np.ndarray,
        elements: np.ndarray,
        count: int,
    ) -> np.ndarray:
        """Derivatives of rows in their linear predictors, shape (derivatives, rows)."""
        forms = self.forms(read, border, elements)
        inputs = np.ascontiguousarray(np.concatenate([forms.T, read.leaves], axis=1))
        out = np.empty((len(inputs), count))
        functions[read.term](inputs, out, len(inputs))
        return np.ascontiguousarray(out.T)


def hessian_index(m: int, a: int, b: int) -> int:
    """Index of a second derivative within the packed value, gradient and Hessian of a row."""
    low, high = min(a, b), max(a, b)
    return 1 + m + low * m - low * (low - 1) // 2 + high - low


def starts_of(factors: Sequence[GroupingFactor]) -> np.ndarray:
    """First level of each factor, numbered over all factors, shape (F + 1,)."""
    return np.cumsum([0, *(factor.places.size for factor in factors)], dtype=np.int64)


def _read_factors(
    factors: Sequence[GroupingFactor], term: int, data: RowData, m: int
) -> tuple[np.ndarray, np.ndarray]:
    """Level of each row in each factor, shape (factors, rows), and its coefficients."""
    size, starts = data.rows.size, starts_of(factors)
    elements, weights = np.full((len(factors), size), -1), np.zeros((len(factors), m, size))
    for f, factor in enumerate(factors):
        for a, part in factor.readings[term]:
            place = part.place
            assert isinstance(place, Gather)
            own = factor.of_index(data.index(place))
            elements[f] = np.where(own >= 0, starts[f] + own, -1)
            weights[f, a] += np.where(own >= 0, data.weight(part), 0.0)
        # A level with zero coefficients, such as a reference level, counts as none.
        elements[f, ~weights[f].any(axis=0)] = -1
    return elements, weights


def _contract_thirds(thirds: np.ndarray, cov: np.ndarray, a: int, m: int) -> np.ndarray:
    """½ Σ_bc f_abc cov_bc, from third derivatives sorted by a <= b <= c."""
    order = combinations_with_replacement(range(m), 3)
    places: dict[tuple[int, ...], int] = {index: k for k, index in enumerate(order)}
    pairs = product(range(m), repeat=2)
    return 0.5 * sum(thirds[places[tuple(sorted((a, b, c)))]] * cov[b, c] for b, c in pairs)
