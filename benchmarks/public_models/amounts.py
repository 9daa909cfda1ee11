"""Models of counts and amounts, which people asked about."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import expit, gammaln

from benchmarks.public_models.record import on_github


@on_github("pbs-assess/sdmTMB", 302)
def tweedie(rng, rows=60_000, terms=12, *, beta=(-0.5, 0.3, -0.2, 0.1, 0.2), phi=3.0, p=1.6):
    """Premiums with many zeros: a compound Poisson-gamma law by its series, power unknown."""
    X = np.column_stack([np.ones(rows), rng.normal(size=(rows, 4))])
    exposure = np.log(rng.uniform(0.1, 1.0, rows))
    mean = np.exp(X @ beta + exposure)
    claims = rng.poisson(mean ** (2.0 - p) / (phi * (2.0 - p)))
    shape, scale = claims * (2.0 - p) / (p - 1.0), phi * (p - 1.0) * mean ** (p - 1.0)
    y = np.where(claims > 0, rng.gamma(np.maximum(shape, 1e-9), scale), 0.0)

    def logp(value, mu, phi, p):
        expected = mu ** (2.0 - p) / (phi * (2.0 - p))
        each, rate = (2.0 - p) / (p - 1.0), 1.0 / (phi * (p - 1.0) * mu ** (p - 1.0))
        paid, k = pt.switch(pt.gt(value, 0.0), value, 1.0), np.arange(1, terms + 1)
        series = pt.logsumexp(
            k * pt.log(expected)[:, None]
            - pt.gammaln(k + 1.0)
            + k * each * pt.log(rate)[:, None]
            - pt.gammaln(k * each)
            + (k * each - 1.0) * pt.log(paid)[:, None],
            axis=1,
        )
        return pt.switch(pt.gt(value, 0.0), series - expected - rate * paid, -expected)

    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=5)
        phi, p = pm.HalfNormal("phi", 5.0), pm.Uniform("p", 1.1, 1.9)
        mu = pm.math.exp(X @ beta + exposure)
        pm.CustomDist("y", mu, phi, p, logp=logp, observed=y)
    return model


def purchases(rng, age, rate, leaves):
    """Return how often customers bought until `age`, and when last: some leave after a purchase."""
    frequency, recency, now = np.zeros(age.size), np.zeros(age.size), np.zeros(age.size)
    active = np.arange(age.size)
    while active.size:
        now[active] += rng.exponential(1.0 / rate[active])
        active = active[now[active] < age[active]]
        frequency[active] += 1.0
        recency[active] = now[active]
        active = active[rng.random(active.size) > leaves[active]]
    return frequency, recency


@on_github("ColtAllen/btyd", 6)
def bgnbd(rng, rows=50_000, *, a=0.8, b=2.5, r=0.9, alpha=8.0):
    """Customers' lifetimes: BG/NBD of frequency, recency and age."""
    age = rng.uniform(20.0, 60.0, rows)
    x, recency = purchases(rng, age, rng.gamma(r, 1.0 / alpha, rows), rng.beta(a, b, rows))

    def logp(x, a, b, r, alpha, recency, age):
        common = (
            pt.gammaln(r + x) - pt.gammaln(r) + r * pt.log(alpha)
            + pt.gammaln(a + b) - pt.gammaln(b) + pt.gammaln(b + x) - pt.gammaln(a + b + x)
            - (r + x) * pt.log(alpha + recency)
        )  # fmt: skip
        stays = -(r + x) * pt.log((alpha + age) / (alpha + recency))
        left = pt.log(a) - pt.log(b + pt.maximum(x, 1.0) - 1.0)
        return common + pt.switch(pt.gt(x, 0.0), pt.logaddexp(stays, left), stays)

    with pm.Model() as model:
        parameters = [pm.HalfFlat(name) for name in ("a", "b", "r", "alpha")]
        pm.CustomDist("llike", *parameters, recency, age, logp=logp, observed=x)
    return model


@on_github("paul-buerkner/brms", 880)
def hurdle_gamma(
    rng, rows=100_000, *, b0=1.0, b=(0.3, -0.2, 0.1), h0=-0.8, h=(0.5, 0.0, 0.0), shape=1.8
):
    """Claims: a hurdle gamma law with regressions of the mean and of the hurdle."""
    X = rng.normal(size=(rows, 3))
    mean, claims = np.exp(b0 + X @ b), rng.random(rows) < expit(h0 + X @ h)
    y = np.where(claims, rng.gamma(shape, mean / shape), 0.0)
    with pm.Model() as model:
        b0, b = pm.Normal("b0", 0.0, 2.0), pm.Normal("b", 0.0, 1.0, shape=3)
        h0, h = pm.Normal("h0", 0.0, 2.0), pm.Normal("h", 0.0, 1.0, shape=3)
        shape, psi = pm.Gamma("shape", 2.0, 1.0), pm.math.sigmoid(h0 + X @ h)
        rate = shape / pm.math.exp(b0 + X @ b)
        pm.HurdleGamma("y", psi=psi, alpha=shape, beta=rate, observed=y)
    return model


@on_github("glmmTMB/glmmTMB", 967)
def com_poisson(rng, rows=45_000, top=60, *, b0=2.2, b=(0.3, -0.2, 0.1), nu=1.7):
    """Underdispersed counts: Conway-Maxwell-Poisson, its normaliser a sum of 61 terms."""
    X, k = rng.normal(size=(rows, 3)), np.arange(top + 1.0)
    weights = k * (b0 + X @ b)[:, None] - nu * gammaln(k + 1.0)
    shares = np.exp(weights - weights.max(axis=1, keepdims=True)).cumsum(axis=1)
    y = (rng.random((rows, 1)) * shares[:, -1:] > shares).sum(axis=1)

    def logp(y, eta, nu):
        terms = k * eta[:, None] - nu * gammaln(k + 1.0)
        return y * eta - nu * pt.gammaln(y + 1.0) - pt.logsumexp(terms, axis=1)

    with pm.Model() as model:
        b0, b = pm.Normal("b0", 0.0, 3.0), pm.Normal("b", 0.0, 1.0, shape=3)
        pm.CustomDist("y", b0 + X @ b, pm.HalfNormal("nu", 2.0), logp=logp, observed=y)
    return model


def scores(rng, home, away, rho):
    """Return the goals of both teams, by rejection from independent Poisson laws."""
    goals, left = np.zeros((2, home.size), int), np.arange(home.size)
    while left.size:
        x, y = rng.poisson(home[left]), rng.poisson(away[left])
        weight = np.ones(left.size)
        weight[(x == 0) & (y == 0)] -= rho * (home[left] * away[left])[(x == 0) & (y == 0)]
        weight[(x == 0) & (y == 1)] += rho * home[left][(x == 0) & (y == 1)]
        weight[(x == 1) & (y == 0)] += rho * away[left][(x == 1) & (y == 0)]
        weight[(x == 1) & (y == 1)] -= rho
        goals[:, left] = x, y
        left = left[rng.random(left.size) > weight / 2.0]
    return goals


@on_github("Torvaney/soccerstan", 1)
def dixon_coles(rng, rows=30_000, teams=60, *, mu=0.1, home=0.25, sa=0.25, sd=0.25, rho=-0.06):
    """Football scores: attack, defence, home, and Dixon and Coles' correction of low scores."""
    host = rng.integers(0, teams, rows)
    guest = (host + rng.integers(1, teams, rows)) % teams
    attack, defence = sa * rng.normal(size=teams), sd * rng.normal(size=teams)
    attack, defence = attack - attack.mean(), defence - defence.mean()
    rates = (
        np.exp(mu + home + attack[host] - defence[guest]),
        np.exp(mu + attack[guest] - defence[host]),
    )
    x, y = scores(rng, *rates, rho)

    def logp(x, eta, other, rho, y):
        home, away = pt.exp(eta), pt.exp(other)
        low = [
            (pt.eq(x, 0) & pt.eq(y, 0), 1.0 - home * away * rho),
            (pt.eq(x, 0) & pt.eq(y, 1), 1.0 + home * rho),
            (pt.eq(x, 1) & pt.eq(y, 0), 1.0 + away * rho),
            (pt.eq(x, 1) & pt.eq(y, 1), 1.0 - rho),
        ]
        weight = 1.0
        for score, changed in low:
            weight = pt.switch(score, changed, weight)
        counts = x * eta - home - pt.gammaln(x + 1.0) + y * other - away - pt.gammaln(y + 1.0)
        return counts + pt.log(weight)

    with pm.Model() as model:
        mu, home = pm.Normal("mu", 0.0, 1.0), pm.Normal("home", 0.0, 1.0)
        sa, sd = pm.HalfNormal("sa", 0.5), pm.HalfNormal("sd", 0.5)
        attack = pm.ZeroSumNormal("att", sigma=sa, shape=teams)
        defence = pm.ZeroSumNormal("def", sigma=sd, shape=teams)
        rho = pm.Uniform("rho", -0.2, 0.2)
        eta, other = mu + home + attack[host] - defence[guest], mu + attack[guest] - defence[host]
        pm.CustomDist("goals", eta, other, rho, y, logp=logp, observed=x)
    return model
