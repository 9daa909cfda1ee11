"""Plan with common effects and thousands of group effects, accepted one at a time."""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Self, final

import numpy as np

from pymc_minibatch_mh.bounds.bound_check import PREPARATION_SEED, audited_parts, largest_of_parts
from pymc_minibatch_mh.bounds.part_tables import PartTables, part_tables
from pymc_minibatch_mh.native.elements import Geometry, Parts
from pymc_minibatch_mh.plan.plan import (
    EffectMoves,
    Plan,
    Requirements,
    record_arrays,
    stored_record,
)
from pymc_minibatch_mh.reference.arrow_reference import GroupedReference
from pymc_minibatch_mh.reference.arrow_search import centre_around
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.threads import one_thread_of_blas


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class ArrowPlan(Plan):
    """Plan with common effects and thousands of group effects, accepted one at a time.

    The precision matrix has arrow structure. `elements` has metric and expansion; `parts` has
    bounds of rows that combine numbers of the common effects and of each row's group effects.
    """

    elements: GroupedReference
    parts: PartTables

    #: Varying scales make the posterior of group effects wider than the approximation.
    width = 1.3

    @classmethod
    def with_bounds(
        cls, target: Target, requirements: Requirements, elements: GroupedReference
    ) -> Self:
        """Plan around the centre of `elements`; BoundsError if a row has no bound there."""
        parts = part_tables(target, elements)
        target.release()
        found = cls(
            target, requirements, elements.reference(target.inverse_temperature),
            elements=elements, parts=parts,
        )  # fmt: skip
        return replace(found, violation=found.objection_of(PREPARATION_SEED))

    @classmethod
    def from_arrays(cls, target: Target, stored: dict[str, np.ndarray]) -> Self:
        """Plan read from the arrays of a file; KeyError if an array is missing."""
        elements = stored_record("elements", GroupedReference, stored)
        parts = PartTables(stored_record("parts", Parts, stored))
        reference = elements.reference(target.inverse_temperature)
        return cls(target, Requirements(), reference, elements=elements, parts=parts)

    def stored_arrays(self) -> dict[str, np.ndarray]:
        """Arrays to write to a file, by name."""
        return record_arrays("elements", self.elements) | record_arrays("parts", self.parts.parts)

    @one_thread_of_blas
    def around(self, start: np.ndarray) -> Self:
        """Plan around the mean found by a search from `start`."""
        elements = centre_around(self.elements, self.target, start)
        return self.with_bounds(self.target, self.requirements, elements)

    @one_thread_of_blas
    def at(self, expansion: GroupedReference) -> Self:
        """Plan around the centre of another expansion, with bounds there."""
        pairs = zip(expansion, self.elements, strict=True)
        if all(np.array_equal(np.asarray(new), np.asarray(known)) for new, known in pairs):
            return self
        return self.with_bounds(self.target, self.requirements, expansion)

    @cached_property
    def geometry(self) -> Geometry:
        """C record of coordinates and expansions, which compiled iterations read."""
        return geometry_of(self.elements, self.target)

    @property
    def bounds(self) -> PartTables:
        """Separable bounds of all rows."""
        return self.parts

    @property
    def blocks(self) -> GroupedReference:
        """Geometry of common and group effects."""
        return self.elements

    @property
    def expansion(self) -> GroupedReference:
        """Centre, coordinates of common and group effects, and expansions in them."""
        return self.elements

    def objection_to(self, moves: EffectMoves) -> str:
        """Error text for a step that updates effects together, unlike this plan; else ""."""
        if moves.integrated == "always":
            return "one at a time, but this one has to integrate them out. Leave blocks= out"
        return "one at a time, but this one cannot. Leave it out" * (moves.by_elements == "never")

    def bound_ratio(self, position: np.ndarray, new: np.ndarray) -> tuple[float, int]:
        """Maximum ratio of a row's change to its bound between two positions, and the row."""
        return largest_of_parts(self.target, self.elements, self.parts, position, new)

    def objection_of(self, seed: int, rows: np.ndarray | None = None) -> str:
        """Description of a violated bound in a typical proposal; else ""."""
        return audited_parts(self.target, self.elements, self.parts, np.random.default_rng(seed))

    def distance(self, position: np.ndarray) -> float:
        """Distance of a position from the centre, in posterior standard deviations."""
        return self.elements.distance(position)

    def gaussian_draw(self, rng: np.random.Generator, scale: float) -> np.ndarray:
        """Position from the Gaussian approximation, `scale` times as wide."""
        return self.elements.draw(rng, scale)

    def unread_steps(self) -> tuple[np.ndarray, np.ndarray]:
        """Basis of the likelihood's null space, shape (k, d), and whitened lengths, shape (k,)."""
        return self.elements.unread_steps()

    def describe_centre(self) -> str:
        """Where the centre is, and how effects are updated, in words."""
        return self.elements.told()


def geometry_of(found: GroupedReference, target: Target) -> Geometry:
    """C record of coordinates and expansions, which compiled iterations read."""
    precisions, moved = found.prior_curvature, found.scale_factor >= 0
    bent = found.along @ found.rows_hessian
    densities = [density.address for density in target.compiled.element_densities]
    fields = Geometry(
        border=found.border,
        places=found.places,
        factor=found.border_factor,
        whitener=np.linalg.inv(found.border_factor),
        response=found.response.T,
        sd=found.sd,
        border_slope=found.gw,
        slopes=found.ge,
        border_hessian=found.Hww,
        between=found.Hew.T,
        hessian=found.he,
        cell_starts=found.indptr,
        cell_elements=found.indices.astype(np.int32),
        cells=found.data,
        border_tilt=found.border_tilt,
        tilts=found.tilts,
        prior_slope=found.border_slope,
        directions=found.prior_direction.T,
        precisions=precisions,
        total_precision=np.array([precisions[slice(*e)].sum() for e in pairwise(found.starts)]),
        stiffness=found.prior_stiffness,
        densities=np.array(densities, dtype=np.int64),
        scales=found.scales[moved],
        scale_steps=found.scale_sd[moved],
        scale_factors=found.scale_factor[moved],
        along=found.along,
        along_slope=found.along @ found.ge,
        along_border=found.along @ found.Hew,
        along_elements=bent,
        along_own=np.einsum("kl,kl->k", bent, found.along),
        chosen=found.chosen,
        read=found.read,
    )
    return Geometry(*(np.ascontiguousarray(field) for field in fields))
