"""Invalid arguments of bounds, proposals, starting points and diagnostics."""

import math

import numpy as np
import pymc as pm
import pymc.dims as pmd

from docs.inputs.case import Section
from pymc_minibatch_mh import (
    Bounds,
    Laplace,
    Mixture,
    PenaltyMH,
    RandomWalk,
    TunaMH,
    log_likelihood,
    loo_subsample,
    overdispersed_initvals,
    posterior_predictive,
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


bounds.gives("TunaMH(bounds=3.0)", lambda g: g.build("TunaMH", bounds=3.0))
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
proposals.gives("RandomWalk(covariance=-np.eye(2))", lambda g: RandomWalk(covariance=-np.eye(2)))
proposals.argument(RandomWalk, "covariance", [1.0, 2.0], "posterior", [[1, 0.5], [0, 1]])
proposals.gives(
    "RandomWalk(covariance=np.eye(7)) of a model with two coordinates",
    lambda g: g.build("TunaMH", proposal=RandomWalk(covariance=np.eye(7)), prepared=g.file),
)
proposals.argument(RandomWalk, "adapt", None)
proposals.gives("Laplace(1.0)", lambda g: Laplace(1.0))
proposals.argument(Mixture, "rho", 0.5, ("a",), None, (0.0, math.nan))
proposals.argument(Mixture, "walk_weight", 1.5, -0.1, math.nan, "half")
proposals.argument(Mixture, "scale", -1.0)

starts.gives("overdispersed_initvals('step', 4)", lambda g: overdispersed_initvals("step", 4))
for value in (0, 2.5):
    starts.gives(
        f"overdispersed_initvals(step, {value})",
        lambda g, value=value: overdispersed_initvals(g.step, value),
    )
for value in (-1.0, "wide"):
    starts.gives(
        f"overdispersed_initvals(step, 4, scale={value!r})",
        lambda g, value=value: overdispersed_initvals(g.step, 4, scale=value),
    )
starts.gives(
    "overdispersed_initvals(step, 4, random_seed=-1)",
    lambda g: overdispersed_initvals(g.step, 4, random_seed=-1),
)


def on_dims(g):
    """Ask for starting points of a variable with dims."""
    with pm.Model(coords={"row": range(1_000), "group": range(2)}) as model:
        level = pmd.Normal("level", dims="group")
        y = pmd.as_xtensor(np.random.default_rng(1).normal(size=1_000), dims=("row",))
        pmd.Normal("y", level.sum("group"), observed=y)
    overdispersed_initvals(PenaltyMH(model=model), 4)


starts.gives('a variable with pymc.dims.Normal("level", dims="group")', on_dims)

for name, value in (
    ("draws", 0),
    ("tune", -1),
    ("chains", 0),
    ("cores", "two"),
    ("progressbar", "yes"),
    ("random_seed", "x"),
):
    sampling.gives(
        f"sample(step, {name}={value!r})",
        lambda g, name=name, value=value: sample(g.step, **{name: value}),
    )
sampling.gives("sample({})", lambda g: sample({}))
sampling.gives("sample(TunaMH)", lambda g: sample(TunaMH))
sampling.gives("sample(step, resume={})", lambda g: sample(g.step, resume={}))
sampling.gives(
    "sample(step, chains=4, resume=trace)", lambda g: sample(g.step, chains=4, resume=g.trace())
)

for value in ([], [0.5], [[1]], ["a"], [True], [[1], [2, 3]]):
    after.gives(
        f"log_likelihood(trace, {value})",
        lambda g, value=value: log_likelihood(g.trace(), value, model=g.model),
    )
after.gives(
    "log_likelihood(trace, observations) with masked entries",
    lambda g: log_likelihood(g.trace(), np.ma.masked_equal([1, 2], 2), model=g.model),
)
for value in (-1, N):
    after.gives(
        f"posterior_predictive(trace, [{value}])",
        lambda g, value=value: posterior_predictive(g.trace(), [value], model=g.model),
    )
after.gives(
    "log_likelihood(trace, [0], var_name='count')",
    lambda g: log_likelihood(g.trace(), [0], model=g.model, var_name="count"),
)
after.gives("log_likelihood([], [0])", lambda g: log_likelihood([], [0], model=g.model))
after.gives("log_likelihood(trace, [0]) without a model", lambda g: log_likelihood(g.trace(), [0]))
after.gives(
    "log_likelihood(trace.posterior, [0])",
    lambda g: log_likelihood(g.trace()["posterior"], [0], model=g.model),
)


@after.gives("log_likelihood(trace, [0]) of a trace without a variable")
def lacking(g):
    trace = g.trace()
    del trace["posterior"]["slope"]
    log_likelihood(trace, [0], model=g.model)


@after.gives("log_likelihood(trace, [0]) of another model's trace")
def of_another_shape(g):
    log_likelihood(g.trace(slope=np.zeros((2, 3, 2))), [0], model=g.model)


after.gives(
    "posterior_predictive(trace, [0], random_seed='lucky')",
    lambda g: posterior_predictive(g.trace(), [0], model=g.model, random_seed="lucky"),
)
after.gives(
    "loo_subsample(trace, random_seed='lucky')",
    lambda g: loo_subsample(g.trace(), model=g.model, random_seed="lucky"),
)
for value in (0, 5_001):
    after.gives(
        f"loo_subsample(trace, {value})",
        lambda g, value=value: loo_subsample(g.trace(), value, model=g.model),
    )
after.gives("loo_subsample(trace, 'all')", lambda g: loo_subsample(g.trace(), "all", model=g.model))
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
