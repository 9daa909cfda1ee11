"""Data that cannot be read, and steps that are used on what they were not made for."""

import numpy as np
import pandas as pd
import pymc as pm

from docs.inputs.case import Section, build_on
from pymc_minibatch_mh.model.factorization import factorize

data = Section("Data")
weights = Section("Weights")

N = 1_000
ZEROS = np.zeros(N)


def one_wrong(value):
    """Return a column with one entry that is wrong."""
    values = np.linspace(-1.0, 1.0, N)
    values[17] = value
    return values


def respond(**settings):
    """Declare observations with an unknown mean."""
    pm.Normal("y", pm.Normal("a"), **settings)


data.gives(
    'pm.Normal("y", a, observed=np.ma.masked_invalid(y))',
    lambda g: build_on(lambda: respond(observed=np.ma.masked_equal([9.0, *ZEROS], 9.0))),
)


@data.gives("pm.set_data() with NaN, before the step is built")
def set_to_nan(g):
    def declare():
        column = pm.Data("column", ZEROS)
        respond(observed=column)
        column.set_value(one_wrong(np.nan))

    build_on(declare)


@data.gives("pm.set_data() that makes a predictor shorter, before the step is built")
def shorter(g):
    def declare():
        x = pm.Data("x", ZEROS)
        pm.Normal("y", pm.Normal("a") * x, observed=ZEROS)
        x.set_value(ZEROS[1:])

    build_on(declare)


data.gives(
    "observations with four axes",
    lambda g: build_on(lambda: respond(observed=np.zeros((N, 1, 1, 1)))),
)


def written_by_hand(array):
    """Declare a log-density that computes with an array of its own."""

    def declare():
        level = pm.Normal("level")
        pm.CustomDist("y", level, logp=lambda y, a: -((y - a * array) ** 2), observed=ZEROS)

    return declare


for kind, array in (
    ("a masked", np.ma.masked_equal(np.arange(N), 3)),
    ("a big-endian", ZEROS.astype(">f8")),
    ("an object", ZEROS.astype(object)),
    ("a text", np.full(N, "1")),
):
    data.gives(
        f"pm.CustomDist whose log-density computes with {kind} array",
        lambda g, array=array: build_on(written_by_hand(array)),
    )


@data.gives("pm.set_data() with masked entries, before the step is built")
def set_to_masked(g):
    def declare():
        column = pm.Data("column", ZEROS)
        pm.Normal("y", pm.Normal("a") * column, observed=ZEROS)
        pm.set_data({"column": np.ma.masked_less(one_wrong(-9.0), -1.0)})

    build_on(declare)


data.gives(
    "a matrix of float16",
    lambda g: build_on(
        lambda: pm.Normal(
            "y",
            pm.math.dot(np.ones((N, 2), dtype="float16"), pm.Normal("b", shape=2)),
            observed=ZEROS,
        )
    ),
)
VALUES = np.arange(N) % 7 / 4.0


def reads(declare, **settings):
    """Return the call that splits a model and finds the right numbers in its last column."""

    def call(g):
        with pm.Model() as model:
            declare()
        (term,) = factorize(model, model.value_vars, **settings).terms
        column, _ = term.batches[-1]
        np.testing.assert_array_equal(column.values, VALUES)

    return call


for written, array in (
    ("np.ma.masked_array(y), nothing masked", np.ma.masked_array(VALUES)),
    ("y.astype('>f8')", VALUES.astype(">f8")),
    ("y.astype('float16')", VALUES.astype("float16")),
    ("y.astype('longdouble')", VALUES.astype("longdouble")),
    ("pd.Series(y, dtype='Float64')", pd.Series(VALUES, dtype="Float64")),
):
    data.gives(
        f'pm.Normal("y", a, observed={written})',
        reads(lambda array=array: respond(observed=array)),
    )
data.gives(
    'pm.Data("x", np.ma.masked_array(x)), nothing masked',
    reads(
        lambda: pm.Normal(
            "y", pm.Normal("a") * pm.Data("x", np.ma.masked_array(VALUES)), observed=ZEROS
        )
    ),
)
data.gives(
    "a predictor of float16",
    reads(lambda: pm.Normal("y", pm.Normal("a") * VALUES.astype("float16"), observed=ZEROS)),
)
data.gives(
    "pm.Minibatch of a predictor",
    lambda g: build_on(
        lambda: pm.Normal("y", pm.Normal("a") * pm.Minibatch(ZEROS, batch_size=N), observed=ZEROS)
    ),
)
data.gives(
    "an infinite observation", lambda g: build_on(lambda: respond(observed=one_wrong(np.inf)))
)


def negative_count():
    counts = np.where(np.arange(N) == 17, -1, 1)
    pm.Poisson("counts", pm.math.exp(pm.Normal("a")), observed=counts)


data.gives("a negative count", lambda g: build_on(negative_count))
data.gives(
    "TunaMH(initial_point={'level': nan, 'slope': 0})",
    lambda g: g.build("PenaltyMH", initial_point={"level": np.nan, "slope": 0.0}),
)


def potential_that_excludes():
    a = pm.Normal("a")
    pm.Normal("y", a, observed=ZEROS)
    pm.Potential("above", pm.math.switch(a > 1.0, 0.0, -np.inf))


data.gives(
    "a potential that excludes the starting point", lambda g: build_on(potential_that_excludes)
)


def basis_functions_without_weight():
    eta, ls = pm.HalfNormal("eta"), pm.InverseGamma("ls", 3.0, 3.0)
    process = pm.gp.HSGP(m=[45], c=1.5, cov_func=eta**2 * pm.gp.cov.ExpQuad(1, ls=ls))
    f = process.prior("f", X=np.linspace(-1.0, 1.0, ZEROS.size)[:, None])
    pm.Normal("y", f, observed=ZEROS)


data.gives(
    "a Gaussian process that is too smooth at the starting point for its basis functions",
    lambda g: build_on(basis_functions_without_weight),
)

weights.reads(
    "TunaMH(weights=np.ones(10))", "TunaMH(weights=np.ones((5000, 1)))",
    "TunaMH(weights=['heavy'] * 5000)", "TunaMH(weights=[[1], [2, 3]])",
)  # fmt: skip
weights.gives(
    "TunaMH(weights=w) with masked entries",
    lambda g: g.build("TunaMH", weights=np.ma.masked_equal(np.arange(5_000), 17)),
)
weights.gives(
    "TunaMH(weights=w) with a None among them",
    lambda g: g.build("TunaMH", weights=[None, *np.ones(4_999)]),
)
for written, array in (
    ("w.astype(object)", VALUES.astype(object)),
    ("w.astype('>f8')", VALUES.astype(">f8")),
    ("w.astype('float16')", VALUES.astype("float16")),
    ("np.ma.masked_array(w), nothing masked", np.ma.masked_array(VALUES)),
    ("pd.Series(w, dtype='Float64')", pd.Series(VALUES, dtype="Float64")),
):
    weights.gives(
        f"TunaMH(weights={written})", reads(lambda: respond(observed=ZEROS), weights=array)
    )
for value in (-1.0, np.nan, np.inf):
    weights.gives(
        f"TunaMH(weights=w) with w[17]={value}",
        lambda g, value=value: g.build(
            "TunaMH", weights=np.where(np.arange(5_000) == 17, value, 1.0)
        ),
    )
weights.reads("TunaMH(weights=np.zeros(5000))", "TunaMH(weights={'y': w})", w=np.ones(5_000))


def two():
    a = pm.Normal("a")
    pm.Normal("u", a, observed=ZEROS)
    pm.Normal("v", a, observed=ZEROS)


weights.gives(
    "TunaMH(weights=w) with two observed variables", lambda g: build_on(two, weights=np.ones(N))
)
CASES = [*data.cases, *weights.cases]
