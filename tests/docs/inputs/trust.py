"""Invalid arguments of explain, audit, their plots and step.save()."""

import numpy as np
import pymc as pm
import xarray as xr

from docs.inputs.case import Section
from pymc_minibatch_mh import audit, explain, plot_audit, plot_bounds, plot_rows, plot_summary

explaining = Section("explain")
auditing = Section("audit")
plotting = Section("Plots")

explaining.reads("explain('regression')")
explaining.gives("explain() without a model", lambda g: explain())
explaining.reads(
    "explain(model, draws=5)", "explain(model, tune=-1)", "explain(model, temperature=-1)",
    "explain(model, nuts='yes')", "explain(model, random_seed='lucky')", "explain(step, chi=1.0)",
    "explain(step, vars=[])",
)  # fmt: skip
auditing.reads("audit(trace, 'step')", "audit(trace, None)")
auditing.gives("audit(trace, Model)", lambda g: audit(g.trace(), pm.Model))
auditing.reads("audit(None, step)")
auditing.gives(
    "audit(trace, step) of a trace without sample_stats", lambda g: audit(g.trace(), g.step)
)
auditing.reads(
    "audit(trace, step, pairs=1)", "audit(trace, step, random_seed=-1)",
    "audit(trace, step, model='regression')",
)  # fmt: skip

for plot in (plot_audit, plot_rows, plot_bounds, plot_summary):
    plotting.gives(
        f"{plot.__name__}(trace) without sample_stats", lambda g, plot=plot: plot(g.trace())
    )
plotting.reads("plot_audit(None)", "plot_rows(None)")
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
