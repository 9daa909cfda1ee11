"""Regressions of PyMC's gallery."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.interpolate import BSpline
from scipy.special import expit

from models.gallery.record import GALLERY, example

GLM = GALLERY + "generalized_linear_models/"

ROBUST = {"intercept": 1.0, "slope": 2.0, "sigma": 0.5}


@example("GLM: Robust Linear Regression", GLM + "GLM-robust", truth=ROBUST)
def robust(rows: int) -> pm.Model:
    rng = np.random.default_rng(301)
    x = np.linspace(0.0, 1.0, rows)
    y = 1.0 + 2.0 * x + 0.5 * rng.standard_t(3, rows)
    with pm.Model() as model:
        xdata = pm.Data("x", x, dims="obs_id")
        intercept = pm.Normal("intercept", mu=0, sigma=1)
        slope = pm.Normal("slope", mu=0, sigma=1)
        sigma = pm.HalfCauchy("sigma", beta=10)
        mu = pm.Deterministic("mu", intercept + slope * xdata, dims="obs_id")
        pm.StudentT("y", mu=mu, sigma=sigma, nu=3, observed=y, dims="obs_id")
    return model


LOGISTIC = {"b": [-0.5, 1.0, -1.0, 2.0]}


@example("Out-Of-Sample Predictions", GLM + "GLM-out-of-sample-predictions", truth=LOGISTIC)
def logistic_interaction(rows: int) -> pm.Model:
    rng = np.random.default_rng(302)
    x1, x2 = rng.normal(scale=2.0, size=(2, rows))
    x = np.column_stack([np.ones(rows), x1, x2, x1 * x2])
    observed = rng.binomial(1, expit(x @ np.array(LOGISTIC["b"])))
    with pm.Model(coords={"coeffs": ["Intercept", "x1", "x2", "x1:x2"]}) as model:
        X = pm.Data("X", x)
        b = pm.Normal("b", mu=0, sigma=1, dims="coeffs")
        mu = pm.math.dot(X, b)
        p = pm.Deterministic("p", pm.math.invlogit(mu))
        pm.Bernoulli("obs", p=p, observed=observed)
    return model


# Sneezes a day: 1 at the base, 3 with alcohol, 6 without medicine, 36 with both.
SNEEZES = {
    "Intercept": 0.0,
    "alcohol": np.log(3.0),
    "nomeds": np.log(6.0),
    "alcohol:nomeds": np.log(2.0),
}


def sneezes(rng, rows):
    alcohol, nomeds = rng.integers(0, 2, (2, rows))
    log_mean = np.log(3.0) * alcohol + np.log(6.0) * nomeds + np.log(2.0) * alcohol * nomeds
    return alcohol, nomeds, np.exp(log_mean)


@example("GLM: Poisson Regression", GLM + "GLM-poisson-regression", truth=SNEEZES)
def poisson_interaction(rows: int) -> pm.Model:
    rng = np.random.default_rng(303)
    alcohol, nomeds, mean = sneezes(rng, rows)
    nsneeze = rng.poisson(mean)
    with pm.Model() as model:
        b0 = pm.Normal("Intercept", mu=0, sigma=10)
        b1 = pm.Normal("alcohol", mu=0, sigma=10)
        b2 = pm.Normal("nomeds", mu=0, sigma=10)
        b3 = pm.Normal("alcohol:nomeds", mu=0, sigma=10)
        theta = b0 + b1 * alcohol + b2 * nomeds + b3 * (alcohol * nomeds)
        pm.Poisson("y", mu=pm.math.exp(theta), observed=nsneeze)
    return model


NEGATIVE_BINOMIAL = {
    "intercept": 0.0,
    "slopes": np.log([6.0, 3.0, 2.0]),
    "alpha": 10.0,
}


@example(
    "GLM: Negative Binomial Regression",
    GLM + "GLM-negative-binomial-regression",
    truth=NEGATIVE_BINOMIAL,
)
def negative_binomial(rows: int) -> pm.Model:
    rng = np.random.default_rng(304)
    alcohol, nomeds, mean = sneezes(rng, rows)
    nsneeze = rng.poisson(mean * rng.gamma(10.0, 0.1, rows))
    coords = {"regressor": ["nomeds", "alcohol", "nomeds:alcohol"], "obs_idx": np.arange(rows)}
    with pm.Model(coords=coords) as model:
        a = pm.Normal("intercept", mu=0, sigma=5)
        b = pm.Normal("slopes", mu=0, sigma=1, dims="regressor")
        alpha = pm.Exponential("alpha", 0.5)
        M = pm.Data("nomeds", nomeds.astype(bool), dims="obs_idx")
        A = pm.Data("alcohol", alcohol.astype(bool), dims="obs_idx")
        rate = pm.math.exp(a + b[0] * M + b[1] * A + b[2] * M * A)
        pm.NegativeBinomial("y", mu=rate, alpha=alpha, observed=nsneeze, dims="obs_idx")
    return model


MODERATION = {"β0": 30.0, "β1": 2.0, "β2": -0.02, "β3": -0.1, "σ": 4.0}


@example(
    "Bayesian moderation analysis", GALLERY + "case_studies/moderation_analysis", truth=MODERATION
)
def moderation(rows: int) -> pm.Model:
    rng = np.random.default_rng(305)
    hours, age = rng.uniform(0.0, 15.0, rows), rng.uniform(18.0, 80.0, rows)
    noise = rng.normal(scale=4.0, size=rows)
    muscle = 30.0 + 2.0 * hours - 0.02 * hours * age - 0.1 * age + noise
    with pm.Model() as model:
        x = pm.Data("x", hours)
        m = pm.Data("m", age)
        b0 = pm.Normal("β0", mu=0, sigma=10)
        b1 = pm.Normal("β1", mu=0, sigma=10)
        b2 = pm.Normal("β2", mu=0, sigma=10)
        b3 = pm.Normal("β3", mu=0, sigma=10)
        sigma = pm.HalfCauchy("σ", 1)
        mu = b0 + (b1 * x) + (b2 * x * m) + (b3 * m)
        pm.Normal("y", mu=mu, sigma=sigma, observed=muscle)
    return model


SPLINE = {
    "a": 100.0,
    "w": np.array([0.5, -1, 2, -2.5, 1, 3, -0.5, -3, 0, 2, -1.5, 1, -2, 0.5, -4, -3, 1]),
    "sigma": 6.0,
}


@example(
    "Splines",
    GALLERY + "howto/spline",
    truth=SPLINE,
    ported="the B-spline basis comes from SciPy, and the observations have a coordinate",
)
def spline(rows: int) -> pm.Model:
    rng = np.random.default_rng(306)
    year = np.sort(rng.uniform(801.0, 2015.0, rows))
    knots = np.quantile(year, np.linspace(0.0, 1.0, 15))
    ends = np.repeat(knots[[0, -1]], 4)
    B = BSpline.design_matrix(year, np.concatenate([ends[:4], knots[1:-1], ends[4:]]), 3).toarray()
    doy = 100.0 + B @ SPLINE["w"] + rng.normal(scale=6.0, size=rows)
    coords = {"splines": np.arange(B.shape[1]), "obs": np.arange(rows)}
    with pm.Model(coords=coords) as model:
        a = pm.Normal("a", 100, 5)
        w = pm.Normal("w", mu=0, sigma=3, size=B.shape[1], dims="splines")
        mu = pm.Deterministic("mu", a + pm.math.dot(np.asarray(B, order="F"), w.T))
        sigma = pm.Exponential("sigma", 1)
        pm.Normal("D", mu=mu, sigma=sigma, observed=doy, dims="obs")
    return model


CENSORED = {"slope": 1.0, "intercept": 0.0, "σ": 2.0}


@example(
    "Bayesian regression with truncated or censored data",
    GLM + "GLM-truncated-censored-regression",
    truth=CENSORED,
    ported="the censored regression",
)
def censored(rows: int) -> pm.Model:
    rng = np.random.default_rng(307)
    bounds = [-5, 5]
    x = rng.uniform(-10.0, 10.0, rows)
    y = np.clip(rng.normal(x, 2.0), *bounds)
    with pm.Model() as model:
        slope = pm.Normal("slope", mu=0, sigma=1)
        intercept = pm.Normal("intercept", mu=0, sigma=1)
        sigma = pm.HalfNormal("σ", sigma=1)
        y_latent = pm.Normal.dist(mu=slope * x + intercept, sigma=sigma)
        pm.Censored("obs", y_latent, lower=bounds[0], upper=bounds[1], observed=y)
    return model


FEATURES = {
    "beta_sigma": 10.0,
    "beta": [41.0],
    "beta_d450": -9.0,
    "chi_d450": [0.3, 0.3, 0.25, 0.15],
    "beta_d455": -7.0,
    "chi_d455": [0.2, 0.35, 0.05, 0.2, 0.2],
    "epsilon": 7.0,
}


@example(
    "GLM-ordinal-features",
    GLM + "GLM-ordinal-features",
    truth=FEATURES,
    no_mode="is stuck on the way to a mode",
    ported="model B",
)
def ordinal_features(rows: int) -> pm.Model:
    rng = np.random.default_rng(308)
    d450, d455 = rng.integers(0, 4, rows), rng.integers(0, 5, rows)
    first, second = (np.cumsum(FEATURES[f"chi_{name}"]) for name in ("d450", "d455"))
    phcs = 41.0 - 9.0 * first[d450] - 7.0 * second[d455] + rng.normal(scale=7.0, size=rows)
    coords = {
        "oid": np.arange(rows),
        "x_nm": ["intercept"],
        "d450_nm": ["c0", "c1", "c2", "c3"],
        "d455_nm": ["c0", "c1", "c2", "c3", "c4"],
    }
    with pm.Model(coords=coords) as model:
        x = pm.Data("x", np.ones((rows, 1)), dims=("oid", "x_nm"))
        idx_d450 = pm.Data("idx_d450", d450, dims="oid")
        idx_d455 = pm.Data("idx_d455", d455, dims="oid")
        b_s = pm.InverseGamma("beta_sigma", alpha=11, beta=10)
        b = pm.Normal("beta", mu=0, sigma=b_s, dims="x_nm")

        def nu(name, levels):
            b0 = pm.Normal(f"beta_{name}", mu=0, sigma=b_s)
            c0 = pm.Dirichlet(f"chi_{name}", a=np.ones(len(coords[levels])), dims=levels)
            return pm.Deterministic(f"nu_{name}", b0 * c0.cumsum(), dims=levels)

        nu_d450, nu_d455 = nu("d450", "d450_nm"), nu("d455", "d455_nm")
        epsilon = pm.InverseGamma("epsilon", alpha=11, beta=10)
        mu = pt.dot(x, b.T) + nu_d450[idx_d450] + nu_d455[idx_d455]
        pm.Normal("phcs_hat", mu=mu, sigma=epsilon, observed=phcs, dims="oid")
    return model
