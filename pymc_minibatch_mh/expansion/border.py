"""The centre of a posterior that lies at the end of its support.

A shape parameter that data do not tell from infinity has a reciprocal κ near 0, and the maximum of
the likelihood may lie below it. Where the density times κ has its maximum, κ is near its mean: for
a normal density with mean m and standard deviation s that is cut off at 0 the maximum is
[m + √(m² + 4 s²)]/2, which is s for m = 0 (mean .8 s) and .303 s for m = -3 s (mean .283 s), and
m + s²/m for large m. There the expansion is made, its gradient included.

Times κ it is the density of log κ, and in log κ the maximum is sought: no step leads out of the
support, so that none is shortened for all coordinates because of one.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pymc_minibatch_mh.data import ArrayRows
from pymc_minibatch_mh.expansion.mode import Mode
from pymc_minibatch_mh.expansion.passes import Derivatives, Passes
from pymc_minibatch_mh.model.compiled.graph_prior import GraphPrior
from pymc_minibatch_mh.model.compiled.graphs import PlacedRows
from pymc_minibatch_mh.model.compiled.scalar_prior import ScalarPrior

#: Shares of the curvature of log κ that are tried where the density has no precision of its own: a
#: density like exp(-κ) is next to that of a normal distribution far below 0 that is as wide.
SHARES = (0.0, 0.125, 0.25, 0.5)
#: How many times as wide as with all of it a posterior is taken to be at most.
WIDER = 4.0


class LogPasses(Passes):
    """Passes in the logarithms of coordinates that begin at 0, with their Jacobian.

    Parameters
    ----------
    rows, prior, source
        See :class:`pymc_minibatch_mh.expansion.passes.Passes`.
    places
        Those coordinates.
    """

    def __init__(
        self,
        rows: PlacedRows,
        prior: ScalarPrior | GraphPrior,
        source: ArrayRows,
        places: Sequence[int],
    ) -> None:
        super().__init__(rows, prior, source)
        self._places = np.array(places)

    @property
    def logs(self) -> np.ndarray:
        """Those coordinates."""
        return self._places

    def prior(self, theta: np.ndarray, *, hessian: bool) -> Derivatives:
        """Return derivatives of the prior part, which has the Jacobian."""
        position = without_logs(theta, self._places)
        found = self._chained(position, super().prior(position, hessian=hessian))
        found.gradient[self._places] += 1.0
        return replace(found, value=found.value + float(theta[self._places].sum()))

    def likelihood(
        self, theta: np.ndarray, *, hessian: bool, rows: np.ndarray | None = None
    ) -> Derivatives:
        """Return derivatives of the summed log-likelihood of `rows`, by default of all."""
        position = without_logs(theta, self._places)
        return self._chained(position, super().likelihood(position, hessian=hessian, rows=rows))

    def _chained(self, position: np.ndarray, plain: Derivatives) -> Derivatives:
        """Return derivatives by logarithms, of those at a position."""
        slopes, second = np.ones(position.size), plain.hessian
        slopes[self._places] = position[self._places]
        # A step that is far too long is refused for what it leads to, and made shorter.
        with np.errstate(over="ignore", invalid="ignore"):
            gradient = slopes * plain.gradient
            if plain.has_hessian:
                second = slopes[:, None] * plain.hessian * slopes
                second[self._places, self._places] += gradient[self._places]
        return Derivatives(plain.value, gradient, second)


def with_logs(position: np.ndarray, places: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return a position, shape (d,), with the logarithms of some coordinates."""
    found = position.copy()
    with np.errstate(divide="ignore"):
        found[places] = np.log(position[places])
    return found


def without_logs(position: np.ndarray, places: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return a position, shape (d,), of which some coordinates are given by their logarithms."""
    found = position.copy()
    with np.errstate(over="ignore"):
        found[places] = np.exp(position[places])
    return found


def mode_without_logs(
    passes: Passes,
    mode: Mode,
    places: Sequence[int],
    inverse_temperature: float,
    rows: np.ndarray | None = None,
) -> Mode:
    """Return a mode in logarithms of coordinates in the coordinates themselves.

    Its precision is that of the density alone, without the Jacobian. Where that is none, as where
    the prior part is not concave there, it has a share of the Jacobian's.

    Parameters
    ----------
    passes
        Passes in the coordinates themselves.
    mode
        The mode, found with :class:`LogPasses`.
    places
        Coordinates that are logarithms in it.
    inverse_temperature
        β, which multiplies the log-likelihood.
    rows
        Row numbers, by default all.
    """
    position = without_logs(mode.position, places)
    likelihood = passes.likelihood(position, hessian=True, rows=rows)
    border = np.zeros(position.size)
    border[places] = position[places] ** -2.0
    slopes = np.ones(position.size)
    slopes[places] = 1.0 / position[places]
    whole = slopes[:, None] * mode.precision * slopes
    alone = whole - np.diag(border)
    if not mode.marginal:
        prior = passes.prior(position, hessian=True)
        alone = -inverse_temperature * likelihood.hessian - prior.hessian
    precision = _least_positive(alone, border, whole)
    return replace(mode, position=position, likelihood=likelihood, precision=precision)


def _least_positive(alone: np.ndarray, border: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Return a precision with no more of the border in it than makes it positive definite."""
    most = WIDER * np.sqrt(np.diag(np.linalg.inv(whole)))
    for share in SHARES:
        precision = alone + np.diag(share * border)
        if not np.isfinite(precision).all() or np.linalg.eigvalsh(precision)[0] <= 0.0:
            continue
        if share == 0.0 or (np.sqrt(np.diag(np.linalg.inv(precision))) <= most).all():
            return precision
    return whole
