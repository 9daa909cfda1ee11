"""Componentwise updates: a border, and the effects of each group, accepted by themselves.

:mod:`native.elements` describes an iteration, native/element_test.c proves it exact.
"""

from dataclasses import dataclass

import numpy as np

from pymc_minibatch_mh import costs
from pymc_minibatch_mh.native.elements import ElementChain, ElementTest
from pymc_minibatch_mh.native.library import Arena, GeneratorRecord, LaidOut
from pymc_minibatch_mh.native.posterior import Posterior
from pymc_minibatch_mh.native.run import KernelState, Slices
from pymc_minibatch_mh.native.statistics import KIND_TALLY, TALLY, Feature
from pymc_minibatch_mh.plan.arrow import ArrowPlan
from pymc_minibatch_mh.plan.efficiency import best_chi
from pymc_minibatch_mh.plan.method import Method, WarmUpCounts
from pymc_minibatch_mh.plan.plan import Plan
from pymc_minibatch_mh.reference.arrow_reference import GroupedReference
from pymc_minibatch_mh.samplers.base import Records, Sampler, Scratch, Tallies

#: Fewest kept rows by which κ is chosen.
MIN_ROWS = 50


@dataclass(frozen=True, eq=False)
class Componentwise(Sampler[ArrowPlan]):
    """Updates of a border and of the elements of each factor, by their conditional normals.

    A Poisson test accepts or rejects the border and each element by themselves. The border has
    `n_border` coordinates, of which rows choose `n_chosen`, the factors have `sizes` elements, and
    `n_scales` scales move with the elements of one factor each; rows read `n_cells` pairs of
    elements. Without `method.learns_rates`, every κ stays 1.
    """

    method: Method
    n_border: int
    n_chosen: int
    sizes: tuple[int, ...]
    n_scales: int
    n_cells: int

    loop = "mh_run_elements"
    tally = KIND_TALLY

    @property
    def n_components(self) -> int:
        """Number of kinds of moves."""
        return 2 + len(self.sizes) + self.n_scales

    @property
    def n_decisions(self) -> int:
        """One for every element and every scale, and two for the border."""
        return 2 + sum(self.sizes) + self.n_scales

    @property
    def key(self) -> dict[str, str]:
        """Sizes."""
        return {"its proposal": repr(self)}

    def initial_records(self, plan: Plan) -> Records:
        """Record of the Poisson test, with every κ = 1."""
        return Records(None, ElementTest(self.method.record(plan), np.ones(self.n_components)))

    def recentred(self, records: Records, counts: WarmUpCounts, plan: Plan) -> Records:
        """Records with the test of the new centre and the old κ."""
        return records._replace(test=records.test._replace(rates=self.method.record(plan)))

    def adapted(
        self, records: Records, tallies: Tallies, counts: WarmUpCounts, plan: Plan
    ) -> Records:
        """Records with the κ of every kind that makes most effective draws in a given time."""
        kappa = records.test.kappa.copy()
        element = costs.ELEMENT_NUMBER * (costs.OTHER_NUMBERS + self.n_border)
        fixed = costs.ITERATION + element * sum(self.sizes)
        fixed += costs.BORDER_PAIR * self.n_border * self.n_chosen + costs.CELL * self.n_cells
        together = (1, *self.sizes, *[1] * (self.n_scales + 1))
        for kind, (decisions, candidates, squares, mass, kept) in enumerate(tallies.total):
            if self.method.learns_rates and kept > MIN_ROWS:
                rate = mass / decisions
                row = costs.ELEMENT_OBSERVATION + costs.ELEMENT_CANDIDATE * candidates / mass
                cost = together[kind] * row / fixed
                kappa[kind] = 1.0 + rate * best_chi([rate], min(squares / kept, 1.0), cost)
        return records._replace(test=records.test._replace(kappa=kappa))

    def scaling(self, records: Records) -> float:
        """κ of the border."""
        return float(records.test.kappa[0])

    def linked(self, records: Records, plan: ArrowPlan) -> Records:
        """Geometry and bounds of the plan in the place of a proposal."""
        # The functions are kept for their addresses.
        moves = plan.geometry, plan.parts.parts, plan.target.compiled.element_densities
        return Records(moves, records.test)

    def kernel_state(
        self,
        linked: Records,
        posterior: Posterior,
        rng: np.random.Generator,
        scratch: Scratch,
        slices: Slices,
    ) -> LaidOut:
        """Record ``mh_element_chain``."""
        chain = KernelState(
            posterior, scratch.move, GeneratorRecord(rng), None, None, None, None, slices,
            scratch.tallies.view(TALLY), scratch.worst_move, Arena(),
        )  # fmt: skip
        (geometry, parts, functions), (rates, kappa) = linked
        # Ceilings are raised by κ - 1, in the place of χ C M.
        raised = rates._replace(chi=1.0)
        state = ElementChain(chain, raised, geometry, parts, kappa, functions)
        return LaidOut("mh_element_chain", state)

    def features(self, plan: ArrowPlan) -> set[Feature]:
        """Statistics of effects, and of scales and directions where there are any."""
        found: set[Feature] = super().features(plan) | {"effects", "ceilings"}
        if self.n_scales:
            found.add("scales")
        if len(plan.elements.along):
            found.add("directions")
        return found


def componentwise_sampler(method: Method, elements: GroupedReference) -> Componentwise:
    """Sampler of the elements around a centre."""
    sizes = tuple(int(size) for size in np.diff(elements.starts))
    n_scales = int(np.count_nonzero(elements.scale_factor >= 0))
    counts = elements.border.size, elements.n_chosen, sizes, n_scales, elements.data.size
    return Componentwise(method, *counts)
