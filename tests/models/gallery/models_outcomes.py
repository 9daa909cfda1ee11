"""Models of PyMC's gallery whose outcome is neither a plain number nor a plain count."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.transforms import ordered
from scipy.special import ndtr, softmax

from models.gallery.record import GALLERY, example

GLM, CASES = GALLERY + "generalized_linear_models/", GALLERY + "case_studies/"
MIXTURES, SURVIVAL = GALLERY + "mixture_models/", GALLERY + "survival_analysis/"

BEST = {
    "group1_mean": 101.5,
    "group2_mean": 100.5,
    "group1_std": 2.0,
    "group2_std": 1.0,
    "nu_minus_one": 3.0,
}


@example("Bayesian Estimation Supersedes the T-Test", CASES + "BEST", truth=BEST)
def best(rows: int) -> pm.Model:
    rng = np.random.default_rng(501)
    iq_drug = 101.5 + 2.0 * rng.standard_t(4, rows)
    iq_placebo = 100.5 + 1.0 * rng.standard_t(4, rows)
    pooled = np.concatenate([iq_drug, iq_placebo])
    mu_m, mu_s = pooled.mean(), pooled.std() * 2
    with pm.Model() as model:
        group1_mean = pm.Normal("group1_mean", mu=mu_m, sigma=mu_s)
        group2_mean = pm.Normal("group2_mean", mu=mu_m, sigma=mu_s)
        group1_std = pm.Uniform("group1_std", lower=10**-1, upper=10)
        group2_std = pm.Uniform("group2_std", lower=10**-1, upper=10)
        nu_minus_one = pm.Exponential("nu_minus_one", 1 / 29.0)
        nu = pm.Deterministic("nu", nu_minus_one + 1)
        lambda_1 = group1_std**-2
        lambda_2 = group2_std**-2
        pm.StudentT("drug", nu=nu, mu=group1_mean, lam=lambda_1, observed=iq_drug)
        pm.StudentT("placebo", nu=nu, mu=group2_mean, lam=lambda_2, observed=iq_placebo)
    return model


RATINGS = {"sigma": 0.5, "cutpoints": np.linspace(1.0, 7.0, 7), "beta": [0.08, 0.2, 1.4]}


@example(
    "Regression Models with Ordered Categorical Outcomes",
    GLM + "GLM-ordinal-regression",
    truth=RATINGS,
    nuts_draws=500,
    ported="model 3, logit; univariate_ordered is now called ordered",
)
def ordinal_outcome(rows: int) -> pm.Model:
    rng = np.random.default_rng(502)
    salary = rng.normal(40.0, 10.0, rows)
    work_sat = rng.beta(1.0, 0.4, rows)
    work_from_home = rng.binomial(1, 0.7, rows)
    latent = rng.logistic(0.08 * salary + 0.2 * work_sat + 1.4 * work_from_home)
    rating = np.searchsorted(RATINGS["cutpoints"], latent)
    K = 8
    with pm.Model() as model:
        sigma = pm.Exponential("sigma", 1)
        cutpoints = pm.Normal(
            "cutpoints", mu=np.linspace(0, K, K - 1), sigma=sigma, transform=ordered
        )
        beta = pm.Normal("beta", 0, 1, size=3)
        mu = pm.Deterministic(
            "mu", beta[0] * salary + beta[1] * work_sat + beta[2] * work_from_home
        )
        pm.OrderedLogistic("y", cutpoints=cutpoints, eta=mu, observed=rating)
    return model


HEATING = {"beta_ic": -0.0015, "beta_oc": -0.007, "alpha": [1.3, 1.5, 1.7, 0.3]}


@example(
    "Discrete Choice and Random Utility Models",
    GLM + "GLM-discrete-choice_models",
    truth=HEATING,
    nuts_draws=500,
    ported="model 2",
)
def discrete_choice(rows: int) -> pm.Model:
    rng = np.random.default_rng(503)
    installation = rng.normal([820.0, 980.0, 780.0, 920.0], 150.0, (rows, 4))
    operation = rng.normal([480.0, 430.0, 170.0, 150.0], 40.0, (rows, 4))
    utility = np.array(HEATING["alpha"]) - 0.0015 * installation - 0.007 * operation
    p = softmax(np.column_stack([utility, np.zeros(rows)]), axis=1)
    observed = (rng.random((rows, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
    coords = {
        "alts_intercepts": ["ec", "er", "gc", "gr"],
        "alts_probs": ["ec", "er", "gc", "gr", "hp"],
        "obs": range(rows),
    }
    with pm.Model(coords=coords) as model:
        beta_ic = pm.Normal("beta_ic", 0, 1)
        beta_oc = pm.Normal("beta_oc", 0, 1)
        alphas = pm.Normal("alpha", 0, 1, dims="alts_intercepts")
        u0 = alphas[0] + beta_ic * installation[:, 0] + beta_oc * operation[:, 0]
        u1 = alphas[1] + beta_ic * installation[:, 1] + beta_oc * operation[:, 1]
        u2 = alphas[2] + beta_ic * installation[:, 2] + beta_oc * operation[:, 2]
        u3 = alphas[3] + beta_ic * installation[:, 3] + beta_oc * operation[:, 3]
        u4 = np.zeros(rows)
        s = pm.math.stack([u0, u1, u2, u3, u4]).T
        p_ = pm.Deterministic("p", pm.math.softmax(s, axis=1), dims=("obs", "alts_probs"))
        pm.Categorical("y_cat", p=p_, observed=observed, dims="obs")
    return model


CLUSTERS = {"μ": [-5.0, 0.0, 5.0], "σ": [0.5, 2.0, 0.75], "w": [1 / 3, 1 / 3, 1 / 3]}


@example("Gaussian Mixture Model", MIXTURES + "gaussian_mixture_model", truth=CLUSTERS)
def gaussian_mixture(rows: int) -> pm.Model:
    rng = np.random.default_rng(504)
    idx = rng.integers(0, 3, rows)
    x = rng.normal(np.array(CLUSTERS["μ"])[idx], np.array(CLUSTERS["σ"])[idx])
    with pm.Model(coords={"cluster": range(3)}) as model:
        means = pm.Normal("μ", mu=0, sigma=5, transform=ordered, initval=[-4, 0, 4], dims="cluster")
        sigmas = pm.HalfNormal("σ", sigma=1, dims="cluster")
        weights = pm.Dirichlet("w", np.ones(3), dims="cluster")
        pm.NormalMixture("x", w=weights, mu=means, sigma=sigmas, observed=x)
    return model


FORESTS = {"frac": [0.45, 0.30, 0.15, 0.09, 0.01], "conc": 6.0}


@example(
    "Dirichlet mixtures of multinomials",
    MIXTURES + "dirichlet_mixture_of_multinomials",
    truth=FORESTS,
    nuts_draws=500,
    ported="the marginalised model",
)
def dirichlet_multinomial(rows: int) -> pm.Model:
    rng = np.random.default_rng(505)
    total_count, k = 50, 5
    p = rng.dirichlet(6.0 * np.array(FORESTS["frac"]), rows)
    observed_counts = rng.multinomial(total_count, p)
    coords = {"tree": ["pine", "oak", "ebony", "rosewood", "mahogany"], "forest": range(rows)}
    with pm.Model(coords=coords) as model:
        frac = pm.Dirichlet("frac", a=np.ones(k), dims="tree")
        conc = pm.Lognormal("conc", mu=1, sigma=1)
        pm.DirichletMultinomial(
            "counts",
            n=total_count,
            a=frac * conc,
            observed=observed_counts,
            dims=("forest", "tree"),
        )
    return model


MASTECTOMY = {"lambda0": np.linspace(0.02, 0.05, 12), "beta": 0.8}


@example(
    "Bayesian Survival Analysis",
    SURVIVAL + "survival_analysis",
    truth=MASTECTOMY,
    nuts_draws=500,
    ported="the proportional hazards model, 12 intervals",
)
def survival(rows: int) -> pm.Model:
    rng = np.random.default_rng(506)
    interval_length, horizon = 3, 36.0
    metastasized = rng.binomial(1, 0.7, rows)
    bounds = np.arange(0, horizon + 1, interval_length)
    hazard = np.exp(0.8 * metastasized)[:, None] * MASTECTOMY["lambda0"]
    needed = rng.exponential(size=rows)[:, None]
    passed = np.cumsum(interval_length * hazard, axis=1)
    last = np.minimum((passed < needed).sum(axis=1), 11)
    patients = np.arange(rows)
    event = passed[:, -1] >= needed[:, 0]
    left = (passed[patients, last] - needed[:, 0]) / hazard[patients, last]
    time = np.where(event, bounds[last + 1] - left, horizon)
    death = np.zeros((rows, 12))
    death[patients, last] = event
    exposure = np.clip(time[:, None] - bounds[:-1], 0.0, interval_length)
    with pm.Model(coords={"intervals": np.arange(12)}) as model:
        lambda0 = pm.Gamma("lambda0", 0.01, 0.01, dims="intervals")
        beta = pm.Normal("beta", 0, sigma=1000)
        lambda_ = pm.Deterministic("lambda_", pt.outer(pt.exp(beta * metastasized), lambda0))
        mu = pm.Deterministic("mu", exposure * lambda_)
        pm.Poisson("obs", mu, observed=death)
    return model


WEIBULL = {"alpha": -10.8, "r": 1.2}


@example(
    "Reparameterizing the Weibull Accelerated Failure Time Model",
    SURVIVAL + "weibull_aft",
    truth=WEIBULL,
    ported="parameterisation 2",
)
def weibull(rows: int) -> pm.Model:
    rng = np.random.default_rng(507)
    lifetime = np.exp(10.8 / 1.2) * rng.weibull(1.2, rows)
    end = rng.uniform(8_000.0, 30_000.0, rows)
    y, censored = np.minimum(lifetime, end), lifetime > end
    with pm.Model() as model:
        alpha = pm.Normal("alpha", mu=0, sigma=10)
        r = pm.Gamma("r", alpha=1, beta=0.001, initval=0.25)
        beta = pm.Deterministic("beta", pt.exp(-alpha / r))
        pm.Weibull("y_obs", alpha=r, beta=beta, observed=y[~censored])
        pm.Potential("y_cens", -((y[censored] / beta) ** r))
    return model


CUP_RADIUS, BALL_RADIUS = 2.125 / 12.0, 0.84 / 12.0
OVERSHOT, DISTANCE_TOLERANCE = 1.0, 3.0
PUTTS = {"variance_of_shot": 0.0135, "variance_of_distance": 0.1}


def phi(x):
    return 0.5 + 0.5 * pt.erf(x / pt.sqrt(2.0))


@example(
    "Model building and expansion for golf putting",
    CASES + "putting_workflow",
    truth=PUTTS,
    ported="the model of angle and distance",
)
def golf(rows: int) -> pm.Model:
    rng = np.random.default_rng(508)
    distance, tries = rng.uniform(2.0, 50.0, rows), rng.integers(1, 21, rows)
    angle = 2.0 * ndtr(np.arcsin((CUP_RADIUS - BALL_RADIUS) / distance) / 0.0135) - 1.0
    spread = 0.1 * (distance + OVERSHOT)
    far = ndtr((DISTANCE_TOLERANCE - OVERSHOT) / spread) - ndtr(-OVERSHOT / spread)
    successes = rng.binomial(tries, angle * far)
    with pm.Model() as model:
        distance_ = pm.Data("distance", distance, dims="obs_id")
        tries_ = pm.Data("tries", tries, dims="obs_id")
        variance_of_shot = pm.HalfNormal("variance_of_shot")
        variance_of_distance = pm.HalfNormal("variance_of_distance")
        p_good_angle = pm.Deterministic(
            "p_good_angle",
            2 * phi(pt.arcsin((CUP_RADIUS - BALL_RADIUS) / distance_) / variance_of_shot) - 1,
            dims="obs_id",
        )
        scale = (distance_ + OVERSHOT) * variance_of_distance
        p_good_distance = pm.Deterministic(
            "p_good_distance",
            phi((DISTANCE_TOLERANCE - OVERSHOT) / scale) - phi(-OVERSHOT / scale),
            dims="obs_id",
        )
        p = p_good_angle * p_good_distance
        pm.Binomial("success", n=tries_, p=p, observed=successes, dims="obs_id")
    return model
