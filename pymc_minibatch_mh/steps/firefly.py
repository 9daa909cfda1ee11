"""Firefly Monte Carlo: Metropolis–Hastings whose state says which rows are read.

Every row has a lower bound B_i(θ) of its likelihood L_i(θ) = exp[β ℓ_i(θ)], and is bright or dark.
The chain lives on positions and sets of bright rows, with the density

    π₀(θ) Π_dark B_i(θ) Π_bright [L_i(θ) - B_i(θ)]

whose sum over all sets is π₀ Π L_i, the posterior: given θ, rows are bright independently, each
with the odds o_i = (L_i - B_i)/B_i. A move of θ has to read bright rows only, if the product of all
B_i is known without reading any. It is: with t_i the expansion of ℓ_i around the centre θ̂, T their
sum, r_i a row's remainder, c_i its bound and m(θ) = M(θ̂, θ),

    log B_i(θ) = β t_i(θ) - c_i m(θ) + const,    Σ log B_i = β T(θ) - C m(θ) + const,
    log(L_i/B_i) = β [r_i(θ) - r_i(θ̂)] + c_i m(θ) >= 0,

so that every likelihood with derived bounds has one. Which table gives c_i and m follows from θ
alone, or B_i would be no function of θ. Logistic and Student-t rows have quadratic lower bounds as
well (:mod:`reference.lower_bounds`), whose sum takes the place of β T, with a constant m.

An update first updates which rows are bright, then decides on the move of θ, with the log ratio

    λ_c - C [m(θ') - m(θ)] + Σ_bright [log o_i(θ') - log o_i(θ)],

λ_c that of the cheap part and the proposals. It proposes each dark row to become bright with
probability q, and accepts with probability min(1, o_i/q); it proposes each bright row to become
dark, and accepts with probability min(1, q/o_i). That balances every pair of sets of bright rows.
Dark rows that are not proposed are neither read nor looked at.

Where θ or θ' lies outside of all tables there is no bound. Such a pair, which is symmetric in θ
and θ' and does not depend on the rows that are bright, is decided by all rows, with the sets summed
out; if the move is accepted, the bright rows are drawn from their law given θ' when they are next
needed, as at the start of a chain.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Unpack

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.checks import choice, positive
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.kernels import roles as entry
from pymc_minibatch_mh.kernels.bound_tables import TOTAL, ask_for_bounds, smallest_table
from pymc_minibatch_mh.kernels.moves import Move, hold_against_bound
from pymc_minibatch_mh.kernels.posterior import change_of_all_rows, read_drawn
from pymc_minibatch_mh.kernels.roles import role_of
from pymc_minibatch_mh.kernels.vectors import copy_to, scratch
from pymc_minibatch_mh.likelihood.inputs import model_of
from pymc_minibatch_mh.plan.method import Guarantee, Method, Promise
from pymc_minibatch_mh.plan.plan import GivenBounds, Plan, Requirements
from pymc_minibatch_mh.reference.lower_bounds import AT_CENTRE, Touching
from pymc_minibatch_mh.steps import settings as check
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.settings import SharedSettings

#: Rows that are read at a time: their figures fit on the stack.
BLOCK = 1024
#: In place of the number of bright rows: they have yet to be drawn.
UNKNOWN = -1
# A row, in an update: it is drawn anew; dark, it was proposed to become bright; bright, it was
# proposed to become dark. A Python int is a type of its own for numba, these are not.
ANEW, DARK, BRIGHT = np.arange(3)


class Brightness(NamedTuple):
    """The set of bright rows."""

    #: Probability that a dark row is proposed to become bright.
    q: float
    #: All rows, shape (N,) of int32, the bright ones first; written to by updates.
    rows: np.ndarray
    #: How many are bright, or UNKNOWN, shape (1,) of int64.
    n_bright: np.ndarray
    #: The position that they belong to, shape (d,).
    at: np.ndarray


def unknown_brightness(q: float, n_rows: int, size: int) -> Brightness:
    """Return the record that a chain of `size` coordinates starts with: nothing is drawn yet."""
    return Brightness(q, np.arange(n_rows, dtype=np.int32), np.array([UNKNOWN]), np.zeros(size))


class Place(NamedTuple):
    """A position as the end of a move from the centre, with its table (below 0 for none) and M."""

    move: Move
    table: int
    m: float


@compiled(inlined=True)
def log_odds(excess):
    """Return log o_i = log[exp(excess) - 1] of a row with log(L_i/B_i) = excess.

    An excess below 0, which is rounding if the bound is valid, is taken for 0.
    """
    if not excess > 0.0:
        return -np.inf
    if excess > 1.0:
        return excess + math.log1p(-math.exp(-excess))
    return math.log(math.expm1(excess))


@compiled(inlined=True)
def chance_to_be_bright(odds, q, kind):
    """Return the probability that a row is bright afterwards, which was ANEW, DARK or BRIGHT."""
    if kind == ANEW:
        return 1.0 / (1.0 + np.exp(-odds))
    if kind == DARK:
        return math.exp(min(0.0, odds - math.log(q)))
    return -math.expm1(min(0.0, math.log(q) - odds))


@compiled(inlined=True)
def place_of(posterior, position, whitened, centre):
    """Return a position as a place, by its whitened coordinates and by those of the centre."""
    move = Move(posterior.reference.centre, position, centre, whitened, whitened)
    table, m = smallest_table(posterior.tables, move, posterior.reference)
    return Place(move, table, m)


@compiled(inlined=True)
def size_of(posterior, place):
    """Return C m: the product of all B_i is that of the expansions times exp(-C m)."""
    return posterior.tables.headers[place.table, TOTAL] * place.m


@compiled(inlined=True)
def _swap(rows, i, j):
    rows[i], rows[j] = rows[j], rows[i]


@compiled()
def _read(place, posterior, rows, odds, counts):
    """Write the log odds of some rows at a place, and put the rows into their order.

    The counts remember the row that exceeds its bound most.
    """
    c, beta = posterior.tables.c[place.table], posterior.reference.inverse_temperature
    ask_for_bounds(posterior.tables, place.table, rows)
    differences, scales = scratch(rows.size, np.float64), scratch(rows.size, np.float64)
    arranged = scratch(rows.size, np.int64)
    read_drawn(posterior, place.move, rows, arranged, differences, scales)
    copy_to(rows, arranged)
    for i in range(rows.size):
        bound, change = c[rows[i]] * place.m, differences[i]
        # A lower bound says nothing of how far a row can rise.
        fall = 0.0 if change > 0.0 else change
        hold_against_bound(rows[i], fall, scales[i], bound, beta, counts)
        odds[i] = log_odds(beta * change + bound)


@compiled()
def _partition(brightness, place, posterior, part, kind, rng, counts):
    """Update the rows ``rows[part[0]:part[1]]``, which are all of a kind.

    Returns where those that are bright now end, which come first, and the sum of their log odds.
    """
    odds, total, end = scratch(BLOCK, np.float64), 0.0, part[0]
    rows = brightness.rows
    for first in range(part[0], part[1], BLOCK):
        last = min(first + BLOCK, part[1])
        _read(place, posterior, rows[first:last], odds, counts)
        for i in range(first, last):
            own = odds[i - first]
            if rng.random() < chance_to_be_bright(own, brightness.q, kind):
                _swap(rows, i, end)
                total += own
                end += 1
    return end, total


@compiled()
def _propose_dark(brightness, n_bright, rng):
    """Propose dark rows with probability q each, bring them to the front, and return their end.

    The gaps between them are geometric, so that the others are not even looked at.
    """
    rows, end, place = brightness.rows, n_bright, n_bright
    log_left = math.log1p(-brightness.q) if brightness.q < 1.0 else -np.inf
    while True:
        gap = np.floor(math.log1p(-rng.random()) / log_left)
        if not gap < rows.size - place:
            return end
        place += int(gap)
        _swap(rows, end, place)
        end += 1
        place += 1


@compiled()
def update_brightness(brightness, place, posterior, rng, counts):
    """Update which rows are bright at a place, or draw it where it is not known.

    Returns the sum of the log odds of the bright rows, and how many rows were read.
    """
    rows, n_bright = brightness.rows, brightness.n_bright[0]
    brightness.n_bright[0] = UNKNOWN
    if n_bright < 0:
        part = (np.int64(0), rows.size)
        end, odds = _partition(brightness, place, posterior, part, ANEW, rng, counts)
        brightness.n_bright[0] = end
        counts[entry.FULL_PASS] += 1.0
        return odds, rows.size
    proposed = _propose_dark(brightness, n_bright, rng)
    part = (n_bright, proposed)
    lit, new_odds = _partition(brightness, place, posterior, part, DARK, rng, counts)
    part = (np.int64(0), n_bright)
    left, odds = _partition(brightness, place, posterior, part, BRIGHT, rng, counts)
    # Between those that stayed bright and those that became so lie those that went dark.
    for k in range(lit - n_bright):
        _swap(rows, left + k, n_bright + k)
    brightness.n_bright[0] = left + lit - n_bright
    return odds + new_odds, proposed


@compiled()
def odds_of_bright(brightness, place, posterior, counts):
    """Return the sum of the log odds of the bright rows at a place."""
    odds, total = scratch(BLOCK, np.float64), 0.0
    n_bright = brightness.n_bright[0]
    for first in range(0, n_bright, BLOCK):
        last = min(first + BLOCK, n_bright)
        _read(place, posterior, brightness.rows[first:last], odds, counts)
        for i in range(last - first):
            total += odds[i]
    return total


#: `bound` -> where quadratic lower bounds touch, None without them; 1.5 is the published ξ for
#: logistic regression.
TOUCHING: dict[str, Touching | None] = {"derived": None, "map": AT_CENTRE, "untuned": 1.5}


class FireflyTest(NamedTuple):
    """Settings and state of the test in a chain."""

    brightness: Brightness
    #: 1: bright rows are drawn anew for every decision, to measure a single one.
    forgets: int
    #: 1: a row beyond its bound is taken to be on it, and marked. 0: it stops the chain.
    tolerates: int


@compiled(inlined=True)
def log_ratio_of_move(cheap, sizes, odds):
    """Return the log ratio of a move of θ, whose cheap part is λ_c.

    `sizes` are C m and `odds` the sums of log o_i over bright rows, where it begins and ends.
    """
    return cheap - (sizes[1] - sizes[0]) + (odds[1] - odds[0])


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
        log_ratio = cheap + change_of_all_rows(posterior, move, counts)
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
    """Firefly Monte Carlo; bounds are None to be derived.

    `touching` is where quadratic lower bounds touch; None for those made of derived bounds.
    """

    q: float
    touching: Touching | None
    bounds: GivenBounds | None = field(repr=False)
    tolerates_violations: bool

    #: Lower bounds of rows depend on how far the whole position is from the centre: which rows are
    #: bright would have to be drawn anew, from all of them.
    moves_without_rows = False
    has_bright_rows = True

    @property
    def guarantee(self) -> Guarantee:
        """Exact; quadratic lower bounds are inequalities that hold whatever the model."""
        if self.touching is not None:
            return Guarantee(Promise.EXACT)
        return Guarantee(Promise.EXACT_GIVEN_BOUNDS)

    @property
    def requirements(self) -> Requirements:
        """Quadratic lower bounds, or bounds, derived from the model unless the user gave some."""
        if self.touching is not None:
            return Requirements(touching=self.touching, in_memory=True)
        derives = self.bounds is None
        return Requirements(derived_bounds=derives, given_bounds=self.bounds, in_memory=True)

    def record(self, plan: Plan) -> FireflyTest:
        """Return the settings, with bright rows that have yet to be drawn."""
        size = plan.reference.centre.size
        brightness = unknown_brightness(self.q, plan.n_rows, size)
        return FireflyTest(brightness, 0, int(self.tolerates_violations))

    def probed(self, record: FireflyTest) -> FireflyTest:
        """Return the record with bright rows that are drawn anew for every decision."""
        return record._replace(forgets=1)


class FireflyMH(MinibatchStep):
    """Exact Metropolis–Hastings that evaluates the bright observations (Firefly Monte Carlo).

    Guarantee: *exact given valid bounds*. Each observation has a lower bound of its likelihood, and
    is bright or dark. An update evaluates the bright observations twice, and a share `q` of the
    dark ones. The bright set is sampled with the parameters; the statistic ``n_bright`` is its
    size. The full data decide proposals that leave the region of the bounds (statistic
    ``full_pass``). See the page "Bounds and exactness".

    Parameters
    ----------
    vars : list of variables, optional
        All variables of the model, because brightness depends on all of them.
    q : float in (0, 1]
        Probability that an update proposes to brighten a dark observation. The best value is about
        the share of bright observations.
    bound : {"derived", "map", "untuned"}
        Lower bounds. "derived" takes the expansion at the mode and derived bounds, for all models.
        The others are the published quadratic bounds for logistic, binomial and Student-t
        likelihoods of known scale, which touch each likelihood at the mode ("map") or far from it
        ("untuned"). With "map" about one observation per parameter is bright.
    bounds, on_violation
        As in :class:`TunaMH`, for ``bound="derived"``.
    **settings
        Settings of all step methods: see :class:`SharedSettings`.

    Raises
    ------
    BoundsError
        If an observation has no such bound, or no rule bounds an operation of the model.
    BoundViolationError
        While sampling, if an observation exceeds its bound.

    References
    ----------
    Maclaurin, Adams (2014), "Firefly Monte Carlo: exact MCMC with subsets of data", UAI,
    doi:10.48550/arXiv.1403.5693.
    """

    name = "firefly_mh"

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        q: float = 0.1,
        bound: str = "derived",
        bounds: GivenBounds | None = None,
        on_violation: str = "raise",
        **settings: Unpack[SharedSettings],
    ) -> None:
        choice("bound", bound, tuple(TOUCHING))
        if not positive("q", q) <= 1.0:
            raise SettingError(
                f"q={q} is not a probability above 0 and up to 1. Use 0.1, or about the share of "
                "the rows that are bright."
            )
        touching = TOUCHING[bound]
        if touching is not None and (bounds is not None or on_violation != "raise"):
            raise SettingError(
                f"bound={bound!r} takes neither bounds= nor on_violation=, because its lower "
                "bounds are known to hold. Leave them out, or use bound='derived'."
            )
        method = FireflyMethod(
            float(q),
            touching,
            check.bounds_of(bounds),
            check.violation_rule(on_violation),
        )
        _require_alone(model_of(settings.get("model")), vars)
        self._prepare(vars, method, **settings)


def _require_alone(model: pm.Model, vars: Sequence[Variable] | None) -> None:
    """Refuse to leave variables to other steps, which brightness would not follow."""
    moved = check.own_variables(model, vars)
    left = [value.name for value in model.value_vars if value not in moved]
    if left:
        raise SettingError(
            f"vars= leaves {left[0]!r} to another step, but the set of bright observations "
            "depends on all variables. Use TunaMH(), which works beside other steps."
        )
