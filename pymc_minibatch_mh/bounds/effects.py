"""Exact draws of the effects of small groups given all other parameters.

They are independent of each other and of earlier draws: ``native/effects.c`` draws them by
rejection. :mod:`pymc_minibatch_mh.bounds.effect_bounds` has the bounds that this needs.
"""

from hashlib import sha256
from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh.bounds.effect_bounds import (
    UNDERFLOW,
    EffectBounds,
    bounds_at,
    is_log_concave,
)
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.functions.interval import RELATIVE, Array
from pymc_minibatch_mh.native.library import GeneratorRecord, LaidOut, Status, function
from pymc_minibatch_mh.reference.full_data import on_all_cores
from pymc_minibatch_mh.reference.node_rule import GROUPS_IN_TASK, GroupTarget
from pymc_minibatch_mh.structure.small_groups import EffectLaw

#: Laws of effects, in the order of ``mh.h``.
LAWS = ("normal", "logistic", "t")


class EffectLawRecord(NamedTuple):
    """Law of the effects with bounds of groups' densities at a position: ``mh_effect_law``."""

    kind: int
    shape: float
    n_cells: int = 0
    ends: Array | None = None
    curvatures: Array | None = None
    slopes: Array | None = None
    ceilings: Array | None = None


def generator_for(position: Array, number: int) -> np.random.Generator:
    """Generator of a stored draw's effects: a function of its position and its number in the chain.

    The key is a hash, so that effects drawn later are the same as those drawn at once.
    """
    words = np.ascontiguousarray(position, "<f8").tobytes() + int(number).to_bytes(8, "little")
    # Not Philox(key=...): its children, one for each range of groups, would be random.
    entropy = int.from_bytes(sha256(words).digest(), "little")
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(entropy)))


def draw_effects(
    target: GroupTarget,
    position: Array,
    rng: np.random.Generator,
    bounds: EffectBounds | None = None,
) -> Array:
    """Draw all standardised effects z given a position exactly, shape (groups,).

    Ranges of groups have generators of their own, so that draws do not depend on the number of
    threads. `bounds` are used if they are needed and hold at the position; else others are
    computed. BoundsError if there are none, or if they do not bound the density of an effect.
    """
    return draw_and_count(target, position, rng, bounds)[0]


def draw_and_count(
    target: GroupTarget,
    position: Array,
    rng: np.random.Generator,
    bounds: EffectBounds | None = None,
) -> tuple[Array, int]:
    """Draw all standardised effects, and count the proposals."""
    groups = target.compiled.layout.groups
    records = (
        target.group_rows.record(),
        LaidOut("mh_effect_law", _law_at(target, position, bounds)),
    )
    starts = range(0, groups.n_groups, GROUPS_IN_TASK)
    z, counts = np.empty(groups.n_groups), np.zeros((len(starts), 2), dtype=np.int64)

    def draw_range(task: tuple[int, int, np.random.Generator]) -> None:
        k, first, generator = task
        part = z[first : first + GROUPS_IN_TASK]
        arguments = position, first, first + part.size, GeneratorRecord(generator), part, counts[k]
        if function("mh_draw_effects")(*records, *arguments) != Status.OK:
            raise BoundsError(
                f"the effect of group {first + counts[k, 0]} of {groups.factor.name!r} cannot be "
                "drawn exactly, because its density has no known bound. Sample with blocks=True, "
                "or with effects=False."
            )

    tasks = zip(range(len(starts)), starts, rng.spawn(len(starts)), strict=True)
    list(on_all_cores(draw_range, list(tasks)))
    return z, int(counts[:, 1].sum())


def _law_at(target: GroupTarget, position: Array, bounds: EffectBounds | None) -> EffectLawRecord:
    """Record of the law, with bounds of the density of z at a position if they are needed."""
    law = target.compiled.layout.groups.law
    record = EffectLawRecord(LAWS.index(law.name), law.shape)
    if is_log_concave(target):
        return record
    if bounds is None or not bounds.hold_at(position):
        bounds = bounds_at(target, position)
    (tau,) = _scales_at(target, position[None])
    # Slack of outward rounding must not count as a slope that is not inward.
    slopes = np.where(np.abs(bounds.slopes) < UNDERFLOW, 0.0, tau * bounds.slopes)
    return record._replace(
        n_cells=bounds.curvatures.shape[1],
        ends=bounds.ends,
        curvatures=tau**2 * bounds.curvatures + _curvatures_of(law, bounds.ends),
        slopes=slopes,
        ceilings=bounds.ceilings,
    )


def _curvatures_of(law: EffectLaw, ends: Array) -> Array | float:
    """Upper bounds of the second derivative of a law's log-density in cells."""
    if law.name != "t":
        return -1.0 if law.name == "normal" else 0.0
    low, high = ends[:, :-1], ends[:, 1:]
    nearest, farthest = np.maximum(np.maximum(low, -high), 0.0), np.maximum(-low, high)
    # The second derivative rises up to z² = 3 nu, and falls beyond.
    square = np.clip(3.0 * law.shape, nearest**2, farthest**2)
    bend = (law.shape + 1.0) * (square - law.shape) / (law.shape + square) ** 2
    return bend + RELATIVE * np.abs(bend)


def effect_values(target: GroupTarget, positions: Array, z: Array) -> Array:
    """Values of the model's own variable at draws, shape (n, groups), from standardised effects.

    `positions` has shape (n, d), and `z` (n, groups).
    """
    layout = target.compiled.layout
    groups = layout.groups
    if groups.width > 0.0:
        return groups.shift + groups.width * z
    locations = positions @ layout.location + groups.offset
    return locations[:, None] + _scales_at(target, positions)[:, None] * z


def _scales_at(target: GroupTarget, positions: Array) -> Array:
    """Scales τ of the effects, shape (n,)."""
    layout = target.compiled.layout
    return layout.groups.spread * positions[:, layout.scale_at] ** (1.0 / layout.root)
