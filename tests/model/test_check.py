"""The comparison of a split model with the model, before anything relies on the split."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from helpers.tiers import fast
from model.evaluation import split_of
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.errors import FactorizationError
from pymc_minibatch_mh.model import check
from pymc_minibatch_mh.model.check import DensityValue, ModelDensity, check_factorization
from pymc_minibatch_mh.reference.target import Target

NONE = np.empty(0)
POINTS = [np.zeros(1)]


def censored():
    rng = np.random.default_rng(31)
    with pm.Model() as model:
        mu = pm.Normal("mu")
        normal = pm.Normal.dist(mu, 1.0)
        pm.Censored("y", normal, lower=-1.0, upper=1.0, observed=rng.normal(size=50).clip(-1, 1))
    return model


def test_constants_of_a_model_are_only_made_more_precise():
    model = censored()
    reading = ModelDensity(model, split_of(model)).as_written(np.array([0.3]), NONE)
    written = float(model.compile_logp()({"mu": np.array(0.3)}))
    assert reading.value == pytest.approx(written, rel=1e-7)
    assert reading.written == pytest.approx(written, rel=1e-10)


def test_other_constants_are_noticed(monkeypatch):
    monkeypatch.setattr(check, "with_double_constants", lambda graph: graph * (1.0 + 1e-5))
    model = censored()
    density = ModelDensity(model, split_of(model))
    value = density.as_written(np.array([0.3]), NONE).value
    readings = {"as it is": lambda x: density.as_written(x, NONE)}
    with pytest.raises(FactorizationError, match=r"^'y': .* as it is \(with its own constants, -"):
        check_factorization(readings, lambda _: (value, 0.0), [np.array([0.3])], ["y"])


@pytest.mark.parametrize("off", [1e-6, np.nan])
def test_parts_that_do_not_add_up_are_noticed(off):
    readings = {
        "here": lambda _: DensityValue(-3.0, -3.0),
        "there": lambda _: DensityValue(-3.1, -3.1),
    }
    check_factorization(readings, lambda _: (-1.0, -2.0), POINTS, ["y"])
    message = r"^'y': prior part -1.0 and rows .* is -3.0 here, and -3.1 there\. .* report it"
    with pytest.raises(FactorizationError, match=message):
        check_factorization(readings, lambda _: (-1.0, -2.0 + off), POINTS, ["y"])


# Models that were called wrongly read, and were not.

N = 200
X, NOISE = np.random.default_rng(6).normal(size=(2, N))
LINEAR = 0.2 + 1.2 * X
Y = (LINEAR + 1.7 * NOISE > 0.0).astype(int)


def logistic(x, y, link=pm.math.sigmoid):
    with pm.Model() as model:
        b = pm.Normal("b", [0.2, 1.2], 0.05, shape=2)
        pm.Bernoulli("y", p=link(b[0] + b[1] * x), observed=y)
    return model


def with_outlier(eta, link=pm.math.sigmoid):
    x, y = X.copy(), Y.copy()
    x[7], y[7] = (eta - 0.2) / 1.2, 0
    return logistic(x, y, link)


def with_rare_dummy():
    dummy = np.zeros(N)
    dummy[[3, 5]] = 1.0
    dummy = (dummy - dummy.mean()) / dummy.std()
    y = Y.copy()
    y[3] = 0
    with pm.Model() as model:
        b = pm.Normal("b", [0.2, 1.2, 3.0], 0.05, shape=3)
        pm.Bernoulli("y", p=pm.math.sigmoid(b[0] + b[1] * X + b[2] * dummy), observed=y)
    return model


def large_counts():
    with pm.Model() as model:
        a = pm.Normal("a", 20.7, 1.0)

        def logp(value, a):
            return value * a - pt.exp(a) - pt.gammaln(value + 1.0)

        pm.CustomDist("y", a, logp=logp, observed=np.round(1e9 + 3e4 * NOISE))
    return model


def single_precision():
    with pytensor.config.change_flags(floatX="float32"), pm.Model() as model:
        b = pm.Normal("b", shape=2)
        y = (LINEAR + NOISE).astype(np.float32)
        pm.Normal("y", b[0] + b[1] * X.astype(np.float32), pm.HalfNormal("s"), observed=y)
    return model


#: Model -> a position, and a relative change of its rows that has to be noticed.
NOT_WRONG = {
    "outlier": (lambda: with_outlier(30.0), [0.2, 1.2], 1e-7),
    "outlier beyond a probability of 1": (lambda: with_outlier(60.0), [0.2, 1.2], 1e-7),
    "outlier of a probit": (lambda: with_outlier(7.5, pm.math.invprobit), [0.2, 1.2], 1e-3),
    "rare dummy": (with_rare_dummy, [0.2, 1.2, 3.0], 1e-7),
    "counts of a billion": (large_counts, [np.log(1e9)], 1e-5),
    "single precision": (single_precision, [0.2, 1.2, 0.0], 1e-5),
}


#: Those in which most digits are lost, each in another way; single precision compiles anew.
ROUNDED_MOST = [
    "outlier beyond a probability of 1", "outlier of a probit", "counts of a billion",
]  # fmt: skip


def target_of(model):
    return Target(CompiledModel(split_of(model)), 0, 1.0)


@pytest.mark.parametrize("name", fast(NOT_WRONG, ROUNDED_MOST))
def test_what_only_rounding_changes_is_read_rightly(name):
    make, position, noticed = NOT_WRONG[name]
    model = make()
    target = target_of(model)
    spread = 1e-5 if name == "counts of a billion" else 0.01
    points = position + spread * np.random.default_rng(8).normal(size=(10, len(position)))

    def parts(point, factor=1.0):
        return target.log_prior(point), factor * target.log_likelihood(point)

    readings = ModelDensity(model, target.factorization).all_densities(NONE)
    one_way = {"as it is written": readings["as it is written"]}
    with pytest.raises(FactorizationError, match="as it is written"):
        check_factorization(one_way, parts, points, ["y"])
    check_factorization(readings, parts, points, ["y"])
    with pytest.raises(
        FactorizationError, match=r"as it is written, and .* stabilising rewrites\."
    ):
        check_factorization(readings, lambda x: parts(x, 1.0 + noticed), points, ["y"])
