"""Differences of remainders without cancellation, and the rounding errors they own up to."""

from itertools import product

import mpmath as mp
import numpy as np

from compiled.fitted import arguments_of, leaves_of_rows, rows_of, run
from every import every
from families import FAMILIES
from likelihood.exact import DIGITS, exact_row
from likelihood.test_slopes import indices
from pymc_minibatch_mh.kernels.moves import ULPS
from tiers import QUICK, fast

ROWS = np.array([0, 1, 7, 500])
SCALES = (1.0, 1e-2, 1e-5, 1e-8)
FAST = [*product(QUICK, (2,)), ("student_free", 0)]
#: A kink has no derivatives that differences were of.
SMOOTH = [name for name in FAMILIES if name != "laplace"]


def moves(found, term, rows, rng, scale):
    """Return û, u - û and u' - û of some rows, in a move of a given size."""
    centre = arguments_of(found, term, rows)
    return [centre, *(scale * rng.standard_normal((2, *centre.shape)))]


def exact_difference(row, centre, here, there, order):
    """Return r(u') - r(u) in fifty digits, r = f less its polynomial around the centre."""
    slopes = {i: row.derivative(centre, i) for i in indices(len(centre), range(1, order + 1))}
    with mp.workdps(DIGITS):
        at = [
            [mp.mpf(float(c)) + mp.mpf(float(x)) for c, x in zip(centre, end, strict=True)]
            for end in (here, there)
        ]
        total = row(*at[1]) - row(*at[0])
        for index, slope in slopes.items():
            repeated = 2 if len(index) == 2 and index[0] == index[1] else 1
            before, after = (
                mp.fprod(mp.mpf(float(end[k])) for k in index) for end in (here, there)
            )
            total -= slope * (after - before) / repeated
        return total


def largest_excess(found, term, order, scale, seed=3):
    """Return the largest error in units of the error that is owned up to, and of the change."""
    rng = np.random.default_rng(seed)
    centre, here, there = moves(found, term, ROWS, rng, scale)
    leaves = leaves_of_rows(found, term, ROWS)
    function = found.compiled.differences(order)[term]
    ours = run(function, centre, here, there, leaves, width=2)
    worst = 0.0
    for k, (row, (change, doubt)) in enumerate(zip(ROWS, ours, strict=True)):
        own = exact_row(found.functions[term], row)
        exact = exact_difference(own, centre[k], here[k], there[k], order)
        error = abs(mp.mpf(change) - exact)
        worst = max(worst, float(error / (ULPS * doubt)) if error > 0 else 0.0)
    return worst


@every(("name", "order"), fast([*product(SMOOTH, (0, 1, 2))], FAST))
def test_errors_are_below_what_is_owned_up_to(name, order):
    found = rows_of(name)
    for term in range(len(found.functions)):
        for scale in SCALES:
            assert largest_excess(found, term, order, scale) < 1.0


@every(("name", "order"), fast([*product(FAMILIES, (0, 1, 2))], FAST))
def test_the_way_back_has_the_opposite_difference_to_the_last_bit(name, order):
    found = rows_of(name)
    rows = np.arange(400)
    for term in range(len(found.functions)):
        function, leaves = (
            found.compiled.differences(order)[term],
            leaves_of_rows(found, term, rows),
        )
        for scale in SCALES:
            centre, here, there = moves(found, term, rows, np.random.default_rng(5), scale)
            forth = run(function, centre, here, there, leaves, width=2)[:, 0]
            back = run(function, centre, there, here, leaves, width=2)[:, 0]
            np.testing.assert_array_equal(forth, -back)
