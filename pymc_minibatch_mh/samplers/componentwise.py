"""Componentwise updates: common effects, and group effects that are accepted one at a time.

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

#: Minimum number of evaluated candidates before κ is tuned.
MIN_ROWS = 50


@dataclass(frozen=True, eq=False)
class Componentwise(Sampler[ArrowPlan]):
    """Updates of common effects and of each factor's levels, by normal conditional proposals.

    A Poisson test accepts or rejects the common effects, and each group effect separately. There
    are `n_border` common effects, `n_chosen` indexed by data; the factors have `sizes` levels;
    each of `n_scales` scales is updated together with the effects of one factor; `n_cells` pairs of
    effects share rows. Without `method.learns_rates`, every κ stays 1.
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
        """Number of proposal types; each has its own rate factor κ."""
        return 2 + len(self.sizes) + self.n_scales

    @property
    def n_decisions(self) -> int:
        """Number of decisions: per effect, per scale, for common effects, for joint directions."""
        return 2 + sum(self.sizes) + self.n_scales

    @property
    def key(self) -> dict[str, str]:
        """Method and sizes."""
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
        """Records with the κ of each proposal type that maximises effective draws per second."""
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
        """Rate factor κ of the common effects."""
        return float(records.test.kappa[0])

    def linked(self, records: Records, plan: ArrowPlan) -> Records:
        """Records with the plan's geometry and bounds as the proposal, and the unchanged test."""
        # The reference keeps the functions alive, because C only has their addresses.
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
        """C record ``mh_element_chain``."""
        chain = KernelState(
            posterior, scratch.move, GeneratorRecord(rng), None, None, None, None, slices,
            scratch.tallies.view(TALLY), scratch.worst_move, Arena(),
        )  # fmt: skip
        (geometry, parts, functions), (rates, kappa) = linked
        # With χ = 1, compiled code uses the rate factors κ - 1 in place of χ C M.
        raised = rates._replace(chi=1.0)
        state = ElementChain(chain, raised, geometry, parts, kappa, functions)
        return LaidOut("mh_element_chain", state)

    def features(self, plan: ArrowPlan) -> set[Feature]:
        """Statistics to record: of effects, and of scales and joint directions if there are any."""
        found: set[Feature] = super().features(plan) | {"effects", "ceilings"}
        if self.n_scales:
            found.add("scales")
        if len(plan.elements.along):
            found.add("directions")
        return found


def componentwise_sampler(method: Method, elements: GroupedReference) -> Componentwise:
    """Componentwise sampler of common and group effects around a centre."""
    sizes = tuple(int(size) for size in np.diff(elements.starts))
    n_scales = int(np.count_nonzero(elements.scale_factor >= 0))
    counts = elements.border.size, elements.n_chosen, sizes, n_scales, elements.data.size
    return Componentwise(method, *counts)
