"""An explanation whose figures all differ."""

from dataclasses import replace

from pymc_minibatch_mh.diagnostics.explain import Certificate, Explanation
from pymc_minibatch_mh.diagnostics.forecast import Approximate, Forecast, Memory, NutsForecast
from pymc_minibatch_mh.diagnostics.model_summary import (
    NotSubsampled,
    Reparametrized,
    SubsampledTerm,
)
from pymc_minibatch_mh.steps.deterministics import LargeDeterministic

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
    worst="beta[2]",
    ess_per_second=54_321.0,
    ess_per_second_in_blocks=612_345.0,
    seconds=7.25,
    memory=Memory(data=3 * 2**30, tables=5 * 2**20, sums=7 * 2**10),
    preparation_seconds=6.5,
    constant_variables=("wide", "mean"),
    warning="the chain hardly moves",
)
NUTS_FORECAST = NutsForecast(
    gradient_microseconds=8_765.0,
    compile_seconds=1.9,
    condition_number=36.0,
    gradients_per_effective_draw=30.0,
    ess_per_second=3.79,
)
NUTS_UNTIMED = NutsForecast(condition_number=49.0, gradients_per_effective_draw=35.0)
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
            arrays=("table: float32[4, 3], 48 bytes a row",),
        ),
    ),
    others=(
        NotSubsampled("few", "it has 17 observations", in_full=True),
        NotSubsampled("b", "a prior"),
    ),
    coordinates=(
        Reparametrized("effect", "mu + tau × effect"),
        Reparametrized("skill", "", "is multiplied by 'size', which has a sign"),
    ),
    taylor_order=1,
    order_reason="rows can be expanded",
    centre="a point in the middle",
    certificate=Certificate(
        guarantee="exact given valid bounds",
        certified=True,
        reason="bounds were derived",
        tables=("C = Σ c_i = 0.0308 within 3.37 posterior sds of the centre; sharp",),
        drawn=0.0207,
        n_heavy=412,
    ),
    forecast=FORECAST,
    approximate=APPROXIMATE,
    nuts=NUTS_FORECAST,
    large_deterministics=(LargeDeterministic("fitted", (12_345, 2), 197_520),),
    var_names=("alpha", "gaps"),
    given_scales=("sigma_b", "sigma_c"),
    skewness=1.64,
)
