"""Invalid settings of step methods."""

import math

import numpy as np
import pymc as pm

from docs.inputs.case import Section
from helpers.zoo import METHODS
from pymc_minibatch_mh import Ranges

every = Section("Settings of every step")
own = Section("Settings of one step")

every.setting("PenaltyMH", "temperature", 0, -1.0, math.nan, math.inf, "hot", True)
SCHEDULES = [], [(0, 100.0)] * 2, [(5, 2.0)], [(0, -1.0), (9, 1.0)], [(0, 2.0), (4.5, 1.0)], [3]
every.setting("BarkerMinibatchMH", "temperature", *SCHEDULES)
FALLING = [(0, 9.0), (50, 1.0)]
every.settings("TunaMH", temperature=FALLING, tune=False)
every.settings("TunaMH", temperature=FALLING, taylor_order=2)
every.reads("sample(TunaMH(temperature=[(0, 9.0), (50, 1.0)]), tune=49)")
every.setting("TunaMH", "taylor_order", 4, "second", True)
every.setting("AustereMH", "proposal", "walk")
every.setting("TunaMH", "centre", "mean")
every.settings("TunaMH", centre="start", taylor_order=2)
every.reads("TunaMH(covariance=np.eye(2))", "TunaMH(centre='start', covariance=-np.eye(2))")
every.setting("TunaMH", "coordinates", "linear")
every.setting("TunaMH", "blocks", "yes", 1, True)
every.settings("TunaMH", blocks=True, chi=2.0)
every.settings("PenaltyMH", blocks=True)
every.setting("TunaMH", "full_pass_above", -1, math.nan, "half")
every.setting("TunaMH", "moves_without_rows", -1, 2.5, True, "all")
every.setting("FireflyMH", "moves_without_rows", 2)
every.setting("TunaMH", "updates_per_draw", 0, 2.5)
every.setting("TunaMH", "tune", "yes")
every.setting("TunaMH", "blocked", False)
every.setting("TunaMH", "rng", -1)
every.gives(
    "TunaMH(rng=Generator(RandomState(1)._bit_generator))",
    lambda g: g.build("TunaMH", rng=np.random.Generator(np.random.RandomState(1)._bit_generator)),
)
every.setting("TunaMH", "rng", "lucky")
every.setting(
    "TunaMH", "compile_kwargs", {"mode": "JAX"}, {"mode": "fastest"}, {"speed": 2}, "NUMBA"
)
every.setting("TunaMH", "observed", [], ["count"], "count", ["counts", "counts"], 3)
every.setting("TunaMH", "observation_dims", "row", ["row"])
every.setting(
    "TunaMH",
    "initial_point",
    [0.0, 0.0],
    {"level": 0.0},
    {"level": 0.0, "slope": [0.0, 1.0]},
)
every.reads("TunaMH(initial_point={'level': np.ma.masked, 'slope': 0.0})")
every.setting("TunaMH", "initial_point", {"level": "low", "slope": 0.0})
every.setting("TunaMH", "epsilon", 0.1)
every.setting("TunaMH", "chii", 2.0)
every.gives("TunaMH() outside of a model", lambda g: METHODS["TunaMH"]())
every.gives("TunaMH(model='regression')", lambda g: METHODS["TunaMH"](model="regression"))
every.gives("TunaMH(prepared=3)", lambda g: g.build("PenaltyMH", prepared=3))


@every.gives("TunaMH([a]) with a of another model")
def of_another_model(g):
    with pm.Model():
        a = pm.Normal("a")
    g.build("TunaMH", vars=[a])


every.gives(
    "TunaMH([counts]) with counts observed",
    lambda g: g.build("TunaMH", vars=[g.model["counts"]]),
)
every.gives("TunaMH(['level'])", lambda g: g.build("TunaMH", vars=["level"]))
every.gives("TunaMH([level, level])", lambda g: g.build("TunaMH", vars=[g.model["level"]] * 2))

own.setting("TunaMH", "chi", -1, math.nan, math.inf, "large")
own.gives("TunaMH(chi=1e12)", lambda g: g.build("TunaMH", chi=1e12, prepared=g.file))
own.settings("TunaMH", chi=1.0, spectral_gap_ratio=0.5)
own.setting("TunaMH", "spectral_gap_ratio", 1.0, math.nan)
own.setting("TunaMH", "on_violation", "ignore")
own.setting("TunaMH", "delayed_acceptance", 1)
own.setting("FireflyMH", "q", 1.5, 0)
own.setting("FireflyMH", "bound", "tight")
own.settings("FireflyMH", bound="untuned", on_violation="warn")
own.gives(
    "FireflyMH(bound='untuned') of a Poisson regression",
    lambda g: g.build("FireflyMH", bound="untuned"),
)
own.gives("FireflyMH(['level'])", lambda g: g.build("FireflyMH", vars=[g.model["level"]]))
own.setting("AustereMH", "batch_size", 1, 1.5)
own.setting("AustereMH", "epsilon", 0.6, -0.1, "small", True, 0, 0.5)
own.setting("AustereMH", "boundary", 0.4)
own.setting("BarkerMinibatchMH", "sigma", 1.8, 0.5, math.nan, "wide")
own.setting("BarkerPaperMH", "error_bound", "none")
own.setting("BarkerMinibatchMH", "max_error", 1e-9, -1)
own.setting("ConfidenceMH", "gamma", 1.0)
own.setting("ConfidenceMH", "p", 1.0)
own.setting("ConfidenceMH", "delta", 1.0, 0.0)
own.setting("PoissonMH", "lam", 0.0, -1.0, math.inf, math.nan, "much", True)
own.setting("PoissonMH", "taylor_order", 2)
own.setting("PoissonMH", "ranges", 3.0)
N = 5_000


def ranges(low, high):
    """Return the call that hands over ranges."""
    return lambda g: g.build("PoissonMH", ranges=Ranges(low, high))


own.gives("PoissonMH(ranges=Ranges([-1.0], [1.0]))", ranges([-1.0], [1.0]))
own.gives("PoissonMH(ranges=Ranges(low, [1.0, 2.0]))", ranges(-np.ones(N), [1.0, 2.0]))
BELOW = np.where(np.arange(N) == 1, -np.inf, -1.0)
own.gives("PoissonMH(ranges=Ranges(low, high)) with low[1]=-inf", ranges(BELOW, np.ones(N)))
own.gives("PoissonMH(ranges=Ranges('low', high))", ranges("low", np.ones(N)))
own.gives("PoissonMH() of a regression with normal priors", lambda g: g.build("PoissonMH"))

CASES = [*every.cases, *own.cases]
