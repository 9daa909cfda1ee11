"""Models that cannot be read row by row: the refused forms of the other catalogue, and others."""

import numpy as np
import pymc as pm

from docs.inputs.case import Section, build_on
from models.forms.catalogue import REFUSED
from models.forms.page import WRITTEN
from models.forms.reading import parts_of
from pymc_minibatch_mh import TunaMH

dependent = Section("Dependent or unsplittable models")
steps = Section("Variables that a step cannot move")

for key, form in REFUSED.items():
    dependent.gives(
        WRITTEN[key], lambda g, form=form: parts_of(form.build(37, mutable=False), form)
    )


@steps.gives("TunaMH([k]) with k discrete")
def discrete(g):
    with pm.Model() as model:
        k = pm.Poisson("k", 2.0)
        pm.Normal("y", k, observed=np.zeros(1_000))
    start = {"k": np.zeros((), "int64")}
    TunaMH([k], model=model, initial_point=start)


@steps.gives("TunaMH() where all free variables are discrete")
def nothing_continuous(g):
    build_on(lambda: pm.Normal("y", pm.Poisson("k", 2.0), observed=np.zeros(1_000)))


@steps.gives("TunaMH() where no observed variable has 1,000 rows")
def few_rows(g):
    build_on(lambda: pm.Normal("y", pm.Normal("a"), observed=np.zeros(999)))


@steps.gives("TunaMH() where nothing is observed")
def nothing_observed(g):
    build_on(lambda: pm.Normal("a"))


CASES = [*dependent.cases, *steps.cases]
