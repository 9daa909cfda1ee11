"""Models of times until something happens, which people asked about."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from benchmarks.public_models.record import on_github


def crossings(rng, drift, boundary, step=0.002, longest=12.0):
    """Return when a diffusion from the middle crosses a boundary, and whether the upper one."""
    position, time = np.full(drift.size, boundary / 2.0), np.full(drift.size, longest)
    upper, left = np.zeros(drift.size, bool), np.arange(drift.size)
    for k in range(int(longest / step)):
        position[left] += drift[left] * step + np.sqrt(step) * rng.normal(size=left.size)
        out = (position[left] <= 0.0) | (position[left] >= boundary)
        time[left[out]] = (k + 0.5) * step
        upper[left[out]] = position[left[out]] >= boundary
        left = left[~out]
        if not left.size:
            break
    return time, upper


@on_github("lnccbrown/HSSM", 471)
def ddm(rng, rows=20_000, subjects=40, *, v0=0.3, v1=1.2, sv=0.4, w=0.5):
    """Drift diffusion of 40 subjects: choices and times by Navarro and Fuss' series."""
    subject, x = rng.integers(0, subjects, rows), rng.integers(-3, 4, rows) / 3.0
    time, upper = crossings(rng, v0 + v1 * x + (sv * rng.normal(size=subjects))[subject], 1.6)
    y, sign, k = 0.3 + time, 2 * upper - 1, np.arange(-3, 4)

    def logp(y, v, a, w, t0, sign):
        since, start = y - t0, pt.switch(pt.gt(sign, 0), 1.0 - w, w)
        drift, scaled = -sign * v, since / a**2
        where = start[:, None] + 2 * k
        series = pt.sum(where * pt.exp(-(where**2) / (2.0 * scaled[:, None])), axis=1)
        passed = pt.log(series) - 0.5 * np.log(2.0 * np.pi) - 1.5 * pt.log(scaled)
        return passed - drift * a * start - drift**2 * since / 2.0 - 2.0 * pt.log(a)

    with pm.Model() as model:
        v0, v1 = pm.Normal("v0", 0.0, 1.0), pm.Normal("v1", 0.0, 1.0)
        sv, z = pm.HalfNormal("sv", 1.0), pm.Normal("z", 0.0, 1.0, shape=subjects)
        a, w = pm.HalfNormal("a", 2.0, initval=1.5), pm.Beta("w", 5.0, 5.0)
        t0 = pm.Uniform("t0", 0.0, y.min(), initval=0.5 * y.min())
        drift = v0 + v1 * x + sv * z[subject]
        pm.CustomDist("rt", drift, a, w, t0, sign, logp=logp, observed=y)
    return model


@on_github("pymc-devs/pymc-examples", 580)
def aft_potential(rng, rows=30_000, *, a=1.0, b=(0.4, -0.3), s=0.6):
    """Accelerated failure times: events are observed, censored ones are a potential."""
    X = rng.normal(size=(rows, 2))
    time = np.exp(a + X @ b + s * rng.logistic(size=rows))
    until = rng.exponential(6.0, rows)
    event, y = time < until, np.log(np.minimum(time, until))
    with pm.Model() as model:
        a, b = pm.Normal("a", 0.0, 2.0), pm.Normal("b", 0.0, 1.0, shape=2)
        s, eta = pm.HalfNormal("s", 1.0), a + X @ b
        pm.Logistic("event", eta[event.nonzero()[0]], s, observed=y[event])
        late = (y[~event] - eta[(~event).nonzero()[0]]) / s
        pm.Potential("censored", (-pt.softplus(late)).sum())
    return model


@on_github("sims1253/bayesfam", 20)
def rt_contaminated(
    rng, rows=40_000, subjects=30, *, m0=-1.0, tau=0.15, sg=0.35, ndt=0.2, mix=0.05
):
    """Reaction times: a shifted log-normal law with uniform contamination, shift unknown."""
    subject = rng.integers(0, subjects, rows)
    location = m0 + (tau * rng.normal(size=subjects))[subject]
    time = ndt + np.exp(location + sg * rng.normal(size=rows))
    y = np.where(rng.random(rows) < mix, rng.uniform(0.0, 3.0, rows), time)
    y = np.clip(y, 1e-3, 2.999)

    def logp(y, mu, sigma, ndt, mix):
        since = y - ndt
        log = pt.log(pt.switch(pt.gt(since, 0.0), since, 1.0))
        normal = -0.5 * ((log - mu) / sigma) ** 2 - pt.log(sigma) - 0.5 * np.log(2.0 * np.pi)
        own = pt.switch(pt.gt(since, 0.0), normal - log, -np.inf)
        return pt.logaddexp(pt.log1p(-mix) + own, pt.log(mix) - np.log(3.0))

    with pm.Model() as model:
        m0, tau = pm.Normal("m0", -1.0, 1.0), pm.HalfNormal("tau", 0.5)
        sg, z = pm.HalfNormal("sg", 0.5), pm.Normal("z", 0.0, 1.0, shape=subjects)
        ndt, mix = pm.Uniform("ndt", 0.0, 0.5), pm.Beta("mix", 1.0, 9.0)
        pm.CustomDist("rt", m0 + tau * z[subject], sg, ndt, mix, logp=logp, observed=y)
    return model


@on_github("paul-buerkner/brms", 218)
def shifted_lognormal(rng, rows=40_000, subjects=30, *, m0=-1.0, tau=0.15, sg=0.35, ndt=0.2):
    """Reaction times: a shifted log-normal law, the shift below the least time."""
    subject = rng.integers(0, subjects, rows)
    location = m0 + (tau * rng.normal(size=subjects))[subject]
    y = ndt + np.exp(location + sg * rng.normal(size=rows))

    def logp(y, mu, sigma, ndt):
        return pm.logp(pm.LogNormal.dist(mu, sigma), y - ndt)

    with pm.Model() as model:
        m0, tau = pm.Normal("m0", -1.0, 1.0), pm.HalfNormal("tau", 0.5)
        sg, z = pm.HalfNormal("sg", 0.5), pm.Normal("z", 0.0, 1.0, shape=subjects)
        ndt = pm.Uniform("ndt", 0.0, y.min())
        pm.CustomDist("rt", m0 + tau * z[subject], sg, ndt, logp=logp, observed=y)
    return model
