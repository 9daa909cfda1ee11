"""Models whose rows are stored, and the same in memory."""

import time

import numpy as np
import pymc as pm
from scipy.special import expit

from pymc_minibatch_mh.data.source import ArrayStorage
from pymc_minibatch_mh.model.rows import Rows


class Unreliable(ArrayStorage):
    """Arrays that are late, that cannot be read for a while, or that are edited."""

    def __init__(self, arrays):
        super().__init__(arrays)
        self.delay = 0.0
        #: What reading raises, while there is something.
        self.error = None
        #: What rows are changed by once they were prepared: name -> factor.
        self.edited = {}
        self.reads = 0

    def read(self, names, rows):
        self.reads += 1
        if self.error is not None:
            raise self.error
        time.sleep(self.delay)
        found = super().read(names, rows)
        return found | {name: found[name] * f for name, f in self.edited.items() if name in found}


def both(likelihood, arrays):
    """Return the model in memory, the model on stored rows, and their storage.

    `likelihood` writes a model, given what names an array's data.
    """
    storage = Unreliable(arrays)
    with pm.Model() as in_memory:
        likelihood(arrays.__getitem__)
    with pm.Model() as stored:
        likelihood(Rows.of(storage).data)
    return in_memory, stored, storage


def logistic(n_rows=20_003, seed=1, spread=1.0):
    rng = np.random.default_rng(seed)
    x = spread * rng.standard_normal(n_rows)
    y = (rng.random(n_rows) < expit(0.5 - x)).astype(np.int8)

    def likelihood(data):
        a, b = pm.Normal("a", 0.0, 1.0), pm.Normal("b", 0.0, 1.0)
        pm.Bernoulli("y", logit_p=a + b * data("x"), observed=data("y"))

    return both(likelihood, {"x": x, "y": y})


def scalar(n_rows=1_500):
    """One coefficient, of which moves are decided by tens of rows without control variates."""
    rng = np.random.default_rng(3)
    x = rng.uniform(0.2, 1.0, n_rows)
    y = (rng.random(n_rows) < expit(0.7 * x)).astype(np.int8)

    def likelihood(data):
        b = pm.Normal("b", 0.0, 1.0)
        pm.Bernoulli("y", logit_p=b * data("x"), observed=data("y"))

    return both(likelihood, {"x": x, "y": y})


def heavy_tails(n_rows=9_000):
    """Rows that have no bound far out: moves from there read all of them."""
    rng = np.random.default_rng(4)
    y = 0.3 + rng.standard_t(4, n_rows)

    def likelihood(data):
        mu = pm.Normal("mu", 0.0, 10.0)
        pm.StudentT("y", nu=4, mu=mu, sigma=1.0, observed=data("y"))

    return both(likelihood, {"y": y})


def offsets(n_rows=5_000):
    rng = np.random.default_rng(5)
    x, offset = rng.uniform(-1.0, 1.0, n_rows), rng.normal(size=n_rows).astype(np.float32)
    y = rng.poisson(np.exp(0.3 + 0.5 * x + offset))

    def likelihood(data):
        a, b = pm.Normal("a", 0.0, 1.0), pm.Normal("b", 0.0, 1.0)
        mu = pm.math.exp(a + b * data("x") + data("offset"))
        pm.Poisson("y", mu=mu, observed=data("y"))

    return both(likelihood, {"x": x, "offset": offset, "y": y})


def large_counts(n_rows=4_096):
    """One block, of counts of ten thousands."""
    rng = np.random.default_rng(6)
    x = rng.uniform(-1.0, 1.0, n_rows)
    y = rng.poisson(np.exp(10.0 + 0.5 * x))

    def likelihood(data):
        a, b = pm.Normal("a", 10.0, 1.0), pm.Normal("b", 0.0, 1.0)
        pm.Poisson("y", mu=pm.math.exp(a + b * data("x")), observed=data("y"))

    return both(likelihood, {"x": x, "y": y})


def groups(n_rows=100_000):
    """Effects chosen by an index array."""
    rng = np.random.default_rng(7)
    group = rng.integers(0, 5, n_rows).astype(np.int8)
    y = 0.2 * group + rng.standard_t(4, n_rows)

    def likelihood(data):
        effect = pm.Normal("effect", 0.0, 1.0, shape=5)
        pm.StudentT("y", nu=4, mu=effect[data("group")], sigma=1.0, observed=data("y"))

    return both(likelihood, {"group": group, "y": y})


def no_change(n_rows=4_097):
    """Rows that control variates of order 2 give exactly, so that every bound is 0."""
    y = np.random.default_rng(8).normal(1.0, 1.0, n_rows)

    def likelihood(data):
        mu = pm.Normal("mu", 0.0, 1.0)
        pm.Normal("y", mu, 1.0, observed=data("y"))

    return both(likelihood, {"y": y})


def some_zeros(n_rows=9_000):
    """Rows without the coefficient: their bounds are 0, in one block all of them."""
    rng = np.random.default_rng(9)
    x = rng.standard_normal(n_rows) * (rng.random(n_rows) < 0.5)
    x[4_096:8_192] = 0.0
    y = (rng.random(n_rows) < expit(0.5 * x)).astype(np.int8)

    def likelihood(data):
        b = pm.Normal("b", 0.0, 1.0)
        pm.Bernoulli("y", logit_p=b * data("x"), observed=data("y"))

    return both(likelihood, {"x": x, "y": y})


def rare_group(n_rows=100_000):
    """Thirty rows of a group of their own, which batches hardly ever contain."""
    rng = np.random.default_rng(5)
    x, member = rng.standard_normal(n_rows), np.zeros(n_rows)
    member[rng.choice(n_rows, 30, replace=False)] = 1.0
    y = (rng.random(n_rows) < expit(0.3 - 0.5 * x + member)).astype(np.int8)

    def likelihood(data):
        a, b, c = (pm.Normal(name, 0.0, 1.0) for name in "abc")
        eta = a + b * data("member") + c * data("x")
        pm.Bernoulli("y", logit_p=eta, observed=data("y"))

    return both(likelihood, {"x": x, "member": member, "y": y})
