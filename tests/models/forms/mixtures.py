"""Mixtures, censoring and truncation."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.replace import vectorize_graph

from models.forms.form import Section
from models.forms.regressions import line, ordered, slopes

mixed = Section("Mixtures")
cut = Section("Censored and truncated")


def weights(size=2):
    return pm.Dirichlet("w", np.ones(size))


mixed.forms_of(
    {
        "ordered means": lambda d: pm.NormalMixture(
            "y", w=weights(), mu=ordered(), sigma=pm.HalfNormal("s"), observed=d.y
        ),
        "counts": lambda d: pm.Mixture(
            "y", weights(3), pm.Poisson.dist(pm.HalfNormal("m", shape=3)), observed=d.counts
        ),
    }
)


@mixed.form("two distributions")
def mixture_of_two(d):
    parts = [pm.Normal.dist(line(d), 1.0), pm.StudentT.dist(nu=3, mu=0.0, sigma=2.0)]
    pm.Mixture("y", weights(), parts, observed=d.y)


@mixed.form("components of shape (K,)")
def mixture_batched(d):
    parts = pm.Normal.dist(pm.Normal("m", shape=3), pm.HalfNormal("s", shape=3))
    pm.Mixture("y", weights(3), parts, observed=d.y)


@mixed.form("components of shape (N, K)")
def mixture_of_regressions(d):
    parts = pm.Normal.dist(d.X @ pm.Normal("B", shape=(3, 3)), pm.HalfNormal("s", shape=3))
    pm.Mixture("y", weights(3), parts, observed=d.y)


@mixed.form("normal mixture")
def normal_mixture(d):
    m, s = pm.Normal("m", shape=3), pm.HalfNormal("s", shape=3)
    pm.NormalMixture("y", w=weights(3), mu=m, sigma=s, observed=d.y)


@mixed.form("weights of each row")
def mixture_of_experts(d):
    w = pm.math.softmax(d.X @ pm.Normal("B", shape=(3, 3)), axis=1)
    pm.NormalMixture("y", w=w, mu=pm.Normal("m", shape=3), sigma=1.0, observed=d.y)


@mixed.form("weights of two components")
def stacked_weights(d):
    p = pm.math.sigmoid(line(d))
    w = pt.stack([p, 1.0 - p], axis=-1)
    pm.Mixture("y", w, [pm.Poisson.dist(2.0), pm.Poisson.dist(5.0)], observed=d.counts)


@mixed.form("latent classes summed out")
def latent_classes(d):
    m, s = pm.Normal("m", shape=3), pm.HalfNormal("s", shape=3)
    pm.CustomDist("y", weights(3), m, s, logp=_over_classes, observed=d.y)


def _over_classes(value, w, m, s):
    """Return the log-density of all classes together, put as marginalize() puts it."""
    n, n_classes = value.shape[0], 3
    k = pt.tensor("k", dtype="int64", shape=(None,))
    given = pm.logp(pm.Normal.dist(m[k], s[k]), value) + pt.log(w[k])
    classes = pt.alloc(np.arange(n_classes)[:, None], n_classes, n)
    return pt.logsumexp(vectorize_graph(given, {k: classes}), axis=0)


@mixed.form("outliers")
def outliers(d):
    e, mu = pm.Beta("e", 1, 9), line(d)
    parts = [pm.Normal.dist(mu, pm.HalfNormal("s")), pm.Normal.dist(mu, 10.0)]
    pm.Mixture("y", pt.stack([1.0 - e, e]), parts, observed=d.y)


@mixed.form("point mass")
def point_mass(d):
    parts = [pm.DiracDelta.dist(0), pm.Poisson.dist(pm.math.exp(line(d)))]
    pm.Mixture("y", weights(), parts, observed=d.counts)


@mixed.form("matrix of mixtures")
def matrix_of_mixtures(d):
    m = pm.Normal("m", shape=2)
    pm.NormalMixture("y", w=weights(), mu=m, sigma=1.0, observed=d.Y)


@mixed.form("vectors")
def mixture_of_vectors(d):
    m = pm.Normal("m", shape=(2, 3))
    parts = [pm.MvNormal.dist(m[0], np.eye(3)), pm.MvNormal.dist(m[1], 2.0 * np.eye(3))]
    pm.Mixture("y", weights(), parts, observed=d.Y)


@mixed.form("latent class, summed out by hand")
def mixture_by_hand(d):
    def logp(value, p, low, high):
        first = pt.log(p) - 0.5 * (value - low) ** 2
        return pt.logaddexp(first, pt.log1p(-p) - 0.5 * (value - high) ** 2)

    p, m = pm.Beta("p", 2, 2), pm.Normal("m", shape=2)
    pm.CustomDist("y", p, m[0], m[1], logp=logp, observed=d.y)


cut.forms_of(
    {
        "truncated normal": lambda d: pm.TruncatedNormal(
            "y", line(d), pm.HalfNormal("s"), lower=0.0, observed=d.positive
        ),
    }
)


@cut.form("censored")
def censored(d):
    latent = pm.Normal.dist(line(d), pm.HalfNormal("s"))
    pm.Censored("y", latent, lower=-1.0, upper=1.0, observed=d.clipped_to)


@cut.form("censored at a time of each row")
def censored_by_row(d):
    latent = pm.Weibull.dist(alpha=pm.HalfNormal("k"), beta=pm.math.exp(line(d)))
    ends = d("ends", np.where(d.raw.ones == 1, d.raw.positive, 50.0))
    pm.Censored("y", latent, lower=None, upper=ends, observed=d.positive)


@cut.form("censored counts")
def censored_counts(d):
    capped = d("capped", np.minimum(d.raw.counts, 4))
    latent = pm.Poisson.dist(pm.math.exp(line(d)))
    pm.Censored("y", latent, lower=None, upper=4, observed=capped)


@cut.form("truncated")
def truncated(d):
    latent = pm.Normal.dist(line(d), pm.HalfNormal("s"))
    pm.Truncated("y", latent, lower=-9.0, upper=9.0, observed=d.y)


@cut.form("truncated at a limit of each row")
def truncated_by_row(d):
    latent = pm.Normal.dist(line(d), pm.HalfNormal("s"))
    pm.Truncated("y", latent, lower=d("entry", d.raw.y - 0.5), observed=d.y)


@cut.form("truncated counts")
def truncated_counts(d):
    latent = pm.Poisson.dist(pm.math.exp(d.X @ slopes()))
    pm.Truncated("y", latent, lower=1, observed=d("tries", d.raw.counts + 1))


@cut.form("interval of each row")
def intervals(d):
    def logp(value, mu, width):
        upper = pm.logcdf(pm.Normal.dist(mu, 1.0), value + width)
        return pm.math.logdiffexp(upper, pm.logcdf(pm.Normal.dist(mu, 1.0), value - width))

    pm.CustomDist("y", line(d), d.weights, logp=logp, observed=d.y)


@cut.form("survival with an event indicator")
def survival(d):
    def logp(time, eta, event):
        return event * eta - time * pt.exp(eta)

    pm.CustomDist("y", line(d), d.ones, logp=logp, observed=d.positive)
