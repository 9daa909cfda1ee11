"""The errors of the correction distribution as it was published, beside those of the minimax one.

Nothing here decides a test. The published deconvolution by ridge regression depends on its ridge λ
and on the number of points N through λ/N² alone, so that few points give the table of many.

References
----------
Seita, Pan, Chen, Canny (2017), "An efficient minibatch acceptance test for Metropolis-Hastings",
supplement, table 3, UAI, doi:10.48550/arXiv.1610.06848; table 1 of its first version of 2016.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.errors import SettingError, numbers_of
from pymc_minibatch_mh.methods.tables.correction import (
    LARGEST_SIGMA,
    SMALLEST_SIGMA,
    correction_table,
    ridge_correction,
)

#: Points that stand for those of the paper: errors with twice as many differ by 2 % at most.
COARSE = 200


class CorrectionErrors(NamedTuple):
    """Largest error of two correction distributions for one σ.

    Parameters
    ----------
    points, sigma, ridge
        The paper's N, σ and λ.
    ridge_error
        sup ``|F - S|`` over the points of the published deconvolution, with F the law of its sum
        with N(0, σ²), and S the logistic one.
    minimax_error
        A bound on sup ``|F - S|`` over all reals of the table that :class:`BarkerMinibatchMH` uses.
    """

    points: int
    sigma: float
    ridge: float
    ridge_error: float
    minimax_error: float


def correction_errors(
    points: Sequence[int] = (2000, 4000),
    sigmas: Sequence[float] = (0.8, 0.9, 1.0, 1.1),
    ridges: Sequence[float] = (100.0, 10.0, 1.0, 0.1, 0.01),
) -> list[CorrectionErrors]:
    """Return the errors of published correction distributions, beside those of this package.

    By default the 40 entries of table 3 of the supplement of Seita et al. (2017). One of them, λ =
    0.1 at σ = 1.1 and N = 4000, is 0.019 here and 0.012 there; all others agree to 5 %.

    Parameters
    ----------
    points
        The paper's N, of which 2N + 1 atoms and 4N + 1 points are made.
    sigmas
        Standard deviations σ of the normal part, in (0.5, 1.7].
    ridges
        The paper's λ.

    Returns
    -------
    list of CorrectionErrors
        One for each combination, the last argument varying fastest; ``pandas.DataFrame`` makes a
        table of it.

    Raises
    ------
    SettingError
        If an argument is no sequence of positive numbers, or a σ is outside of (0.5, 1.7].

    Examples
    --------
    >>> (found,) = correction_errors(points=[4000], sigmas=[1.0], ridges=[10.0])
    >>> print(f"{found.ridge_error:.1e} {found.minimax_error:.1e}")
    8.8e-04 5.4e-08
    """
    many, widths, weights = (
        _positive(name, given)
        for name, given in (("points", points), ("sigmas", sigmas), ("ridges", ridges))
    )
    for sigma in widths:
        if not SMALLEST_SIGMA < sigma <= LARGEST_SIGMA:
            raise SettingError(
                f"sigmas={list(widths)} has {sigma}, which is outside ({SMALLEST_SIGMA}, "
                f"{LARGEST_SIGMA}]. Leave it out."
            )
    found = []
    for n in many:
        for sigma in widths:
            minimax = correction_table(sigma).error
            for ridge in weights:
                table = ridge_correction(sigma, ridge * (COARSE / n) ** 2, points=COARSE)
                found.append(CorrectionErrors(int(n), sigma, ridge, table.error, minimax))
    return found


def _positive(name: str, given: Any) -> tuple[float, ...]:
    numbers = numbers_of(name, given)
    if not all(0.0 < number < np.inf for number in numbers):
        raise SettingError(f"{name}={given!r} are no positive numbers. Give numbers above 0.")
    return numbers
