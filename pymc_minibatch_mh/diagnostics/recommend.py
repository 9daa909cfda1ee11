"""Which sampler to take, and the reason in figures."""

import numpy as np

from pymc_minibatch_mh.diagnostics.records import Forecast, NutsForecast
from pymc_minibatch_mh.diagnostics.sheet import figure
from pymc_minibatch_mh.steps.report import FULL_PASS_STRONG, STUCK

NUTS = "pm.NUTS"
#: Without a gradient, PyMC assigns the steps.
WITHOUT_GRADIENT = "pm.sample() with the steps that PyMC assigns"
#: By how much the rule of the forecast of NUTS can be off: see docs/before.md.
RULE_ERROR = 3.0


def recommend(
    method: str, n_rows: int, size: int, forecast: Forecast, nuts: NutsForecast | None
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
    """
    otherwise = NUTS if nuts is not None else WITHOUT_GRADIENT
    if forecast.acceptance < STUCK:
        return otherwise, (
            f"{forecast.acceptance:.1%} of the moves were accepted in the pilot, too few for a "
            "forecast of effective draws: the posterior is far from normal."
        )
    speeds = _compared(method, forecast, nuts)
    if nuts is not None and nuts.ess_per_second >= forecast.ess_per_second:
        return NUTS, f"{_too_few_rows(n_rows, size)}NUTS will be faster: {speeds}"
    if forecast.full_pass_share <= FULL_PASS_STRONG:
        return method, speeds
    reads_all = f"{forecast.full_pass_share:.0%} of the updates read all rows"
    if nuts is None or forecast.ess_per_second >= RULE_ERROR * nuts.ess_per_second:
        return method, f"{speeds} Subsampling gains nothing, though: {reads_all}."
    return NUTS, (
        f"{_too_few_rows(n_rows, size)}{reads_all}, so that subsampling gains nothing, and the "
        f"forecasts differ by less than their error: {speeds}"
    )


def recommend_instead(nuts: NutsForecast | None) -> tuple[str, str]:
    """Return what to sample a refused model with, and why."""
    if nuts is None:
        return WITHOUT_GRADIENT, "the model cannot be subsampled, and NUTS has no gradient to use."
    return NUTS, (
        "the model cannot be subsampled. At most "
        f"{figure(nuts.ess_per_second)} effective draws a second are forecast for NUTS."
    )


def _too_few_rows(n_rows: int, size: int) -> str:
    # Beyond this many dimensions, bounds of order 2 add up to about as many rows as there are.
    if size <= np.sqrt(n_rows) / 2.0:
        return ""
    return f"N/d = {n_rows / size:,.0f} is too small (d = {size:,} exceeds √N/2): "


def _compared(method: str, forecast: Forecast, nuts: NutsForecast | None) -> str:
    text = f"{figure(forecast.ess_per_second)} effective draws a second are forecast for {method}"
    if nuts is None:
        return f"{text}, and NUTS has no gradient to use."
    ratio = forecast.ess_per_second / nuts.ess_per_second
    return f"{text}, {figure(nuts.ess_per_second)} for NUTS: {figure(ratio)} times as many."
