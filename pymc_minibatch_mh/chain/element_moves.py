"""Moves of a border and of the elements of groups, and how they adapt."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.native.elements import ElementChain, Geometry, Kinds
from pymc_minibatch_mh.native.library import Arena, GeneratorRecord, LaidOut
from pymc_minibatch_mh.native.moves import Move
from pymc_minibatch_mh.native.parts import Parts
from pymc_minibatch_mh.native.run import KernelState
from pymc_minibatch_mh.native.slices import NO_SLICES, Slices
from pymc_minibatch_mh.native.statistics import KIND_TALLY, TALLY
from pymc_minibatch_mh.plan.method import best_chi
from pymc_minibatch_mh.proposals.base import Proposal, Tallies

#: Seconds that an iteration takes without rows: for each number of each element, of which there
#: are those of the border and some of its own, and all else; a row, and a candidate. Fitted to
#: the times of three problems of benchmarks/groups.py.
_NUMBER, _OWN_NUMBERS, _ITERATION, _ROW, _CANDIDATE = 4e-9, 10, 10e-6, 0.25e-6, 0.13e-6
#: And for a pair of coordinates of the border, and for one of elements that a row reads.
_PAIR, _CELL = 3e-9, 1.5e-9
#: Kept rows to see before κ is chosen by them.
_ENOUGH_ROWS = 50


@dataclass(frozen=True, eq=False)
class ElementMoves(Proposal):
    """Moves of a border and of the elements of each factor, by their conditional normals.

    Guarantee: *exact given valid bounds*, with a Poisson test. The border has `n_border`
    coordinates, of which rows choose `n_chosen`, the factors have `sizes` elements, and `n_scales`
    scales move with the elements of one factor each; rows read `n_cells` pairs of elements. Without
    `learns`, every κ stays 1.
    """

    n_border: int
    n_chosen: int
    sizes: tuple[int, ...]
    n_scales: int
    n_cells: int
    learns: bool

    loop = "mh_run_elements"
    tally = KIND_TALLY

    @property
    def n_components(self) -> int:
        """Number of kinds of moves."""
        return 2 + len(self.sizes) + self.n_scales

    def record(self, size: int) -> Kinds:
        """Return the κ that a chain starts with."""
        return Kinds(np.ones(self.n_components))

    def adapted(
        self, record: Kinds, window: Tallies, total: Tallies, walk_target: float, size: int
    ) -> Kinds:
        """Choose the κ of every kind that makes most effective draws in a given time."""
        kappa = record.kappa.copy()
        fixed = _ITERATION + _NUMBER * (_OWN_NUMBERS + self.n_border) * sum(self.sizes)
        fixed += _PAIR * self.n_border * self.n_chosen + _CELL * self.n_cells
        together = (1, *self.sizes, *[1] * (self.n_scales + 1))
        for kind, (decisions, candidates, squares, mass, kept) in enumerate(total):
            if self.learns and kept > _ENOUGH_ROWS:
                own = mass / decisions
                cost = together[kind] * (_ROW + _CANDIDATE * candidates / mass) / fixed
                kappa[kind] = 1.0 + own * best_chi([own], min(squares / kept, 1.0), cost)
        return Kinds(kappa)

    def scaling(self, record: Kinds) -> float:
        """Return the κ of the border."""
        return float(record.kappa[0])

    def laid_out(
        self,
        posterior: Any,
        record: Any,
        test: Any,
        rng: np.random.Generator,
        move: Move,
        tallies: np.ndarray,
        worst_move: np.ndarray,
        slices: Slices = NO_SLICES,
    ) -> LaidOut:
        """Return the chain that the loop takes (``mh_element_chain``)."""
        updates: Updates = record
        chain = KernelState(
            posterior, move, GeneratorRecord(rng), None, None, None, None, slices,
            tallies.view(TALLY), worst_move, Arena(),
        )  # fmt: skip
        # Ceilings are raised by κ - 1, in the place of χ C M.
        raised, kappa = test._replace(chi=1.0), updates.kinds.kappa
        state = ElementChain(
            chain, raised, updates.geometry, updates.parts, kappa, updates.functions
        )
        return LaidOut("mh_element_chain", state)

    def linked(self, record: Kinds, plan: Any) -> Any:
        """Return the record of compiled updates, with geometry and bounds of a plan."""
        functions = plan.target.element_densities
        addresses = np.array([one.address for one in functions], dtype=np.int64)
        return Updates(geometry_of(plan.elements, addresses), plan.parts.parts, record, functions)


def moves_of(found: Any, *, learns: bool) -> ElementMoves:
    """Return the moves of the elements of a centre."""
    sizes = tuple(int(size) for size in np.diff(found.starts))
    n_scales = int(np.count_nonzero(found.scale_factor >= 0))
    return ElementMoves(found.border.size, found.n_chosen, sizes, n_scales, found.data.size, learns)


class Updates(NamedTuple):
    """Geometry, bounds and κ of the iterations of a chain, and functions that have to be kept."""

    geometry: Geometry
    parts: Parts
    kinds: Kinds
    functions: Any


def geometry_of(found: Any, densities: np.ndarray) -> Geometry:
    """Return coordinates and expansions as compiled iterations read them."""
    own = found.prior_curvature
    moved = found.scale_factor >= 0
    bent = found.along @ found.rows_hessian
    arrays = (
        found.border,
        found.places,
        found.border_factor,
        np.linalg.inv(found.border_factor),
        found.response.T,
        found.sd,
        found.gw,
        found.ge,
        found.Hww,
        found.Hew.T,
        found.he,
        found.indptr,
        found.indices.astype(np.int32),
        found.data,
        found.border_tilt,
        found.tilts,
        found.border_slope,
        found.prior_direction.T,
        own,
        np.array([own[slice(*ends)].sum() for ends in pairwise(found.starts)]),
        found.prior_stiffness,
        densities,
        found.scales[moved],
        found.scale_sd[moved],
        found.scale_factor[moved],
        found.along,
        found.along @ found.ge,
        found.along @ found.Hew,
        bent,
        np.einsum("kl,kl->k", bent, found.along),
        found.chosen,
        found.read,
    )
    return Geometry(*(np.ascontiguousarray(x) for x in arrays))
