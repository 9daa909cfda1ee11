"""Transition matrices of Poisson tests whose rows are sums over states, beside SciPy's sums.

Remainders, their bounds by :mod:`pymc_minibatch_mh.bounds.over_states`, sizes of moves and the test
are the library's; the target is summed over the states by SciPy, row by row.
"""

from functools import cache

import numpy as np
from scipy import stats
from scipy.special import expit, gammaln, logsumexp

from bounds.state_sums import STATE_SUMS
from law.exactness.groups import GroupChain
from pymc_minibatch_mh.bounds.bounds_pass import BoundsPass
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.native.library import function
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.reference.target import Target

#: Number of rows; whitened states, the last one outside of all balls; a factor of the covariance,
#: and its size by the model and the order of the remainders.
ROWS = 5
STATES = np.array([[0.5, -0.6, 0.4, 0.2], [-1.4, 0.9, -1.2, 0.8], [1.3, 1.6, 1.9, -1.1]])
STATES = np.vstack([STATES, [-0.2, -0.3, -2.6, 1.5], [6.0, -6.0, 3.0, 3.5]])
SIZE = {
    ("sites", 0): 0.03,
    ("sites", 1): 0.1,
    ("sites", 2): 0.16,
    ("animals", 1): 0.05,
    ("animals", 2): 0.055,
    ("conway_maxwell", 1): 0.045,
    ("conway_maxwell", 2): 0.045,
}
FACTOR = np.tril(np.full((4, 4), 0.15)) + 0.85 * np.eye(4)


def observed(name):
    """Return the observations and covariates of a model, drawn as it draws them."""
    rng = np.random.default_rng({"conway_maxwell": 1, "animals": 2, "sites": 4}[name])
    x = rng.normal(size=ROWS)
    if name == "conway_maxwell":
        return np.minimum(rng.poisson(np.exp(0.9 + 0.3 * x)), 11), x, None
    w = rng.normal(size=(ROWS, 4 if name == "sites" else 2))
    if name == "sites":
        present = rng.random(ROWS) < expit(0.3 + 0.8 * x)
        return (rng.random(w.shape) < expit(-0.5 + 0.6 * w)) & present[:, None], x, w
    there = np.minimum(rng.poisson(np.exp(1.0 + 0.3 * x)), 9)
    return rng.binomial(there[:, None], expit(-0.2 + 0.5 * w)), x, w


def log_density(name, position):
    """Return the log-density of a position, up to a constant, with a sum over all states."""
    y, x, w = observed(name)
    if name == "conway_maxwell":
        a, b, log_nu = position
        nu, k = np.exp(log_nu), np.arange(12.0)
        weights = k * (a + b * x)[:, None] - nu * gammaln(k + 1.0)
        rows = weights[np.arange(ROWS), y] - logsumexp(weights, axis=1)
        prior = stats.norm.logpdf([a, b]).sum() + stats.halfnorm.logpdf(nu, scale=2.0) + log_nu
        return prior + rows.sum()
    a, b = position[:2], position[2:]
    eta, chance = a[0] + a[1] * x, expit(b[0] + b[1] * w)
    total = stats.norm.logpdf(position).sum()
    for row, value in enumerate(y):
        if name == "sites":
            states = stats.bernoulli(expit(eta[row]))
            terms = [
                states.logpmf(z) + stats.bernoulli.logpmf(value, z * chance[row]).sum()
                for z in (0, 1)
            ]
        else:
            numbers = np.arange(10)
            weights = stats.poisson.logpmf(numbers, np.exp(eta[row]))
            terms = weights - logsumexp(weights)
            terms = terms + stats.binom.logpmf(value[:, None], numbers, chance[row][:, None]).sum(0)
        total += logsumexp(terms)
    return total


@cache
def chain_of(name, order):
    """Return states of a model, and its bounds around remainders of an order."""
    parts = factorize((model := STATE_SUMS[name](rows=ROWS)), model.value_vars, min_rows=1)
    posterior = Target(CompiledModel(parts), order)
    size = parts.size
    factor = SIZE[name, order] * FACTOR[:size, :size]
    centre = np.array([1.0, 0.3, 0.1]) if size == 3 else np.array([0.6, 0.4, -0.3, 0.4])
    sums, hessian, rows = np.zeros(1 + size), np.zeros((size, size)), np.arange(ROWS)
    function("mh_add_derivatives")(posterior.space, centre, rows, ROWS, 1, sums, hessian)
    gradient = sums[1:] * (order > 0)
    reference = Reference(
        centre, factor, np.linalg.inv(factor), gradient, hessian * (order > 1), order, 1.0
    )
    functions = posterior.compiled.row_functions
    assert all(f.states is not None for f in functions)
    tables = BoundsPass(functions, reference, (parts.lower, parts.upper)).tables()
    positions = centre + STATES[:, :size] @ factor.T
    target = [log_density(name, x) for x in positions]
    return GroupChain.around(posterior, reference, tables, positions, target)
