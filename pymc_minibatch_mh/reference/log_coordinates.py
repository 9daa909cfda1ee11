"""Search for the mode in logarithms of coordinates with the lower end 0.

The reciprocal κ of a shape parameter that may be infinite ends at 0, and its likelihood may have no
maximum inside. The density of log κ has one, near the mean of κ.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pymc_minibatch_mh.compiled.model import PlacedRows
from pymc_minibatch_mh.compiled.prior import Prior
from pymc_minibatch_mh.data import ArrayRows
from pymc_minibatch_mh.reference.full_data import Derivatives, FullData
from pymc_minibatch_mh.reference.mode import Mode

#: Shares of the curvature of log κ in the precision of a density like exp(-κ), which has none.
SHARES = (0.0, 0.125, 0.25, 0.5)
#: Largest ratio of standard deviations with a share and with all of that curvature.
WIDER = 4.0


class LogFullData(FullData):
    """Passes in logarithms of coordinates with the lower end 0, with their Jacobian."""

    def __init__(
        self, rows: PlacedRows, prior: Prior, source: ArrayRows, places: Sequence[int]
    ) -> None:
        super().__init__(rows, prior, source)
        self.logs = np.array(places)

    def prior(self, theta: np.ndarray, *, hessian: bool) -> Derivatives:
        """Derivatives of the prior, with the Jacobian."""
        position = without_logs(theta, self.logs)
        found = self._in_logs(position, super().prior(position, hessian=hessian))
        found.gradient[self.logs] += 1.0
        return replace(found, value=found.value + float(theta[self.logs].sum()))

    def likelihood(
        self, theta: np.ndarray, *, hessian: bool, rows: np.ndarray | None = None
    ) -> Derivatives:
        """Derivatives of the summed log-likelihood of `rows`, by default of all."""
        position = without_logs(theta, self.logs)
        return self._in_logs(position, super().likelihood(position, hessian=hessian, rows=rows))

    def _in_logs(self, position: np.ndarray, plain: Derivatives) -> Derivatives:
        """Derivatives in logarithms, from derivatives at a position."""
        slopes, second, logs = np.ones(position.size), plain.hessian, self.logs
        slopes[logs] = position[logs]
        # The end of too long a step is not finite, and is refused.
        with np.errstate(over="ignore", invalid="ignore"):
            gradient = slopes * plain.gradient
            if plain.has_hessian:
                second = slopes[:, None] * plain.hessian * slopes
                second[logs, logs] += gradient[logs]
        return Derivatives(plain.value, gradient, second)


def with_logs(position: np.ndarray, places: Sequence[int] | np.ndarray) -> np.ndarray:
    """Position, shape (d,), with logarithms of some coordinates."""
    found = position.copy()
    with np.errstate(divide="ignore"):
        found[places] = np.log(position[places])
    return found


def without_logs(position: np.ndarray, places: Sequence[int] | np.ndarray) -> np.ndarray:
    """Position, shape (d,), from the logarithms of some coordinates."""
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
    """Mode of a :class:`LogFullData` in the model's coordinates, where the gradient may not vanish.

    The precision has the least share of the curvature of log κ that keeps it positive definite and
    not too small.
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
    """Precision with the least share of the border's curvature that is enough."""
    most = WIDER * np.sqrt(np.diag(np.linalg.inv(whole)))
    for share in SHARES:
        precision = alone + np.diag(share * border)
        if not np.isfinite(precision).all() or np.linalg.eigvalsh(precision)[0] <= 0.0:
            continue
        if share == 0.0 or (np.sqrt(np.diag(np.linalg.inv(precision))) <= most).all():
            return precision
    return whole
