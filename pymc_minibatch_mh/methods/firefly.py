"""Firefly Monte Carlo: Metropolis–Hastings whose state says which rows are read.

Every row has a lower bound B_i(θ) of its likelihood L_i(θ) = exp[β ℓ_i(θ)], and is bright or dark.
The chain lives on positions and sets of bright rows, with the density

    π₀(θ) Π_dark B_i(θ) Π_bright [L_i(θ) - B_i(θ)]

whose sum over all sets is π₀ Π L_i, the posterior. A move of θ has to read bright rows only, if the
product of all B_i is known without reading any. It is: with t_i the expansion of ℓ_i around the
centre, T their sum, and c_i and m(θ) as in :mod:`pymc_minibatch_mh.methods.brightness`,

    log B_i(θ) = β t_i(θ) - c_i m(θ) + const,    Σ log B_i = β T(θ) - C m(θ) + const,

so that every likelihood with derived bounds has one. An update first updates which rows are bright,
then decides on the move of θ, with the log ratio

    λ_c - C [m(θ') - m(θ)] + Σ_bright [log o_i(θ') - log o_i(θ)],

λ_c that of the cheap part and the proposals: o_i B_i is the density of a bright row.

Where θ or θ' lies outside of all tables there is no bound. Such a pair is decided by all rows, with
the sets summed out; if the move is accepted, the bright rows are drawn from their law given θ' when
they are next needed. So they are at the start of a chain, too. Whether a pair is such a pair is
symmetric in θ and θ', and does not depend on the rows that are bright.

Guarantee
---------
Exact given valid bounds: the law of θ is the posterior under the joint one, which both parts of an
update keep. Draws are correlated through the bright rows as well: a move can only go as far as they
let it, and a row that is not proposed stays dark.

References
----------
Maclaurin, Adams (2014), "Firefly Monte Carlo: exact MCMC with subsets of data", Conference on
Uncertainty in Artificial Intelligence 30, arXiv:1403.5693.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.kernels import counts as entry
from pymc_minibatch_mh.kernels.posterior import read_all
from pymc_minibatch_mh.kernels.roles import role_of
from pymc_minibatch_mh.kernels.scratch import scratch
from pymc_minibatch_mh.kernels.vectors import copy_to
from pymc_minibatch_mh.methods.base import Method
from pymc_minibatch_mh.methods.brightness import (
    UNKNOWN,
    Brightness,
    odds_of_bright,
    place_of,
    size_of,
    unknown_brightness,
    update_brightness,
)
from pymc_minibatch_mh.methods.guarantee import Guarantee, Promise
from pymc_minibatch_mh.preparation.needs import GivenBounds, Needs
from pymc_minibatch_mh.preparation.prepared import Prepared

#: ξ, where untuned lower bounds touch: the published one for logistic regression.
UNTUNED = 1.5


class FireflyTest(NamedTuple):
    """Settings and state of the test in a chain.

    Parameters
    ----------
    brightness
        Which rows are bright.
    forgets
        1: they are drawn anew for every decision, to measure a single one.
    tolerates
        1: a row beyond its bound is taken to be on it, and marked. 0: it stops the chain.
    """

    brightness: Brightness
    forgets: int
    tolerates: int


def require_probability(q: float) -> float:
    """Return q.

    Raises
    ------
    SettingError
        If it is not in (0, 1].
    """
    if not 0.0 < q <= 1.0:
        raise SettingError(
            f"q={q} is not a probability above 0 and up to 1. Use 0.1, or about the share of the "
            "rows that are bright."
        )
    return float(q)


@compiled(inlined=True)
def log_ratio_of_move(cheap, sizes, odds):
    """Return the log ratio of a move of θ.

    Parameters
    ----------
    cheap
        λ_c.
    sizes, odds : tuple of float
        C m, and the sum of log o_i over the bright rows, where the move begins and ends.
    """
    return cheap - (sizes[1] - sizes[0]) + (odds[1] - odds[0])


@compiled()
def _change_of_all(move, posterior, counts):
    """Read all rows; return their change, tempered."""
    change, _ = read_all(posterior, move, posterior.tables.c[0, :0])
    counts[entry.FULL_PASS] += 1.0
    counts[entry.INVALID] += not np.isfinite(change)
    return posterior.surrogate.inverse_temperature * change


@compiled(spliced=True)
def _follow(test, position):
    """Forget which rows are bright if that does not belong to a position."""
    own = test.brightness
    same = not test.forgets
    for j in range(position.size):
        same = same and own.at[j] == position[j]
    if not same:
        own.n_bright[0] = UNKNOWN
        copy_to(own.at, position)


@role_of(FireflyTest, "decide")
@compiled(inlined=True)
def decide_by_bright_rows(test, move, cheap, posterior, rng, counts):
    """Update which rows are bright, then decide by these: see :func:`roles.decide`."""
    centre = scratch(move.new.size, np.float64)
    centre[:] = 0.0
    here = place_of(posterior, move.position, move.here, centre)
    there = place_of(posterior, move.new, move.there, centre)
    counts[entry.N_LOOKS] += 1.0
    counts[entry.LOG_RATIO_STD] = 0.0
    own = test.brightness
    _follow(test, move.position)
    bounded = here.table >= 0 and there.table >= 0
    if bounded:
        odds_here, n_read = update_brightness(own, here, posterior, rng, counts)
        odds_there = odds_of_bright(own, there, posterior, counts)
        n_bright = own.n_bright[0]
        n_read += n_bright
        if not (counts[entry.BOUND_RATIO] <= 1.0 or test.tolerates):
            return -1.0, 0.0, float(n_read)
        sizes = (size_of(posterior, here), size_of(posterior, there))
        log_ratio = log_ratio_of_move(cheap, sizes, (odds_here, odds_there))
    else:
        n_bright = n_read = own.rows.size
        log_ratio = cheap + _change_of_all(move, posterior, counts)
    counts[entry.N_BRIGHT] = n_bright
    counts[entry.LOG_RATIO] = log_ratio
    probability = math.exp(min(0.0, log_ratio)) if log_ratio > -np.inf else 0.0
    if not rng.random() < probability:
        return 0.0, probability, float(n_read)
    if not bounded:
        own.n_bright[0] = UNKNOWN
    copy_to(own.at, move.new)
    return 1.0, probability, float(n_read)


@dataclass(frozen=True, eq=False)
class FireflyMethod(Method):
    """Firefly Monte Carlo.

    Parameters
    ----------
    q
        Probability that a dark row is proposed to become bright.
    touching
        ξ, where quadratic lower bounds touch; None for those made of derived bounds.
    bounds
        None to derive them, or the user's.
    tolerates_violations
        Whether to go on after a violated bound, marking the trace.
    """

    q: float
    touching: float | None
    bounds: GivenBounds | None
    tolerates_violations: bool

    #: That of exact Metropolis–Hastings.
    walk_target = 0.234
    #: Lower bounds of rows depend on how far the whole position is from the centre: which rows are
    #: bright would have to be drawn anew, from all of them.
    moves_without_rows = False

    @property
    def guarantee(self) -> Guarantee:
        """Exact; quadratic lower bounds are inequalities that hold whatever the model."""
        if self.touching is not None:
            return Guarantee(Promise.EXACT)
        return Guarantee(Promise.EXACT_GIVEN_BOUNDS)

    @property
    def needs(self) -> Needs:
        """Quadratic lower bounds, or bounds, derived from the model unless the user gave some."""
        if self.touching is not None:
            return Needs(touching=self.touching, in_memory=True)
        derives = self.bounds is None
        return Needs(derived_bounds=derives, given_bounds=self.bounds, in_memory=True)

    @property
    def key(self) -> str:
        """The settings."""
        return repr((self.q, self.touching, self.tolerates_violations))

    def record(self, prepared: "Prepared") -> FireflyTest:
        """Return the settings, with bright rows that have yet to be drawn."""
        size = prepared.surrogate.centre.size
        brightness = unknown_brightness(self.q, prepared.n_rows, size)
        return FireflyTest(brightness, 0, int(self.tolerates_violations))

    def probed(self, record: FireflyTest) -> FireflyTest:
        """Return the record with bright rows that are drawn anew for every decision."""
        return record._replace(forgets=1)
