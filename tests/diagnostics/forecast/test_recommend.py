from dataclasses import replace

from diagnostics.forecast.samples import APPROXIMATE, FORECAST, NUTS_FORECAST, NUTS_UNTIMED
from every import every
from pymc_minibatch_mh.diagnostics.explanation import figure
from pymc_minibatch_mh.diagnostics.recommend import (
    UNDECIDED,
    WITHOUT_GRADIENT,
    recommend,
    recommend_instead,
)

TALL, WIDE = (1_000_000, 10), (1_000, 30)
UNTIMED = "not timed: explain(..., nuts=True)"


def told(of, speed, nuts, full=0.0, acceptance=0.9, approximate=None):
    forecast = replace(FORECAST, ess_per_second=speed, full_pass_share=full, acceptance=acceptance)
    if isinstance(nuts, float):
        nuts = replace(NUTS_FORECAST, ess_per_second=nuts)
    return recommend("TunaMH", *of, forecast, nuts, approximate)


@every(
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
        ((TALL, 60_000.0, NUTS_UNTIMED), "TunaMH", ["60,000", f"{UNTIMED} compiles"]),
        ((TALL, 6.7, NUTS_UNTIMED), "TunaMH", ["6.7 effective draws"]),
        ((TALL, 6.6, NUTS_UNTIMED), UNDECIDED, ["400 take 1.01 minutes", "some of the rows"]),
        ((TALL, 0.47, NUTS_UNTIMED), UNDECIDED, ["which is slow: 400 take 14.2", UNTIMED]),
        ((WIDE, 500.0, NUTS_UNTIMED, 0.9), "pm.NUTS", ["N/d = 33", "90% of the updates", UNTIMED]),
    ],
)
def test_the_faster_sampler_is_recommended_with_figures(case, sampler, parts):
    recommended, reason = told(*case)
    assert recommended == sampler
    assert all(part in reason for part in parts), reason
    if case[2] is NUTS_UNTIMED:
        assert "at most" not in reason
        assert "differ by less than their error" not in reason


def approximate(speed, full=0.0, acceptance=0.8):
    found = replace(APPROXIMATE.forecast, ess_per_second=speed, full_pass_share=full)
    return replace(APPROXIMATE, forecast=replace(found, acceptance=acceptance))


def test_an_approximate_step_that_is_far_faster_is_recommended():
    recommended, reason = told(TALL, 500.0, NUTS_UNTIMED, 0.93, approximate=approximate(1_500.0))
    assert recommended == "PenaltyMH"
    assert reason.startswith("93% of the updates read all rows with TunaMH, which is exact")
    assert "PenaltyMH, which is approximate. 1,500 effective draws" in reason
    assert "500 are forecast for TunaMH" in reason


@every(
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
    recommended, reason = told(TALL, exact, NUTS_UNTIMED, 0.93, approximate=of)
    assert recommended == "pm.NUTS"
    assert (
        f"For PenaltyMH, which is approximate, {figure(of.forecast.ess_per_second)} are" in reason
    )


def test_an_approximate_step_has_to_beat_nuts_by_more_than_the_rule_is_off():
    for speed, nuts, expected in (
        (299.0, 100.0, "pm.NUTS"),
        (300.0, 100.0, "PenaltyMH"),
        # Where NUTS has no gradient, only the exact step has to be beaten.
        (30.0, None, "PenaltyMH"),
    ):
        assert told(TALL, 10.0, nuts, 0.93, approximate=approximate(speed))[0] == expected


def test_only_few_rows_are_blamed_on_few_rows():
    _, reason = told(TALL, 500.0, 2_000.0)
    assert "N/d" not in reason


def test_a_refused_model_is_for_nuts_where_there_is_a_gradient():
    assert recommend_instead(NUTS_FORECAST)[0] == "pm.NUTS"
    assert recommend_instead(NUTS_UNTIMED) == ("pm.NUTS", "the model cannot be subsampled.")
    assert recommend_instead(None)[0] == WITHOUT_GRADIENT
