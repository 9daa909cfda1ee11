"""Monotonic effects, and other products of a coefficient with a simplex, in several spellings."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytensor.tensor as pt

N, K = 300, 4
_rng = np.random.default_rng(41)
level = _rng.integers(0, K, N)
X = _rng.standard_normal((N, K))
y = _rng.standard_normal(N)
counts = _rng.poisson(2.0, N)
ALPHA = np.array([1.0, 2.0, 0.7, 1.5])


@dataclass(frozen=True)
class Spelling:
    """A model, and the coefficients and simplexes that rows multiply."""

    declare: Callable[[], object]
    words: tuple[str, ...] = ("b × chi",)

    def build(self):
        """Return the model."""
        with pm.Model() as model:
            self.declare()
        return model


def _coefficient():
    return pm.Normal("b", 0.0, pm.HalfNormal("tau"))


def _chi(name="chi"):
    return pm.Dirichlet(name, ALPHA)


def _observe(effect):
    pm.Normal("y", pm.Normal("a") + effect, pm.HalfNormal("sigma"), observed=y)


def multiplied_then_chosen():
    _observe((_coefficient() * _chi().cumsum())[level])


def chosen_then_multiplied():
    _observe(_coefficient() * _chi().cumsum()[level])


def from_zero():
    effects = pt.concatenate([[0.0], _chi().cumsum()])
    _observe(_coefficient() * effects[level + 1])


def from_one():
    _observe(_coefficient() * (1.0 - _chi().cumsum())[level])


def one_part_each():
    _observe(_coefficient() * K * _chi()[level])


def weighted():
    _observe(_coefficient() * pt.dot(X, _chi()))


def times_data():
    _observe(_coefficient() * _chi().cumsum()[level] * X[:, 0])


def an_entry():
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    _observe(b[0] + b[1] * _chi().cumsum()[level] + b[2] * X[:, 1])


def deterministic():
    pm.Poisson("y", pt.exp(_effect()[level]), observed=counts)


def _effect():
    return pm.Deterministic("effect", pt.cumsum(_coefficient() * _chi()))


def two():
    effect = pm.Normal("b") * _chi().cumsum()[level]
    _observe(effect + pm.Normal("c") * _chi("psi").cumsum()[level - 1])


SPELLINGS = {
    "multiplied, then chosen": Spelling(multiplied_then_chosen),
    "chosen, then multiplied": Spelling(chosen_then_multiplied),
    "from zero": Spelling(from_zero),
    "from one": Spelling(from_one),
    "one part each": Spelling(one_part_each),
    "weighted": Spelling(weighted),
    "times data": Spelling(times_data),
    "an entry": Spelling(an_entry, ("b[1] × chi",)),
    "deterministic": Spelling(deterministic),
    "two": Spelling(two, ("b × chi", "c × psi")),
}
