"""Invalid arguments of explain, audit, their plots and step.save()."""

import numpy as np
import pymc as pm
import xarray as xr

from docs.inputs.case import Section
from pymc_minibatch_mh import audit, explain, plot_audit, plot_bounds, plot_rows, plot_summary

explaining = Section("explain")
auditing = Section("audit")
plotting = Section("Plots")

explaining.gives("explain('regression')", lambda g: explain("regression"))
explaining.gives("explain() without a model", lambda g: explain())
explaining.gives("explain(model, draws=5)", lambda g: explain(g.model, draws=5))
explaining.gives("explain(model, tune=-1)", lambda g: explain(g.model, tune=-1))
explaining.gives("explain(model, temperature=-1)", lambda g: explain(g.model, temperature=-1))
explaining.gives("explain(model, nuts='yes')", lambda g: explain(g.model, nuts="yes"))
explaining.gives(
    "explain(model, random_seed='lucky')", lambda g: explain(g.model, random_seed="lucky")
)
explaining.gives("explain(step, chi=1.0)", lambda g: explain(g.step, chi=1.0))
explaining.gives("explain(step, vars=[])", lambda g: explain(g.step, vars=[]))

for given in ("step", None, pm.Model):
    auditing.gives(
        f"audit(trace, {given.__name__ if isinstance(given, type) else repr(given)})",
        lambda g, given=given: audit(g.trace(), given),
    )
auditing.gives("audit(None, step)", lambda g: audit(None, g.step))
auditing.gives(
    "audit(trace, step) of a trace without sample_stats", lambda g: audit(g.trace(), g.step)
)
auditing.gives("audit(trace, step, pairs=1)", lambda g: audit(g.trace(), g.step, pairs=1))
auditing.gives(
    "audit(trace, step, random_seed=-1)", lambda g: audit(g.trace(), g.step, random_seed=-1)
)
auditing.gives(
    "audit(trace, step, model='regression')", lambda g: audit(g.trace(), g.step, model="regression")
)

for plot in (plot_audit, plot_rows, plot_bounds, plot_summary):
    plotting.gives(
        f"{plot.__name__}(trace) without sample_stats", lambda g, plot=plot: plot(g.trace())
    )
plotting.gives("plot_audit(None)", lambda g: plot_audit(None))
plotting.gives("plot_rows(None)", lambda g: plot_rows(None))
plotting.gives(
    "plot_bounds(data) of an approximate method",
    lambda g: plot_bounds(
        xr.DataTree.from_dict(
            {
                "sample_stats": xr.Dataset(
                    {"bound_ratio": (("chain", "draw"), np.zeros((2, 3)))},
                    {"chain": range(2), "draw": range(3)},
                )
            }
        )
    ),
)

CASES = [*explaining.cases, *auditing.cases, *plotting.cases]
