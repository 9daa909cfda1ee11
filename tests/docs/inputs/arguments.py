"""Invalid arguments of bounds, proposals, starting points and diagnostics."""

import math

import numpy as np
import pymc as pm
import pymc.dims as pmd

from docs.inputs.case import Section
from pymc_minibatch_mh import (
    Bounds,
    Mixture,
    PenaltyMH,
    RandomWalk,
    TunaMH,
    log_likelihood,
    loo_subsample,
    overdispersed_initvals,
    sample,
)

bounds = Section("Bounds of your own")
proposals = Section("Proposals")
starts = Section("overdispersed_initvals")
sampling = Section("sample")
after = Section("Diagnostics")

N = 5_000


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


bounds.reads("TunaMH(bounds=3.0)")
bounds.gives("Bounds(np.ones(10))", given(np.ones(10)))
bounds.gives("Bounds(1.0)", given(1.0))
bounds.gives("Bounds(np.ones((3, 1)))", given(np.ones((3, 1))))
bounds.gives("Bounds(['a', 'b'])", given(["a", "b"]))
for value, printed in ((math.nan, "nan"), (math.inf, "inf"), (-1.0, "-1.0")):
    bounds.gives(f"Bounds(c) with c[7]={printed}", given(with_entry(value)))
bounds.gives("Bounds(c) with masked entries", given(np.ma.masked_equal(np.arange(N), 7)))
bounds.gives("Bounds(c, metric=2.0)", given(np.ones(N), 2.0))
bounds.gives("Bounds(c, metric) with a negative metric", given(np.ones(N), negative))
bounds.gives(
    "TunaMH(bounds=lambda centre: 1.0)",
    lambda g: g.build("TunaMH", bounds=lambda centre: 1.0, prepared=g.file),
)
bounds.gives("Bounds(c, metric) that a row exceeds", given(np.full(N, 1e-12), distance))

proposals.argument(RandomWalk, "scale", 0.0, math.nan, "wide")
proposals.reads("RandomWalk(covariance=-np.eye(2))")
proposals.argument(RandomWalk, "covariance", [1.0, 2.0], "posterior", [[1, 0.5], [0, 1]])
proposals.gives(
    "RandomWalk(covariance=np.eye(7)) of a model with two coordinates",
    lambda g: g.build("TunaMH", proposal=RandomWalk(covariance=np.eye(7)), prepared=g.file),
)
proposals.argument(RandomWalk, "adapt", None)
proposals.reads("Laplace(1.0)")
proposals.argument(Mixture, "rho", 0.5, ("a",), None, (0.0, math.nan))
proposals.argument(Mixture, "walk_weight", 1.5, -0.1, math.nan, "half")
proposals.argument(Mixture, "scale", -1.0)

starts.reads(
    "overdispersed_initvals('step', 4)", "overdispersed_initvals(step, 0)",
    "overdispersed_initvals(step, 2.5)", "overdispersed_initvals(step, 4, scale=-1.0)",
    "overdispersed_initvals(step, 4, scale='wide')",
    "overdispersed_initvals(step, 4, random_seed=-1)",
)  # fmt: skip


def on_dims(g):
    """Ask for starting points of a variable with dims."""
    with pm.Model(coords={"row": range(1_000), "group": range(2)}) as model:
        level = pmd.Normal("level", dims="group")
        y = pmd.as_xtensor(np.random.default_rng(1).normal(size=1_000), dims=("row",))
        pmd.Normal("y", level.sum("group"), observed=y)
    overdispersed_initvals(PenaltyMH(model=model), 4)


starts.gives('a variable with pymc.dims.Normal("level", dims="group")', on_dims)

sampling.reads(
    "sample(step, draws=0)", "sample(step, tune=-1)", "sample(step, chains=0)",
    "sample(step, cores='two')", "sample(step, progressbar='yes')", "sample(step, random_seed='x')",
    "sample({})",
)  # fmt: skip
sampling.gives("sample(TunaMH)", lambda g: sample(TunaMH))
sampling.reads("sample(step, resume={})", "sample(step, chains=4, resume=trace)")

for value in ("[]", "[0.5]", "[[1]]", "['a']", "[True]", "[[1], [2, 3]]"):
    after.reads(f"log_likelihood(trace, {value})")
after.gives(
    "log_likelihood(trace, observations) with masked entries",
    lambda g: log_likelihood(g.trace(), np.ma.masked_equal([1, 2], 2), model=g.model),
)
after.reads(
    "posterior_predictive(trace, [-1])", "posterior_predictive(trace, [5000])",
    "log_likelihood(trace, [0], var_name='count')", "log_likelihood([], [0])",
)  # fmt: skip
after.gives("log_likelihood(trace, [0]) without a model", lambda g: log_likelihood(g.trace(), [0]))
after.reads("log_likelihood(trace.posterior, [0])")


@after.gives("log_likelihood(trace, [0]) of a trace without a variable")
def lacking(g):
    trace = g.trace()
    del trace["posterior"]["slope"]
    log_likelihood(trace, [0], model=g.model)


@after.gives("log_likelihood(trace, [0]) of another model's trace")
def of_another_shape(g):
    log_likelihood(g.trace(slope=np.zeros((2, 3, 2))), [0], model=g.model)


after.reads(
    "posterior_predictive(trace, [0], random_seed='lucky')",
    "loo_subsample(trace, random_seed='lucky')", "loo_subsample(trace, 0)",
    "loo_subsample(trace, 5001)", "loo_subsample(trace, 'all')",
)  # fmt: skip
after.gives(
    "loo_subsample(trace) with a row of density zero",
    lambda g: loo_subsample(g.trace(level=np.full((2, 3), np.inf)), model=g.model),
)


@after.gives("log_likelihood(trace, [0]) with two observed variables")
def of_two(g):
    with pm.Model() as model:
        a = pm.Normal("a")
        pm.Normal("u", a, observed=np.zeros(3))
        pm.Normal("v", a, observed=np.zeros(3))
    log_likelihood(g.trace(), [0], model=model)


CASES = [*bounds.cases, *proposals.cases, *starts.cases, *sampling.cases, *after.cases]
