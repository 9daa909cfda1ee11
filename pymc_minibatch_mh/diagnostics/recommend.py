"""Which sampler to take, and the reason in figures, and the forecast of NUTS behind it."""

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
import pymc as pm
import pytensor
from pytensor.gradient import NullTypeGradError
from threadpoolctl import threadpool_limits

from pymc_minibatch_mh.diagnostics.explanation import (
    GRADIENTS_OF_EFFECTS,
    Approximate,
    Forecast,
    NutsForecast,
    figure,
)
from pymc_minibatch_mh.model.stored_ops import stored_arrays
from pymc_minibatch_mh.progress import report
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.report import FULL_PASS_STRONG, STUCK

#: Gradients per effective draw of the worst coordinate, over √κ: see docs/before.md.
GRADIENTS = 5.0
#: By how much that rule can be off.
RULE_ERROR = 3.0
#: Seconds of a leapfrog step of PyMC's NUTS beside the gradient.
LEAPFROG = 25e-6
#: Errors of PyTensor where it has no gradient.
NO_GRADIENT = (NotImplementedError, NullTypeGradError)
#: Gradients that are timed at least and at most, and seconds after which they are enough.
LEAST, MOST, ENOUGH_SECONDS = 3, 500, 0.5


def nuts_forecast(
    model: pm.Model,
    point: Mapping[str, np.ndarray],
    covariance: np.ndarray | Literal["effects"] | None,
    timed: bool = True,
) -> NutsForecast | None:
    """Return the forecast of NUTS on a model's continuous variables; None where it cannot run.

    The gradient is compiled as PyMC does, whose cache on disk serves :func:`pymc.sample` as well,
    and evaluated at `point`; unless it is `timed`, nothing is compiled. The posterior's covariance
    is None where it is not known, and "effects" where hundreds of effects are moved one by one.
    """
    variables = list(model.continuous_value_vars)
    try:
        with warnings.catch_warnings():
            # PyMC writes a pm.Simulator in ways that PyTensor calls old: nothing that users can do.
            warnings.simplefilter("ignore", DeprecationWarning)
            density = model.logp()
            if not variables or stored_arrays([density]):
                return None
            if not timed:
                pytensor.grad(density, variables, disconnected_inputs="ignore")
                return NutsForecast(*_by_rule(covariance))
            report("Compiling the gradient for NUTS")
            began = time.perf_counter()
            function = model.logp_dlogp_function(
                variables, ravel_inputs=True, initial_point=dict(point)
            )
    except NO_GRADIENT:
        return None
    building = time.perf_counter() - began
    position = np.concatenate([np.ravel(point[v.name]) for v in variables])
    first, seconds = seconds_per_call(function, position.astype(variables[0].dtype))
    number, gradients = _by_rule(covariance)
    speed = 1.0 / (gradients * (seconds + LEAPFROG))
    return NutsForecast(number, gradients, 1e6 * seconds, building + first, speed)


#: Seconds that the gradient of an observation takes at least: no exponential is faster.
LEAST_PER_ROW = 1e-9


def nuts_at_best(
    model: pm.Model,
    point: Mapping[str, np.ndarray],
    covariance: np.ndarray | Literal["effects"] | None,
    n_rows: int,
) -> NutsForecast | None:
    """Return the forecast of NUTS with the fastest gradient of `n_rows` that there could be.

    Nothing is compiled. None where NUTS cannot run.
    """
    untimed = nuts_forecast(model, point, covariance, timed=False)
    if untimed is None:
        return None
    seconds = n_rows * LEAST_PER_ROW
    speed = 1.0 / (untimed.gradients_per_effective_draw * (seconds + LEAPFROG))
    return replace(untimed, gradient_microseconds=1e6 * seconds, ess_per_second=speed)


def covariance_for_nuts(step: MinibatchStep) -> np.ndarray | Literal["effects"]:
    """Return the posterior's covariance at the centre of a step, as forecasts of NUTS take it."""
    if step.plan.elements is not None:
        return "effects"
    return step.plan.reference.factor @ step.plan.reference.factor.T


def _by_rule(covariance: np.ndarray | Literal["effects"] | None) -> tuple[float, float]:
    """Return κ, NaN if it is not known, and gradients per effective draw, with κ = 1 for None."""
    if isinstance(covariance, str):
        return float("nan"), GRADIENTS_OF_EFFECTS
    if covariance is None:
        return float("nan"), GRADIENTS
    number = condition_number(covariance)
    return number, GRADIENTS * float(np.sqrt(number))


def seconds_per_call(
    function: Callable[[np.ndarray], object], position: np.ndarray
) -> tuple[float, float]:
    """Return the time of a function's first call, with its compilation, and the least of others.

    PyMC gives each chain one core, to BLAS as well, and so does this. What a busy machine adds to
    the times is left out, in favour of NUTS.
    """
    seconds: list[float] = []
    with threadpool_limits(limits=1):
        while len(seconds) <= LEAST or (len(seconds) <= MOST and sum(seconds[1:]) < ENOUGH_SECONDS):
            began = time.perf_counter()
            function(position)
            seconds.append(time.perf_counter() - began)
    return seconds[0], min(seconds[1:])


def condition_number(covariance: np.ndarray) -> float:
    """Return κ of the correlation matrix: NUTS learns the scale of each coordinate by itself."""
    scales = np.sqrt(np.diag(covariance))
    values = np.linalg.eigvalsh(covariance / scales / scales[:, None])
    return float(values[-1] / max(values[0], np.finfo(float).tiny))


NUTS = "pm.NUTS"
#: Where NUTS cannot run, PyMC assigns the steps.
WITHOUT_NUTS = "pm.sample() with the steps that PyMC assigns"


def recommend(
    method: str,
    n_rows: int,
    size: int,
    forecast: Forecast,
    nuts: NutsForecast | None,
    approximate: Approximate | None = None,
) -> tuple[str, str]:
    """Return the sampler to take, and why: the step of a forecast, NUTS, or an approximate step.

    The forecast is of the step `method`, on N rows and d dimensions; NUTS is timed or not, None for
    models that it cannot sample. An approximate step is there where the exact one evaluates all
    observations at most updates.
    """
    speeds = _compared(method, forecast, nuts)
    if forecast.acceptance < STUCK:
        return (WITHOUT_NUTS if nuts is None else NUTS), (
            f"the pilots accepted {forecast.acceptance:.1%} of the proposals, too few for a "
            "forecast; the posterior is far from normal"
        )
    reads_all = f"{forecast.full_pass_share:.0%} of the updates evaluate all observations"
    if approximate is not None and _pays(approximate.forecast, forecast, nuts):
        speeds = _compared(approximate.method, approximate.forecast, nuts)
        return approximate.method, (
            f"{speeds}, but approximate; {method}, which is exact, has "
            f"{figure(forecast.ess_per_second)}, because {reads_all}"
        )
    if nuts is not None and nuts.ess_per_second >= forecast.ess_per_second:
        return NUTS, f"{_too_few_rows(n_rows, size)}{speeds}"
    if forecast.full_pass_share <= FULL_PASS_STRONG:
        return method, speeds
    if forecast.ess_per_second >= _ceiling(nuts):
        return method, f"{speeds}; but subsampling gains nothing: {reads_all}"
    also = ""
    if approximate is not None:
        speed = figure(approximate.forecast.ess_per_second)
        also = f", {speed} for {approximate.method}, which is approximate"
    return NUTS, (
        f"{_too_few_rows(n_rows, size)}subsampling gains nothing: {reads_all}; {speeds}{also}"
    )


def recommend_instead(nuts: NutsForecast | None) -> tuple[str, str]:
    """Return the sampler for a refused model, and why."""
    return (WITHOUT_NUTS if nuts is None else NUTS), "the model cannot be subsampled"


def _ceiling(nuts: NutsForecast | None) -> float:
    """Return the ESS/s that NUTS does not exceed, with the rule's error."""
    if nuts is None:
        return 0.0
    return RULE_ERROR * nuts.ess_per_second if nuts.timed else np.inf


def _pays(approximate: Forecast, exact: Forecast, nuts: NutsForecast | None) -> bool:
    """Whether giving up exactness gains more than forecasts can be off."""
    works = approximate.acceptance >= STUCK and approximate.full_pass_share <= FULL_PASS_STRONG
    enough = RULE_ERROR * exact.ess_per_second
    if nuts is not None and nuts.timed:
        enough = max(enough, _ceiling(nuts))
    return works and approximate.ess_per_second >= enough


def _too_few_rows(n_rows: int, size: int) -> str:
    # Beyond this many dimensions, bounds of order 2 add up to about as many rows as there are.
    if size <= np.sqrt(n_rows) / 2.0:
        return ""
    return f"N/d = {n_rows / size:,.0f} is too small (d = {size:,} exceeds √N/2): "


def _compared(method: str, forecast: Forecast, nuts: NutsForecast | None) -> str:
    own = figure(forecast.ess_per_second)
    if nuts is None or not nuts.timed:
        return f"{own} ESS/s"
    low, high = sorted((forecast.ess_per_second, nuts.ess_per_second))
    slower = "NUTS" if low == nuts.ess_per_second else method
    ratio = figure(high / max(low, 1e-9))
    return f"{ratio} times the ESS/s of {slower}, {figure(high)} against {figure(low)}"
