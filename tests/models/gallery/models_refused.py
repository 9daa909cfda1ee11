"""Models of PyMC's gallery that cannot be subsampled, each for another reason."""

import warnings

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.exceptions import ImputationWarning

from models.gallery.record import GALLERY, MANUAL, example


@example(
    "Hierarchical Partial Pooling",
    GALLERY + "case_studies/hierarchical_partial_pooling",
    expected="refused",
    reason="one value per observation ('theta')",
    ported="without the player who comes after the others",
)
def baseball(rows: int) -> pm.Model:
    rng = np.random.default_rng(601)
    at_bats = rng.integers(20, 60, rows)
    hits = rng.binomial(at_bats, rng.beta(26.0, 74.0, rows))
    with pm.Model(coords={"player_names": np.arange(rows)}) as model:
        phi = pm.Uniform("phi", lower=0.0, upper=1.0)
        kappa_log = pm.Exponential("kappa_log", lam=1.5)
        kappa = pm.Deterministic("kappa", pt.exp(kappa_log))
        theta = pm.Beta("theta", alpha=phi * kappa, beta=(1.0 - phi) * kappa, dims="player_names")
        pm.Binomial("y", n=at_bats, p=theta, dims="player_names", observed=hits)
    return model


@example(
    "Stochastic Volatility model",
    GALLERY + "case_studies/stochastic_volatility",
    expected="refused",
    reason="one value per observation ('volatility')",
)
def stochastic_volatility(rows: int) -> pm.Model:
    rng = np.random.default_rng(602)
    path = np.cumsum(rng.normal(scale=0.02, size=rows)) - 4.0
    change = np.exp(path) * rng.standard_t(8, rows)
    with pm.Model(coords={"time": np.arange(rows)}) as model:
        step_size = pm.Exponential("step_size", 10)
        volatility = pm.GaussianRandomWalk(
            "volatility", sigma=step_size, dims="time", init_dist=pm.Normal.dist(0, 100)
        )
        nu = pm.Exponential("nu", 0.1)
        pm.StudentT("returns", nu=nu, lam=np.exp(-2 * volatility), observed=change, dims="time")
    return model


@example(
    "Gaussian Processes: Latent Variable Implementation",
    GALLERY + "gaussian_processes/GP-Latent",
    expected="refused",
    reason="the observations lie inside Cholesky",
)
def latent_process(rows: int) -> pm.Model:
    rng = np.random.default_rng(603)
    X = np.linspace(0.0, 10.0, rows)[:, None]
    y_observed = 3.0 * np.sin(X[:, 0]) + rng.standard_t(5, rows)
    with pm.Model() as model:
        ell = pm.Gamma("ell", alpha=2, beta=1)
        eta = pm.HalfNormal("eta", sigma=5)
        cov = eta**2 * pm.gp.cov.ExpQuad(1, ell)
        gp = pm.gp.Latent(cov_func=cov)
        f = gp.prior("f", X=X)
        sigma = pm.HalfNormal("sigma", sigma=2.0)
        nu = 1 + pm.Gamma("nu", alpha=2, beta=0.1)
        pm.StudentT("y", mu=f, lam=1.0 / sigma, nu=nu, observed=y_observed)
    return model


@example(
    "Introductory Overview of PyMC",
    MANUAL + "core_notebooks/pymc_overview",
    expected="refused",
    reason="missing values",
    ported="case study 2, coal mining disasters",
)
def disasters(rows: int) -> pm.Model:
    rng = np.random.default_rng(604)
    years = np.arange(1851, 1851 + rows)
    counts = rng.poisson(np.where(years < 1890, 3.0, 1.0)).astype(float)
    counts[[38, 82]] = np.nan
    with warnings.catch_warnings(), pm.Model() as model:
        warnings.simplefilter("ignore", ImputationWarning)
        warnings.filterwarnings("ignore", "invalid value encountered in cast", RuntimeWarning)
        switchpoint = pm.DiscreteUniform("switchpoint", lower=years.min(), upper=years.max())
        early_rate = pm.Exponential("early_rate", 1.0)
        late_rate = pm.Exponential("late_rate", 1.0)
        rate = pm.math.switch(switchpoint >= years, early_rate, late_rate)
        pm.Poisson("disasters", rate, observed=counts)
    return model


@example(
    "Variational Inference: Bayesian Neural Networks",
    GALLERY + "variational_inference/bayesian_neural_network_advi",
    expected="refused",
    reason="total_size",
)
def neural_network(rows: int) -> pm.Model:
    rng = np.random.default_rng(605)
    angle, label = rng.uniform(0.0, np.pi, rows), rng.integers(0, 2, rows)
    X = np.column_stack(
        [np.cos(angle) + label, np.where(label, 0.5 - np.sin(angle), np.sin(angle))]
    ) + rng.normal(scale=0.2, size=(rows, 2))
    n_hidden = 5
    coords = {
        "hidden_layer_1": np.arange(n_hidden),
        "hidden_layer_2": np.arange(n_hidden),
        "train_cols": np.arange(2),
    }
    init_1, init_2 = rng.standard_normal((2, n_hidden)), rng.standard_normal((n_hidden, n_hidden))
    init_out = rng.standard_normal(n_hidden)
    with pm.Model(coords=coords) as model:
        ann_input = pm.Data("ann_input", X)
        weights_in_1 = pm.Normal(
            "w_in_1", 0, sigma=1, initval=init_1, dims=("train_cols", "hidden_layer_1")
        )
        weights_1_2 = pm.Normal(
            "w_1_2", 0, sigma=1, initval=init_2, dims=("hidden_layer_1", "hidden_layer_2")
        )
        weights_2_out = pm.Normal("w_2_out", 0, sigma=1, initval=init_out, dims="hidden_layer_2")
        act_1 = pm.math.tanh(pm.math.dot(ann_input, weights_in_1))
        act_2 = pm.math.tanh(pm.math.dot(act_1, weights_1_2))
        act_out = pm.math.sigmoid(pm.math.dot(act_2, weights_2_out))
        pm.Bernoulli("out", act_out, observed=label, total_size=rows)
    return model
