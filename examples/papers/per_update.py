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

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from papers.designs import BATCH_SIZES, EPSILONS, Grid, distances_of
from papers.sequential import SHIPPED_ALL_ROWS_FROM, error_and_use, looks_of
from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.data import digest
from pymc_minibatch_mh.kernels import roles as entry
from pymc_minibatch_mh.kernels.looks import look_until_decided, scan_rows
from pymc_minibatch_mh.kernels.roles import role_of
from pymc_minibatch_mh.plan.method import Guarantee, Promise
from pymc_minibatch_mh.plan.plan import Plan, Requirements
from pymc_minibatch_mh.steps.austere import decide_batch, sample_size
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.batches import UNMEASURED, BatchMethod


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

    skewness: float
    third_moment: float
    kappa: float
    distances: np.ndarray
    batch_sizes: np.ndarray
    epsilons: np.ndarray


class ChosenTest(NamedTuple):
    """The test of one update, and its uniform number, which was drawn before the scan."""

    batch_size: int
    third_moment: float
    kappa: float
    epsilon: float
    boundary: float
    limit: float
    uniform: float


@role_of(ChosenTest, "sample_size")
@compiled(inlined=True)
def plan_of_chosen(noise: Any, n: Any, total: Any, test: Any) -> Any:
    """Return the rows of the next look, as :func:`austere.sample_size` does."""
    return sample_size(noise, n, total, test)


@role_of(ChosenTest, "decide_batch")
@compiled(inlined=True)
def judge_by_chosen(
    log_ratio: Any, variance: Any, skewness: Any, n: Any, total: Any, uniform: Any, test: Any
) -> Any:
    """Decide by :func:`decide_batch`, with the uniform number that the test was chosen for."""
    return decide_batch(log_ratio, variance, skewness, n, total, test.uniform, test)


@role_of(PerUpdateTest, "decide")
@compiled(inlined=True)
def decide_after_scan(
    test: Any, move: Any, cheap: Any, posterior: Any, rng: Any, counts: Any
) -> Any:
    """Scan all rows, choose a test for what they say, and run it on rows drawn anew.

    The scan is counted as read rows, and as a full pass: see :func:`roles.decide`.
    """
    beta, uniform = posterior.reference.inverse_temperature, rng.random()
    total = posterior.space.term_starts[-1]
    mean, variance, _ = scan_rows(posterior, move)
    threshold = math.log(uniform) if uniform > 0.0 else -math.inf
    gap = abs(cheap + beta * total * mean - threshold)
    sd = beta * total * math.sqrt(variance / (total - 1.0))
    # Where nothing can be said, the test of the farthest moves meets the same rows and rejects.
    last = test.distances.size - 1
    distance = gap / sd if sd > 0.0 else math.inf
    k = np.searchsorted(test.distances, distance, side="right") - 1 if distance < math.inf else last
    audited, own = (test.third_moment, test.kappa), (test.epsilons[k], 0.5, math.inf, uniform)
    chosen = ChosenTest(test.batch_sizes[k], *audited, *own)
    verdict, accept, n = look_until_decided(chosen, move, cheap, posterior, rng, counts)
    counts[entry.N_OBS] += total
    counts[entry.FULL_PASS] += n < total
    return verdict, accept, n


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

    @property
    def key(self) -> str:
        """Digest of what designs are chosen by."""
        parts = self.design.tolerance, *self.design.batch_sizes, *self.design.epsilons
        return digest(np.array([*parts, len(self.design.batch_sizes)]))

    def record(self, plan: Plan) -> Any:
        """Return the record with a design for every distance."""
        table = design_table(self.design, plan.n_rows)
        return self.settings._replace(**table._asdict())


class PerUpdateAustereMH(MinibatchStep):
    """Metropolis–Hastings decided by a sequential t-test that is designed anew in every update.

    Parameters
    ----------
    design
        The grid and the tolerance.
    **settings
        Settings of every step: see :class:`~pymc_minibatch_mh.steps.settings.SharedSettings`.
    """

    name = "per_update_austere_mh"

    def __init__(self, vars: Any = None, *, design: PerUpdate, **settings: Any) -> None:
        nothing, none = np.zeros(0), np.zeros(0, dtype=np.int64)
        empty = PerUpdateTest(**UNMEASURED, distances=nothing, batch_sizes=none, epsilons=nothing)
        self._prepare(vars, PerUpdateMethod(empty, design), **settings)
