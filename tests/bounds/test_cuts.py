"""Choice of the number of pieces of each linear predictor's interval."""

from types import SimpleNamespace

import numpy as np
import pytest

from pymc_minibatch_mh.bounds.bounds_pass import best_cuts

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
