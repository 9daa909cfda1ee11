"""What NUTS would take, from the time of one gradient of the log-density of all rows.

To compile that gradient can take longer than all else together. Without it nothing is said of the
speed of NUTS.
"""

import time
from collections.abc import Callable, Mapping

import numpy as np
import pymc as pm
import pytensor
from pytensor.gradient import NullTypeGradError
from threadpoolctl import threadpool_limits

from pymc_minibatch_mh.diagnostics.forecast.records import NutsForecast, NutsUntimed
from pymc_minibatch_mh.progress import report

#: Gradients per effective draw of the worst coordinate, over √κ: see docs/before.md.
GRADIENTS = 5.0
#: By how much that rule can be off.
RULE_ERROR = 3.0
#: Seconds of a leapfrog step of PyMC's NUTS beside the gradient.
LEAPFROG = 25e-6
#: What PyTensor raises where it has no gradient.
NO_GRADIENT = (NotImplementedError, NullTypeGradError)
#: Gradients that are timed at least and at most, and seconds after which they are enough.
LEAST, MOST, ENOUGH_SECONDS = 5, 500, 1.0


def nuts_forecast(
    model: pm.Model, point: Mapping[str, np.ndarray], covariance: np.ndarray | None
) -> NutsForecast | None:
    """Return the forecast of NUTS, or None if the model has no gradient.

    Parameters
    ----------
    model
        The model; NUTS moves its continuous variables.
    point
        Where the gradient is evaluated.
    covariance : ndarray, shape (d, d), optional
        Of the posterior; None where it is not known.
    """
    variables = list(model.continuous_value_vars)
    if not variables:
        return None
    report("Compiling the gradient for NUTS")
    began = time.perf_counter()
    try:
        function = model.logp_dlogp_function(
            variables, ravel_inputs=True, initial_point=dict(point)
        )
    except NO_GRADIENT:
        return None
    building = time.perf_counter() - began
    position = np.concatenate([np.ravel(point[v.name]) for v in variables])
    first, seconds = seconds_per_call(function, position.astype(variables[0].dtype))
    number = float("nan") if covariance is None else condition_number(covariance)
    gradients = gradients_per_effective_draw(number)
    return NutsForecast(
        gradient_microseconds=1e6 * seconds,
        compile_seconds=building + first,
        condition_number=number,
        gradients_per_effective_draw=gradients,
        ess_per_second=1.0 / (gradients * (seconds + LEAPFROG)),
    )


def nuts_untimed(model: pm.Model, covariance: np.ndarray | None) -> NutsUntimed | None:
    """Return the gradients that NUTS takes, compiling nothing, or None if the model has none.

    Parameters
    ----------
    model
        The model; NUTS moves its continuous variables.
    covariance : ndarray, shape (d, d), optional
        Of the posterior; None where it is not known.
    """
    variables = list(model.continuous_value_vars)
    if not variables:
        return None
    try:
        pytensor.grad(model.logp(), variables, disconnected_inputs="ignore")
    except NO_GRADIENT:
        return None
    number = float("nan") if covariance is None else condition_number(covariance)
    return NutsUntimed(number, gradients_per_effective_draw(number))


def seconds_per_call(
    function: Callable[[np.ndarray], object], position: np.ndarray
) -> tuple[float, float]:
    """Return what a function's first call took, in which it is compiled, and the least of others.

    PyMC gives each chain one core, to BLAS as well, and so does this. What a busy machine adds to
    the times is left out, in favour of NUTS.
    """
    seconds: list[float] = []
    with threadpool_limits(limits=1):
        first = _seconds_of(function, position)
        while len(seconds) < LEAST or (len(seconds) < MOST and sum(seconds) < ENOUGH_SECONDS):
            seconds.append(_seconds_of(function, position))
    return first, min(seconds)


def _seconds_of(function: Callable[[np.ndarray], object], position: np.ndarray) -> float:
    began = time.perf_counter()
    function(position)
    return time.perf_counter() - began


def condition_number(covariance: np.ndarray) -> float:
    """Return κ of the correlation matrix: NUTS learns the scale of each coordinate by itself."""
    scales = np.sqrt(np.diag(covariance))
    values = np.linalg.eigvalsh(covariance / scales / scales[:, None])
    return float(values[-1] / max(values[0], np.finfo(float).tiny))


def gradients_per_effective_draw(condition: float) -> float:
    """Return the rule's number of gradients; NaN stands for what NUTS likes best, 1."""
    return GRADIENTS * float(np.sqrt(1.0 if np.isnan(condition) else condition))
