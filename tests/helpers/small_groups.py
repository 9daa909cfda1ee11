"""Small models whose effects are integrated out, and their posterior."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pymc as pm

from pymc_minibatch_mh.compiled.group_rows import GroupLayout
from pymc_minibatch_mh.compiled.integrated_model import IntegratedModel
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.model.factorization import Factorization, factorize
from pymc_minibatch_mh.reference.effect_nodes import EffectMoments, first_nodes
from pymc_minibatch_mh.reference.node_rule import GroupTarget, effect_moments
from pymc_minibatch_mh.reparametrize.integrated import with_loadings, without_effects
from pymc_minibatch_mh.reparametrize.non_centred import in_linear_coordinates
from pymc_minibatch_mh.structure.loadings import loadings_of
from pymc_minibatch_mh.structure.small_groups import SmallGroups, find_small_groups


class Reading(NamedTuple):
    """A model's posterior of all parameters, its row functions, and its groups."""

    whole: Factorization
    functions: Any
    groups: SmallGroups

    @property
    def location(self):
        """Weights of the effects' mean, by the names of the coordinates."""
        names = self.whole.coordinate_names
        (effect,) = self.groups.effects
        return {names[k]: weight for k, weight in effect.location}


def read(model, observed=None):
    """Read a model; all observed variables are subsampled, unless some are named."""
    parts = factorize(model, model.value_vars, observed, min_rows=1)
    whole = in_linear_coordinates(parts)
    compiled = CompiledModel(whole)
    functions = compiled.row_functions
    assert not isinstance(functions, Exception), functions
    groups = find_small_groups(model, whole, functions, compiled.elements)
    return Reading(whole, functions, groups)


def target_of(model, root=1, *, in_logs=False):
    """Return the posterior without the effects, at nodes that know nothing of the data."""
    whole, functions, groups = read(model)
    groups = replace(groups, in_logs=in_logs)
    roots = [root if scale.is_log else 1 for scale in groups.scales]
    reduced = without_effects(whole, groups, roots)
    if (loadings := loadings_of(whole, functions, groups)) is not None:
        reduced = with_loadings(reduced, loadings, groups.without(whole.size))
        functions = loadings.functions
    layout = GroupLayout.from_functions(functions, groups, whole.size, roots)
    return GroupTarget(IntegratedModel(reduced, layout, first_nodes(groups)))


def panel(n_groups=300, each=5, tau=0.8, prior=pm.Normal):
    """Return a model of persons with a few answers each."""
    rng = np.random.default_rng(3)
    person = rng.permutation(np.repeat(np.arange(n_groups), each))
    x = rng.standard_normal(person.size)
    chance = -0.5 + 0.8 * x + tau * rng.standard_normal(n_groups)[person]
    y = rng.random(person.size) < 1.0 / (1.0 + np.exp(-chance))
    with pm.Model() as model:
        mu, slope = pm.Normal("mu", 0, 2), pm.Normal("slope", 0, 2)
        effect = prior("effect", mu, pm.HalfNormal("tau", 1), shape=n_groups)
        pm.Bernoulli("y", logit_p=effect[person] + slope * x, observed=y.astype(int))
    return model


def moments_of(mean, sd):
    """Return moments of one effect of each group, from means and standard deviations."""
    return EffectMoments(mean[:, None], sd[:, None, None])


def placed_at(target, position, count=61, rounds=6):
    """Return the target with many nodes, placed where the effects are given a position."""
    law = target.compiled.layout.groups.law
    count = count if len(target.compiled.layout.groups.effects) == 1 else min(count, 31)
    for _ in range(rounds):
        moments = effect_moments(target.group_rows, position)
        factor = np.maximum(moments.factor, 0.01 * np.eye(moments.mean.shape[1]))
        target = target.at_nodes(moments._replace(factor=factor).nodes(law, count))
    return target
