"""Choice of the number of pieces of each linear predictor's interval."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from bounds.certified import fit
from pymc_minibatch_mh.bounds.bounds_pass import best_cuts
from pymc_minibatch_mh.bounds.remainder import cut_interval, derivative_suprema
from pymc_minibatch_mh.structure.row_function import RowData

FUNCTION = SimpleNamespace(arguments=("a", "b"), n_rows=1_000)


def halved(pieces):
    """Return a total that each doubling halves."""
    return 1e9 / np.prod(pieces)


@pytest.mark.parametrize(
    ("many", "boxes"),
    [(1e9, 16), (1e9 / 16.0, 16), (1e9 / 17.0, 1)],
    ids=["few", "just few", "many"],
)
def test_intervals_are_not_cut_if_all_cuts_would_leave_too_many_rows(many, boxes):
    assert np.prod(best_cuts(FUNCTION, halved, 0.0, many)) == boxes


def test_intervals_are_cut_if_only_that_makes_bounds_finite():
    def total(pieces):
        return np.inf if pieces == (1, 1) else 1e9

    assert np.prod(best_cuts(FUNCTION, total, 0.0, 1.0, 2)) == 2


def test_boxes_that_are_bounded_together_have_the_bounds_of_each():
    fitted = fit("heteroscedastic", 2_000)
    data = RowData(fitted.functions[0], np.arange(50))
    boxes = fitted.bounds(fitted.reference(2)).geometry(data).argument_boxes(3.0)
    ones = [1] * len(boxes)
    pieces = product(*(cut_interval(box, 4) for box in boxes))
    each = [derivative_suprema(data, piece, 3, ones) for piece in pieces]
    for index, found in derivative_suprema(data, boxes, 3, [4] * len(boxes)).items():
        largest = np.max([np.broadcast_to(x[index], 50) for x in each], axis=0)
        np.testing.assert_array_equal(found, largest)
