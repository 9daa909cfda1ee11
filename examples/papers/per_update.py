"""The sequential test with a design for every update, which scans all rows first.

The scan tells how far the mean is from its threshold; batch size and epsilon are then those of the
cheapest test whose error at that distance is tolerated, run on rows that are drawn anew. It saves
nothing, as the scan knows the decision: it is there for the figures that were published with it.

Guarantee: *approximate*. The error of an update is at most the tolerance, for batches whose mean is
about normal.

References
----------
Seita, Pan, Chen, Canny (2017), "An efficient minibatch acceptance test for Metropolis-Hastings",
UAI, doi:10.48550/arXiv.1610.06848, section 6 and appendix C.2.1.
"""

import ctypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from papers.designs import BATCH_SIZES, EPSILONS, Grid, distances_of
from papers.sequential import SHIPPED_ALL_ROWS_FROM, error_and_use, looks_of
from pymc_minibatch_mh.native.compiler import compile_file
from pymc_minibatch_mh.native.library import ffi
from pymc_minibatch_mh.plan.method import Guarantee, Promise
from pymc_minibatch_mh.plan.plan import Plan, Requirements
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.batches import UNMEASURED, BatchMethod
from pymc_minibatch_mh.steps.settings import SharedSettings, setting_field, takes_settings


@dataclass(frozen=True)
class PerUpdate:
    """The tests that an update may choose from, and the error that it tolerates.

    Parameters
    ----------
    tolerance
        Largest probability of a wrong decision in an update. Where no test of the grid keeps to
        it, all rows decide.
    batch_sizes, epsilons
        The grid.
    """

    tolerance: float
    batch_sizes: tuple[int, ...] = BATCH_SIZES
    epsilons: tuple[float, ...] = EPSILONS


class DesignTable(NamedTuple):
    """The design of an update, by its μ_std.

    Parameters
    ----------
    distances : ndarray, shape (K,)
        Smallest |μ_std| that an entry is for, ascending from 0.
    batch_sizes : ndarray of int64, shape (K,)
    epsilons : ndarray, shape (K,)
        0 where no test of the grid has an error that is tolerated: all rows decide.
    """

    distances: np.ndarray
    batch_sizes: np.ndarray
    epsilons: np.ndarray


@cache
def design_table(design: PerUpdate, n_rows: int) -> DesignTable:
    """Return the designs of updates on so many rows.

    An entry holds for all larger distances up to the next: errors fall with the distance.
    """
    distances = distances_of(n_rows, min(design.batch_sizes))
    fewest = np.ones(distances.size)
    table = DesignTable(
        distances, np.full(distances.size, min(design.batch_sizes)), np.zeros(distances.size)
    )
    for batch_size, epsilon, boundary in Grid(design.batch_sizes, design.epsilons).tests():
        looks = looks_of(batch_size, epsilon, n_rows, boundary, SHIPPED_ALL_ROWS_FROM)
        found = error_and_use(distances, looks)
        better = (found.error <= design.tolerance) & (found.use < fewest)
        fewest[better] = found.use[better]
        table.batch_sizes[better] = batch_size
        table.epsilons[better] = epsilon
    for part in table:
        part.setflags(write=False)
    return table


ffi.cdef(
    """
    typedef mh_status (*per_update_scan)(const mh_posterior *, const mh_move *, double *, double *,
                                         double *, mh_arena *);
    typedef struct per_update_test {
        int64_t n_designs; const double *distances; const int64_t *batch_sizes;
        const double *epsilons; double third_moment; double kappa; per_update_scan scan_rows;
        mh_decide look; mh_sample_size sample_size; mh_decide_batch decide_batch;
    } per_update_test;
    """
)


@cache
def _decide() -> int:
    """Compile the file in C beside this one; return the address of its test."""
    library = ctypes.CDLL(str(compile_file(Path(__file__).with_suffix(".c"))))
    return ctypes.cast(library.per_update_decide, ctypes.c_void_p).value or 0


class PerUpdateTest(NamedTuple):
    """Settings of the method in a chain.

    Parameters
    ----------
    skewness, third_moment, kappa
        As in :class:`AustereTest`.
    distances : ndarray, shape (K,)
        Smallest |μ_std| that a design is for, ascending from 0.
    batch_sizes : ndarray of int64, shape (K,)
    epsilons : ndarray, shape (K,)
        The designs.
    """

    LAYOUT = "per_update_test"  # type: ignore[misc]
    # Functions of the library that the test calls.
    scan_rows, look = "mh_scan_rows", "mh_decide_by_batches"  # type: ignore[misc]
    sample_size, decide_batch = "mh_austere_sample_size", "mh_austere_decide"  # type: ignore[misc]

    skewness: float
    third_moment: float
    kappa: float
    distances: np.ndarray
    batch_sizes: np.ndarray
    epsilons: np.ndarray

    @property
    def decide(self) -> int:
        """The test, an ``mh_decide``."""
        return _decide()

    @property
    def n_designs(self) -> int:
        """Number of the designs."""
        return self.distances.size


@dataclass(frozen=True, eq=False)
class PerUpdateMethod(BatchMethod):
    """The method, as a step runs it.

    Parameters
    ----------
    settings
        Its record, still without designs.
    design
        What they are chosen by, once the number of rows is known.
    """

    design: PerUpdate

    guarantee = Guarantee(
        Promise.APPROXIMATE,
        "probability of a wrong decision in an update, which all rows are scanned for, not the "
        "bias of the posterior",
    )
    walk_target = 0.234
    reads_all_rows = True
    returns_probability = False

    @property
    def requirements(self) -> Requirements:
        """Nothing of all rows: the scan of an update knows them."""
        return Requirements(in_memory=True)

    def record(self, plan: Plan) -> Any:
        """Return the record with a design for every distance."""
        table = design_table(self.design, plan.n_rows)
        return self.settings._replace(**table._asdict())

    def linked(self, record: Any) -> Any:
        """Return the same: it looks at batches by itself."""
        return record


@dataclass(frozen=True, kw_only=True)
class PerUpdateSettings(SharedSettings):
    """Settings of :class:`PerUpdateAustereMH`.

    Parameters
    ----------
    design
        The grid and the tolerance.
    """

    design: PerUpdate = setting_field()


class PerUpdateAustereMH(MinibatchStep):
    """Metropolis–Hastings decided by a sequential t-test that is designed anew in every update."""

    name = "per_update_austere_mh"

    @takes_settings(PerUpdateSettings)
    def __init__(self, settings: PerUpdateSettings) -> None:
        nothing, none = np.zeros(0), np.zeros(0, dtype=np.int64)
        empty = PerUpdateTest(**UNMEASURED, distances=nothing, batch_sizes=none, epsilons=nothing)
        self._prepare(settings, PerUpdateMethod(empty, settings.design))
