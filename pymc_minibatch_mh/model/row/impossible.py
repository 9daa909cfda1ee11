"""Log-weights that data make -inf, as those of a component that a row cannot come from."""

import numpy as np
from pytensor.scalar import basic as scalar

from pymc_minibatch_mh.model.row.cells import Affine, Cell, Cells, Constant
from pymc_minibatch_mh.model.row.patterns import is_a, summands


def hindrances(cells: Cells, x: Cell) -> tuple[bool, bool]:
    """Return what speaks against subtracting a cell: that it may be -inf, that it is data."""
    unknown = x.is_data and not isinstance(x, Constant)
    return unknown or may_be_impossible(cells, x), x.is_data


def parts_of(cells: Cells, total: Cell) -> list[Cell]:
    """Return the summands of a sum, one by one also those that are data."""
    parts: list[Cell] = []
    for part in summands(total):
        if isinstance(part, Affine):
            parts += [cells.linear(part), *summands(part.offset)]
        else:
            parts += summands(part)
    return parts


def is_impossible(cell: Cell) -> bool:
    """Whether a cell is -inf."""
    return isinstance(cell, Constant) and bool(np.isneginf(cell.value))


def decides(cells: Cells, part: Cell, *, deep: bool) -> bool:
    """Whether a summand is a choice by data of -inf or another value."""
    if not (is_a(part, scalar.Switch) and part.inputs[0].is_data):
        return False
    return any(is_impossible(x) or (deep and may_be_impossible(cells, x)) for x in part.inputs[1:])


def may_be_impossible(cells: Cells, cell: Cell) -> bool:
    """Whether data decide if a sum is -inf."""
    return any(is_impossible(x) or decides(cells, x, deep=True) for x in parts_of(cells, cell))
