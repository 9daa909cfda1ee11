"""Search for the mode in logarithms of coordinates that are bounded below by 0.

The reciprocal κ of a shape parameter that may be infinite is bounded by 0, and its density may have
no maximum inside. The density of log κ has one, near the mean of κ.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pymc_minibatch_mh.reference.full_data import Derivatives, FullData
from pymc_minibatch_mh.reference.mode import Mode

#: Fractions, tried in order, of the curvature 1/κ² of log κ: exp(-κ) has no curvature in κ itself.
SHARES = (0.0, 0.125, 0.25, 0.5)
#: Maximum ratio of standard deviations with a fraction of that curvature and with all of it.
WIDER = 4.0


class LogFullData(FullData):
    """Full-data evaluations in logarithms of bounded coordinates, including the Jacobian."""

    def __init__(self, full_data: FullData, places: Sequence[int] | np.ndarray) -> None:
        super().__init__(*full_data.parts)
        self.logs = np.array(places)

    def prior(self, theta: np.ndarray, *, hessian: bool) -> Derivatives:
        """Derivatives of the log prior in log coordinates, with the Jacobian."""
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
        """Derivatives in log coordinates, by the chain rule from `plain` derivatives."""
        slopes, second, logs = np.ones(position.size), plain.hessian, self.logs
        slopes[logs] = position[logs]
        # A step that is too long gives non-finite values, which the search rejects.
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
    """Mode of a :class:`LogFullData` in the model's coordinates, where the gradient need not be 0.

    The precision includes the smallest fraction of the curvature in log κ that makes it positive
    definite and its standard deviations not too large.
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
    """Precision with the smallest sufficient fraction of the log coordinates' curvature."""
    most = WIDER * np.sqrt(np.diag(np.linalg.inv(whole)))
    for share in SHARES:
        precision = alone + np.diag(share * border)
        if not np.isfinite(precision).all() or np.linalg.eigvalsh(precision)[0] <= 0.0:
            continue
        if share == 0.0 or (np.sqrt(np.diag(np.linalg.inv(precision))) <= most).all():
            return precision
    return whole
