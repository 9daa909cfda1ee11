"""Which sampler to take, and the reason in figures, and the forecast of NUTS behind it.

To compile the gradient of the log-density of all rows can take longer than all else together.
Without it nothing is said of the speed of NUTS.
"""

import time
import warnings
from collections.abc import Callable, Mapping

import numpy as np
import pymc as pm
import pytensor
from pytensor.gradient import NullTypeGradError
from threadpoolctl import threadpool_limits

from pymc_minibatch_mh.diagnostics.explanation import (
    Approximate,
    Forecast,
    NutsForecast,
    NutsUntimed,
    figure,
)
from pymc_minibatch_mh.progress import report
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
LEAST, MOST, ENOUGH_SECONDS = 5, 500, 1.0


def nuts_forecast(
    model: pm.Model, point: Mapping[str, np.ndarray], covariance: np.ndarray | None
) -> NutsForecast | None:
    """Return the forecast of NUTS on a model's continuous variables; None without a gradient.

    The gradient is evaluated at `point`; the posterior's covariance is None where it is not known.
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
    number, gradients = _by_rule(covariance)
    speed = 1.0 / (gradients * (seconds + LEAPFROG))
    return NutsForecast(number, gradients, 1e6 * seconds, building + first, speed)


def nuts_untimed(model: pm.Model, covariance: np.ndarray | None) -> NutsUntimed | None:
    """Return the gradients that NUTS takes, compiling nothing, or None if the model has none."""
    variables = list(model.continuous_value_vars)
    if not variables:
        return None
    try:
        with warnings.catch_warnings():
            # PyMC writes a pm.Simulator in ways that PyTensor calls old: nothing that users can do.
            warnings.simplefilter("ignore", DeprecationWarning)
            pytensor.grad(model.logp(), variables, disconnected_inputs="ignore")
    except NO_GRADIENT:
        return None
    return NutsUntimed(*_by_rule(covariance))


#: Seconds that the gradient of an observation takes at least: no exponential is faster.
LEAST_PER_ROW = 1e-9


def nuts_at_best(
    model: pm.Model, n_rows: int, covariance: np.ndarray | None
) -> NutsForecast | None:
    """Return the forecast of NUTS with the fastest gradient of so many rows that there could be.

    Nothing is compiled. None without a gradient.
    """
    untimed = nuts_untimed(model, covariance)
    if untimed is None:
        return None
    number, gradients = untimed.condition_number, untimed.gradients_per_effective_draw
    seconds = n_rows * LEAST_PER_ROW
    speed = 1.0 / (gradients * (seconds + LEAPFROG))
    return NutsForecast(number, gradients, 1e6 * seconds, 0.0, speed)


def _by_rule(covariance: np.ndarray | None) -> tuple[float, float]:
    """Return κ, NaN if it is not known, and gradients per effective draw, with κ = 1 for NaN."""
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
#: Without a gradient, PyMC assigns the steps.
WITHOUT_GRADIENT = "pm.sample() with the steps that PyMC assigns"
#: Where neither a forecast of NUTS nor the step's own speed decides.
UNDECIDED = "to time pm.NUTS first"
#: Effective draws that estimates of means and quantiles need (Vehtari et al. 2021,
#: doi:10.1214/20-BA1221), and seconds for them beyond which a step is called slow.
ENOUGH_DRAWS, SLOW_SECONDS = 400, 60.0
#: How to have NUTS compared where it was left out.
TIME_IT = "NUTS was not timed: explain(..., nuts=True) compiles its gradient and compares"


def recommend(
    method: str,
    n_rows: int,
    size: int,
    forecast: Forecast,
    nuts: NutsUntimed | None,
    approximate: Approximate | None = None,
) -> tuple[str, str]:
    """Return the sampler to take, and why: the step of a forecast, NUTS, or an approximate step.

    The forecast is of the step `method`, on N rows and d dimensions; NUTS is timed or not, None for
    models without a gradient. An approximate step is there where the exact one reads all rows at
    most updates.
    """
    otherwise = NUTS if nuts is not None else WITHOUT_GRADIENT
    if forecast.acceptance < STUCK:
        return otherwise, (
            f"{forecast.acceptance:.1%} of the moves were accepted in the pilot, too few for a "
            "forecast of effective draws: the posterior is far from normal."
        )
    reads_all = f"{forecast.full_pass_share:.0%} of the updates read all rows"
    if approximate is not None and _pays(approximate.forecast, forecast, nuts):
        other = approximate.method
        return other, (
            f"{reads_all} with {method}, which is exact, "
            f"{approximate.forecast.full_pass_share:.0%} with {other}, which is approximate. "
            f"{_compared(other, approximate.forecast, nuts)} {figure(forecast.ess_per_second)} are "
            f"forecast for {method}."
        )
    speeds = _compared(method, forecast, nuts)
    if isinstance(nuts, NutsForecast) and nuts.ess_per_second >= forecast.ess_per_second:
        return NUTS, f"{_too_few_rows(n_rows, size)}NUTS will be faster: {speeds}"
    if forecast.full_pass_share <= FULL_PASS_STRONG:
        return (UNDECIDED if _slow(forecast, nuts) else method), speeds
    if forecast.ess_per_second >= _ceiling(nuts):
        return method, f"{speeds} Subsampling gains nothing, though: {reads_all}."
    also = ""
    if approximate is not None:
        speed = figure(approximate.forecast.ess_per_second)
        also = f" For {approximate.method}, which is approximate, {speed} are forecast."
    close = ". "
    if isinstance(nuts, NutsForecast):
        close = ", and the forecasts differ by less than their error: "
    return NUTS, (
        f"{_too_few_rows(n_rows, size)}{reads_all}, so that subsampling gains nothing{close}"
        f"{speeds}{also}"
    )


def recommend_instead(nuts: NutsUntimed | None) -> tuple[str, str]:
    """Return the sampler for a refused model, and why."""
    refused = "the model cannot be subsampled"
    if nuts is None:
        return WITHOUT_GRADIENT, f"{refused}, and NUTS has no gradient to use."
    if not isinstance(nuts, NutsForecast):
        return NUTS, f"{refused}."
    speed = figure(nuts.ess_per_second)
    return NUTS, f"{refused}. At most {speed} effective draws a second are forecast for NUTS."


def _ceiling(nuts: NutsUntimed | None) -> float:
    """Return the effective draws a second that NUTS does not exceed, with the rule's error."""
    if nuts is None:
        return 0.0
    return RULE_ERROR * nuts.ess_per_second if isinstance(nuts, NutsForecast) else np.inf


def _slow(forecast: Forecast, nuts: NutsUntimed | None) -> bool:
    """Whether a step is so slow that NUTS, which was not timed, should be."""
    return _ceiling(nuts) == np.inf and forecast.ess_per_second * SLOW_SECONDS < ENOUGH_DRAWS


def _pays(approximate: Forecast, exact: Forecast, nuts: NutsUntimed | None) -> bool:
    """Whether giving up exactness gains more than forecasts can be off."""
    works = approximate.acceptance >= STUCK and approximate.full_pass_share <= FULL_PASS_STRONG
    enough = RULE_ERROR * exact.ess_per_second
    if _ceiling(nuts) < np.inf:
        enough = max(enough, _ceiling(nuts))
    return works and approximate.ess_per_second >= enough and not _slow(approximate, nuts)


def _too_few_rows(n_rows: int, size: int) -> str:
    # Beyond this many dimensions, bounds of order 2 add up to about as many rows as there are.
    if size <= np.sqrt(n_rows) / 2.0:
        return ""
    return f"N/d = {n_rows / size:,.0f} is too small (d = {size:,} exceeds √N/2): "


def _compared(method: str, forecast: Forecast, nuts: NutsUntimed | None) -> str:
    text = f"{figure(forecast.ess_per_second)} effective draws a second are forecast for {method}"
    if nuts is None:
        return f"{text}, and NUTS has no gradient to use."
    if isinstance(nuts, NutsForecast):
        ratio = figure(forecast.ess_per_second / nuts.ess_per_second)
        return f"{text}, {figure(nuts.ess_per_second)} for NUTS: {ratio} times as many."
    if not _slow(forecast, nuts):
        return f"{text}. {TIME_IT}."
    minutes = figure(ENOUGH_DRAWS / max(forecast.ess_per_second, 1e-9) / 60.0)
    return (
        f"{text}, which is slow: {ENOUGH_DRAWS} take {minutes} minutes, and up to "
        f"{SLOW_SECONDS / 60.0:.0f} would not be called so. {TIME_IT}; or time pm.sample() on "
        "some of the rows."
    )
