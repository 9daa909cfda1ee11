import dataclasses

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.special import stdtrit

from helpers.altered import with_program, with_tables
from helpers.models import logistic
from helpers.zoo import sample
from law.compound.models import switched
from pymc_minibatch_mh import PenaltyMH, TunaMH, explain
from pymc_minibatch_mh.chain.program import SamplerSpec
from pymc_minibatch_mh.compiled import model as compiled_model
from pymc_minibatch_mh.diagnostics import explain as entry
from pymc_minibatch_mh.diagnostics import forecast as forecasts
from pymc_minibatch_mh.diagnostics import model_summary
from pymc_minibatch_mh.diagnostics.forecast import PILOTS, run_pilots
from pymc_minibatch_mh.errors import (
    BoundViolationError,
    FactorizationError,
    MinibatchError,
    ModeError,
    UnsupportedModelError,
)
from pymc_minibatch_mh.expressions.graph import LoweringError
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.steps.base import model_behind
from robustness.conformance.harness import run, same_state

#: Seconds that every draw, every gradient and its first evaluation seem to take, so that
#: recommendations do not depend on how busy the machine is.
DRAW, GRADIENT, COMPILATION = 30e-6, 200e-6, 1.0
#: Figures that are computed from times.
TIMED = (
    "microseconds_per_update",
    "ess_per_second",
    "ess_per_second_in_blocks",
    "seconds",
    "preparation_seconds",
)


@pytest.fixture(scope="module", autouse=True)
def stopped_clocks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forecasts, "seconds_per_draw", lambda _: DRAW)
        # The draws that are counted end by their number, however busy the machine is.
        patch.setattr(forecasts, "MAX_BLOCK_SECONDS", 60.0)
        patch.setattr(forecasts, "MAX_PILOT_SECONDS", 600.0)
        patch.setattr(forecasts, "MAX_IN_BLOCKS", 4_096)
        patch.setattr(forecasts, "seconds_per_call", lambda *_: (COMPILATION, GRADIENT))
        yield


@pytest.fixture(scope="module")
def of_step(prepared):
    return explain(prepared("logistic", "TunaMH"), random_seed=1)


def two_terms():
    """One term that is subsampled and one that is too short, a potential, and awkward names."""
    rng = np.random.default_rng(31)
    x, group = rng.standard_normal(1_500), rng.integers(0, 3, 1_500)
    with pm.Model() as model:
        slope = pm.Normal("<slope>", 0.0, 1.0)
        effect = pm.Normal("effect", 0.0, 1.0, shape=3)
        mean = effect[pm.Data("group", group)] + slope * pm.Data("x & y", x)
        pm.Normal("tall", mean, 1.0, observed=(0.3 * x).astype(np.float32))
        pm.Normal("short", slope, 1.0, observed=rng.standard_normal(900))
        pm.Potential("tilt", 0.1 * slope)
    return model


@pytest.fixture(scope="module")
def of_two_terms():
    return explain(two_terms(), nuts=False, random_seed=1)


@pytest.fixture(scope="module")
def of_switched():
    """Return the explanation of a model with a discrete variable, and the step that it built."""
    built = []

    class Kept(entry.PenaltyMH):
        def __init__(self, *args, **settings):
            super().__init__(*args, **settings)
            built.append(self)

    Kept.__name__ = "PenaltyMH"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entry, "PenaltyMH", Kept)
        found = explain(switched(), nuts=False, random_seed=1)
    return found, built[0]


def test_a_tall_logistic_regression_is_for_tuna(of_step, prepared):
    assert of_step.step is prepared("logistic", "TunaMH")
    assert of_step.approximate is None
    assert (of_step.method, of_step.recommended, of_step.refused) == ("TunaMH", "TunaMH", "")
    assert (of_step.n_rows, of_step.size, of_step.taylor_order) == (5_000, 3, 2)
    (term,) = of_step.terms
    assert term.arguments == ("X × beta (3 terms)",)
    assert term.not_apart == ""
    assert set(term.arrays) == {"X: float64[3], 24 bytes a row", "y: int64, 8 bytes a row"}
    assert of_step.forecast.acceptance > 0.9
    assert of_step.forecast.full_pass_share < 1e-3


@pytest.mark.slow
def test_what_is_expanded_around_is_told(of_step, model_of, prepared):
    assert of_step.centre == "near the mode of the joint density"
    few = {"draws": 100, "tune": 0, "nuts": False, "random_seed": 1}
    hierarchy = explain(prepared("student", "TunaMH"), **few)
    assert "marginal density of 'tau', with all else integrated over" in hierarchy.centre
    assert hierarchy.centre in " ".join(str(hierarchy.details).split())
    start = TunaMH(model=model_of("logistic"), centre="start", covariance=0.01 * np.eye(3))
    assert explain(start, **few).centre.startswith("the start")


def test_memory_is_that_of_the_arrays(of_step, prepared):
    memory, n_tables = of_step.forecast.memory, len(prepared("logistic", "TunaMH").tables.headers)
    assert memory.data == 5_000 * 32
    # Thresholds, places and c_i of every row, and three numbers in the head of a table.
    assert memory.tables == n_tables * (5_000 * 16 + 24)
    # Three matrices, two vectors and four numbers.
    assert memory.sums == 8 * (3 * 9 + 2 * 3 + 4)


def test_speeds_follow_from_times_and_effective_draws(of_step):
    found, nuts = of_step.forecast, of_step.nuts
    assert found.microseconds_per_update == pytest.approx(1e6 * DRAW)
    expected = found.ess / (found.draws * (DRAW + forecasts.RECORDING))
    assert found.ess_per_second == pytest.approx(expected)
    assert np.isnan(found.preparation_seconds)
    assert nuts.gradients_per_effective_draw == pytest.approx(5 * nuts.condition_number**0.5)
    per_draw = nuts.gradients_per_effective_draw * (GRADIENT + forecasts.LEAPFROG)
    assert nuts.ess_per_second == pytest.approx(1 / per_draw)
    ratio = found.ess_per_second / nuts.ess_per_second
    assert of_step.reason.startswith(f"{ratio:.3g} times the ESS/s of NUTS, ")
    assert f"{found.ess_per_second:,.0f} against " in of_step.reason


def test_what_is_not_subsampled_has_its_reason_and_names_are_no_tags(of_two_terms):
    assert [(t.name, t.n_rows) for t in of_two_terms.terms] == [("tall", 1_500)]
    assert of_two_terms.terms[0].arguments == ("x & y × <slope> + effect[group]",)
    reasons = {other.name: other.reason for other in of_two_terms.others}
    assert reasons.keys() == {"short", "<slope>", "effect", "tilt"}
    assert reasons["short"].startswith("900 observations, fewer than 1,000")
    assert reasons["tilt"] == "a potential of the parameters alone"
    assert "prior" in reasons["effect"]
    assert [other.name for other in of_two_terms.others if other.in_full] == ["short"]
    assert of_two_terms.forecast.preparation_seconds > 0.0
    assert of_two_terms.forecast.constant_variables == ()
    assert of_two_terms.large_deterministics == ()
    assert of_two_terms.var_names == ("<slope>", "effect")
    page = of_two_terms._repr_html_()
    assert "&lt;slope&gt;" in page
    assert "x &amp; y" in page
    assert "<slope>" not in page


def test_columns_of_data_without_a_name_are_told_apart():
    with pm.Model() as model:
        design = pt.as_tensor(np.arange(2_000.0).reshape(1_000, 2))
        mean = pt.dot(design, pt.stack([pm.Normal("a"), pm.Normal("b")]))
        pm.Normal("y", mean, 1.0, observed=np.zeros(1_000))
    (term,) = model_summary.subsampled_terms(factorize(model, model.value_vars))
    assert term.arguments == ("data[0] × a + data[1] × b",)


def test_rows_that_are_computed_as_a_graph_say_so(monkeypatch):
    def without_derivatives(functions, size):
        raise LoweringError("an operation", "has no derivative")

    monkeypatch.setattr(compiled_model, "FormRows", without_derivatives)
    model = logistic(1_000)
    parts = factorize(model, model.value_vars)
    why = compiled_model.CompiledModel(parts, None).why_graph
    (term,) = model_summary.subsampled_terms(parts, why)
    assert term.arguments
    assert term.not_apart == (
        "computed as a graph of all parameters, because an operation has no derivative"
    )


@pytest.mark.slow
def test_a_discrete_variable_leaves_the_approximate_method(of_switched):
    found, built = of_switched
    assert found.step is built
    assert found.method == "PenaltyMH"
    assert (found.taylor_order, found.certificate.certified) == (0, False)
    assert "'shifted'" in found.order_reason
    assert found.certificate.reason == found.terms[0].not_apart
    assert "discrete variable 'shifted'" in found.certificate.reason
    assert found.certificate.tables == ()
    assert found.forecast.memory.tables == 0
    assert found.forecast.constant_variables == ("shifted",)
    reasons = {other.name: other.reason for other in found.others}
    assert "another step moves it" in reasons["shifted"]
    assert "another step" not in reasons["level"]


@pytest.mark.slow
def test_a_pilot_leaves_the_values_of_other_steps_alone(of_switched):
    _, step = of_switched
    step.target.source.others[:] = 5.0
    run_pilots(step, model_behind(step), 100, 0, _generator(0))
    assert step.target.source.others == 5.0


def _generator(seed):
    return np.random.default_rng(seed)


def test_nuts_is_timed_unless_it_is_left_out(of_step, prepared, monkeypatch):
    assert of_step.nuts.is_timed

    def compiled(*_args, **_settings):
        raise AssertionError("the gradient for NUTS was compiled")

    monkeypatch.setattr(pm.Model, "logp_dlogp_function", compiled)
    step = prepared("logistic", "TunaMH")
    found = explain(step, draws=100, tune=100, nuts=False, random_seed=1)
    assert found.nuts.condition_number == of_step.nuts.condition_number
    assert found.nuts.gradients_per_effective_draw == of_step.nuts.gradients_per_effective_draw
    assert not found.nuts.is_timed
    assert found.recommended == "TunaMH"
    assert "NUTS" not in found.reason
    with pytest.raises(AssertionError, match="was compiled"):
        explain(step, draws=100, tune=100, random_seed=1)


def test_a_potential_of_many_observations_is_named_with_its_rows():
    rng = np.random.default_rng(31)
    time, ended = rng.weibull(1.5, 4_000), rng.random(4_000) < 0.6
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 2.0)
        pm.Weibull("t", alpha=1.5, beta=scale, observed=time[ended])
        censored = pm.Data("censored", time[~ended])
        pm.Potential("beyond", -(((censored / scale) ** 1.5).sum()))
        pm.Potential("together", -(((censored / scale).mean() - 1.0) ** 2))
        pm.Potential("tilt", 0.1 * scale)
    found = explain(model, draws=100, tune=100, nuts=False, random_seed=1)
    assert [term.name for term in found.terms] == ["t", "beyond"]
    reasons = {other.name: other.reason for other in found.others if other.in_full}
    assert reasons.keys() == {"together"}
    said = f"a potential of {(~ended).sum():,} rows, evaluated in full at every update: 'together'"
    assert reasons["together"].startswith(said)
    assert f"evaluated in full 'together': {said}" in " ".join(str(found).split())


def test_further_draws_end_by_the_clock(prepared, monkeypatch):
    """Whatever an update costs: nothing else knows of the prior part and of potentials."""
    step = prepared("logistic", "TunaMH")
    monkeypatch.setattr(forecasts, "MAX_IN_BLOCKS", 2**40)
    monkeypatch.setattr(forecasts, "MAX_BLOCK_SECONDS", 1.0)
    now = iter(np.arange(0.0, 1e3, 0.3))
    monkeypatch.setattr(forecasts.time, "perf_counter", lambda: next(now))
    chains, made = [step.chain, step.chain.copy()], 8 * forecasts.MIN_IN_BLOCKS
    counts, seconds = forecasts.advance_in_blocks(chains)
    # Four blocks begin within a second of a clock that moves by .3 s, each doubling the draws.
    assert counts.shape[:2] == (2, made)
    assert seconds == pytest.approx(1.2 / (2 * made))


def test_the_error_of_rows_covers_other_pilots(prepared):
    """Of twenty seeds, the interval of most has the mean of all others inside."""
    step = prepared("logistic", "TunaMH")
    runs = [
        run_pilots(step, model_behind(step), 100, 1_000, _generator(seed)) for seed in range(20)
    ]
    found = [forecasts.summarize_pilots(step, run, 1_000, 0.0) for run in runs]
    means, errors = np.array([(one.rows_per_update, one.rows_error) for one in found]).T
    others = (means.sum() - means) / (len(means) - 1)
    inside = np.abs(means - others) <= errors
    assert inside.mean() >= 0.75
    # Neither is it so wide that it says nothing.
    assert np.median(errors) < 0.7 * means.mean()


def test_the_error_is_that_of_students_t():
    assert forecasts.error_of_mean(np.array([1.0, 2.0, 3.0, 4.0])) == pytest.approx(
        stdtrit(3, 0.975) * np.std([1, 2, 3, 4], ddof=1) / 2.0
    )


def test_seconds_include_warm_up_and_follow_from_effective_draws(prepared):
    step = prepared("logistic", "TunaMH")
    run = run_pilots(step, model_behind(step), 400, 100, _generator(0))
    run = dataclasses.replace(run, seconds_in_blocks=3e-6, seconds_in_warm_up=5e-6)
    found = forecasts.summarize_pilots(step, run, 100, 0.0)
    assert found.draws == 400
    assert found.seconds == pytest.approx(1_000 * 5e-6 + 1_000 * 3e-6 * 400 / found.ess)
    without = forecasts.summarize_pilots(step, run, 0, 0.0)
    assert without.seconds == pytest.approx(1_000 * 3e-6 * (1.0 + 400 / found.ess))


def test_pilots_differ_in_starts_and_seeds(prepared):
    step = prepared("logistic", "TunaMH")
    run = run_pilots(step, model_behind(step), 100, 0, _generator(0))
    assert run.draws.shape == (PILOTS, 100 // PILOTS, 3)
    assert len(np.unique(run.draws[:, 0, 0])) == PILOTS


def test_large_deterministics_are_named_and_priced():
    with refused() as model:
        scale, spread = model["scale"], np.linspace(0.0, 1.0, 40_000)
        pm.Deterministic("fitted", scale * spread)
        pm.Deterministic("double", 2.0 * scale)
    found = explain(model, nuts=False)
    (one,) = found.large_deterministics
    assert (one.name, one.shape, one.bytes_per_draw) == ("fitted", (40_000,), 320_000)
    assert found.var_names == ("scale", "double")
    assert "305.2 MiB for 1,000 draws" in str(found)
    assert "305.2 MiB for 1,000 draws" in str(found.details)


@pytest.fixture(scope="module")
def reading_all(prepared):
    """An exact step whose bounds are so wide that every update reads all rows."""
    return with_tables(prepared("logistic", "TunaMH"), 1e6, [1.0, 1.0, 1e6])


@pytest.fixture(scope="module")
def of_reading_all(reading_all):
    return explain(reading_all, draws=200, tune=200, nuts=False, random_seed=1)


@pytest.mark.slow
def test_an_approximate_step_is_forecast_where_exactness_takes_all_rows(of_reading_all):
    assert of_reading_all.method == "TunaMH"
    assert of_reading_all.forecast.full_pass_share > 0.9
    assert of_reading_all.forecast.acceptance_error == 0.0
    found = of_reading_all.approximate
    assert (found.method, type(found.step)) == ("PenaltyMH", PenaltyMH)
    assert found.forecast.full_pass_share < 0.1
    assert found.forecast.rows_per_update < 500
    assert found.forecast.acceptance > 0.5
    assert 0.0 < found.forecast.acceptance_error < 0.1
    assert np.isnan(found.forecast.preparation_seconds)
    assert "Forecast of PenaltyMH" in str(of_reading_all.details)


@pytest.mark.slow
def test_the_approximate_step_draws_as_one_that_is_built_anew(of_reading_all, prepared, model_of):
    start, draws = model_of("logistic").initial_point(), []
    for step in (of_reading_all.approximate.step, prepared("logistic", "PenaltyMH")):
        step.setup_chain(_generator(7), 150, 0)
        draws.append(run(step, start, 200, stop_at=150)[0])
    np.testing.assert_array_equal(*draws)


def test_an_explained_chain_goes_on_bit_for_bit(prepared, model_of):
    step, start = prepared("logistic", "TunaMH"), model_of("logistic").initial_point()
    step.setup_chain(_generator(7), 200, 0)
    expected, _ = run(step, start, 240, stop_at=180)
    whole = step.sampling_state

    step.setup_chain(_generator(7), 200, 0)
    first, point = run(step, start, 120)
    before = step.sampling_state
    explain(step, draws=100, tune=100, nuts=False, random_seed=3)
    same_state(step.sampling_state, before)
    second, _ = run(step, point, 120, stop_at=60)
    np.testing.assert_array_equal(np.concatenate([first, second]), expected)
    same_state(step.sampling_state, whole)


def test_a_seed_tells_all_but_times(prepared):
    step = prepared("logistic", "TunaMH")
    one, same, other = (
        dataclasses.asdict(
            explain(step, draws=200, tune=100, nuts=False, random_seed=seed).forecast
        )
        for seed in (5, 5, 6)
    )
    for found in (one, same, other):
        for name in TIMED:
            del found[name]
    assert one == same
    assert one != other


def test_rows_of_the_forecast_are_those_of_a_run(prepared, model_of):
    step = prepared("logistic", "ScalableSubsamplingMH")
    found = explain(step, draws=4_000, tune=1_000, nuts=False, random_seed=11).forecast
    trace = sample(model_of("logistic"), step, 4_000, 1_000, chains=1, random_seed=12)
    rows = trace["sample_stats"]["n_obs"].to_numpy()[0]
    to_standard_error = 1.0 / stdtrit(PILOTS - 1, 0.975)
    error = np.hypot(to_standard_error * found.rows_error, error_of_mean(rows))
    # A forecast that is off by a half would be noticed.
    assert error < 0.1 * rows.mean()
    assert abs(found.rows_per_update - rows.mean()) < 4.0 * error

    own = step.program
    program = SamplerSpec(own.plan, own.sampler, 8)
    several = with_program(step, program)
    of_several = explain(several, draws=500, nuts=False, random_seed=13).forecast
    assert of_several.updates_per_draw == 8
    error = np.hypot(to_standard_error * of_several.rows_error, error_of_mean(rows))
    assert abs(of_several.rows_per_update - rows.mean()) < 4.0 * error
    assert of_several.microseconds_per_update == pytest.approx(1e6 * DRAW / 8)
    assert of_several.full_pass_share <= 1.0


def test_passes_too_rare_for_a_pilot_are_in_the_forecast(monkeypatch):
    monkeypatch.setattr(forecasts, "MAX_IN_BLOCKS", 16_384)
    rng = np.random.default_rng(3)
    zero = rng.random(20_000) < 0.3
    with pm.Model() as model:
        psi, mu = pm.Beta("psi", 2.0, 2.0), pm.Gamma("mu", 2.0, 1.0)
        observed = np.where(zero, 0, rng.poisson(2.0, zero.size))
        pm.ZeroInflatedPoisson("y", psi=psi, mu=mu, observed=observed)
    step = TunaMH(model=model)
    found = explain(step, nuts=False, random_seed=1).forecast
    chain, point = forecasts.fresh_chain(step, _generator(2), 1_000), model.initial_point()
    _, point = run(chain, point, 1_000)
    chain.stop_tuning()
    counts = chain.chain.advance(100_000).counts
    rows, passes = counts["n_obs"], counts["full_pass"]
    # A pass in some thousands of updates reads nearly all rows of a run, and no pilot meets it.
    assert passes.mean() < 1e-3
    assert rows[passes == 0].mean() < 0.1 * rows.mean()
    assert 1 / 3 < found.rows_per_update / rows.mean() < 3


def error_of_mean(values):
    """Return the standard error of a mean of consecutive values, by means of batches."""
    means = [batch.mean() for batch in np.array_split(values, 20)]
    return np.std(means, ddof=1) / np.sqrt(len(means))


def refused():
    rng = np.random.default_rng(32)
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1.0)
        start = pm.Normal.dist()
        walk = rng.standard_normal(1_200).cumsum()
        pm.GaussianRandomWalk("walk", sigma=scale, init_dist=start, observed=walk)
        pm.Normal("apart", 0.0, scale, observed=rng.standard_normal(1_100))
    return model


def test_a_refused_model_has_a_record_too():
    model = refused()
    with pytest.raises(UnsupportedModelError) as reason:
        factorize(model, model.value_vars)
    with model:
        found = explain()
    assert found.refused == str(reason.value)
    assert (found.method, found.recommended) == ("", "pm.NUTS")
    assert found.forecast is found.certificate is found.taylor_order is None
    reasons = {other.name: other.reason for other in found.others}
    assert reasons["walk"] == found.refused
    assert "observed=['apart']" in reasons["apart"]
    assert np.isnan(found.nuts.condition_number)
    assert found.step is found.approximate is None
    assert " ".join(found.refused.split()) in " ".join(str(found).split())
    assert "evaluated in full" not in str(found)


def test_a_model_without_a_mode_is_described_and_refused(model_of, monkeypatch):
    monkeypatch.setattr(entry, "TunaMH", raising(ModeError))
    found = explain(model_of("logistic"), nuts=False)
    assert found.refused == "as in the test"
    assert [term.name for term in found.terms] == ["y"]
    assert (found.n_rows, found.size) == (5_000, 3)


@pytest.mark.parametrize(
    "error", [FactorizationError, BoundViolationError, MinibatchError, TypeError]
)
def test_what_is_no_refusal_is_raised(error, model_of, monkeypatch):
    monkeypatch.setattr(entry, "TunaMH", raising(error))
    with pytest.raises(error, match="as in the test"):
        explain(model_of("logistic"))


def raising(error):
    def build(*_args, **_settings):
        raise error("as in the test")

    return build
