"""Passes over all rows in chunks, on all cores, for enclosures and bounds."""

from collections.abc import Callable, Sequence

import numpy as np

from pymc_minibatch_mh.bounds.geometry import Geometry, geometry_of_rows
from pymc_minibatch_mh.functions.interval import Array
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.reference.full_data import on_all_cores
from pymc_minibatch_mh.structure.row_function import MAX_ARGUMENTS, RowData, RowFunction

#: Number of rows per chunk.
CHUNK = 16_384

BOUNDING = "Bounding all observations"


class RowPass:
    """Computation of enclosures for every row of a model's terms, in chunks, on all cores.

    The reference has centre, metric, order and temperature; boxes are cut to the `support`, lower
    and upper ends of the coordinates, shapes (d,). Errors name coordinates by `names`, if given.
    """

    def __init__(
        self,
        functions: Sequence[RowFunction],
        reference: Reference,
        support: tuple[Array, Array],
        names: Sequence[str] = (),
    ) -> None:
        self._names = names
        self._functions, self._reference, self._support = functions, reference, support

    def geometry(self, data: RowData, *, directions: bool = False) -> Geometry:
        """Centres, norms and directions of the linear predictors of some rows."""
        centre, factor = self._reference.centre, self._reference.factor
        return geometry_of_rows(data, centre, factor, directions=directions)

    def _fill_rows(
        self, result: np.ndarray, enclosed: Callable[[int, int, RowData], np.ndarray]
    ) -> None:
        """Write the results of all rows to the last axis of `result`.

        `enclosed` takes the number of a term, the number of the first row, and data of some rows.
        """
        starts = np.concatenate([[0], np.cumsum([f.n_rows for f in self._functions])])
        chunks = [
            (k, first, min(first + self._read_at_once(function), function.n_rows))
            for k, function in enumerate(self._functions)
            for first in range(0, function.n_rows, self._read_at_once(function))
        ]

        def fill_chunk(chunk: tuple[int, int, int]) -> None:
            k, first, last = chunk
            function = self._functions[k]
            data, step = RowData(function, slice(first, last)), chunk_length(function)
            for begin in range(0, last - first, step):
                end = min(begin + step, last - first)
                begins = starts[k] + first + begin
                some = data.part(np.arange(begin, end))
                result[..., begins : begins + end - begin] = enclosed(k, begins, some)

        for _ in on_all_cores(fill_chunk, chunks, BOUNDING):
            pass

    def _read_at_once(self, function: RowFunction) -> int:
        return chunk_length(function)

    @property
    def _n_rows(self) -> int:
        return sum(function.n_rows for function in self._functions)

    def _term_of(self, row: int) -> tuple[RowFunction, int]:
        """Row function of the term of a row, and the row's number within the term."""
        for function in self._functions:
            if row < function.n_rows:
                break
            row -= function.n_rows
        return function, row


def chunk_length(function: RowFunction) -> int:
    """Number of rows per chunk: fewer with many linear predictors, whose pairs take memory."""
    many = max(len(function.arguments) / MAX_ARGUMENTS, 1.0)
    return int(CHUNK / many**2)
