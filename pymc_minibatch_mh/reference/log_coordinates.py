"""The search for the mode in logarithms of coordinates that begin at 0.

The reciprocal κ of a shape that data do not tell from infinity ends at 0, and the maximum of its
likelihood may lie below. The maximum of the density of log κ is inside, and near the mean of κ.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pymc_minibatch_mh.compiled.model import PlacedRows
from pymc_minibatch_mh.compiled.prior import Prior
from pymc_minibatch_mh.data import ArrayRows
from pymc_minibatch_mh.reference.full_data import Derivatives, FullData
from pymc_minibatch_mh.reference.mode import Mode

#: Shares of the curvature of log κ that are tried where the density has no precision of its own: a
#: density like exp(-κ) is next to that of a normal distribution far below 0 that is as wide.
SHARES = (0.0, 0.125, 0.25, 0.5)
#: How many times as wide as with all of it a posterior is taken to be at most.
WIDER = 4.0


class LogFullData(FullData):
    """Passes in the logarithms of coordinates that begin at 0, with their Jacobian."""

    def __init__(
        self,
        rows: PlacedRows,
        prior: Prior,
        source: ArrayRows,
        places: Sequence[int],
    ) -> None:
        super().__init__(rows, prior, source)
        self.logs = np.array(places)

    def prior(self, theta: np.ndarray, *, hessian: bool) -> Derivatives:
        """Return derivatives of the prior part, which has the Jacobian."""
        position = without_logs(theta, self.logs)
        found = self._chained(position, super().prior(position, hessian=hessian))
        found.gradient[self.logs] += 1.0
        return replace(found, value=found.value + float(theta[self.logs].sum()))

    def likelihood(
        self, theta: np.ndarray, *, hessian: bool, rows: np.ndarray | None = None
    ) -> Derivatives:
        """Return derivatives of the summed log-likelihood of `rows`, by default of all."""
        position = without_logs(theta, self.logs)
        return self._chained(position, super().likelihood(position, hessian=hessian, rows=rows))

    def _chained(self, position: np.ndarray, plain: Derivatives) -> Derivatives:
        """Return derivatives by logarithms, of those at a position."""
        slopes, second, logs = np.ones(position.size), plain.hessian, self.logs
        slopes[logs] = position[logs]
        # A step that is far too long is refused for its end, and made shorter.
        with np.errstate(over="ignore", invalid="ignore"):
            gradient = slopes * plain.gradient
            if plain.has_hessian:
                second = slopes[:, None] * plain.hessian * slopes
                second[logs, logs] += gradient[logs]
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
    full_data: FullData,
    mode: Mode,
    places: Sequence[int],
    inverse_temperature: float,
    rows: np.ndarray | None = None,
) -> Mode:
    """Return the mode of a :class:`LogFullData`, in the coordinates of the model.

    The gradient need not vanish there. The precision has as little of the curvature of log κ as
    makes it positive definite and not too wide.
    """
    position = without_logs(mode.position, places)
    likelihood = full_data.likelihood(position, hessian=True, rows=rows)
    slopes = np.ones(position.size)
    slopes[places] = 1.0 / position[places]
    whole = slopes[:, None] * mode.precision * slopes
    border = np.zeros(position.size)
    border[places] = position[places] ** -2.0
    alone = whole - np.diag(border)
    if not mode.marginal:
        prior = full_data.prior(position, hessian=True)
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
