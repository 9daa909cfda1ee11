"""Potentials as sums over rows: what is subsampled, what stays, and what is said of it."""

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from model.evaluation import assert_read_rightly, split_of
from pymc_minibatch_mh import TunaMH, log_likelihood
from pymc_minibatch_mh.errors import SettingError, StaleDataError, UnsupportedModelError

RNG = np.random.default_rng(4)
N, CENSORED = 1_400, 1_100
X, Y = RNG.normal(size=N), RNG.normal(size=N)
Z = RNG.exponential(size=CENSORED)


def declare(*potentials, observed=True):
    """Model of two parameters with potentials, each a function of both."""
    with pm.Model() as model:
        a, s = pm.Normal("a"), pm.HalfNormal("s", initval=0.8)
        if observed:
            pm.Normal("y", a + X, s, observed=Y)
        for k, potential in enumerate(potentials):
            pm.Potential(f"p{k}", potential(a, s))
    return model


def beyond(a, s):
    return -((Z / pt.exp(a)) ** s).sum()


def shared_rows(a, s):
    return pm.logp(pm.Normal.dist(a, s), Y).sum() - pt.softplus(a - pt.as_tensor(X)).sum()


@pytest.mark.parametrize(
    ("potential", "terms"),
    [
        (beyond, [("p0", CENSORED)]),
        (lambda a, s: 3.0 - beyond(a, s) / s, [("p0", CENSORED)]),
        (shared_rows, [("p0", N)]),
        (lambda a, s: shared_rows(a, s) + beyond(a, s), [("p0", N), ("p0[1]", CENSORED)]),
        (lambda a, s: beyond(a, s) - a**2 + (Z[:5] * a).sum(), [("p0", CENSORED)]),
    ],
)
def test_rows_of_one_length_are_one_term_and_counted_once(potential, terms):
    model = declare(potential)
    parts = split_of(model, min_rows=1_000)
    assert [(term.name, term.n_rows) for term in parts.terms] == [("y", N), *terms]
    assert not parts.in_full
    assert_read_rightly(model, parts)


@pytest.mark.parametrize(
    "potential",
    [
        lambda a, s: -10.0 * a**2,
        lambda a, s: -(a * np.linspace(0.0, 1.0, 900)).sum(),
        lambda a, s: pt.as_tensor(Y).sum(),
    ],
    ids=["parameters", "few rows", "data alone"],
)
def test_what_has_no_rows_stays_in_the_prior(potential):
    model = declare(potential)
    parts = split_of(model, min_rows=1_000)
    assert [term.name for term in parts.terms] == ["y"]
    assert not parts.in_full
    assert_read_rightly(model, parts)


def test_a_prior_on_many_parameters_stays_one():
    with pm.Model() as model:
        b = pm.Normal("b", shape=N)
        pm.Normal("y", b[0], observed=Y)
        pm.Potential("smooth", -((b[1:] - b[:-1]) ** 2).sum())
    parts = split_of(model, min_rows=1_000)
    assert [term.name for term in parts.terms] == ["y"]
    assert not parts.in_full


def log_of_sum(a, s):
    return pt.log(pt.exp(-s * Z - a).sum())


@pytest.mark.parametrize(
    ("potentials", "settings", "name", "words"),
    [
        ((log_of_sum,), {}, "p0", "'p0' has one log-likelihood for all of its values together, "),
        ((beyond,), {"observed": ["y"]}, "p0", "It is not named in observed=."),
        ((beyond, log_of_sum), {"observed": ["p0"]}, "p1", "It is not named in observed=."),
    ],
)
def test_rows_that_stay_are_counted_and_named(potentials, settings, name, words):
    parts = split_of(declare(*potentials), min_rows=1_000, **settings)
    assert [*parts.in_full] == [name]
    said = parts.in_full[name]
    assert said[0] == CENSORED
    assert said[1].startswith(
        f"a potential of {CENSORED:,} rows, evaluated in full at every update: {words}"
    )


def test_a_potential_in_the_prior_part_is_told(caplog):
    with declare(beyond, log_of_sum):
        TunaMH()
    (said,) = [r for r in caplog.records if "potential" in r.getMessage()]
    assert said.getMessage().startswith(f"TunaMH: 'p1' is a potential of {CENSORED:,} rows, ")


def test_updates_count_the_rows_of_the_prior_part():
    with declare(beyond, log_of_sum):
        step = TunaMH()
        trace = pm.sample(20, tune=20, chains=1, step=step, progressbar=False, random_seed=1)
    assert trace.sample_stats["n_obs"].min() >= CENSORED
    assert [term.name for term in step.target.factorization.terms] == ["y", "p0"]


@pytest.mark.parametrize("potential", [log_of_sum, lambda a, s: -10.0 * a**2])
def test_a_potential_without_rows_that_is_named_is_refused(potential):
    message = "^'p0' has one log-likelihood for all of its values together"
    with pytest.raises(UnsupportedModelError, match=message):
        split_of(declare(potential), observed=["y", "p0"])


def test_a_model_of_a_potential_alone_is_served_or_refused_with_the_reason():
    assert [term.name for term in split_of(declare(beyond, observed=False)).terms] == ["p0"]
    with pytest.raises(UnsupportedModelError, match=r"^'p0' has one log-likelihood for all"):
        split_of(declare(log_of_sum, observed=False))


def test_data_of_a_potential_are_watched():
    ages = Z.copy()
    with declare(lambda a, s: -(pt.constant(ages) * pt.exp(a)).sum()):
        step = TunaMH()
        ages[3] += 1.0
        with pytest.raises(StaleDataError, match="a data array of p0"):
            pm.sample(5, tune=5, chains=1, step=step, progressbar=False)


def test_weights_belong_to_observed_variables():
    with pytest.raises(SettingError, match=r"'p0', which is not .* Multiply the rows"):
        split_of(declare(beyond), weights={"p0": np.ones(CENSORED)})
    with pytest.raises(SettingError, match=r"^weights= is one array for 0 observed variables"):
        split_of(declare(beyond, observed=False), weights=np.ones(CENSORED))


def test_rows_of_a_potential_have_log_likelihoods():
    draws = {"a": np.array([[-0.3, 0.1, 0.7]]), "s": np.array([[0.5, 0.9, 1.4]])}
    trace = az.from_dict({"posterior": draws})
    with declare(shared_rows, log_of_sum):
        found = log_likelihood(trace, [5, 7], var_name="p0")["log_likelihood"]["p0"]
        with pytest.raises(UnsupportedModelError, match="'p1' has one log-likelihood for all"):
            log_likelihood(trace, [5], var_name="p1")
    a, s = (draws[name][0][:, None] for name in ("a", "s"))
    expected = pm.logp(pm.Normal.dist(a, s), Y[[5, 7]]).eval() - np.logaddexp(0.0, a - X[[5, 7]])
    np.testing.assert_allclose(found[0], expected, rtol=1e-10)
