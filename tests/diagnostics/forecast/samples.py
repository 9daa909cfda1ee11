"""A record of an explanation whose every figure is told from the others."""

from dataclasses import replace

from pymc_minibatch_mh import Explanation
from pymc_minibatch_mh.diagnostics.forecast.records import (
    Approximate,
    BoundTable,
    Certificate,
    DataArray,
    Forecast,
    InCoordinates,
    Memory,
    NotSubsampled,
    NutsForecast,
    NutsLimit,
    SubsampledTerm,
)
from pymc_minibatch_mh.step.deterministics import LargeDeterministic

FORECAST = Forecast(
    draws=1_234,
    tune=567,
    updates_per_draw=8,
    rows_per_update=9.87,
    rows_error=0.654,
    acceptance=0.321,
    acceptance_error=0.0456,
    full_pass_share=0.023,
    microseconds_per_update=45.6,
    ess=789.0,
    ess_low=701.0,
    ess_high=913.0,
    worst="beta[2]",
    ess_per_second=54_321.0,
    ess_per_second_in_blocks=612_345.0,
    memory=Memory(data=3 * 2**30, tables=5 * 2**20, sums=7 * 2**10),
    preparation_seconds=6.5,
    held=("wide", "mean"),
    warning="the chain hardly moves",
)
NUTS_FORECAST = NutsForecast(
    gradient_microseconds=8_765.0,
    compile_seconds=1.9,
    condition_number=36.0,
    gradients_per_effective_draw=30.0,
    ess_per_second=3.79,
)
NUTS_LIMIT = NutsLimit(
    condition_number=49.0, gradients_per_effective_draw=11.7, ess_per_second_at_most=432.0
)
APPROXIMATE = Approximate(
    method="PenaltyMH",
    step=None,
    forecast=replace(FORECAST, acceptance_error=0.0789, ess_per_second=65_432.0),
)
EXPLANATION = Explanation(
    method="TunaMH",
    step=None,
    recommended="a sampler",
    reason="it is the faster one",
    refused="rows depend on each other",
    n_rows=1_100_000,
    size=43,
    terms=(
        SubsampledTerm(
            name="late",
            n_rows=1_000_001,
            arguments=("X × beta (3 terms)", "sigma_log__"),
            not_apart="an operation has no rule",
            arrays=(DataArray("table", "float32", (4, 3), 48),),
        ),
    ),
    others=(NotSubsampled("few", "it has 17 rows"),),
    coordinates=(
        InCoordinates("effect", "mu + tau × effect"),
        InCoordinates("skill", "", "is multiplied by 'size', which has a sign"),
    ),
    taylor_order=1,
    order_reason="rows can be expanded",
    certificate=Certificate(
        guarantee="exact given valid bounds",
        certified=True,
        reason="bounds were derived",
        order=2,
        tables=(BoundTable(3.37, 0.01, "sharp", 0.0308, 0.0207),),
        looseness=1.16,
        n_heavy=412,
    ),
    forecast=FORECAST,
    approximate=APPROXIMATE,
    nuts=NUTS_FORECAST,
    large_deterministics=(LargeDeterministic("fitted", (12_345, 2), 197_520),),
    var_names=("alpha", "gaps"),
)
#: How the numbers of the record are written.
WRITTEN = {
    1_234: "1,234 draws",
    567: "567 of warm-up",
    8: "8 updates a draw",
    9.87: "9.87 ±",
    0.654: "± 0.654",
    0.321: "0.321",
    0.0456: "off by 0.0456",
    0.0789: "off by 0.0789",
    0.023: "2.3%",
    45.6: "45.6 µs",
    789.0: "789 of",
    701.0: "701 and",
    913.0: "and 913",
    54_321.0: "54,321",
    612_345.0: "612,345 in each thread",
    65_432.0: "65,432",
    12_345: "12,345 × 2 values",
    197_520: "188.4 MiB for 1,000 draws",
    3 * 2**30: "3.0 GiB",
    5 * 2**20: "5.0 MiB",
    7 * 2**10: "7.0 KiB",
    6.5: "6.5 s",
    8_765.0: "8,765 µs",
    1.9: "1.9 s",
    36.0: "κ = 36",
    30.0: "30.0 per effective draw",
    3.79: "3.79",
    1_100_000: "N = 1,100,000",
    43: "d = 43",
    1_000_001: "1,000,001 rows",
    4: "[4, 3]",
    3: "[4, 3]",
    48: "48 bytes a row",
    1: "1: rows can",
    2: "of order 2",
    3.37: "3.37 posterior sds",
    0.01: "1e-02",
    0.0308: "0.0308",
    0.0207: "0.0207",
    412: "412",
    1.16: "1.16 times",
}
