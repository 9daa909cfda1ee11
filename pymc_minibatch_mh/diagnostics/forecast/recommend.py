"""Which sampler to take, and the reason in figures."""

import numpy as np

from pymc_minibatch_mh.diagnostics.forecast.nuts import RULE_ERROR
from pymc_minibatch_mh.diagnostics.forecast.records import (
    Approximate,
    Forecast,
    NutsForecast,
    NutsUntimed,
)
from pymc_minibatch_mh.diagnostics.forecast.sheet import figure
from pymc_minibatch_mh.step.report import FULL_PASS_STRONG, STUCK

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
    nuts: NutsForecast | NutsUntimed | None,
    approximate: Approximate | None = None,
) -> tuple[str, str]:
    """Return what to sample with, and why.

    Parameters
    ----------
    method
        Step method that the forecast is of.
    n_rows, size
        Number N of subsampled rows, and d of dimensions.
    forecast, nuts
        What is compared; None for models without a gradient.
    approximate
        An approximate step, where the exact one reads all rows at most updates.
    """
    otherwise = NUTS if nuts is not None else WITHOUT_GRADIENT
    if forecast.acceptance < STUCK:
        return otherwise, (
            f"{forecast.acceptance:.1%} of the moves were accepted in the pilot, too few for a "
            "forecast of effective draws: the posterior is far from normal."
        )
    reads_all = f"{forecast.full_pass_share:.0%} of the updates read all rows"
    if approximate is not None and _pays(approximate.forecast, forecast, nuts):
        return approximate.method, _instead(method, reads_all, forecast, nuts, approximate)
    speeds = _compared(method, forecast, nuts)
    if isinstance(nuts, NutsForecast) and nuts.ess_per_second >= forecast.ess_per_second:
        return NUTS, f"{_too_few_rows(n_rows, size)}NUTS will be faster: {speeds}"
    if forecast.full_pass_share <= FULL_PASS_STRONG:
        return (UNDECIDED if _slow(forecast, nuts) else method), speeds
    if forecast.ess_per_second >= _ceiling(nuts):
        return method, f"{speeds} Subsampling gains nothing, though: {reads_all}."
    timed = isinstance(nuts, NutsForecast)
    close = ", and the forecasts differ by less than their error: " if timed else ". "
    return NUTS, (
        f"{_too_few_rows(n_rows, size)}{reads_all}, so that subsampling gains nothing{close}"
        f"{speeds}{_also(approximate)}"
    )


def recommend_instead(nuts: NutsForecast | NutsUntimed | None) -> tuple[str, str]:
    """Return what to sample a refused model with, and why."""
    if nuts is None:
        return WITHOUT_GRADIENT, "the model cannot be subsampled, and NUTS has no gradient to use."
    if isinstance(nuts, NutsUntimed):
        return NUTS, "the model cannot be subsampled."
    return NUTS, (
        "the model cannot be subsampled. At most "
        f"{figure(nuts.ess_per_second)} effective draws a second are forecast for NUTS."
    )


def _ceiling(nuts: NutsForecast | NutsUntimed | None) -> float:
    """Return the effective draws a second that NUTS does not exceed, with the rule's error."""
    if nuts is None:
        return 0.0
    return np.inf if isinstance(nuts, NutsUntimed) else RULE_ERROR * nuts.ess_per_second


def _slow(forecast: Forecast, nuts: NutsForecast | NutsUntimed | None) -> bool:
    """Whether a step is so slow that NUTS, which was not timed, should be."""
    untimed = isinstance(nuts, NutsUntimed)
    return untimed and forecast.ess_per_second * SLOW_SECONDS < ENOUGH_DRAWS


def _pays(approximate: Forecast, exact: Forecast, nuts: NutsForecast | NutsUntimed | None) -> bool:
    """Whether giving up exactness gains more than forecasts can be off."""
    works = approximate.acceptance >= STUCK and approximate.full_pass_share <= FULL_PASS_STRONG
    enough = RULE_ERROR * exact.ess_per_second
    if not isinstance(nuts, NutsUntimed):
        enough = max(enough, _ceiling(nuts))
    return works and approximate.ess_per_second >= enough and not _slow(approximate, nuts)


def _instead(
    method: str,
    reads_all: str,
    exact: Forecast,
    nuts: NutsForecast | NutsUntimed | None,
    approximate: Approximate,
) -> str:
    found = approximate.forecast
    return (
        f"{reads_all} with {method}, which is exact, {found.full_pass_share:.0%} with "
        f"{approximate.method}, which is approximate. "
        f"{_compared(approximate.method, found, nuts)} {figure(exact.ess_per_second)} are forecast "
        f"for {method}."
    )


def _also(approximate: Approximate | None) -> str:
    if approximate is None:
        return ""
    speed = figure(approximate.forecast.ess_per_second)
    return f" For {approximate.method}, which is approximate, {speed} are forecast."


def _too_few_rows(n_rows: int, size: int) -> str:
    # Beyond this many dimensions, bounds of order 2 add up to about as many rows as there are.
    if size <= np.sqrt(n_rows) / 2.0:
        return ""
    return f"N/d = {n_rows / size:,.0f} is too small (d = {size:,} exceeds √N/2): "


def _compared(method: str, forecast: Forecast, nuts: NutsForecast | NutsUntimed | None) -> str:
    text = f"{figure(forecast.ess_per_second)} effective draws a second are forecast for {method}"
    if nuts is None:
        return f"{text}, and NUTS has no gradient to use."
    if isinstance(nuts, NutsUntimed):
        if not _slow(forecast, nuts):
            return f"{text}. {TIME_IT}."
        minutes = figure(ENOUGH_DRAWS / max(forecast.ess_per_second, 1e-9) / 60.0)
        return (
            f"{text}, which is slow: {ENOUGH_DRAWS} take {minutes} minutes, and up to "
            f"{SLOW_SECONDS / 60.0:.0f} would not be called so. {TIME_IT}; or time pm.sample() on "
            "some of the rows."
        )
    ratio = forecast.ess_per_second / nuts.ess_per_second
    return f"{text}, {figure(nuts.ess_per_second)} for NUTS: {figure(ratio)} times as many."
