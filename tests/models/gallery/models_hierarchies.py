"""Hierarchical models of PyMC's gallery."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import expit

from models.gallery.record import GALLERY, example

MULTILEVEL = GALLERY + "generalized_linear_models/multilevel_modeling"
MULTILEVEL_TITLE = "A Primer on Bayesian Methods for Multilevel Modeling"

COUNTIES, CORRELATED_COUNTIES, TEAMS, PLAYERS = 85, 20, 6, 30


def standardised(seed, *shape):
    """Return numbers of mean 0 and variance 1 along the last axis."""
    z = np.random.default_rng(seed).standard_normal(shape)
    z -= z.mean(axis=-1, keepdims=True)
    return z / z.std(axis=-1, keepdims=True)


RADON = {
    "mu_a": 1.5,
    "sigma_a": 0.4,
    "alpha": 1.5 + 0.4 * standardised(401, COUNTIES),
    "beta": -0.7,
    "sd_y": 0.8,
}


def houses(rng, rows, counties):
    return rng.integers(0, counties, rows), (rng.random(rows) < 0.17).astype(float)


@example(
    MULTILEVEL_TITLE,
    MULTILEVEL,
    truth=RADON,
    nuts_draws=500,
    ported="the varying-intercept model, 85 counties",
)
def radon_intercepts(rows: int) -> pm.Model:
    rng = np.random.default_rng(402)
    county, floor = houses(rng, rows, COUNTIES)
    log_radon = rng.normal(RADON["alpha"][county] - 0.7 * floor, 0.8)
    coords = {"county": np.arange(COUNTIES), "obs_id": np.arange(rows)}
    with pm.Model(coords=coords) as model:
        floor_idx = pm.Data("floor_idx", floor, dims="obs_id")
        county_idx = pm.Data("county_idx", county, dims="obs_id")
        mu_a = pm.Normal("mu_a", mu=0.0, sigma=10.0)
        sigma_a = pm.Exponential("sigma_a", 1)
        alpha = pm.Normal("alpha", mu=mu_a, sigma=sigma_a, dims="county")
        beta = pm.Normal("beta", mu=0.0, sigma=10.0)
        sd_y = pm.Exponential("sd_y", 1)
        y_hat = alpha[county_idx] + beta * floor_idx
        pm.Normal("y_like", mu=y_hat, sigma=sd_y, observed=log_radon, dims="obs_id")
    return model


CHOLESKY = np.array([[0.4, 0.0], [-0.1, 0.25]])
COVARIATION = {
    "chol": CHOLESKY[np.tril_indices(2)],
    "mu_alpha_beta": [1.5, -0.7],
    "z": standardised(403, 2, CORRELATED_COUNTIES),
    "sigma": 0.8,
}


@example(
    MULTILEVEL_TITLE,
    MULTILEVEL,
    truth=COVARIATION,
    nuts_draws=500,
    ported=f"the non-centred model with covariation, {CORRELATED_COUNTIES} counties",
)
def radon_covariation(rows: int) -> pm.Model:
    rng = np.random.default_rng(404)
    county, floor = houses(rng, rows, CORRELATED_COUNTIES)
    effects = (CHOLESKY @ COVARIATION["z"]).T[county]
    log_radon = rng.normal(1.5 + effects[:, 0] + (effects[:, 1] - 0.7) * floor, 0.8)
    coords = {
        "county": np.arange(CORRELATED_COUNTIES),
        "obs_id": np.arange(rows),
        "param": ["alpha", "beta"],
    }
    with pm.Model(coords=coords) as model:
        floor_idx = pm.Data("floor_idx", floor, dims="obs_id")
        county_idx = pm.Data("county_idx", county, dims="obs_id")
        sd_dist = pm.Exponential.dist(0.5, shape=(2,))
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=sd_dist)
        mu_alpha_beta = pm.Normal("mu_alpha_beta", mu=0.0, sigma=5.0, shape=2)
        z = pm.Normal("z", 0.0, 1.0, dims=("param", "county"))
        alpha_beta_county = pm.Deterministic(
            "alpha_beta_county", pt.dot(chol, z).T, dims=("county", "param")
        )
        theta = (
            mu_alpha_beta[0]
            + alpha_beta_county[county_idx, 0]
            + (mu_alpha_beta[1] + alpha_beta_county[county_idx, 1]) * floor_idx
        )
        sigma = pm.Exponential("sigma", 1.0)
        pm.Normal("y", theta, sigma=sigma, observed=log_radon, dims="obs_id")
    return model


RUGBY = {
    "home": 0.18,
    "sd_att": 0.3,
    "sd_def": 0.35,
    "intercept": 2.95,
    "atts_star": 0.3 * standardised(405, TEAMS),
    "defs_star": 0.35 * standardised(406, TEAMS),
}


@example(
    "A Hierarchical model for Rugby prediction",
    GALLERY + "case_studies/rugby_analytics",
    truth=RUGBY,
)
def rugby(rows: int) -> pm.Model:
    rng = np.random.default_rng(407)
    home_idx = rng.integers(0, TEAMS, rows)
    away_idx = (home_idx + rng.integers(1, TEAMS, rows)) % TEAMS
    attack, defence = RUGBY["atts_star"], RUGBY["defs_star"]
    home_score = rng.poisson(np.exp(2.95 + 0.18 + attack[home_idx] + defence[away_idx]))
    away_score = rng.poisson(np.exp(2.95 + attack[away_idx] + defence[home_idx]))
    with pm.Model(coords={"team": np.arange(TEAMS)}) as model:
        pm.Data("home_team", home_idx, dims="match")
        pm.Data("away_team", away_idx, dims="match")
        home = pm.Normal("home", mu=0, sigma=1)
        sd_att = pm.HalfNormal("sd_att", sigma=2)
        sd_def = pm.HalfNormal("sd_def", sigma=2)
        intercept = pm.Normal("intercept", mu=3, sigma=1)
        atts_star = pm.Normal("atts_star", mu=0, sigma=sd_att, dims="team")
        defs_star = pm.Normal("defs_star", mu=0, sigma=sd_def, dims="team")
        atts = pm.Deterministic("atts", atts_star - pt.mean(atts_star), dims="team")
        defs = pm.Deterministic("defs", defs_star - pt.mean(defs_star), dims="team")
        home_theta = pt.exp(intercept + home + atts[home_idx] + defs[away_idx])
        away_theta = pt.exp(intercept + atts[away_idx] + defs[home_idx])
        pm.Poisson("home_points", mu=home_theta, observed=home_score, dims="match")
        pm.Poisson("away_points", mu=away_theta, observed=away_score, dims="match")
    return model


FOULS = {
    "mu_theta": -0.5,
    "sigma_theta": 0.4,
    "sigma_b": 0.4,
    "Delta_theta": standardised(408, PLAYERS),
    "Delta_b": standardised(409, PLAYERS),
}


@example(
    "NBA Foul Analysis with Item Response Theory",
    GALLERY + "case_studies/item_response_nba",
    truth=FOULS,
    nuts_draws=500,
    ported=f"{PLAYERS} players in each role",
)
def item_response(rows: int) -> pm.Model:
    rng = np.random.default_rng(410)
    disadvantaged, committing = rng.integers(0, PLAYERS, (2, rows))
    eta = -0.5 + 0.4 * (FOULS["Delta_theta"][disadvantaged] - FOULS["Delta_b"][committing])
    foul_called = rng.binomial(1, expit(eta))
    coords = {"disadvantaged": np.arange(PLAYERS), "committing": np.arange(PLAYERS)}
    with pm.Model(coords=coords) as model:
        mu_theta = pm.Normal("mu_theta", 0.0, 100.0)
        sigma_theta = pm.HalfCauchy("sigma_theta", 2.5)
        sigma_b = pm.HalfCauchy("sigma_b", 2.5)
        Delta_theta = pm.Normal("Delta_theta", 0.0, 1.0, dims="disadvantaged")
        Delta_b = pm.Normal("Delta_b", 0.0, 1.0, dims="committing")
        theta = pm.Deterministic(
            "theta", Delta_theta * sigma_theta + mu_theta, dims="disadvantaged"
        )
        b = pm.Deterministic("b", Delta_b * sigma_b, dims="committing")
        eta = pm.Deterministic("eta", theta[disadvantaged] - b[committing])
        pm.Bernoulli("y", logit_p=eta, observed=foul_called)
    return model
