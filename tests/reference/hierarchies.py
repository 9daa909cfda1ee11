"""Models with scales, and what is known of some of them exactly."""

from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import expit
from scipy.stats import multivariate_normal, norm

from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.reference.target import Target

GROUPS, EACH, NOISE = 12, 100, 2.0
RNG = np.random.default_rng(12)
EFFECTS = RNG.normal(0.5, 0.7, GROUPS)
GROUP = np.repeat(np.arange(GROUPS), EACH)
OTHER = np.tile(np.arange(6), GROUP.size // 6)
X = RNG.standard_normal((GROUP.size, 3))
REAL = RNG.normal(EFFECTS[GROUP], NOISE)
BINARY = (RNG.random(GROUP.size) < expit(EFFECTS[GROUP] + X @ [0.5, 0.0, -0.5])).astype(int)
SLOPED = RNG.normal((EFFECTS[GROUP] + RNG.normal(0.0, 0.5, GROUPS)[GROUP] * X[:, 0]), 1.0)
WIDE = np.random.default_rng(13).standard_normal((GROUP.size, 20))
COUNTS = RNG.poisson(np.exp(EFFECTS[GROUP]))


@cache
def target_of(define, order=2):
    """Return a model, prepared once for all tests, and where PyMC starts."""
    with pm.Model() as model:
        define()
    # PyTensor's own function for the start of a Cholesky factor wants BLAS.
    point = STARTS.get(define) or model.initial_point()
    target = Target(
        CompiledModel(factorize(model, model.value_vars, initial_point=point)), order, 1.0
    )
    return target, target.factorization.ravel(point)


def normal():
    """Rows whose noise is known: the density of tau is known exactly."""
    effects = pm.Normal("a", pm.Normal("mu", 0.0, 2.0), pm.HalfNormal("tau", 1.0), shape=GROUPS)
    pm.Normal("y", effects[GROUP], NOISE, observed=REAL)


def exact_log_density(log_tau):
    """The log-density of log tau in `normal`, up to a constant."""
    means = REAL.reshape(GROUPS, EACH).mean(axis=1)
    own = np.exp(2 * log_tau) + NOISE**2 / EACH
    spread = 4.0 * np.ones((GROUPS, GROUPS)) + own * np.eye(GROUPS)
    prior = norm.logpdf(np.exp(log_tau)) + log_tau
    return prior + multivariate_normal.logpdf(means, np.zeros(GROUPS), spread)


def logistic():
    effects = pm.Normal("a", pm.Normal("mu", 0.0, 2.0), pm.HalfNormal("tau", 1.0), shape=GROUPS)
    line = effects[GROUP] + X @ pm.Normal("b", 0.0, 1.0, shape=3)
    pm.Bernoulli("y", logit_p=line, observed=BINARY)


def crossed():
    tau = pm.HalfNormal("tau", 1.0, shape=2)
    one = pm.Normal("one", pm.Normal("mu", 0.0, 2.0), tau[0], shape=GROUPS)
    two = pm.Normal("two", 0.0, tau[1], shape=6)
    pm.Bernoulli("y", logit_p=one[GROUP] + two[OTHER], observed=BINARY)


def nested():
    outer = pm.HalfNormal("outer", 1.0)
    middles = pm.Normal("middle", pm.Normal("mu", 0.0, 2.0), outer, shape=3)
    inner = pm.HalfNormal("inner", 1.0)
    effects = pm.Normal("a", middles[np.arange(GROUPS) % 3], inner, shape=GROUPS)
    pm.Poisson("y", pt.exp(effects[GROUP]), observed=COUNTS)


def varying_slopes():
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
    both = pm.MvNormal("both", pm.Normal("mu", 0.0, 1.0, shape=2), chol=chol, shape=(GROUPS, 2))
    line = both[GROUP, 0] + both[GROUP, 1] * X[:, 0]
    pm.Normal("y", line, pm.HalfNormal("s", 2.0), observed=SLOPED)


STARTS = {
    varying_slopes: {
        "chol_cholesky-cov-packed__": np.zeros(3),
        "mu": np.zeros(2),
        "both": np.zeros((GROUPS, 2)),
        "s_log__": np.zeros(()),
    }
}


def robust_effects():
    mu, tau = pm.Normal("mu", 0.0, 2.0), pm.HalfNormal("tau", 1.0)
    effects = pm.StudentT("a", nu=4.0, mu=mu, sigma=tau, shape=GROUPS)
    pm.StudentT("y", nu=4.0, mu=effects[GROUP], sigma=pm.HalfNormal("s"), observed=REAL)


def horseshoe():
    local, overall = pm.HalfCauchy("local", 1.0, shape=3), pm.HalfCauchy("tau", 1.0)
    pm.Bernoulli("y", logit_p=X @ pm.Normal("b", 0.0, local * overall, shape=3), observed=BINARY)


def wide_horseshoe():
    local, overall = pm.HalfCauchy("local", 1.0, shape=20), pm.HalfCauchy("tau", 1.0)
    line = WIDE @ pm.Normal("b", 0.0, local * overall, shape=20)
    pm.Bernoulli("y", logit_p=line, observed=BINARY)


def lasso():
    b = pm.Laplace("b", 0.0, pm.HalfNormal("tau", 1.0), shape=3)
    pm.Bernoulli("y", logit_p=X @ b, observed=BINARY)


def scale_of_scales():
    tau = pm.HalfNormal("tau", pm.HalfNormal("outer", 1.0))
    effects = pm.Normal("a", pm.Cauchy("mu", 0.0, 1.0), tau, shape=GROUPS)
    pm.Normal("y", effects[GROUP], NOISE, observed=REAL)


def alike():
    """Groups that do not differ: a joint search ends at tau = 0."""
    effects = pm.Normal("a", 0.0, pm.HalfNormal("tau", 1.0), shape=GROUPS)
    noise = np.random.default_rng(3).standard_normal(GROUP.size)
    pm.Normal("y", effects[GROUP], 1.0, observed=noise)


def regression():
    pm.Bernoulli("y", logit_p=X @ pm.Normal("b", 0.0, 1.0, shape=3), observed=BINARY)


def unread():
    """What no row reads, and yet is no scale of anything that rows read."""
    pm.HalfNormal("idle", 1.0)
    mean = pm.Cauchy("mean", 0.0, 1.0) + pm.Normal("shift", pm.Normal("top", 0.0, 1.0), 1.0)
    pm.Bernoulli("y", logit_p=X @ pm.Normal("b", mean, 1.0, shape=3), observed=BINARY)


def lasso_of_known_scale():
    pm.Bernoulli("y", logit_p=X @ pm.Laplace("b", 0.0, 0.1, shape=3), observed=BINARY)


def scale_in_rows():
    """A non-centred hierarchy as it stands: rows read the scale."""
    z, tau = pm.Normal("z", 0.0, 1.0, shape=GROUPS), pm.HalfNormal("tau", 1.0)
    pm.Bernoulli("y", logit_p=(pm.Normal("mu") + tau * z)[GROUP], observed=BINARY)
