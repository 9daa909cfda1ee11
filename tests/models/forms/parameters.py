"""Families with each of their parameters free, a number, pm.Data, and one per row.

In their log-densities branches, special functions or mixtures meet the parameters: of the others a
parameter that is given changes nothing but a factor.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pymc as pm

from models.forms.certificate import ROWS
from models.forms.form import Data

#: How a parameter is spelled that is not free. The values are the same.
SPELLINGS = ("number", "data", "row")
FREE = "free"
#: Priors of a positive parameter, of a share, and of one on the real line.
POSITIVE, SHARE, REAL = pm.HalfNormal, lambda name: pm.Beta(name, 2.0, 2.0), pm.Normal


@dataclass(frozen=True)
class Family:
    """A likelihood of its parameters, and the value and prior of each."""

    declare: Callable[..., object]
    parameters: dict[str, tuple[float, Callable]]

    def model(self, parameter: str, spelling: str, others: str = FREE) -> pm.Model:
        """Return the model with one parameter in a spelling, and all others in another one."""
        data = Data(ROWS, mutable=False)
        with pm.Model() as model:
            given = {
                name: spelled(name, *about, spelling if name == parameter else others)
                for name, about in self.parameters.items()
            }
            slope = pm.Normal("slope", 0.0, 0.3)
            self.declare(data, slope * data.x, **given)
        return model


def spelled(name: str, value: float, prior: Callable, spelling: str) -> object:
    """Return a parameter as a model spells it."""
    if spelling == FREE:
        return prior(name)
    if spelling == "number":
        return value
    return pm.Data(name, np.full(ROWS, value) if spelling == "row" else value)


#: Name -> family.
FAMILIES: dict[str, Family] = {}


def family(**parameters: tuple[float, Callable]) -> Callable:
    """Register a likelihood of data, of what depends on the row, and of its parameters."""

    def register(declare: Callable) -> Callable:
        FAMILIES[declare.__name__] = Family(declare, parameters)
        return declare

    return register


def of_two(
    name: str, distribution: Callable, second: str, value: float, observed: str = "y"
) -> None:
    """Register a distribution of a location and a scale or shape."""

    def declare(d, eta, level, **second):
        distribution("y", level + eta, observed=getattr(d, observed), **second)

    FAMILIES[name] = Family(declare, {"level": (0.3, REAL), second: (value, POSITIVE)})


of_two("normal", pm.Normal, "sigma", 1.3)
of_two("laplace", pm.Laplace, "b", 1.3)
of_two("von_mises", pm.VonMises, "kappa", 1.3)


@family(level=(0.3, REAL), sigma=(1.3, POSITIVE))
def censored(d, eta, level, sigma):
    pm.Censored("y", pm.Normal.dist(level + eta, sigma), -1.0, 1.0, observed=d.clipped_to)


@family(level=(0.3, REAL), sigma=(1.3, POSITIVE))
def truncated(d, eta, level, sigma):
    pm.TruncatedNormal("y", level + eta, sigma, lower=0.0, observed=d.positive)


@family(level=(0.3, REAL), sigma=(1.3, POSITIVE))
def probit_by_logcdf(d, eta, level, sigma):
    above = pm.logcdf(pm.Normal.dist(level + eta, sigma), 0.0)
    pm.Bernoulli("y", p=pm.math.exp(above), observed=d.ones)


@family(level=(0.3, REAL), sigma=(1.3, POSITIVE))
def brackets(d, eta, level, sigma):
    def logp(value, mu, sigma):
        low, high = (pm.logcdf(pm.Normal.dist(mu, sigma), value + k) for k in (0.0, 1.0))
        return high + pm.math.log1mexp(low - high)

    pm.CustomDist("y", level + eta, sigma, logp=logp, observed=np.floor(d.raw.y))


@family(level=(0.3, REAL), sigma=(1.3, POSITIVE))
def survival(d, eta, level, sigma):
    """Log-normal lifetimes, of which some are known from below."""

    def logp(value, mu, sigma):
        seen = pm.logp(pm.Normal.dist(mu, sigma), value)
        return pm.math.switch(value < 1.0, seen, pm.logcdf(pm.Normal.dist(-mu, sigma), -value))

    pm.CustomDist("y", level + eta, sigma, logp=logp, observed=d.clipped_to)


@family(level=(0.3, REAL), sigma=(1.3, POSITIVE), nu=(0.7, POSITIVE))
def ex_gaussian(d, eta, level, sigma, nu):
    pm.ExGaussian("y", mu=level + eta, sigma=sigma, nu=nu, observed=d.y)


@family(level=(0.3, REAL), sigma=(1.3, POSITIVE), alpha=(0.8, REAL))
def skew_normal(d, eta, level, sigma, alpha):
    pm.SkewNormal("y", mu=level + eta, sigma=sigma, alpha=alpha, observed=d.y)


@family(level=(0.3, REAL), sigma=(1.3, POSITIVE), nu=(4.0, POSITIVE))
def student(d, eta, level, sigma, nu):
    pm.StudentT("y", nu=nu, mu=level + eta, sigma=sigma, observed=d.y)


@family(level=(0.3, REAL), sigma=(1.3, POSITIVE), share=(0.4, SHARE))
def mixture(d, eta, level, sigma, share):
    parts = [pm.Normal.dist(level + eta, sigma), pm.Normal.dist(0.0, 2.0)]
    pm.Mixture("y", pm.math.stack([share, 1.0 - share], axis=-1), parts, observed=d.y)


@family(level=(0.3, REAL), phi=(9.0, POSITIVE))
def beta(d, eta, level, phi):
    mu = pm.math.invlogit(level + eta)
    pm.Beta("y", alpha=mu * phi, beta=(1.0 - mu) * phi, observed=d.share)


@family(level=(0.3, REAL), alpha=(1.7, POSITIVE))
def negative_binomial(d, eta, level, alpha):
    pm.NegativeBinomial("y", mu=pm.math.exp(level + eta), alpha=alpha, observed=d.counts)


@family(level=(0.3, REAL), psi=(0.6, SHARE))
def zero_inflated_poisson(d, eta, level, psi):
    pm.ZeroInflatedPoisson("y", psi=psi, mu=pm.math.exp(level + eta), observed=d.counts)
