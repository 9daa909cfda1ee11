"""Exact draws of the effects of small groups given all other parameters.

They are independent of each other and of earlier draws: ``native/effects.c`` draws them by
rejection. :mod:`pymc_minibatch_mh.bounds.effect_bounds` has the bounds that this needs.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh.bounds.effect_bounds import (
    UNDERFLOW,
    EffectBounds,
    bounds_at,
    is_log_concave,
)
from pymc_minibatch_mh.bounds.effect_tangents import NO_TANGENTS, EffectTangents, in_scales
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.functions.interval import RELATIVE, Array
from pymc_minibatch_mh.native.library import GeneratorRecord, LaidOut, Status, function
from pymc_minibatch_mh.reference.full_data import on_all_cores
from pymc_minibatch_mh.reference.node_rule import GROUPS_IN_TASK, GroupTarget
from pymc_minibatch_mh.structure.small_groups import EffectLaw

#: Maximum number of effects that are drawn at a time, unless a single draw has more; number of
#: draws in a task, which shares the records of a range of groups.
GROUPS_AT_ONCE, DRAWS_IN_TASK = 2**17, 8
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
    tangents: EffectTangents = NO_TANGENTS

    def from_group(self, first: int) -> "EffectLawRecord":
        """The same record, in which groups are numbered from `first` on."""
        if self.ends is None:
            return self._replace(tangents=self.tangents.from_group(first))
        names = "ends", "curvatures", "slopes", "ceilings"
        return self._replace(**{name: getattr(self, name)[first:] for name in names})


def generator_for(position: Array, number: int) -> np.random.Generator:
    """Generator of a stored draw's effects: a function of its position and its number in the chain.

    The key is a hash, so that effects drawn later are the same as those drawn at once. It is of
    the position in single precision, so that another processor's rounding gives the same key.
    """
    words = np.ascontiguousarray(position, "<f4").tobytes() + int(number).to_bytes(8, "little")
    # Not Philox(key=...): its children, one for each range of groups, would be random.
    entropy = int.from_bytes(sha256(words).digest(), "little")
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(entropy)))


def draw_effects(
    target: GroupTarget,
    positions: Array,
    rngs: Sequence[np.random.Generator],
    bounds: EffectBounds | EffectTangents | None = None,
    chosen: Sequence[int] | None = None,
) -> Array:
    """Draw all standardised effects z given each of n positions exactly, shape (n, groups, q).

    Ranges of groups have generators of their own, so that draws do not depend on the number of
    threads. `bounds` are used if they are needed and hold at the position; else others are
    computed. BoundsError if there are none, or if they do not bound the density of an effect. With
    some groups `chosen`, only their ranges are drawn, with the same effects; others are NaN.
    """
    n_groups = target.compiled.layout.groups.n_groups
    at_once = max(1, GROUPS_AT_ONCE // n_groups)
    parts = [
        draw_and_count(target, positions[k : k + at_once], rngs[k : k + at_once], bounds, chosen)
        for k in range(0, len(positions), at_once)
    ]
    return np.concatenate([z for z, _ in parts])


def draw_and_count(
    target: GroupTarget,
    positions: Array,
    rngs: Sequence[np.random.Generator],
    bounds: EffectBounds | EffectTangents | None = None,
    chosen: Sequence[int] | None = None,
) -> tuple[Array, int]:
    """Draw standardised effects given all positions at a time, and count the proposals."""
    groups, n_draws = target.compiled.layout.groups, len(positions)
    laws = [_law_at(target, position, bounds) for position in positions]
    of_all = [LaidOut("mh_effect_law", law) for law in laws]
    starts = range(0, groups.n_groups, GROUPS_IN_TASK)
    z = np.full((n_draws, *groups.coordinates.shape), np.nan)
    counts = np.zeros((n_draws, len(starts), 2), dtype=np.int64)
    generators = [rng.spawn(len(starts)) for rng in rngs]

    def draw_range(task: tuple[int, range]) -> None:
        k, draws = task
        some = slice(starts[k], starts[k] + GROUPS_IN_TASK)
        rows, *numbers = target.group_rows.part(some.start, some.start + z[0, some].shape[0])
        record, before = rows.record(), some.start - numbers[0]
        for n in draws:
            law = LaidOut("mh_effect_law", laws[n].from_group(before)) if before else of_all[n]
            generator, room = GeneratorRecord(generators[n][k]), (z[n, some], counts[n, k])
            arguments = record, law, positions[n], *numbers, generator, *room
            if function("mh_draw_effects")(*arguments) != Status.OK:
                raise BoundsError(
                    f"the effect of group {starts[k] + counts[n, k, 0]} of {groups.name!r} cannot "
                    "be drawn exactly, because its density has no known bound. Sample with "
                    "blocks=True, or with effects=False."
                )

    wanted = None if chosen is None else {g // GROUPS_IN_TASK for g in chosen}
    parts = [range(n, min(n + DRAWS_IN_TASK, n_draws)) for n in range(0, n_draws, DRAWS_IN_TASK)]
    numbers = [k for k in range(len(starts)) if wanted is None or k in wanted]
    list(on_all_cores(draw_range, [(k, draws) for draws in parts for k in numbers]))
    return z, int(counts[:, :, 1].sum())


def _law_at(
    target: GroupTarget, position: Array, bounds: EffectBounds | EffectTangents | None
) -> EffectLawRecord:
    """Record of the law, with bounds of the density of z at a position if they are needed."""
    law = target.compiled.layout.groups.law
    record = EffectLawRecord(LAWS.index(law.name), law.shape)
    if isinstance(bounds, EffectTangents):
        return record._replace(tangents=bounds.seen_from(in_scales(target, position)))
    if is_log_concave(target):
        return record
    if bounds is None or not bounds.hold_at(position):
        bounds = bounds_at(target, position)
    (tau,) = (scale.value_at(position) for scale in target.compiled.layout.scales)
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


def effect_values(target: GroupTarget, positions: Array, z: Array) -> dict[str, Array]:
    """Values of the model's own variables at draws, from standardised effects: name -> value.

    `positions` has shape (n, d), and `z` (n, groups, q).
    """
    layout, values = target.compiled.layout, np.empty(z.shape)
    for k, effect in enumerate(layout.groups.effects):
        if effect.width > 0.0:
            values[:, :, k] = effect.width * z[:, :, k]
            continue
        values[:, :, k] = (positions @ layout.location[k] + effect.offset)[:, None]
        for scale in layout.scales:
            if scale.row == k:
                values[:, :, k] += scale.value_at(positions)[:, None] * z[:, :, scale.column]
    groups = layout.groups
    flat = np.empty((len(z), groups.all_coordinates.max() + 1))
    flat[:, groups.coordinates] = values
    if groups.large.size:
        parts, large = target.factorization, groups.all_coordinates[groups.large]
        flat[:, large] = parts.values(positions)[
            :, groups.without(parts.size + groups.coordinates.size)[large]
        ]
    return {b.name: flat[:, b.start : b.stop].reshape(-1, *b.shape) for b in groups.blocks}
