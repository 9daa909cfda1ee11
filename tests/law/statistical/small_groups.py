"""Small groups, and their posterior by quadrature over a slope, the effects' mean and their scale.

Figures are means and mean squares, by name: of the slope, the mean, the scale tau and the
standardised effects z, and means of z tau.
"""

from typing import NamedTuple

import numpy as np
import pymc as pm
from scipy import stats
from scipy.sparse import csr_array
from scipy.special import expit, gammaln, logsumexp

#: Distance of points of each parameter, in standard deviations, and their number.
GAP, POINTS = 0.9, 11
#: Values of effects, at distances of less than their standard deviations.
Z = np.linspace(-6.0, 6.0, 61)
#: Standard deviation of normal observations.
SIGMA = 0.8


class Rows(NamedTuple):
    """Observations, their covariate and their group; the last group has none."""

    y: np.ndarray
    x: np.ndarray
    group: np.ndarray
    n_groups: int

    @property
    def sums(self):
        """Return a matrix that sums over the rows of each group."""
        rows = np.arange(self.y.size)
        return csr_array((np.ones(self.y.size), (self.group, rows)), (self.n_groups, self.y.size))


def rows_of(family, n=300, n_groups=60, tau=0.7):
    """Draw observations of groups of several sizes."""
    rng = np.random.default_rng(61)
    group = np.minimum(rng.integers(0, n_groups, n), rng.integers(0, n_groups, n))
    group[group == n_groups - 1] = 0
    x, effects = rng.uniform(-1.0, 1.0, n), 0.3 + tau * rng.standard_normal(n_groups)
    line = 0.6 * x + effects[group]
    y = {
        "bernoulli": lambda: rng.binomial(1, expit(line)),
        "poisson": lambda: rng.poisson(np.exp(line)),
        "normal": lambda: rng.normal(line, SIGMA),
    }[family]()
    return Rows(y, x, group, n_groups)


def model_of(family, rows, *, centred):
    """Write the model; z is a variable of either spelling."""
    with pm.Model() as model:
        mu, b = pm.Normal("mu", 0.0, 2.0), pm.Normal("b")
        tau = pm.HalfNormal("tau", 1.0)
        if centred:
            a = pm.Normal("a", mu, tau, shape=rows.n_groups)
            pm.Deterministic("z", (a - mu) / tau)
        else:
            a = mu + tau * pm.Normal("z", shape=rows.n_groups)
        line = a[rows.group] + b * rows.x
        if family == "bernoulli":
            pm.Bernoulli("y", logit_p=line, observed=rows.y)
        elif family == "poisson":
            pm.Poisson("y", pm.math.exp(line), observed=rows.y)
        else:
            pm.Normal("y", line, SIGMA, observed=rows.y)
    return model


def log_rows(family, y, line):
    """Return log-likelihoods of observations."""
    if family == "bernoulli":
        return -np.logaddexp(0.0, np.where(y == 1, -line, line))
    if family == "poisson":
        return y * line - np.exp(line) - gammaln(y + 1.0)
    return stats.norm.logpdf(y, line, SIGMA)


def log_prior(point):
    mu, b, log_tau = point
    return (
        stats.norm.logpdf(mu, 0.0, 2.0)
        + stats.norm.logpdf(b)
        + stats.halfnorm.logpdf(np.exp(log_tau))
        + log_tau
    )


def by_nodes(family, rows, point):
    """Return the log-density, and means of z and z² of each group, at (mu, b, log tau)."""
    mu, b, log_tau = point
    line = (mu + b * rows.x)[:, None] + np.exp(log_tau) * Z
    values = rows.sums @ log_rows(family, rows.y[:, None], line)
    values += stats.norm.logpdf(Z) + np.log(Z[1] - Z[0])
    logs = logsumexp(values, axis=1)
    shares = np.exp(values - logs[:, None])
    return log_prior(point) + logs.sum(), shares @ Z, shares @ Z**2


def in_closed_form(rows, point):
    """Return the same for normal observations."""
    mu, b, log_tau = point
    ratio, residual = np.exp(log_tau) / SIGMA, (rows.y - mu - b * rows.x) / SIGMA
    variance = 1.0 / (1.0 + ratio**2 * rows.sums.sum(axis=1))
    mean = variance * ratio * (rows.sums @ residual)
    logs = 0.5 * (np.log(variance) + mean**2 / variance)
    return log_prior(point) + logs.sum() - 0.5 * residual @ residual, mean, variance + mean**2


def figures(at, centre, factor, points=POINTS):
    """Return means by name, by the trapezoidal rule in whitened coordinates.

    `at` returns what :func:`by_nodes` does; the posterior is near normal around the centre.
    """
    ends = GAP * (np.arange(points) - points // 2)
    grid = np.stack(np.meshgrid(ends, ends, ends), axis=-1).reshape(-1, 3)
    points = centre + grid @ factor.T
    logs, means, squares = zip(*map(at, points), strict=True)
    weights = np.exp(np.array(logs) - logsumexp(logs))
    # Nothing is left beyond the grid.
    assert weights[np.abs(grid).max(axis=1) >= ends[-1]].sum() < 1e-3
    tau = np.exp(points[:, 2])
    found = {"mu": points[:, 0], "b": points[:, 1], "tau": tau}
    found |= {f"{name}²": values**2 for name, values in found.items()}
    found = {name: weights @ values for name, values in found.items()}
    means = np.array(means)
    return found | {"z": weights @ means, "z²": weights @ squares, "z tau": (weights * tau) @ means}


def few_groups():
    """Write the model of which NUTS has drawn, whose groups are few."""
    return model_of("bernoulli", rows_of("bernoulli"), centred=False)


def correlated(n_groups=150, each=6):
    """Write a model with an intercept and a slope of each group, which are correlated."""
    rng = np.random.default_rng(62)
    group = np.repeat(np.arange(n_groups), each)
    x = rng.uniform(-1.5, 1.5, group.size)
    covariance = np.array([[1.0, 0.5], [0.5, 1.0]])
    effects = rng.multivariate_normal([0.3, -0.4], covariance, n_groups)
    y = rng.binomial(1, expit(effects[group, 0] + effects[group, 1] * x))
    with pm.Model() as model:
        factor, _, _ = pm.LKJCholeskyCov(
            "factor", n=2, eta=2.0, sd_dist=pm.HalfNormal.dist(1.0, shape=2)
        )
        effect = pm.MvNormal("effect", pm.Normal("mu", shape=2), chol=factor, shape=(n_groups, 2))
        pm.Bernoulli("y", logit_p=effect[group, 0] + effect[group, 1] * x, observed=y)
    return model


def two_parameters(n_persons=500, n_items=8):
    """Write a model of items that differ in difficulty and discrimination, answered by all."""
    rng = np.random.default_rng(63)
    person, item = np.repeat(np.arange(n_persons), n_items), np.tile(np.arange(n_items), n_persons)
    beta, disc = rng.standard_normal(n_items), np.exp(0.2 * rng.standard_normal(n_items))
    y = rng.binomial(1, expit(disc[item] * (rng.standard_normal(n_persons)[person] - beta[item])))
    with pm.Model() as model:
        theta = pm.Normal("theta", 0.0, 1.0, shape=n_persons)
        beta = pm.Normal("beta", 0.0, 1.0, shape=n_items)
        disc = pm.LogNormal("disc", 0.0, 0.2, shape=n_items)
        pm.Bernoulli("y", logit_p=disc[item] * (theta[person] - beta[item]), observed=y)
    return model


def _of_items(trace):
    """Return draws by name: of items, of their products, and of some persons' abilities."""
    theta, beta, disc = (trace.posterior[name].to_numpy() for name in ("theta", "beta", "disc"))
    draws = {f"theta[{k}]": theta[..., k] for k in range(0, theta.shape[2], 50)}
    for k in range(beta.shape[2]):
        draws |= {f"beta[{k}]": beta[..., k], f"disc[{k}]": disc[..., k]}
        draws |= {f"product[{k}]": beta[..., k] * disc[..., k]}
        draws |= {f"theta disc[{k}]": theta[..., 50 * k] * disc[..., k]}
    return draws


def coordinates(trace):
    """Return draws by name: of parameters, and of effects, and their products, of some groups."""
    if "disc" in trace.posterior:
        return _of_items(trace)
    if "effect" in trace.posterior:
        mu, sd, corr, effect = (
            trace.posterior[name].to_numpy()
            for name in ("mu", "factor_stds", "factor_corr", "effect")
        )
        draws = {f"mu[{k}]": mu[..., k] for k in range(2)}
        draws |= {f"sd[{k}]": sd[..., k] for k in range(2)} | {"corr": corr[..., 0, 1]}
        for k in range(0, effect.shape[2], 15):
            level, slope = np.moveaxis(effect[..., k, :], -1, 0)
            draws |= {f"level[{k}]": level, f"slope[{k}]": slope, f"product[{k}]": level * slope}
            draws[f"slope[{k}] sd"] = slope * sd[..., 1]
        return draws
    mu, b, tau, z = (trace.posterior[name].to_numpy() for name in ("mu", "b", "tau", "z"))
    draws = {"mu": mu, "b": b, "tau": tau}
    for k in range(0, z.shape[2], 5):
        draws |= {f"z[{k}]": z[..., k], f"z tau[{k}]": z[..., k] * tau}
    return draws
