"""Invalid arguments of explain, audit, their plots and step.save()."""

import numpy as np
import pymc as pm
import xarray as xr

from inputs.case import Section
from pymc_minibatch_mh import (
    audit,
    explain,
    plot_audit,
    plot_bounds,
    plot_rows,
)

explaining = Section("explain")
auditing = Section("audit")
plotting = Section("Plots")

A_STEP = "Pass the one that pm.sample() gets, such as a TunaMH()."
A_SEED = "Give an integer of 0 or more, or a generator of NumPy."
A_TRACE = "Give what pm.sample() returned."
ITS_TRACE = "Pass what pm.sample() returned, from a step of this package."
OPEN = "Pass model=, or call this inside of 'with model:'."

explaining.refuses(
    "explain('regression')",
    "model_or_step=str",
    "is neither a model nor a step of this package.",
    "Give a pm.Model, or a step such as a TunaMH().",
    call=lambda g: explain("regression"),
)
explaining.refuses(
    "explain() without a model",
    "model=",
    "is not given, and no model is open.",
    OPEN,
    call=lambda g: explain(),
)
explaining.refuses(
    "explain(model, draws=5)",
    "draws=5",
    "is not an integer of 100 or more.",
    "Give one.",
    call=lambda g: explain(g.model, draws=5),
)
explaining.refuses(
    "explain(model, nuts='yes')",
    "nuts='yes'",
    "is neither True nor False.",
    "Give one of them.",
    call=lambda g: explain(g.model, nuts="yes"),
)
explaining.refuses(
    "explain(model, random_seed='lucky')",
    "random_seed='lucky'",
    "is no seed.",
    A_SEED,
    call=lambda g: explain(g.model, random_seed="lucky"),
)
explaining.refuses(
    "explain(step, chi=1.0)",
    "chi=",
    "is a setting of the step that is explained, which was built before.",
    "Leave it out.",
    call=lambda g: explain(g.step, chi=1.0),
)

for given in ("step", None, pm.Model):
    auditing.refuses(
        f"audit(trace, {given.__name__ if isinstance(given, type) else repr(given)})",
        f"step={type(given).__name__}",
        "is no step method of this package.",
        A_STEP,
        call=lambda g, given=given: audit(g.trace(), given),
    )
auditing.refuses(
    "audit(None, step)",
    "idata=NoneType",
    "is no trace.",
    A_TRACE,
    call=lambda g: audit(None, g.step),
)
auditing.refuses(
    "audit(trace, step) of a trace without sample_stats",
    "'full_pass'",
    "is not among the sample_stats of the trace, so that none of this package's steps drew it.",
    "Give what pm.sample(step=step) returned.",
    call=lambda g: audit(g.trace(), g.step),
)
auditing.refuses(
    "audit(trace, step, pairs=1)",
    "pairs=1",
    "is not an integer of 2 or more.",
    "Give one.",
    call=lambda g: audit(g.trace(), g.step, pairs=1),
)
auditing.refuses(
    "audit(trace, step, random_seed=-1)",
    "random_seed=-1",
    "is no seed.",
    A_SEED,
    call=lambda g: audit(g.trace(), g.step, random_seed=-1),
)
auditing.refuses(
    "audit(trace, step, model='regression')",
    "model=str",
    "is not a PyMC model.",
    "Pass the pm.Model that holds the variables.",
    call=lambda g: audit(g.trace(), g.step, model="regression"),
)

for plot, name, wanted in (
    (plot_audit, "acceptance_error", "Pass what audit() returned."),
    (plot_rows, "n_obs", ITS_TRACE),
    (plot_bounds, "bound_ratio", ITS_TRACE),
):
    plotting.refuses(
        f"{plot.__name__}(trace) without sample_stats",
        f"{name!r}",
        "is not in dt=, so that nothing is plotted.",
        wanted,
        call=lambda g, plot=plot: plot(g.trace()),
    )
plotting.refuses(
    "plot_audit(None)",
    "'acceptance_error'",
    "is not in dt=, so that nothing is plotted.",
    "Pass what audit() returned.",
    call=lambda g: plot_audit(None),
)
plotting.refuses(
    "plot_rows(None)", "dt=NoneType", "is no trace.", A_TRACE, call=lambda g: plot_rows(None)
)
plotting.refuses(
    "plot_bounds(dt) of an approximate method",
    "'bound_ratio'",
    "is not above 0 anywhere: approximate methods hold no row against a bound.",
    "Use plot_rows() or plot_audit().",
    call=lambda g: plot_bounds(
        xr.Dataset(
            {"bound_ratio": (("chain", "draw"), np.zeros((2, 3)))},
            {"chain": range(2), "draw": range(3)},
        )
    ),
)

CASES = [*explaining.cases, *auditing.cases, *plotting.cases]
