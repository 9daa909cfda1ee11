"""Tangents of groups' log-likelihoods at a centre, which lie above them at all positions.

Let rows be concave functions f of one predictor η, linear in the position θ, with τ as the scale,
given the effect α = μ + τ z. With η_k the predictor at the centre and z_k,

    f(η) <= f(η_k) + f'(η_k) (η - η_k),  η - η_k = v_k·(θ - centre) + c τ (z - z_k),

v_k the derivative of η in θ at z_k, and c that in α. So sums over a group's rows at the centre are
an envelope of the density of its effect everywhere: a draw evaluates rows at its proposals alone.
"""

from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.bounds.effect_bounds import is_log_concave
from pymc_minibatch_mh.compiled.group_rows import Nodes
from pymc_minibatch_mh.functions.interval import Array
from pymc_minibatch_mh.native.library import function
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.reference.full_data import on_all_cores
from pymc_minibatch_mh.reference.node_rule import GROUPS_IN_TASK, GroupTarget, effect_moments

#: Points of tangents, in standard deviations from the mean of each effect; maximum size in bytes.
DISTANCES, MAX_BYTES = np.array([-1.25, 0.0, 1.25]), 2**28


class EffectTangents(NamedTuple):
    """Tangents at K `points` z of each group's effect, shape (groups, K): ``mh_tangents``.

    Sums over a group's rows at a centre have `values`, and `slopes` in the model's own effect α, of
    shape (groups, K), and `gradients` in the position, (groups, K, d). `move` is the way from the
    centre to a position, shape (d,) each.
    """

    points: Any = None
    values: Any = None
    slopes: Any = None
    gradients: Any = None
    centre: Any = None
    move: Any = None

    @property
    def n_points(self) -> int:
        """Number of tangents of each group."""
        return 0 if self.points is None else self.points.shape[1]

    def seen_from(self, position: Array) -> "EffectTangents":
        """The same tangents for a position, in which scales are those of the effects."""
        return self._replace(move=position - self.centre)

    def from_group(self, first: int) -> "EffectTangents":
        """The same tangents, in which groups are numbered from `first` on."""
        if self.points is None:
            return self
        names = "points", "values", "slopes", "gradients"
        return self._replace(**{name: getattr(self, name)[first:] for name in names})


#: Stands for no tangents.
NO_TANGENTS = EffectTangents()


def tangents_around(target: GroupTarget, reference: Reference) -> EffectTangents | None:
    """Tangents at a reference; None if they do not lie above all densities, or are too many."""
    rows, centre = target.group_rows, in_scales(target, reference.centre)
    layout, n_points = rows.layout, DISTANCES.size
    n_groups = layout.groups.n_groups
    size = 8 * n_groups * n_points * (3 + centre.size)
    several = len(layout.groups.effects) > 1 or any(len(f.arguments) > 1 for f in layout.functions)
    if several or size > MAX_BYTES or not is_log_concave(target):
        return None
    mean, factor = effect_moments(rows, reference.centre)
    points = (mean + factor[:, :, 0] * DISTANCES)[:n_groups]
    values, slopes = np.empty(points.shape), np.empty(points.shape)
    gradients = np.empty((*points.shape, centre.size))
    at_points = rows.at_nodes(Nodes(points[:, None], np.zeros(points.shape)))

    def compute(first: int) -> None:
        some = slice(first, min(first + GROUPS_IN_TASK, n_groups))
        part, *numbers = at_points.part(first, some.stop)
        room = values[some], gradients[some], slopes[some]
        function("mh_tangents_at_nodes")(part.record_of_scales(), centre, *numbers, *room)

    list(on_all_cores(compute, range(0, n_groups, GROUPS_IN_TASK)))
    return EffectTangents(points, values, slopes, gradients, centre)


def in_scales(target: GroupTarget, position: Array) -> Array:
    """Position with the scales of effects themselves, in which predictors are linear."""
    position = position.copy()
    for scale in target.compiled.layout.free_scales:
        position[scale.coordinate] **= 1.0 / scale.root
    return position
