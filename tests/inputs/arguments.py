"""Invalid arguments of bounds, proposals, starting points and diagnostics."""

import math

import numpy as np
import pymc as pm
import pymc.dims as pmd

from inputs.case import NUMBER, Section
from pymc_minibatch_mh import (
    Bounds,
    BoundViolationError,
    Laplace,
    MinibatchError,
    Mixture,
    PenaltyMH,
    RandomWalk,
    log_likelihood,
    loo_subsample,
    overdispersed_initvals,
    posterior_predictive,
)

bounds = Section("Bounds of your own")
proposals = Section("Proposals")
starts = Section("overdispersed_initvals")
after = Section("Diagnostics")

N = 5_000
GIVE = "Give one number per row of the subsampled terms."


def given(c, metric=None):
    """Return the call that hands over bounds."""
    return lambda g: g.build("TunaMH", bounds=Bounds(c, metric), prepared=g.file)


def with_entry(value):
    """Return bounds of all rows, one of them changed."""
    c = np.ones(N)
    c[7] = value
    return c


def distance(here, there):
    return np.sqrt(((here - there) ** 2).sum())


def negative(here, there):
    return -((here - there) ** 2).sum()


bounds.refuses(
    "TunaMH(bounds=3.0)",
    "bounds=float",
    "is not a set of bounds.",
    "Pass Bounds(c, metric), or a function that returns it for the centre that it is called with.",
    call=lambda g: g.build("TunaMH", bounds=3.0),
)
bounds.refuses(
    "Bounds(np.ones(10))",
    "bounds=Bounds(c)",
    "has c of shape (10,) for 5,000 rows.",
    GIVE,
    call=given(np.ones(10)),
)
bounds.refuses(
    "Bounds(['a', 'b'])",
    "bounds=Bounds(c)",
    "has a c that is no array of numbers.",
    GIVE,
    call=given(["a", "b"]),
)
for value, printed in ((math.nan, "nan"), (math.inf, "inf"), (-1.0, "-1.0")):
    bounds.refuses(
        f"Bounds(c) with c[7]={printed}",
        "bounds=Bounds(c)",
        f"has c[7]={printed}, which bounds nothing.",
        "Give finite, non-negative numbers.",
        call=given(with_entry(value)),
    )
bounds.refuses(
    "Bounds(c) with masked entries",
    "bounds=Bounds(c)",
    "has a c with masked entries, whose values are missing.",
    "Give numbers without a mask.",
    call=given(np.ma.masked_equal(np.arange(N), 7)),
)
bounds.refuses(
    "Bounds(c, metric=2.0)",
    "bounds=Bounds(c, metric)",
    "has metric=2.0, which is no function.",
    "Give one of two positions, or leave it out for that of derived bounds.",
    call=given(np.ones(N), 2.0),
)
bounds.refuses(
    "Bounds(c, metric) with a negative metric",
    "bounds=Bounds(c, metric)",
    f"has a metric of {NUMBER} for a move, which bounds nothing.",
    "Give one that is never negative.",
    call=given(np.ones(N), negative),
)
bounds.refuses(
    "TunaMH(bounds=lambda centre: 1.0)",
    "bounds=",
    "is a function that returned a float.",
    "Return Bounds(c, metric) for the centre that it is called with.",
    call=lambda g: g.build("TunaMH", bounds=lambda centre: 1.0, prepared=g.file),
)
bounds.refuses(
    "Bounds(c, metric) that a row exceeds",
    "'counts':",
    f"row {NUMBER} changes by {NUMBER} times its bound in the move from [{NUMBER}{NUMBER}] to "
    f"[{NUMBER}{NUMBER}] (unconstrained values), so the draws would not be exact.",
    "Enlarge bounds of your own, report derived ones, or use PenaltyMH(), which needs none.",
    call=given(np.full(N, 1e-12), distance),
    error=BoundViolationError,
)

for value in (0.0, math.nan, "wide"):
    proposals.refuses(
        f"RandomWalk(scale={value!r})",
        f"scale={value!r}",
        "is not a positive number.",
        "Give one, or None.",
        call=lambda g, value=value: RandomWalk(scale=value),
    )
proposals.refuses(
    "RandomWalk(covariance='posterior')",
    "covariance='posterior'",
    "is unknown.",
    "Use 'laplace', 'identity' or an array.",
    call=lambda g: RandomWalk(covariance="posterior"),
)
proposals.refuses(
    "RandomWalk(covariance=[[1, 0.5], [0, 1]])",
    "covariance=",
    "is not symmetric.",
    "Give a covariance matrix.",
    call=lambda g: RandomWalk(covariance=[[1, 0.5], [0, 1]]),
)
proposals.refuses(
    "RandomWalk(covariance=np.eye(7)) of a model with two coordinates",
    "covariance=",
    "has 7 lines, and the position 2 coordinates.",
    "Give one line for each unconstrained coordinate.",
    call=lambda g: g.build("TunaMH", proposal=RandomWalk(covariance=np.eye(7)), prepared=g.file),
)
proposals.refuses(
    "RandomWalk(adapt=None)",
    "adapt=None",
    "is neither True nor False.",
    "Give one of them.",
    call=lambda g: RandomWalk(adapt=None),
)
proposals.refuses(
    "Laplace(1.0)",
    "rho=(1.0,)",
    "has a coefficient outside (-1, 1), where a Laplace move is not stationary.",
    "Use coefficients inside it.",
    call=lambda g: Laplace(1.0),
)
for value in (0.5, ("a",), None):
    proposals.refuses(
        f"Mixture(rho={value!r})",
        f"rho={value!r}",
        "is not a sequence of numbers.",
        "Give a tuple, such as (0.0, 0.5).",
        call=lambda g, value=value: Mixture(rho=value),
    )
for value in (1.5, math.nan, "half"):
    proposals.refuses(
        f"Mixture(walk_weight={value!r})",
        f"walk_weight={value!r}",
        "is not a probability.",
        "Give a number from 0 to 1.",
        call=lambda g, value=value: Mixture(walk_weight=value),
    )

starts.refuses(
    "overdispersed_initvals('step', 4)",
    "step=str",
    "is no step method of this package.",
    "Pass the one that pm.sample() gets, such as a TunaMH().",
    call=lambda g: overdispersed_initvals("step", 4),
)
for value in (0, 2.5):
    starts.refuses(
        f"overdispersed_initvals(step, {value})",
        f"chains={value}",
        "is not an integer of 1 or more.",
        "Give one.",
        call=lambda g, value=value: overdispersed_initvals(g.step, value),
    )
for value in (-1.0, "wide"):
    starts.refuses(
        f"overdispersed_initvals(step, 4, scale={value!r})",
        f"scale={value!r}",
        "is not a positive number.",
        "Give a number above 0.",
        call=lambda g, value=value: overdispersed_initvals(g.step, 4, scale=value),
    )
starts.refuses(
    "overdispersed_initvals(step, 4, seed=-1)",
    "seed=-1",
    "is no seed.",
    "Give an integer of 0 or more, or a generator of NumPy.",
    call=lambda g: overdispersed_initvals(g.step, 4, seed=-1),
)


def on_dims(g):
    """Ask for starting points of a variable with dims."""
    with pm.Model(coords={"row": range(1_000), "group": range(2)}) as model:
        level = pmd.Normal("level", dims="group")
        y = pmd.as_xtensor(np.random.default_rng(1).normal(size=1_000), dims=("row",))
        pmd.Normal("y", level.sum("group"), observed=y)
    overdispersed_initvals(PenaltyMH(model=model), 4)


starts.refuses(
    'a variable with pymc.dims.Normal("level", dims="group")',
    "'level'",
    "has values along the dims of pymc.dims, and PyMC takes no starting values of such variables.",
    "Leave out initvals=.",
    call=on_dims,
)

ROWS = "are not row numbers of 'counts'."
for value in ([], [0.5], [[1]], ["a"], [True], [[1], [2, 3]]):
    after.refuses(
        f"log_likelihood(trace, {value})",
        f"rows={value!r}",
        ROWS,
        "Give a sequence of integers.",
        call=lambda g, value=value: log_likelihood(g.trace(), value, model=g.model),
    )
after.refuses(
    "log_likelihood(trace, rows) with masked entries",
    "rows=",
    "has masked entries, whose values are missing.",
    "Give numbers without a mask.",
    call=lambda g: log_likelihood(g.trace(), np.ma.masked_equal([1, 2], 2), model=g.model),
)
for value in (-1, N):
    after.refuses(
        f"posterior_predictive(trace, [{value}])",
        "rows=",
        f"contains {value}, but 'counts' has 5,000 rows.",
        "Choose from 0 to 4999.",
        call=lambda g, value=value: posterior_predictive(g.trace(), [value], model=g.model),
    )
after.refuses(
    "log_likelihood(trace, [0], var_name='count')",
    "var_name='count'",
    "names no observed variable of this model.",
    "Choose from ['counts'].",
    call=lambda g: log_likelihood(g.trace(), [0], model=g.model, var_name="count"),
)
after.refuses(
    "log_likelihood([], [0])",
    "trace=list",
    "is no trace.",
    "Give what pm.sample() returned.",
    call=lambda g: log_likelihood([], [0], model=g.model),
)
after.refuses(
    "log_likelihood(trace, [0]) without a model",
    "model=",
    "is not given, and no model is open.",
    "Pass model=, or call this inside of 'with model:'.",
    call=lambda g: log_likelihood(g.trace(), [0]),
)
after.refuses(
    "log_likelihood(trace.posterior, [0])",
    "trace=",
    "has no group 'posterior'.",
    "Give what pm.sample() returned.",
    call=lambda g: log_likelihood(g.trace()["posterior"], [0], model=g.model),
)


@after.refuses(
    "log_likelihood(trace, [0]) of a trace without a variable",
    "'slope'",
    "is a free variable of the model, but not in the trace.",
    "Sample this very model, and leave no free variable out of pm.sample(var_names=...).",
)
def lacking(g):
    trace = g.trace()
    del trace["posterior"]["slope"]
    log_likelihood(trace, [0], model=g.model)


@after.refuses(
    "log_likelihood(trace, [0]) of another model's trace",
    "'slope'",
    "has draws of shape (2,) in the trace, but shape () in the model.",
    "Sample this very model.",
)
def of_another_shape(g):
    log_likelihood(g.trace(slope=np.zeros((2, 3, 2))), [0], model=g.model)


after.refuses(
    "posterior_predictive(trace, [0], random_seed='lucky')",
    "random_seed='lucky'",
    "is no seed.",
    "Give an integer of 0 or more, or a generator of NumPy.",
    call=lambda g: posterior_predictive(g.trace(), [0], model=g.model, random_seed="lucky"),
)
after.refuses(
    "loo_subsample(trace, seed='lucky')",
    "seed='lucky'",
    "is no seed.",
    "Give an integer of 0 or more, or a generator of NumPy.",
    call=lambda g: loo_subsample(g.trace(), model=g.model, seed="lucky"),
)
for value in (0, 5_001):
    after.refuses(
        f"loo_subsample(trace, {value})",
        f"observations={value}",
        "is no number of rows of 'counts'.",
        "Choose from 1 to 5,000, or give row numbers.",
        call=lambda g, value=value: loo_subsample(g.trace(), value, model=g.model),
    )
after.refuses(
    "loo_subsample(trace, 'all')",
    "observations='all'",
    ROWS,
    "Give a sequence of integers.",
    call=lambda g: loo_subsample(g.trace(), "all", model=g.model),
)
after.refuses(
    "loo_subsample(trace) with a row of density zero",
    "'counts'",
    "has no finite log-likelihood at the posterior mean, first in row 0, so that differences from "
    "it cannot be averaged.",
    "Correct that row, or use az.loo().",
    call=lambda g: loo_subsample(g.trace(level=np.full((2, 3), np.inf)), model=g.model),
    error=MinibatchError,
)


@after.refuses(
    "log_likelihood(trace, [0]) with two observed variables",
    "var_name=",
    "is not given, and this model has 2 observed variables.",
    "Choose from ['u', 'v'].",
)
def of_two(g):
    with pm.Model() as model:
        a = pm.Normal("a")
        pm.Normal("u", a, observed=np.zeros(3))
        pm.Normal("v", a, observed=np.zeros(3))
    log_likelihood(g.trace(), [0], model=model)


CASES = [*bounds.cases, *proposals.cases, *starts.cases, *after.cases]
