"""A search for moves of a random model that exceed its bounds."""

import numpy as np

from bounds.certified import Hunt, Rows
from pymc_minibatch_mh.bounds.bounds_pass import BoundsPass
from pymc_minibatch_mh.native.posterior import Reference

#: Moves of every row that are tried at a time, and rounds of free and of guided search.
AT_A_TIME, TRIES, CLIMBS = 24, 8, 24
#: Sizes of the trust regions, in prior standard deviations; smaller ones where there is no bound.
SCALES = (1.0, 0.1, 3e-3)


def random_reference(rng, size, order, scale):
    """Return control variates around a random centre, in a random metric."""
    factor = np.tril(0.4 * rng.normal(size=(size, size)), -1)
    factor = scale * (factor + np.diag(np.exp(0.5 * rng.normal(size=size))))
    whitener = np.tril(np.linalg.inv(factor))
    beta = float(rng.choice([1.0, 0.25]))
    unused = np.zeros(size), np.zeros((size, size))
    centre = 0.5 * rng.normal(size=size)
    return Reference(
        centre, np.ascontiguousarray(factor), np.ascontiguousarray(whitener), *unused, order, beta
    )


def largest_ratio(function, reference, support, rng, *, shrink=1.0):
    """Return the largest |difference of remainders| / (c M) that a search finds.

    Parameters
    ----------
    function
        The row function.
    reference
        Control variates.
    support
        Ends of the coordinates' supports.
    rng
        What moves are drawn with.
    shrink
        What bounds are multiplied by.

    Raises
    ------
    BoundsError
        If a row has no bound.
    """
    tables = BoundsPass([function], reference, support).tables()
    numbers = np.repeat(np.arange(function.n_rows), AT_A_TIME)
    largest = 0.0
    if not function.arguments:
        assert not tables.c.any()
        return largest
    rows = Rows(function, numbers, reference.centre.size)
    for (radius, kind, _), c in zip(tables.headers, tables.c, strict=True):
        table = radius, kind, shrink * c[numbers].astype(np.float64)
        largest = max(largest, Hunt(rows, reference, table, rng).worst(TRIES, CLIMBS).max())
    return largest
