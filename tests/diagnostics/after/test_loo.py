"""Leave-one-out cross-validation from some rows is near that of all, and equal to it with all."""

import arviz as az
import numpy as np
import pymc as pm
import pytest

from diagnostics.after import traces
from law.statistical.budget import FAR
from pymc_minibatch_mh import loo_subsample
from pymc_minibatch_mh.diagnostics.predictive import RowLogLikelihood
from pymc_minibatch_mh.errors import MinibatchError, StaleDataError


@pytest.fixture(scope="module")
def model():
    return traces.regression()


@pytest.fixture(scope="module")
def trace():
    return traces.regression_trace()


@pytest.fixture(scope="module")
def exact(model, trace):
    """ArviZ's own result from the log-likelihood of all rows at all draws."""
    whole = trace.copy()
    pm.compute_log_likelihood(whole, model=model, progressbar=False)
    return az.loo(whole, pointwise=True)


@pytest.fixture(scope="module")
def sampled(model, trace):
    return loo_subsample(trace, 300, model=model, pointwise=True)


def test_some_rows_estimate_the_result_of_all(sampled, exact):
    assert type(sampled).__name__ == "ELPDDataLOOSubsample"
    assert (sampled.subsample_size, sampled.n_data_points) == (300, traces.ROWS)
    off = abs(sampled.elpd - exact.elpd)
    assert 0.0 < off < FAR * sampled.subsampling_se
    # Without the expansion at the mean, 300 rows tell far less.
    plain = exact.elpd_i.to_numpy().std() * traces.ROWS / np.sqrt(300)
    assert sampled.subsampling_se < 0.1 * plain
    assert sampled.se == pytest.approx(exact.se, rel=0.05)
    assert sampled.p == pytest.approx(exact.p, rel=0.5)


def test_all_rows_give_the_exact_result(model, trace, exact):
    every = loo_subsample(trace, np.arange(traces.ROWS), model=model)
    assert every.elpd == pytest.approx(exact.elpd, rel=1e-9)
    assert every.p == pytest.approx(exact.p, rel=1e-6)
    # ArviZ divides by N - 1 here and by N there.
    in_common = np.sqrt((traces.ROWS - 1) / traces.ROWS)
    assert every.se == pytest.approx(exact.se * in_common, rel=1e-9)
    assert every.subsampling_se == 0.0


def test_an_expansion_in_the_wrong_order_is_noticed(model, trace, exact, monkeypatch):
    at_point = RowLogLikelihood.at_point
    monkeypatch.setattr(RowLogLikelihood, "at_point", lambda *a: 0.98 * at_point(*a)[::-1])
    mutant = loo_subsample(trace, 300, model=model)
    assert mutant.subsampling_se > 20.0
    monkeypatch.setattr(RowLogLikelihood, "at_point", lambda *a: at_point(*a) + 0.01)
    # A constant shift cancels: the estimate does not rest on the approximation.
    shifted = loo_subsample(trace, 300, model=model)
    assert abs(shifted.elpd - exact.elpd) < FAR * shifted.subsampling_se


def test_a_seed_chooses_the_observations():
    model, trace = traces.regression(), traces.regression_trace()
    one, again, other, usual, compared = (
        loo_subsample(trace, 20, model=model, random_seed=seed).loo_subsample_observations.tolist()
        for seed in (1, 1, 2, None, None)
    )
    assert one == again != other
    # Models that are compared are judged by the same observations.
    assert usual == compared


@pytest.fixture(scope="module")
def drawn(model):
    with model:
        return pm.sample_prior_predictive(2, random_seed=1)


@pytest.fixture
def with_data(trace, drawn):
    """A trace that holds the data, in the groups that PyMC writes."""
    own = trace.copy()
    for group in ("observed_data", "constant_data"):
        own[group] = drawn[group]
    return own


def test_data_that_are_not_those_of_the_trace_are_refused(model, with_data):
    x = model["x"].get_value()
    before = loo_subsample(with_data, 50, model=model, random_seed=1)
    try:
        pm.set_data({"x": np.where(np.arange(traces.ROWS) == 7, 0.0, x)}, model=model)
        with pytest.raises(StaleDataError, match=r"^'x' changed after this trace was drawn"):
            loo_subsample(with_data, 50, model=model)
    finally:
        pm.set_data({"x": x}, model=model)
    assert loo_subsample(with_data, 50, model=model, random_seed=1).elpd == before.elpd
    observed = with_data["observed_data"]
    observed["y"] = observed["y"] + 1e-9
    with pytest.raises(StaleDataError, match=r"^'y' changed"):
        loo_subsample(with_data, 50, model=model)


def test_a_row_that_is_impossible_at_the_mean_is_named():
    with pm.Model() as model:
        pm.Uniform("y", 0.0, pm.HalfNormal("top", 5.0), observed=np.array([0.5, 0.1, 2.9, 0.7]))
    trace = traces.trace_of({"top": np.full((1, 8), 2.0)})
    with pytest.raises(MinibatchError, match=r"^'y' has no finite .* first in observation 2"):
        loo_subsample(trace, 2, model=model)
