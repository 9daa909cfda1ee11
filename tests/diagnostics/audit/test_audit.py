"""An audit finds what is wrong with a trace and its sampler, and nothing where nothing is."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy.special import expit, log_expit

from diagnostics.after.traces import regression, regression_trace, trace_of
from diagnostics.audit.rare import measured_bias, rare_rows
from helpers.altered import in_the_same_state
from helpers.zoo import sample
from law.compound.models import shared
from pymc_minibatch_mh import AustereMH, BarkerMinibatchMH, RandomWalk, TunaMH, audit
from pymc_minibatch_mh.chain.kernel_probe import Probe, ProposedMove
from pymc_minibatch_mh.errors import SettingError, StaleDataError
from robustness.conformance.harness import same_state

pytestmark = pytest.mark.filterwarnings("ignore:The number of samples is too small")


def verdict(found, check):
    return str(found["verdict"].sel(check=check).item())


def message(found, check):
    return str(found["message"].sel(check=check).item())


@pytest.fixture(scope="module")
def exact(model_of, prepared):
    """The model, an exact step, its trace and the audit of both."""
    model, step = model_of("logistic"), prepared("logistic", "TunaMH")
    trace = sample(model, step, 1_500, 500, random_seed=21)
    return model, step, trace, audit(trace, step, 120, 22, model=model)


@pytest.fixture(scope="module")
def austere():
    model = rare_rows()
    step = AustereMH(model=model, epsilon=0.3, batch_size=5, taylor_order=1)
    trace = sample(model, step, 8_000, 500, random_seed=23)
    return model, step, trace, audit(trace, step, 600, 24, model=model)


def test_nothing_is_wrong_with_an_exact_method(exact):
    *_, found = exact
    assert list(found["verdict"].to_numpy()) == ["ok"] * 6, found["message"].to_numpy()
    assert found.attrs["state"] == "chain 1, as it ended"
    assert (found.attrs["pairs"], found.attrs["rows"]) == (120, 5_000)
    assert 0.3 < found["pairs"]["bound_ratio"].max() <= 1.0
    # What it could have seen is small.
    assert found["moments"]["bias_mcse"].max() < 0.01
    assert (np.abs(found["moments"]["bias"]) < 5.0 * found["moments"]["bias_mcse"]).all()


def test_an_audit_can_be_written_and_repeated(exact, tmp_path):
    model, step, trace, found = exact
    found.to_netcdf(tmp_path / "audit.nc")
    again = xr.open_datatree(tmp_path / "audit.nc")
    xr.testing.assert_equal(again.load(), found)
    before = step.sampling_state
    xr.testing.assert_identical(audit(trace, step, 120, 22, model=model), found)
    assert step.sampling_state.rng == before.rng
    same_state(step.sampling_state, before)


def test_bounds_that_are_too_small_are_found_with_their_row(exact):
    model, step, trace, found = exact
    mutant = audit(trace, in_the_same_state(step, 0.5), 120, 22, model=model)
    np.testing.assert_allclose(
        mutant["pairs"]["bound_ratio"], 2.0 * found["pairs"]["bound_ratio"], rtol=1e-6
    )
    xr.testing.assert_equal(mutant["pairs"]["bound_row"], found["pairs"]["bound_row"])
    assert verdict(mutant, "bounds") == "fail"
    worst = int(np.argmax(found["pairs"]["bound_ratio"].to_numpy()))
    assert f"'y': observation {int(found['pairs']['bound_row'][worst])} changes by" in message(
        mutant, "bounds"
    )


def test_the_worst_row_is_the_right_one(exact):
    model, step, _, found = exact
    worst = int(np.argmax(found["pairs"]["bound_ratio"].to_numpy()))
    position, new = (found["pairs"][name][worst].to_numpy() for name in ("position", "proposal"))
    move = ProposedMove(position, new, 0.0)
    table, m = Probe(step.chain, np.random.default_rng(1))._bounds_of(move)
    c = step.tables.c[table]
    X, y = model["X"].get_value(), np.asarray(model.rvs_to_values[model["y"]].data)
    centre = step.reference.centre

    def remainder(beta):
        at, p = X @ beta, expit(X @ centre)
        gap = at - X @ centre
        return log_expit((2.0 * y - 1.0) * at) - (y - p) * gap + 0.5 * p * (1.0 - p) * gap**2

    ratios = np.abs(remainder(new) - remainder(position)) / (c * m)
    assert int(np.argmax(ratios)) == int(found["pairs"]["bound_row"][worst])
    assert ratios.max() == pytest.approx(float(found["pairs"]["bound_ratio"][worst]), rel=1e-3)


def excess(found):
    """Return how far errors of pairs exceed their Monte Carlo noise: about 1 without an error."""
    names = "acceptance_error", "acceptance_error_mcse"
    error, noise = (np.sum(found["pairs"][name].to_numpy() ** 2) for name in names)
    return error / noise


def test_a_test_that_does_not_balance_pairs_is_found(exact):
    model, step, trace, found = exact
    assert 0.5 < excess(found) < 2.0
    # Changes that are clipped to a bound far too small leave the cheap part alone to decide.
    altered = in_the_same_state(step, 0.02, tolerates=1)
    mutant = audit(trace, altered, 400, 22, model=model)
    assert excess(mutant) > 10.0
    assert verdict(mutant, "bias") == "fail"


def test_the_estimated_bias_is_the_one_that_is_there(austere):
    _, _, trace, found = austere
    there, errors = measured_bias(trace)
    own, noise = (found["moments"][name].to_numpy()[:, 0] for name in ("bias", "bias_mcse"))
    assert there[1] < -0.04
    assert own[1] < -4.0 * noise[1]
    np.testing.assert_array_less(np.abs(own - there), 3.0 * np.hypot(noise, errors))


def test_rare_rows_are_not_taken_for_normal(austere, model_of, prepared):
    *_, found = austere
    assert verdict(found, "normality") in ("warn", "fail")
    assert "'y': skewness" in message(found, "normality")
    model, step = model_of("logistic"), prepared("logistic", "BarkerMinibatchMH")
    trace = sample(model, step, 400, 300, random_seed=25)
    usual = audit(trace, step, 40, 26, model=model)
    assert verdict(usual, "normality") == "ok"
    skewness = [np.median(np.abs(one["pairs"]["skewness"].to_numpy())) for one in (found, usual)]
    assert skewness[0] > 2.0 * skewness[1]


def test_a_trace_of_another_model_or_of_few_draws_is_refused(exact):
    model, step, trace, _ = exact
    with pytest.raises(SettingError, match=r"^'beta' is a free variable of the model"):
        audit(with_stats(regression_trace(), trace), step, model=model)
    with pytest.raises(SettingError, match=r"^'beta' is a variable of the step, but not of the"):
        audit(trace, step, model=regression())
    with pytest.raises(SettingError, match=r"^'beta' has draws of shape \(2,\) in the trace"):
        audit(with_stats(trace, trace, beta=trace["posterior"]["beta"][..., :2]), step, model=model)
    with pytest.raises(SettingError, match=r"20 draws in a chain"):
        audit(trace.isel(draw=slice(20)), step, model=model)


def with_stats(trace, other, **changed):
    posterior = trace["posterior"].to_dataset()
    if changed:
        posterior = posterior.drop_vars(list(changed)).drop_dims("beta_dim_0", errors="ignore")
        posterior = posterior.assign(changed)
    return xr.DataTree.from_dict(
        {"/posterior": posterior, "/sample_stats": other["sample_stats"].to_dataset()}
    )


def test_data_that_changed_are_refused(exact):
    model, _, trace, _ = exact
    step = TunaMH(model=model)
    before = model["X"].get_value()
    try:
        model["X"].set_value(before + 1.0)
        with pytest.raises(StaleDataError, match="'X' changed"):
            audit(trace, step, 2, 1, model=model)
    finally:
        model["X"].set_value(before)


@pytest.fixture(scope="module")
def compound():
    """A model that several steps share, and the step of this package among them."""
    model = shared()
    own = BarkerMinibatchMH([model["level"], model["slope"]], model=model, proposal=RandomWalk())
    return model, own


def draws_beside(model, step, seed=28, shape=(2, 200)):
    """Draw what other steps would move, and what the step moves from its approximation."""
    rng = np.random.default_rng(seed)
    size = step.reference.centre.size
    own = step.reference.centre + rng.standard_normal((*shape, size)) @ step.reference.factor.T
    coordinates = step.target.factorization.coordinate_names
    draws = {name: own[..., k] for k, name in enumerate(coordinates)}
    draws |= {"mean": 0.5 * rng.standard_normal(shape), "wide": rng.integers(0, 2, shape)}
    trace = trace_of(draws)
    names = "full_pass", "invalid", "certified", "scaling", "accepted_share"
    stats = dict.fromkeys(names, 0.0)
    zeros = xr.zeros_like(trace["posterior"]["mean"])
    stats = {name: zeros + value for name, value in {**stats, "temperature": 1.0}.items()}
    trace["sample_stats"] = xr.DataTree(xr.Dataset(stats))
    trace["posterior"].attrs["tuning_steps"] = 200
    return trace


def log_ratios_of_the_model(model, trace, found):
    logp, draws = model.compile_logp(), trace["posterior"]
    ratios = []
    for k in range(found["pairs"].sizes["pair"]):
        place = {"chain": int(found["pairs"]["chain"][k]), "draw": int(found["pairs"]["draw"][k])}
        point = {name: draws[name].sel(place).to_numpy() for name in draws.data_vars}
        point = {name: value.astype(model[name].dtype) for name, value in point.items()}
        moved = dict(
            zip(
                found["pairs"]["dimension"].to_numpy(),
                found["pairs"]["proposal"][k].values,
                strict=True,
            )
        )
        new = {**point, **{name: np.asarray(value) for name, value in moved.items()}}
        ratios.append(float(logp(new)) - float(logp(point)))
    return np.array(ratios)


def test_variables_of_other_steps_come_from_the_draw(compound, monkeypatch):
    model, step = compound
    trace = draws_beside(model, step)
    found = audit(trace, step, 40, 29, model=model)
    exact = log_ratios_of_the_model(model, trace, found)
    np.testing.assert_allclose(found["pairs"]["log_ratio"], exact, rtol=1e-6, atol=1e-6)
    assert list(found["moments"]["coordinate"].to_numpy()) == ["level", "slope"]
    monkeypatch.setattr(Probe, "fix_others", lambda probe, others: None)
    mutant = audit(trace, step, 40, 29, model=model)
    exact = log_ratios_of_the_model(model, trace, mutant)
    assert np.abs(mutant["pairs"]["log_ratio"].to_numpy() - exact).max() > 0.01


@pytest.mark.slow
def test_nothing_is_wrong_with_steps_side_by_side(compound):
    model, step = compound
    with model:
        others = [pm.Metropolis([model["mean"]]), pm.BinaryGibbsMetropolis([model["wide"]])]
    trace = sample(model, [step, *others], 4_000, 500, random_seed=28)
    found = audit(trace, step, 200, 29, model=model)
    assert list(found["verdict"].to_numpy()) == ["ok"] * 6, found["message"].to_numpy()
