"""Arithmetic with cells that keeps every operation as it stands, but for zeros and ones."""

from pytensor.scalar import basic as scalar

from pymc_minibatch_mh.model.row import change_operations
from pymc_minibatch_mh.model.row.cells import Cell, Cells, Constant


class Plain:
    """Sums and products that are rounded where they are written.

    Parameters
    ----------
    cells
        Where the cells are made.
    """

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self.half = cells.constant(0.5)

    def add(self, *terms: Cell) -> Cell:
        """Return a sum."""
        kept = [x for x in terms if not _is(x, 0.0)]
        if len(kept) < 2:
            return kept[0] if kept else self._cells.zero
        return self._cells.node(scalar.add, kept)

    def multiply(self, left: Cell, right: Cell) -> Cell:
        """Return a product; zero times anything is zero."""
        if _is(left, 0.0) or _is(right, 0.0):
            return self._cells.zero
        if _is(left, 1.0) or _is(right, 1.0):
            return right if _is(left, 1.0) else left
        return self._cells.node(scalar.mul, (left, right))

    def subtract(self, left: Cell, right: Cell) -> Cell:
        """Return a difference."""
        return left if _is(right, 0.0) else self._cells.node(scalar.sub, (left, right))

    def sizes(self, *terms: Cell) -> Cell:
        """Return a sum of absolute values."""
        kept = [x for x in terms if not _is(x, 0.0)]
        return self._cells.node(change_operations.sizes, kept) if kept else self._cells.zero

    def ratio(self, part: Cell, whole: Cell) -> Cell:
        """Return |part / whole|, 0 where that has no value."""
        return part if _is(part, 0.0) else self._cells.node(change_operations.ratio, (part, whole))


def _is(cell: Cell, value: float) -> bool:
    return isinstance(cell, Constant) and float(cell.value) == value
