"""A step that walks at random and remembers where, and trees that must be the same."""

import numpy as np
import pytensor
from pymc.stats.convergence import SamplerWarning, WarningType
from pymc.step_methods.compound import BlockedStep, StepMethodState
from pymc.step_methods.state import dataclass_state

from helpers.zoo import sample
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.native.statistics import STATS
from pymc_minibatch_mh.sampling.trace import Draws, make_datatree, recorded_variables
from pymc_minibatch_mh.steps.base import MinibatchStep

#: Draws of warm-up and after it, and chains.
TUNE, DRAWS, CHAINS = 7, 12, 2


@dataclass_state
class WalkState(StepMethodState):
    """What PyMC needs to go from chain to chain."""


def numbered(positions, stats, numbers=None):
    """Return draws that are numbered from 0 on, or as is told."""
    chains, draws = map(np.arange, positions.shape[:2])
    return Draws(positions, stats, {"chain": chains, "draw": draws if numbers is None else numbers})


class Walk(BlockedStep):
    """Leaves everything to chance, and tells positions and statistics afterwards."""

    name = "walk"
    default_blocked = True
    stats_dtypes_shapes = MinibatchStep.stats_dtypes_shapes
    _state_class = WalkState

    def __init__(self, vars=None, *, model=None, blocked=True, rng=None, **_):
        self.vars = vars or model.value_vars
        self.var_names = tuple(v.name for v in self.vars)
        self.rng = np.random.default_rng(rng)
        self.tune = True
        self.factorization = factorize(model, model.value_vars, min_rows=1)
        self.chains = []

    def setup_chain(self, rng, tune, draws):
        super().setup_chain(rng, tune, draws)
        self.chains.append([])

    def step(self, point):
        position = self.factorization.ravel(point)
        position += self.rng.standard_normal(position.size)
        numbers = dict.fromkeys(STATS, 100 * self.rng.random())
        stats = {name: dtype(numbers[name]) for name, (dtype, *_) in STATS.items()}
        stats["warning"] = None
        if len(self.chains[-1]) == TUNE:
            stats["warning"] = SamplerWarning(WarningType.BAD_PARAMS, "as it is", "info")
        point = self.factorization.unravel(position, point)
        self.chains[-1].append((self.factorization.ravel(point), stats))
        return point, [stats]

    def left_behind(self, part):
        """Return what the driver has of a part of the draws."""
        chains = [chain[part] for chain in self.chains[-CHAINS:]]
        positions = np.array([[position for position, _ in chain] for chain in chains])
        stats = {
            name: np.array([[stats[name] for _, stats in chain] for chain in chains], dtype)
            for name, (dtype, *_) in STATS.items()
        }
        return numbered(positions, stats)


# In Python: PyMC would compile a function of every model for some twenty draws.
@pytensor.config.change_flags(linker="py", cxx="")
def walked(model, keep_warm_up=False, **settings):
    """Return the tree of pm.sample, and its step."""
    step = Walk(model=model)
    seeded = {"random_seed": 1, "discard_tuned_samples": not keep_warm_up}
    return sample(model, step, DRAWS, TUNE, CHAINS, **seeded, **settings), step


def ours_of(model, theirs, step, var_names=None, keep_warm_up=False, **settings):
    """Return the tree that is made from what a step has left behind."""
    return make_datatree(
        model,
        step.factorization.draws,
        recorded_variables(model, model.initial_point(), var_names),
        step.left_behind(slice(TUNE, None)),
        attributes_of(theirs),
        warm_up=step.left_behind(slice(TUNE)) if keep_warm_up else None,
        **settings,
    )


def both_trees(model, **settings):
    """Return the tree of pm.sample, and the one made from what its step has left behind."""
    theirs, step = walked(model, **settings)
    return theirs, ours_of(model, theirs, step, **settings)


def attributes_of(tree):
    """Return what the driver tells a tree of how long it has sampled."""
    return {name: tree.posterior.attrs[name] for name in ("sampling_time", "tuning_steps")}


def same_tree(one, other):
    """Assert that two trees differ in rounding only, and in when they were made."""
    assert list(one.children) == list(other.children)
    assert one.attrs == other.attrs
    for group in one.children:
        same_group(one[group].to_dataset(), other[group].to_dataset(), group)


def same_group(one, other, group):
    names = set if "stats" in group else list  # PyMC keeps statistics in a set.
    assert names(one.data_vars) == names(other.data_vars), group
    assert dict(one.sizes) == dict(other.sizes), group
    same_attributes(one.attrs, other.attrs)
    assert set(one.coords) == set(other.coords), group
    for name in (*one.coords, *one.data_vars):
        same_array(one[name], other[name])


def same_array(one, other):
    assert one.dims == other.dims, one.name
    assert one.dtype == other.dtype, one.name
    assert one.attrs == other.attrs
    if one.dtype.kind == "f":
        tolerance = 8 * np.finfo(one.dtype).eps
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance, err_msg=one.name)
    else:
        np.testing.assert_array_equal(one, other, err_msg=one.name)


def same_attributes(one, other):
    assert one.keys() == other.keys()
    for name in one.keys() - {"created_at"}:
        assert one[name] == other[name]
