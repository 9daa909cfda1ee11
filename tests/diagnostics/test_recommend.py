from dataclasses import replace

import pytest

from diagnostics.samples import FORECAST, NUTS_FORECAST
from pymc_minibatch_mh.diagnostics.recommend import (
    WITHOUT_GRADIENT,
    recommend,
    recommend_instead,
)

TALL, WIDE = (1_000_000, 10), (1_000, 30)


def told(of, speed, nuts_speed, full=0.0, acceptance=0.9):
    forecast = replace(FORECAST, ess_per_second=speed, full_pass_share=full, acceptance=acceptance)
    nuts = None if nuts_speed is None else replace(NUTS_FORECAST, ess_per_second=nuts_speed)
    return recommend("TunaMH", *of, forecast, nuts)


@pytest.mark.parametrize(
    ("case", "sampler", "parts"),
    [
        ((TALL, 60_000.0, 20.0), "TunaMH", ["60,000", "20 for NUTS", "3,000 times"]),
        ((WIDE, 500.0, 2_000.0), "pm.NUTS", ["N/d = 33 is too small", "NUTS will be faster"]),
        ((TALL, 500.0, 2_000.0), "pm.NUTS", ["NUTS will be faster: 500"]),
        ((WIDE, 2_500.0, 2_000.0, 0.9), "pm.NUTS", ["90% of the updates", "gains nothing"]),
        ((WIDE, 9_000.0, 2_000.0, 0.9), "TunaMH", ["4.5 times", "gains nothing, though"]),
        ((TALL, 9_000.0, 2_000.0, 0.0, 0.001), "pm.NUTS", ["0.1% of the moves"]),
        ((TALL, 9_000.0, None), "TunaMH", ["no gradient"]),
        ((TALL, 9_000.0, None, 0.0, 0.001), WITHOUT_GRADIENT, ["0.1% of the moves"]),
    ],
)
def test_the_faster_sampler_is_recommended_with_figures(case, sampler, parts):
    recommended, reason = told(*case)
    assert recommended == sampler
    assert all(part in reason for part in parts), reason


def test_only_few_rows_are_blamed_on_few_rows():
    _, reason = told(TALL, 500.0, 2_000.0)
    assert "N/d" not in reason


def test_a_refused_model_is_for_nuts_where_there_is_a_gradient():
    assert recommend_instead(NUTS_FORECAST)[0] == "pm.NUTS"
    assert recommend_instead(None)[0] == WITHOUT_GRADIENT
