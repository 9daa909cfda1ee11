"""Invalid settings of step methods."""

import math

import numpy as np
import pymc as pm

from inputs.case import Section
from pymc_minibatch_mh import Ranges, sample
from pymc_minibatch_mh.errors import BoundsError
from zoo import METHODS

every = Section("Settings of every step")
own = Section("Settings of one step")

POSITIVE = ("is not a positive number.", "Give a number above 0.")
for value in (0, -1.0, math.nan, math.inf, "hot", True):
    every.setting("PenaltyMH", "temperature", value, *POSITIVE)
for value in ([], [(0, 100.0)] * 2, [(5, 2.0)], [(0, -1.0), (9, 1.0)], [(0, 2.0), (4.5, 1.0)], [3]):
    every.setting(
        "BarkerMinibatchMH",
        "temperature",
        value,
        "is no schedule of temperatures.",
        "Give pairs (draw, K) with draws that ascend from 0 and K above 0, such as "
        "[(0, 100), (400, 1)].",
    )
every.refuses(
    "TunaMH(temperature=[(0, 9.0), (50, 1.0)], tune=False)",
    "temperature=[(0, 9.0), (50, 1.0)]",
    "is a schedule for warm-up, which tune=False leaves out.",
    "Use tune=True, or one temperature.",
    call=lambda g: g.build("TunaMH", temperature=[(0, 9.0), (50, 1.0)], tune=False),
)
every.refuses(
    "TunaMH(temperature=[(0, 9.0), (50, 1.0)], taylor_order=2)",
    "taylor_order=2",
    "does not go with a schedule of temperatures, as control variates hold one temperature.",
    "Use taylor_order=0, or one temperature.",
    call=lambda g: g.build("TunaMH", temperature=[(0, 9.0), (50, 1.0)], taylor_order=2),
)


@every.refuses(
    "sample(TunaMH(temperature=[(0, 9.0), (50, 1.0)]), tune=49)",
    "temperature=[(0, 9.0), (50, 1.0)]",
    "reaches its last temperature at draw 50, after a warm-up of tune=49 draws has ended.",
    "Raise tune=, or shorten the schedule.",
)
def ends_early(g):
    sample(g.build("TunaMH", temperature=[(0, 9.0), (50, 1.0)]), 10, tune=49)


for value in (3, "second", True):
    every.setting("TunaMH", "taylor_order", value, "is unknown.", "Use 'auto', 0, 1 or 2.")
every.setting(
    "AustereMH",
    "proposal",
    "walk",
    "is unknown.",
    "Use 'auto', RandomWalk(), Laplace() or Mixture().",
)
every.setting("TunaMH", "centre", "mean", "is unknown.", "Use 'auto' or 'start'.")
every.refuses(
    "TunaMH(centre='start', taylor_order=2)",
    "taylor_order=2",
    "needs a centre that is sought, but centre='start'.",
    "Use taylor_order=0, or leave centre= out.",
    call=lambda g: g.build("TunaMH", centre="start", taylor_order=2),
)
every.refuses(
    "TunaMH(covariance=np.eye(2))",
    "covariance=",
    "is for centre='start'; around a mode the posterior's own is known.",
    "Leave it out, or set centre='start'.",
    call=lambda g: g.build("TunaMH", covariance=np.eye(2)),
)
every.refuses(
    "TunaMH(centre='start', covariance=-np.eye(2))",
    "covariance=ndarray",
    "is no positive definite matrix.",
    "Give an array of shape (d, d), d the number of unconstrained coordinates that are moved.",
    call=lambda g: g.build("TunaMH", centre="start", covariance=-np.eye(2)),
)
every.setting("TunaMH", "coordinates", "linear", "is unknown.", "Use 'auto' or 'model'.")
for value in (-1, math.nan, "half"):
    every.setting(
        "TunaMH",
        "full_pass_above",
        value,
        "is no number of rows.",
        "Give one of 0 or more, math.inf for no limit, or 'auto'.",
    )
for value in (-1, 2.5, True, "all"):
    every.setting(
        "TunaMH",
        "moves_without_rows",
        value,
        "is not an integer of 0 or more.",
        "Give one, or 'auto'.",
    )
every.setting(
    "FireflyMH",
    "moves_without_rows",
    2,
    "does not go with FireflyMH: all that it remembers of rows depends on every coordinate.",
    "Leave it out.",
)
for value in (0, 2.5):
    every.setting(
        "TunaMH", "updates_per_draw", value, "is not an integer of 1 or more.", "Give one."
    )
every.setting("TunaMH", "tune", "yes", "is neither True nor False.", "Give one of them.")
every.setting(
    "TunaMH",
    "blocked",
    False,
    "would give each variable its own step, but all move together here.",
    "Leave it out.",
)
every.setting(
    "TunaMH", "rng", -1, "is no seed.", "Give an integer of 0 or more, or a generator of NumPy."
)
every.refuses(
    "TunaMH(rng=Generator(RandomState(1)._bit_generator))",
    "rng=Generator(MT19937)",
    "has no seed sequence, of which the generators of chains are made.",
    "Give an integer of 0 or more, or a generator of numpy.random.default_rng.",
    call=lambda g: g.build(
        "TunaMH", rng=np.random.Generator(np.random.RandomState(1)._bit_generator)
    ),
)
every.setting(
    "TunaMH",
    "rng",
    "lucky",
    "is no seed.",
    "Give an integer of 0 or more, or a generator of NumPy.",
)
every.setting(
    "TunaMH",
    "compile_kwargs",
    {"mode": "JAX"},
    "asks for another linker than numba, and the compiled update can only call numba functions.",
    "Leave out the mode, or give one that uses the numba linker.",
)
every.setting(
    "TunaMH",
    "compile_kwargs",
    {"mode": "fastest"},
    "is no mode of PyTensor.",
    "Leave out the mode.",
)
every.setting(
    "TunaMH",
    "compile_kwargs",
    {"speed": 2},
    "has 'speed', which pytensor.function() does not take.",
    "Leave it out.",
)
every.setting(
    "TunaMH",
    "compile_kwargs",
    "NUMBA",
    "is no dictionary.",
    "Give keyword arguments of pytensor.function().",
)

CHOOSE = "Choose from ['counts']."
every.setting("TunaMH", "observed", [], "names no observed variable of this model.", CHOOSE)
every.setting(
    "TunaMH",
    "observed",
    ["count"],
    "names no observed variable of this model with 'count'.",
    CHOOSE,
)
every.setting(
    "TunaMH", "observed", ["counts", "counts"], "names a variable twice.", "Name each once."
)
every.setting("TunaMH", "observed", 3, "is no list of names.", CHOOSE)
every.setting(
    "TunaMH",
    "observation_dims",
    "row",
    "is a string.",
    "Use a list of names of dims, such as ['row'].",
)
every.setting(
    "TunaMH",
    "observation_dims",
    ["row"],
    "names 'row', which is no dim of this model.",
    "Choose from [].",
)
every.refuses(
    "TunaMH(initial_point=[0.0, 0.0])",
    "initial_point=list",
    "is not a point.",
    "Give a dictionary such as model.initial_point(): names of value variables and their arrays.",
    call=lambda g: g.build("TunaMH", initial_point=[0.0, 0.0]),
)
every.refuses(
    "TunaMH(initial_point={'level': 0.0})",
    "initial_point=",
    "has no value of 'slope'.",
    "Give one of each value variable, under the names ['level', 'slope'].",
    call=lambda g: g.build("TunaMH", initial_point={"level": 0.0}),
)
every.refuses(
    "TunaMH(initial_point={'level': 0.0, 'slope': [0.0, 1.0]})",
    "initial_point=",
    "has 'slope' of type float64 and shape (2,), which the variable has not.",
    "Give real numbers of shape ().",
    call=lambda g: g.build("TunaMH", initial_point={"level": 0.0, "slope": [0.0, 1.0]}),
)
every.refuses(
    "TunaMH(initial_point={'level': np.ma.masked, 'slope': 0.0})",
    "initial_point=",
    "has 'level' with masked entries, whose values are missing.",
    "Give numbers without a mask.",
    call=lambda g: g.build("TunaMH", initial_point={"level": np.ma.masked, "slope": 0.0}),
)
every.refuses(
    "TunaMH(initial_point={'level': 'low', 'slope': 0.0})",
    "initial_point=",
    "has 'level' of type <U3 and shape (), which the variable has not.",
    "Give real numbers of shape ().",
    call=lambda g: g.build("TunaMH", initial_point={"level": "low", "slope": 0.0}),
)
every.refuses(
    "TunaMH(epsilon=0.1)",
    "epsilon=",
    "is no setting of TunaMH.",
    "Choose from ['blocked', 'bounds', 'centre', 'chi', 'compile_kwargs', 'coordinates', "
    "'covariance', 'delayed_acceptance', 'form', 'full_pass_above', 'initial_point', 'model', "
    "'moves_without_rows', 'observation_dims', 'observed', 'on_violation', 'prepared', "
    "'proposal', 'rng', 'spectral_gap_ratio', 'taylor_order', 'temperature', 'tune', "
    "'updates_per_draw', 'weights'].",
    call=lambda g: g.build("TunaMH", epsilon=0.1),
)
every.refuses(
    "TunaMH() outside of a model",
    "model=",
    "is not given, and no model is open.",
    "Pass model=, or call this inside of 'with model:'.",
    call=lambda g: METHODS["TunaMH"](),
)
every.refuses(
    "TunaMH(model='regression')",
    "model=str",
    "is not a PyMC model.",
    "Pass the pm.Model that holds the variables.",
    call=lambda g: METHODS["TunaMH"](model="regression"),
)
every.refuses(
    "TunaMH(prepared=3)",
    "prepared=3",
    "is no path.",
    "Give that of a file that step.save() wrote.",
    call=lambda g: g.build("PenaltyMH", prepared=3),
)


@every.refuses(
    "TunaMH([a]) with a of another model",
    "vars=",
    "contains 'a', which is not in the model and cannot be sampled.",
    "Choose from ['level', 'slope'].",
)
def of_another_model(g):
    with pm.Model():
        a = pm.Normal("a")
    g.build("TunaMH", vars=[a])


@every.refuses(
    "TunaMH([counts]) with counts observed",
    "vars=",
    "contains 'counts', which is observed and cannot be sampled.",
    "Choose from ['level', 'slope'].",
)
def of_the_observations(g):
    g.build("TunaMH", vars=[g.model["counts"]])


@every.refuses(
    "TunaMH(['level'])",
    "vars=",
    "contains 'level', which is no variable.",
    "Pass variables themselves, such as vars=[model['level']].",
)
def by_name(g):
    g.build("TunaMH", vars=["level"])


@every.refuses("TunaMH([level, level])", "vars=", "contains 'level' twice.", "Name each once.")
def twice(g):
    g.build("TunaMH", vars=[g.model["level"]] * 2)


own.setting("TunaMH", "form", "fast", "is unknown.", "Use 'best' or 'paper'.")
for value in (-1, math.nan, math.inf, "large"):
    own.setting(
        "TunaMH",
        "chi",
        value,
        "is not a number of 0 or more.",
        "Give one, or 'auto' to have it chosen.",
    )
own.refuses(
    "TunaMH(chi=1e12)",
    "chi=1e+12",
    "makes the Poisson means of all moves that were tried exceed 2,500, above which a move reads "
    "all rows: every update would.",
    "Use chi='auto', or a smaller number.",
    call=lambda g: g.build("TunaMH", chi=1e12, prepared=g.file),
)
own.refuses(
    "TunaMH(chi=1.0, spectral_gap_ratio=0.5)",
    "chi=1.0",
    "and spectral_gap_ratio=0.5 both set χ.",
    "Give one.",
    call=lambda g: g.build("TunaMH", chi=1.0, spectral_gap_ratio=0.5),
)
own.setting(
    "TunaMH",
    "spectral_gap_ratio",
    1.0,
    "is outside (0, 1): no finite chi keeps the whole gap.",
    "Use a number such as 0.5, or set chi.",
)
own.setting("TunaMH", "spectral_gap_ratio", math.nan, *POSITIVE)
own.setting(
    "TunaMH",
    "on_violation",
    "ignore",
    "is unknown.",
    "Use 'raise', or 'warn' to go on and have the trace marked as not exact.",
)
own.setting("TunaMH", "delayed_acceptance", 1, "is neither True nor False.", "Give one of them.")
own.setting(
    "FireflyMH",
    "q",
    1.5,
    "is not a probability above 0 and up to 1.",
    "Use 0.1, or about the share of the rows that are bright.",
)
own.setting("FireflyMH", "q", 0, *POSITIVE)
own.setting("FireflyMH", "bound", "tight", "is unknown.", "Use 'map' or 'untuned'.")
own.refuses(
    "FireflyMH(bound='untuned', on_violation='warn')",
    "bound='untuned'",
    "takes neither bounds= nor on_violation=, as its lower bounds are known to hold.",
    "Leave them out, or use bound='map'.",
    call=lambda g: g.build("FireflyMH", bound="untuned", on_violation="warn"),
)
own.refuses(
    "FireflyMH(bound='untuned') of a Poisson regression",
    "'counts'",
    "has no quadratic lower bound, as it goes through exp of the parameters.",
    "Use bound='map', whose lower bounds are made of derived ones, or TunaMH().",
    call=lambda g: g.build("FireflyMH", bound="untuned"),
    error=BoundsError,
)
own.refuses(
    "FireflyMH(['level'])",
    "vars=",
    "leaves 'slope' to another step, but which rows are bright belongs to the values of all "
    "variables.",
    "Use TunaMH(), which moves variables beside other steps.",
    call=lambda g: g.build("FireflyMH", vars=[g.model["level"]]),
)
for value in (1, 1.5):
    own.setting("AustereMH", "batch_size", value, "is not an integer of 2 or more.", "Give one.")
for value in (0.6, -0.1, "small", True):
    own.setting(
        "AustereMH",
        "epsilon",
        value,
        "is not a tail probability in [0, 0.5].",
        "Use 0.05, less for a smaller bias and more rows, or 0 to have all rows decide.",
    )
own.accepts("AustereMH(epsilon=0)", lambda g: g.build("AustereMH", epsilon=0))
own.accepts("AustereMH(epsilon=0.5)", lambda g: g.build("AustereMH", epsilon=0.5))
own.setting(
    "AustereMH",
    "boundary",
    0.4,
    "is not in [0.5, 1].",
    "Use 0.5 for the same limit at every look, or more for wider limits at early looks.",
)
own.setting(
    "BarkerMinibatchMH",
    "sigma",
    1.8,
    "is outside (0.5, 1.7]: below, a test reads many rows for no gain in accuracy; above, a "
    "logistic variable has almost no variance left for the correction.",
    "Use 1.2, or 1.0 for an error below 6e-8.",
)
own.setting("BarkerMinibatchMH", "sigma", "wide", *POSITIVE)
own.setting("BarkerMinibatchMH", "batch_rule", "guess", "is unknown.", "Use 'predict' or 'grow'.")
own.setting(
    "BarkerMinibatchMH", "error_bound", "none", "is unknown.", "Use 'edgeworth' or 'novak'."
)
own.setting(
    "BarkerMinibatchMH",
    "max_error",
    1e-9,
    "is below 1.6e-05, the error of the correction distribution at sigma=1.2, so every update "
    "would read all rows.",
    "Raise max_error or lower sigma.",
)
own.setting("BarkerMinibatchMH", "max_error", -1, *POSITIVE)

own.setting(
    "ConfidenceMH",
    "gamma",
    1.0,
    "is not a factor above 1, by which batches could grow.",
    "Use 2.0.",
)
own.setting(
    "ConfidenceMH",
    "p",
    1.0,
    "is not a power above 1: the errors of all looks would add up to more than delta.",
    "Use 2.0.",
)
own.setting(
    "ConfidenceMH",
    "delta",
    1.0,
    "is not a probability between 0 and 1.",
    "Use 0.01, or less for fewer wrong decisions and more rows.",
)
own.setting("ConfidenceMH", "delta", 0.0, *POSITIVE)
for value in (0.0, -1.0, math.inf, "much", True):
    own.setting(
        "PoissonMH",
        "lam",
        value,
        "is not a positive number.",
        "Give one, or 'auto' to have it chosen.",
    )
own.setting(
    "PoissonMH",
    "taylor_order",
    2,
    "leaves remainders, but PoissonMH draws rows by their log-likelihoods themselves.",
    "Leave it out, or use TunaMH().",
)
own.refuses(
    "PoissonMH(ranges=3.0)",
    "ranges=float",
    "is not a set of ranges.",
    "Pass Ranges(low, high), or a function that returns it for the centre that it is called with.",
    call=lambda g: g.build("PoissonMH", ranges=3.0),
)
own.refuses(
    "PoissonMH(ranges=Ranges([-1.0], [1.0]))",
    "ranges=Ranges(low, high)",
    "has low of shape (1,) for 5,000 rows.",
    "Give one number per row of the subsampled terms.",
    call=lambda g: g.build("PoissonMH", ranges=Ranges([-1.0], [1.0])),
)
own.refuses(
    "PoissonMH() of a regression with normal priors",
    "'counts'",
    "has no range: in row 0 its log-likelihood is not bounded on both sides over the supports of "
    "the parameters, because the parameters, as they are sampled, have no bounds that stop it.",
    "Use priors that end where it is still finite, such as pm.Uniform, or ranges=Ranges(low, high) "
    "of your own, or TunaMH(), which needs a bound for a move only.",
    error=BoundsError,
    call=lambda g: g.build("PoissonMH"),
)
own.setting("ConfidenceMH", "range", "guess", "is unknown.", "Use 'bounds' or 'scan'.")

CASES = [*every.cases, *own.cases]
