from dataclasses import replace

import pytest

from diagnostics.forecast.samples import APPROXIMATE, FORECAST, NUTS_FORECAST, NUTS_UNTIMED
from pymc_minibatch_mh.diagnostics.forecast import WITHOUT_NUTS, recommend_sampler
from pymc_minibatch_mh.diagnostics.sheet import format_figure

TALL, WIDE = (1_000_000, 10), (1_000, 30)


def told(of, speed, nuts, full=0.0, acceptance=0.9, approximate=None):
    forecast = replace(FORECAST, ess_per_second=speed, full_pass_share=full, acceptance=acceptance)
    if isinstance(nuts, float):
        nuts = replace(NUTS_FORECAST, ess_per_second=nuts)
    return recommend_sampler("TunaMH", *of, forecast, nuts, approximate)


@pytest.mark.parametrize(
    ("case", "sampler", "parts"),
    [
        ((TALL, 60_000.0, 20.0), "TunaMH", ["3,000 times the ESS/s of NUTS, 60,000 against 20"]),
        ((WIDE, 500.0, 2_000.0), "pm.NUTS", ["N/d = 33 is too small", "4 times the ESS/s of Tuna"]),
        ((TALL, 500.0, 2_000.0), "pm.NUTS", ["4 times the ESS/s of TunaMH, 2,000 against 500"]),
        ((WIDE, 2_500.0, 2_000.0, 0.9), "pm.NUTS", ["90% of the updates", "gains nothing"]),
        ((WIDE, 9_000.0, 2_000.0, 0.9), "TunaMH", ["4.5 times", "but subsampling gains nothing"]),
        ((TALL, 9_000.0, 2_000.0, 0.0, 0.001), "pm.NUTS", ["0.1% of the proposals"]),
        ((TALL, 9_000.0, None), "TunaMH", ["9,000 ESS/s"]),
        ((TALL, 9_000.0, None, 0.0, 0.001), WITHOUT_NUTS, ["0.1% of the proposals"]),
        ((TALL, 60_000.0, NUTS_UNTIMED), "TunaMH", ["60,000 ESS/s"]),
        ((WIDE, 500.0, NUTS_UNTIMED, 0.9), "pm.NUTS", ["N/d = 33", "90% of the updates"]),
    ],
)
def test_the_faster_sampler_is_recommended_with_figures(case, sampler, parts):
    recommended, reason = told(*case)
    assert recommended == sampler
    assert all(part in reason for part in parts), reason


def test_nuts_is_recommended_where_it_is_faster():
    assert told(TALL, 500.0, 501.0)[0] == "pm.NUTS"
    assert told(TALL, 501.0, 500.0)[0] == "TunaMH"


def approximate(speed, full=0.0, acceptance=0.8):
    found = replace(APPROXIMATE.forecast, ess_per_second=speed, full_pass_share=full)
    return APPROXIMATE._replace(forecast=replace(found, acceptance=acceptance))


def test_an_approximate_step_that_is_far_faster_is_recommended():
    recommended, reason = told(TALL, 500.0, NUTS_UNTIMED, 0.93, approximate=approximate(1_500.0))
    assert recommended == "PenaltyMH"
    assert reason == (
        "1,500 ESS/s, but approximate; TunaMH, which is exact, has 500, because 93% of the updates "
        "evaluate all observations"
    )


@pytest.mark.parametrize(
    ("exact", "of"),
    [
        # Not three times as fast as the exact step; stuck; evaluating all observations.
        (500.0, approximate(1_499.0)),
        (500.0, approximate(9_000.0, acceptance=0.001)),
        (500.0, approximate(9_000.0, full=0.6)),
    ],
)
def test_exactness_is_not_given_up_for_little(exact, of):
    recommended, reason = told(TALL, exact, NUTS_UNTIMED, 0.93, approximate=of)
    assert recommended == "pm.NUTS"
    speed = format_figure(of.forecast.ess_per_second)
    assert reason.endswith(f", {speed} for PenaltyMH, which is approximate")


def test_an_approximate_step_has_to_beat_nuts_by_more_than_the_rule_is_off():
    for speed, nuts, expected in (
        (299.0, 100.0, "pm.NUTS"),
        (300.0, 100.0, "PenaltyMH"),
        # Where NUTS has no gradient, only the exact step has to be beaten.
        (30.0, None, "PenaltyMH"),
    ):
        assert told(TALL, 10.0, nuts, 0.93, approximate=approximate(speed))[0] == expected
