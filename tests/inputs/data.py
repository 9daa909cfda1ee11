"""Data that cannot be read, and steps that are used on what they were not made for."""

import numpy as np
import pymc as pm

from inputs.case import Section, build_on
from pymc_minibatch_mh import (
    MinibatchError,
    UnsplittableModelError,
)

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
