"""Negative binomials by n and p: read as by mu and alpha where p is n / (n + mu)."""

import numpy as np
import pymc as pm
import pytest

from bounds.certified import Rows, evaluate
from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.bounds import bounds_pass
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.expressions.graph import Constant
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.structure.row_function import row_functions

ROWS = 1_200
RNG = np.random.default_rng(91)
X = RNG.standard_normal(ROWS)
EXPOSURE = RNG.uniform(0.5, 2.0, ROWS)
Y = RNG.poisson(np.exp(0.5 + 0.3 * X) * RNG.gamma(3.0, 1.0 / 3.0, ROWS))

#: n and p of a mean and a shape.
SPELLINGS = {
    "n / (n + mu)": lambda mu, al: (al, al / (al + mu)),
    "n / (mu + n)": lambda mu, al: (al, al / (mu + al)),
    "1 / (1 + mu / n)": lambda mu, al: (al, 1 / (1 + mu / al)),
    "1 - mu / (mu + n)": lambda mu, al: (al, 1 - mu / (mu + al)),
    "deterministic": lambda mu, al: ((n := pm.Deterministic("n", al)), n / (n + mu)),
}
MEANS = {"log": pm.math.exp, "softplus": pm.math.log1pexp}


def model_of(parameters, mean=pm.math.exp):
    """Return a model of counts whose parameters are made of a mean and a shape."""
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=2)
        alpha = pm.HalfCauchy("alpha", 2.5)
        pm.NegativeBinomial("y", **parameters(mean(b[0] + b[1] * X), alpha), observed=Y)
    return model


def by_mean(mu, al):
    return {"mu": mu, "alpha": al}


def by_probability(name):
    """Return the parameters n and p in one spelling."""
    return lambda mu, al: dict(zip("np", SPELLINGS[name](mu, al), strict=True))


def expression(model):
    """Return the expression of a row as nested tuples, sums and products in any order."""
    (function,) = row_functions(factorize(model, model.value_vars))

    def written(expr):
        own = expr.value if isinstance(expr, Constant) else getattr(expr, "number", None)
        op = str(getattr(expr, "op", type(expr).__name__))
        return (op, own, *sorted(map(written, expr.inputs), key=str))

    return str(function.arguments), written(function.root)


@pytest.mark.parametrize("link", list(MEANS))
def test_shares_of_the_mean_are_read_as_the_mean_is(link):
    expected = expression(model_of(by_mean, MEANS[link]))
    found = {name: expression(model_of(by_probability(name), MEANS[link])) for name in SPELLINGS}
    assert [name for name, one in found.items() if one != expected] == []


def test_logistic_functions_are_read_however_they_are_written():
    def by(link):
        return expression(model_of(lambda eta, al: {"n": al, "p": link(eta)}, lambda eta: eta))

    expected = by(pm.math.sigmoid)
    assert by(lambda eta: 1 / (1 + pm.math.exp(-eta))) == expected
    assert by(lambda eta: pm.math.exp(eta) / (1 + pm.math.exp(eta))) == expected


def test_shares_of_a_sum_of_any_sign_stay_quotients():
    """Of a negative quantity there is no logarithm."""
    with pm.Model() as model:
        a, b = pm.Normal("a"), pm.Normal("b")
        mean = pm.math.exp(a) / (pm.math.exp(a) + X * pm.math.exp(b))
        pm.Normal("y", mean, 1.0, observed=Y)
    parts = factorize(model, model.value_vars)
    (function,) = row_functions(parts)
    rows = Rows(function, np.arange(ROWS), parts.size)
    found, _ = evaluate(function, rows.data, rows.arguments(np.array([0.3, -1.0])))
    mean = 1.0 / (1.0 + X * np.exp(-1.3))
    expected = -0.5 * (Y - mean) ** 2 - 0.5 * np.log(2.0 * np.pi)
    assert found == pytest.approx(expected, rel=1e-12)


def test_an_undecided_check_of_p_is_named(monkeypatch):
    # Above one where the mean is small, in so few rows that an update could evaluate them all.
    monkeypatch.setattr(bounds_pass, "MOST_UNBOUNDED", 0.0)
    parameters = lambda mu, al: {"n": al, "p": al / (al + EXPOSURE * mu - 0.3)}  # noqa: E731
    with model_of(parameters), pytest.raises(BoundsError, match="a condition on") as found:
        TunaMH()
    assert "a parameter check of the distribution, such as 0 <= p <= 1" in str(found.value)
    assert "negative binomials by mu= and alpha=" in str(found.value)
    assert "switch(" not in str(found.value)
