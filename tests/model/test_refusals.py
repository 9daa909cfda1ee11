"""Models that the forms of the other catalogue do not have, refused with their whole messages."""

import re

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.builders import OpFromGraph
from pytensor.conditional.op import ifelse

from model.evaluation import split_of
from pymc_minibatch_mh.errors import UnsupportedModelError
from pymc_minibatch_mh.model.factorization import factorize

N = 12
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 3))
x = X[:, 0]
y = RNG.normal(size=N)
WAY_ON = (
    ', so it cannot be subsampled. Sample it with pm.NUTS(), or pass observed=["..."] to subsample '
    "other likelihoods only."
)
SUMMARISE = (
    ", so it cannot be subsampled. Compute such a summary from the data alone, before the model, "
    "or use pm.NUTS()."
)
MINIBATCH = (
    "is declared with total_size= or pm.Minibatch, which rescales a random batch, so it cannot be "
    "subsampled. Give the model all rows and drop total_size; this step draws its own batches."
)

REFUSED = {}


def refused(message):
    def register(build):
        REFUSED[build.__name__] = build, message
        return build

    return register


def unknown(op):
    return (
        f"'y' cannot be split into observations: {op} is not known to keep observations separate"
        + WAY_ON
    )


PART = (
    "'y' cannot be split into observations: a slice takes a part of the observations or reorders "
    "them" + WAY_ON
)


def observe(mu, **settings):
    pm.Normal("y", mu, **{"observed": y} | settings)


def column():
    return pm.Data("x", x)


# Custom densities whose entries depend on other observations.


@refused("'y' cannot be split into observations: CumOp runs over the observations" + WAY_ON)
def custom_density_of_running_sums():
    pm.CustomDist(
        "y", pm.Normal("a"), logp=lambda v, a: -((v.cumsum() - a) ** 2), observed=pm.Data("d", y)
    )


@refused("'y' has a term that combines all rows of 'd' with 'a'" + SUMMARISE)
def custom_density_of_pairs():
    pm.CustomDist(
        "y",
        pm.Normal("a"),
        logp=lambda v, a: -((v[:, None] - a * v[None, :]) ** 2).sum(1),
        observed=pm.Data("d", y),
    )


@refused("'y' has 5 log-likelihoods for 12 observations, so it cannot be subsampled. Return one ")
def custom_density_of_another_length():
    pm.CustomDist("y", pm.Normal("a"), logp=lambda v, a: pt.zeros(5) - a**2, observed=y)


# Batches of somebody else.


@refused(f"'z' {MINIBATCH}")
def minibatches_of_a_likelihood_that_is_not_subsampled():
    a = pm.Normal("a")
    observe(a)
    pm.Normal("z", a, observed=pm.Minibatch(y, batch_size=5), total_size=N)


# Sums over rows that involve parameters.


@refused("'y' has a term that combines all rows of 'a data array of y' with 'b'" + SUMMARISE)
def centred_predictor():
    b = pm.Normal("b", shape=3)
    observe(X @ b - (X @ b).mean())


@refused("'y' has a term that combines all rows of 'x' with 'b'" + SUMMARISE)
def predictor_of_other_rows():
    mu = column() * pm.Normal("b")
    observe(mu + mu[RNG.permutation(N)])


@refused("'y' has a term that combines all rows of 'x' with 'b'" + SUMMARISE)
def predictor_of_the_first_row():
    mu = column() * pm.Normal("b")
    observe(mu - mu[0])


@refused("'y' has a term that pairs each observation with all rows of 'x'" + SUMMARISE)
def kernel_between_rows():
    data = column()
    distance = (data[:, None] - data[None, :]) ** 2
    observe(pt.exp(-distance / pm.HalfNormal("l")) @ pm.Normal("a", shape=N))


@refused(
    unknown("MatrixInverse")
    .replace(" is not known to keep observations separate", "")
    .replace("observations: ", "observations: the observations lie inside ")
)
def inverse_of_a_matrix_of_rows():
    S = pm.Data("S", np.eye(N))
    observe((pt.linalg.inv(S * pm.HalfNormal("s"))).sum(1))


# Rows in another order, or other rows.


@refused(PART)
def reversed_predictor():
    observe(pt.logsumexp(pm.Data("X", X) * pm.Normal("b"), axis=1)[::-1])


@refused(
    "'y' uses 'X', whose length 13 along its observation axis differs from the 12 observations"
)
def first_rows_of_longer_data():
    longer = pm.Data("X", np.vstack([X, X[:1]]))
    observe(pt.logsumexp(longer * pm.Normal("b"), axis=1)[:N])


# Operations that hide what is inside.


@refused(PART)
def graph_as_an_operation():
    v = pt.vector("v")
    observe(OpFromGraph([v], [v[::-1]])(column() * pm.Normal("b")))


@refused(unknown("IfElse"))
def condition_on_a_parameter():
    b, data = pm.Normal("b"), column()
    observe(ifelse(b > 0, data * b, data))


@refused("'y' cannot be split into observations: the observations are cut into parts" + WAY_ON)
def rows_cut_into_parts():
    mu = pm.Data("x", np.tile(x, 2)) * pm.Normal("b")
    observe(pt.split(mu, [N, N])[1])


@refused("'y' uses 'x', an array of type float16 with 1 axes, so it cannot be subsampled. Use real")
def numbers_of_sixteen_bits():
    observe(pytensor.shared(x.astype("float16"), name="x") * pm.Normal("b"))


def built(build):
    with pm.Model() as model:
        build()
    return model


@pytest.mark.parametrize("name", REFUSED)
def test_message_names_variable_cause_and_fix(name):
    build, message = REFUSED[name]
    model = built(build)
    with pytest.raises(UnsupportedModelError, match="^" + re.escape(message)):
        split_of(model)


def test_small_data_are_refused():
    model = built(lambda: observe(pm.Normal("a")))
    message = "no observed variable has 1,000 rows, .* in observed="
    with pytest.raises(UnsupportedModelError, match=message):
        factorize(model, model.value_vars)
    assert [t.name for t in factorize(model, model.value_vars, ["y"]).terms] == ["y"]
