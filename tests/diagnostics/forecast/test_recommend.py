from dataclasses import replace

import pytest

from diagnostics.forecast.samples import APPROXIMATE, FORECAST, NUTS_FORECAST, NUTS_UNTIMED
from pymc_minibatch_mh.diagnostics.explanation import figure
from pymc_minibatch_mh.diagnostics.recommend import (
    UNDECIDED,
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


def not_timed(of, speed, full=0.0, approximate=None):
    forecast = replace(FORECAST, ess_per_second=speed, full_pass_share=full, acceptance=0.9)
    return recommend("TunaMH", *of, forecast, NUTS_UNTIMED, approximate)


def approximate(speed, full=0.0, acceptance=0.8):
    found = replace(APPROXIMATE.forecast, ess_per_second=speed, full_pass_share=full)
    return replace(APPROXIMATE, forecast=replace(found, acceptance=acceptance))


@pytest.mark.parametrize(
    ("case", "sampler", "parts"),
    [
        ((TALL, 60_000.0), "TunaMH", ["60,000", "not timed: explain(..., nuts=True) compiles"]),
        ((TALL, 6.7), "TunaMH", ["6.7 effective draws"]),
        ((TALL, 6.6), UNDECIDED, ["which is slow: 400 take 1.01 minutes", "some of the rows"]),
        ((TALL, 0.47), UNDECIDED, ["400 take 14.2 minutes", "nuts=True"]),
        ((WIDE, 500.0, 0.9), "pm.NUTS", ["N/d = 33", "90% of the updates", "nuts=True"]),
    ],
)
def test_of_nuts_that_was_not_timed_no_speed_is_told(case, sampler, parts):
    recommended, reason = not_timed(*case)
    assert recommended == sampler
    assert all(part in reason for part in parts), reason
    assert "at most" not in reason
    assert "differ by less than their error" not in reason


def test_an_approximate_step_that_is_far_faster_is_recommended():
    recommended, reason = not_timed(TALL, 500.0, 0.93, approximate(1_500.0))
    assert recommended == "PenaltyMH"
    assert reason.startswith("93% of the updates read all rows with TunaMH, which is exact")
    assert "PenaltyMH, which is approximate. 1,500 effective draws" in reason
    assert "500 are forecast for TunaMH" in reason


@pytest.mark.parametrize(
    ("exact", "of"),
    [
        # Not three times as fast as the exact step; slow; stuck; reading all rows.
        (500.0, approximate(1_499.0)),
        (1.0, approximate(6.6)),
        (500.0, approximate(9_000.0, acceptance=0.001)),
        (500.0, approximate(9_000.0, full=0.6)),
    ],
)
def test_exactness_is_not_given_up_for_little(exact, of):
    recommended, reason = not_timed(TALL, exact, 0.93, of)
    assert recommended == "pm.NUTS"
    assert (
        f"For PenaltyMH, which is approximate, {figure(of.forecast.ess_per_second)} are" in reason
    )


def test_an_approximate_step_has_to_beat_nuts_by_more_than_the_rule_is_off():
    exact = replace(FORECAST, ess_per_second=10.0, full_pass_share=0.93, acceptance=0.9)
    nuts = replace(NUTS_FORECAST, ess_per_second=100.0)
    for speed, expected in ((299.0, "pm.NUTS"), (300.0, "PenaltyMH")):
        assert recommend("TunaMH", *TALL, exact, nuts, approximate(speed))[0] == expected
    # Where NUTS has no gradient, only the exact step has to be beaten.
    assert recommend("TunaMH", *TALL, exact, None, approximate(30.0))[0] == "PenaltyMH"


def test_only_few_rows_are_blamed_on_few_rows():
    _, reason = told(TALL, 500.0, 2_000.0)
    assert "N/d" not in reason


def test_a_refused_model_is_for_nuts_where_there_is_a_gradient():
    assert recommend_instead(NUTS_FORECAST)[0] == "pm.NUTS"
    assert recommend_instead(NUTS_UNTIMED) == ("pm.NUTS", "the model cannot be subsampled.")
    assert recommend_instead(None)[0] == WITHOUT_GRADIENT
