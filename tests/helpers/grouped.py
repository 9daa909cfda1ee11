"""Steps on the small models with groups, which tests of elements share."""

from functools import cache

from helpers.models import GROUPED, of_kind
from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.plan.plan import Requirements
from pymc_minibatch_mh.plan.prepare import ReadingSettings, read_model
from pymc_minibatch_mh.reference.arrow_search import find_grouped
from pymc_minibatch_mh.reference.target import Target

#: Models that steps are tested on elsewhere, and others whose sums alone are.
SUMMED = of_kind("groups", "sums of groups")

#: Models that between them have crossed factors, signs that matter or not, slopes, rows that read
#: no group, or two of one, and effects in several predictors. The prior of correlated effects
#: compiles for longest.
FAST = ("logistic", "slopes", "two_terms", "at_grounds", "choices")


@cache
def step_of(name):
    """Return a step on one of these models, of which every element moves by itself."""
    with GROUPED[name]():
        step = TunaMH(blocks=True, rng=1)
    assert step.plan.elements is not None
    return step


def target_of(model):
    reading = ReadingSettings()
    point = model.initial_point()
    return Target(read_model(model, model.value_vars, point, reading, Requirements()).compiled)


@cache
def expanded(name):
    """Return the target of one of these models, and the expansions that a step has."""
    if name in GROUPED:
        step = step_of(name)
        return step.target, step.plan.elements
    model = SUMMED[name]()
    target = target_of(model)
    return target, find_grouped(target, target.factorization.ravel(model.initial_point()))
