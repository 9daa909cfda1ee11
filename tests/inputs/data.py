"""Data that cannot be read, and steps that are used on what they were not made for."""

import numpy as np
import pandas as pd
import pymc as pm

from inputs.case import Section, build_on
from pymc_minibatch_mh import (
    MinibatchError,
    UnsplittableModelError,
)
from pymc_minibatch_mh.model.reading.split import split

data = Section("Data", UnsplittableModelError)
weights = Section("Weights")


N = 1_000
SO = ", so it cannot be subsampled."
DROP = "Drop the rows with missing values, or sample with pm.NUTS()."
ZEROS = np.zeros(N)


def one_wrong(value):
    """Return a column with one entry that is wrong."""
    values = np.linspace(-1.0, 1.0, N)
    values[17] = value
    return values


def respond(**settings):
    """Declare observations with an unknown mean."""
    pm.Normal("y", pm.Normal("a"), **settings)


data.refuses(
    'pm.Normal("y", a, observed=np.ma.masked_invalid(y))',
    "'y'",
    "has missing values that PyMC imputes, one latent variable each" + SO,
    DROP,
    call=lambda g: build_on(lambda: respond(observed=np.ma.masked_equal([9.0, *ZEROS], 9.0))),
)


@data.refuses(
    "pm.set_data() with NaN, before the step is built",
    "'y'",
    "has missing values (NaN) in its data" + SO,
    "Drop the rows with missing values.",
)
def set_to_nan(g):
    def declare():
        column = pm.Data("column", ZEROS)
        respond(observed=column)
        column.set_value(one_wrong(np.nan))

    build_on(declare)


@data.refuses(
    "pm.set_data() that makes a predictor shorter, before the step is built",
    "'y'",
    "uses 'x', whose length 999 along its observation axis differs from the 1,000 observations"
    + SO,
    "Give every data array one entry per observation.",
)
def shorter(g):
    def declare():
        x = pm.Data("x", ZEROS)
        pm.Normal("y", pm.Normal("a") * x, observed=ZEROS)
        x.set_value(ZEROS[1:])

    build_on(declare)


data.refuses(
    "observations with four axes",
    "'y'",
    "uses 'y', an array of type float64 with 4 axes" + SO,
    "Use real numbers in native byte order, floats of 32 bits or more, and at most three axes.",
    call=lambda g: build_on(lambda: respond(observed=np.zeros((N, 1, 1, 1)))),
)


def written_by_hand(array):
    """Declare a log-density that computes with an array of its own."""

    def declare():
        level = pm.Normal("level")
        pm.CustomDist("y", level, logp=lambda y, a: -((y - a * array) ** 2), observed=ZEROS)

    return declare


NO_NUMBER = "TensorVariable cannot be converted to Python integer."
for kind, array, said in (
    ("a masked", np.ma.masked_equal(np.arange(N), 3), NO_NUMBER),
    ("a big-endian", ZEROS.astype(">f8"), "'numpy.ndarray' object has no attribute 'name'"),
    ("an object", ZEROS.astype(object), "'numpy.ndarray' object has no attribute 'name'"),
    ("a text", np.full(N, "1"), NO_NUMBER),
):
    rest = " Call `.astype(int)` for the symbolic equivalent." if said is NO_NUMBER else ""
    data.refuses(
        f"pm.CustomDist whose log-density computes with {kind} array",
        "'y'",
        f"has a log-density that PyMC cannot write ({said}{rest}).",
        "Correct its function; where that computes with a masked, big-endian or object array, give "
        "it np.asarray(x, dtype=float).",
        call=lambda g, array=array: build_on(written_by_hand(array)),
    )


@data.refuses(
    "pm.set_data() with masked entries, before the step is built",
    "'column'",
    "is set to an array with masked entries, whose values are missing" + SO,
    "Drop the rows with missing values.",
)
def set_to_masked(g):
    def declare():
        column = pm.Data("column", ZEROS)
        pm.Normal("y", pm.Normal("a") * column, observed=ZEROS)
        pm.set_data({"column": np.ma.masked_less(one_wrong(-9.0), -1.0)})

    build_on(declare)


data.refuses(
    "a matrix of float16",
    "'y'",
    "uses 'a data array of y', an array of type float16 with 2 axes" + SO,
    "Use real numbers in native byte order, floats of 32 bits or more, and at most three axes.",
    call=lambda g: build_on(
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
        (term,) = split(model, model.value_vars, **settings).terms
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
    data.accepts(
        f'pm.Normal("y", a, observed={written})',
        reads(lambda array=array: respond(observed=array)),
    )
data.accepts(
    'pm.Data("x", np.ma.masked_array(x)), nothing masked',
    reads(
        lambda: pm.Normal(
            "y", pm.Normal("a") * pm.Data("x", np.ma.masked_array(VALUES)), observed=ZEROS
        )
    ),
)
data.accepts(
    "a predictor of float16",
    reads(lambda: pm.Normal("y", pm.Normal("a") * VALUES.astype("float16"), observed=ZEROS)),
)
data.refuses(
    "pm.Minibatch of a predictor",
    "'y'",
    "is declared with total_size= or pm.Minibatch, which rescales a random batch" + SO,
    "Give the model all rows and drop total_size; this step draws its own batches.",
    call=lambda g: build_on(
        lambda: pm.Normal("y", pm.Normal("a") * pm.Minibatch(ZEROS, batch_size=N), observed=ZEROS)
    ),
)
data.refuses(
    "an infinite observation",
    "'y'",
    "has a log-likelihood that is not finite at the starting point, first in row 17.",
    "Correct that row, or pass other initvals=.",
    call=lambda g: build_on(lambda: respond(observed=one_wrong(np.inf))),
    error=MinibatchError,
)


def negative_count():
    counts = np.where(np.arange(N) == 17, -1, 1)
    pm.Poisson("counts", pm.math.exp(pm.Normal("a")), observed=counts)


data.refuses(
    "a negative count",
    "'counts'",
    "has a log-likelihood that is not finite at the starting point, first in row 17.",
    "Correct that row, or pass other initvals=.",
    call=lambda g: build_on(negative_count),
    error=MinibatchError,
)
data.refuses(
    "TunaMH(initial_point={'level': nan, 'slope': 0})",
    "'level'",
    "is nan at the starting point, outside its support.",
    "Pass other initvals=, or initial_point=.",
    call=lambda g: g.build("PenaltyMH", initial_point={"level": np.nan, "slope": 0.0}),
    error=MinibatchError,
)


def potential_that_excludes():
    a = pm.Normal("a")
    pm.Normal("y", a, observed=ZEROS)
    pm.Potential("above", pm.math.switch(a > 1.0, 0.0, -np.inf))


data.refuses(
    "a potential that excludes the starting point",
    "'a':",
    "the prior part of the model is not finite at the starting point, as where a potential "
    "excludes it.",
    "Pass other initvals=, or initial_point=.",
    call=lambda g: build_on(potential_that_excludes),
    error=MinibatchError,
)

ROW = "Give one number for each of the 5,000 rows."
for written, values, shape in (
    ("np.ones(10)", np.ones(10), "type float64 and shape (10,)"),
    ("np.ones((5000, 1))", np.ones((5_000, 1)), "type float64 and shape (5000, 1)"),
    ("['heavy'] * 5000", ["heavy"] * 5_000, "type <U5 and shape (5000,)"),
    ("[[1], [2, 3]]", [[1], [2, 3]], "type object and shape (2,)"),
):
    weights.refuses(
        f"TunaMH(weights={written})",
        "weights=",
        f"of 'counts' are an array of {shape}.",
        ROW,
        call=lambda g, values=values: g.build("TunaMH", weights=values),
    )
weights.refuses(
    "TunaMH(weights=w) with masked entries",
    "weights=",
    "of 'counts' have masked entries, whose values are missing.",
    "Give numbers without a mask.",
    call=lambda g: g.build("TunaMH", weights=np.ma.masked_equal(np.arange(5_000), 17)),
)
weights.refuses(
    "TunaMH(weights=w) with a None among them",
    "weights=",
    "of 'counts' are an array of type object and shape (5000,).",
    ROW,
    call=lambda g: g.build("TunaMH", weights=[None, *np.ones(4_999)]),
)
for written, array in (
    ("w.astype(object)", VALUES.astype(object)),
    ("w.astype('>f8')", VALUES.astype(">f8")),
    ("w.astype('float16')", VALUES.astype("float16")),
    ("np.ma.masked_array(w), nothing masked", np.ma.masked_array(VALUES)),
    ("pd.Series(w, dtype='Float64')", pd.Series(VALUES, dtype="Float64")),
):
    weights.accepts(
        f"TunaMH(weights={written})", reads(lambda: respond(observed=ZEROS), weights=array)
    )
for value in (-1.0, np.nan, np.inf):
    weights.refuses(
        f"TunaMH(weights=w) with w[17]={value}",
        "weights=",
        f"of 'counts' are {value} in row 17.",
        "Give finite numbers of 0 or more.",
        call=lambda g, value=value: g.build(
            "TunaMH", weights=np.where(np.arange(5_000) == 17, value, 1.0)
        ),
    )
weights.refuses(
    "TunaMH(weights=np.zeros(5000))",
    "weights=",
    "of 'counts' are all 0.",
    "Leave it out of observed=.",
    call=lambda g: g.build("TunaMH", weights=np.zeros(5_000)),
)
weights.refuses(
    "TunaMH(weights={'y': w})",
    "weights=",
    "are given for 'y', which is not subsampled.",
    "Choose from ['counts'].",
    call=lambda g: g.build("TunaMH", weights={"y": np.ones(5_000)}),
)


def two():
    a = pm.Normal("a")
    pm.Normal("u", a, observed=ZEROS)
    pm.Normal("v", a, observed=ZEROS)


weights.refuses(
    "TunaMH(weights=w) with two observed variables",
    "weights=",
    "is one array for 2 observed variables.",
    "Pass a dictionary with keys out of ['u', 'v'].",
    call=lambda g: build_on(two, weights=np.ones(N)),
)
CASES = [*data.cases, *weights.cases]
