"""A wide posterior of few effective rows, by quadrature: what a narrow one would not show."""

import arviz as az
import numpy as np
import pymc as pm
from scipy.special import expit, log_expit

from helpers.zoo import drawn
from law.statistical.budget import FAR
from pymc_minibatch_mh import TunaMH

ROWS = 1_000
#: Moments that are compared.
MOMENTS = {
    "first mean": lambda a, b, m: a,
    "second mean": lambda a, b, m: b,
    "first variance": lambda a, b, m: (a - m[0]) ** 2,
    "second variance": lambda a, b, m: (b - m[1]) ** 2,
    "covariance": lambda a, b, m: (a - m[0]) * (b - m[1]),
    "tail": lambda a, b, m: (a < m[0] - 1.5 * m[2]) * 1.0,
}


class Rare:
    """Four events among a thousand rows: a skewed posterior, far from the normal one."""

    def __init__(self):
        rng = np.random.default_rng(71)
        self.x = rng.normal(size=ROWS)
        self.y = np.zeros(ROWS, dtype=np.int8)
        self.y[rng.choice(ROWS, 4, replace=False)] = 1

    def model(self):
        with pm.Model() as model:
            level, slope = pm.Normal("level", 0.0, 3.0), pm.Normal("slope")
            pm.Bernoulli("y", logit_p=level + slope * self.x, observed=self.y)
        return model

    def grid(self):
        """Return places and log-densities."""
        places = np.linspace(-13.0, -2.0, 241), np.linspace(-4.5, 4.5, 241)
        a, b = np.meshgrid(*places, indexing="ij")
        total = -(a**2) / 18.0 - b**2 / 2.0
        for x, y in zip(self.x, self.y, strict=True):
            total += log_expit(a + b * x if y else -(a + b * x))
        return a, b, total


def exact_moments(case):
    """Return mean and sd of the first coordinate and mean of the second, and all moments."""
    a, b, total = case.grid()
    mass = np.exp(total - total.max())
    mass /= mass.sum()
    first = (mass * a).sum()
    known = first, (mass * b).sum(), np.sqrt((mass * (a - first) ** 2).sum())
    return known, {name: (mass * f(a, b, known)).sum() for name, f in MOMENTS.items()}


def errors(draws, case, *, shift=0.0):
    """Return the distance of every moment from quadrature, in its Monte Carlo errors."""
    known, exact = exact_moments(case)
    a, b = draws[0] + shift * known[2], draws[1]
    found = {}
    for name, f in MOMENTS.items():
        values = f(a, b, known)
        size = min(float(az.ess(values)), values.size)
        found[name] = (values.mean() - exact[name]) / (values.std() / np.sqrt(size))
    return found


def test_posterior_is_that_of_quadrature():
    case = Rare()
    model = case.model()
    step = TunaMH(model=model, updates_per_draw=5)
    posterior = drawn(model, step, 6_000, 500, random_seed=73).posterior
    draws = [posterior[name].to_numpy() for name in ("level", "slope")]
    assert max(map(abs, errors(draws, case).values())) < FAR
    # A fifth of a standard deviation would be seen.
    assert max(map(abs, errors(draws, case, shift=0.2).values())) > FAR


def test_quadrature_knows_the_share_of_events():
    """The sum of fitted probabilities is the number of events, but for the prior's pull."""
    case = Rare()
    a, b, total = case.grid()
    best = np.unravel_index(total.argmax(), total.shape)
    assert abs(expit(a[best] + b[best] * case.x).sum() - case.y.sum()) < 1.0
