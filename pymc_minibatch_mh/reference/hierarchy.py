"""The centre of a model with scales: where their marginal density is highest.

Passes over the rows and maximisations that read none alternate: the scales φ by V of
:mod:`pymc_minibatch_mh.reference.marginal`, then a Newton step in the rest x at the new scales. The
quadratic of the rows means something near the best x only, so that φ stays until x is near it.

Coordinates that a joint mode is not sought in: scales of hierarchies, and what acts like them.

A hierarchy ``alpha ~ Normal(mu, tau)`` has no joint mode: its density grows without bound as tau
goes to zero. What tells tau from mu is that the prior's curvature in alpha changes with tau and
not with mu. Hence the rule, in which a *slope between two points* stands for a curvature, so that
it also sees priors with kinks:

1. A coordinate that no row reads is a scale where the prior's slope between two points, which
   differ in the coordinates that rows do read, changes with it.
2. Of the others that no row reads, those in which the prior is quadratic are locations, and are
   counted with the coordinates that rows read. What changes a slope among all of these is a scale,
   as that of the groups of groups.
3. What no row reads and is neither, such as a scale of scales, is a scale where the prior couples
   it to scales alone.

Where nothing is a scale by this rule, a joint mode is sought.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pymc_minibatch_mh.errors import ModeError
from pymc_minibatch_mh.likelihood.cells import Place
from pymc_minibatch_mh.likelihood.function import RowFunction
from pymc_minibatch_mh.progress import report
from pymc_minibatch_mh.reference import density as findings
from pymc_minibatch_mh.reference.climb import climb
from pymc_minibatch_mh.reference.density import Density, Names, Point, averaged
from pymc_minibatch_mh.reference.marginal import Given, Marginal
from pymc_minibatch_mh.reference.mode import (
    JITTERS,
    SUBSAMPLE,
    SUBSAMPLE_PER_COORDINATE,
    TOLERANCE,
    Mode,
)
from pymc_minibatch_mh.reference.passes import Derivatives, Passes

#: Change of a slope, relative to the slopes, that is more than rounding.
CHANGED = 1e-7
#: How far apart the two points are, in unconstrained coordinates, and how often that is halved
#: until the prior part has a density there.
APART, MOST_HALVINGS = 1.0, 10
#: How many times as far apart they are, so that a kink that is not near lies between them.
LENGTHS = (1.0, 30.0)
#: Of the points, which are random so that no chance symmetry of a model hides a change.
SEED = 20_260_917

Prior = Callable[..., Derivatives]


def read_by_forms(functions: Sequence[RowFunction], size: int) -> np.ndarray:
    """Return which coordinates appear in the linear forms of rows, bool, shape (d,)."""
    read = np.zeros(size, dtype=bool)
    for function in functions:
        for form in function.arguments:
            for term in form.terms:
                read[_places(term.place)] = True
    return read


def _places(place: Place) -> list[int]:
    if isinstance(place, int):
        return [place]
    return [place.first + place.step * k for k in range(place.size)]


def read_by_passes(passes: Passes, start: np.ndarray) -> np.ndarray:
    """Return which coordinates the slopes of rows are not exactly zero in, bool, shape (d,)."""
    near = start + 0.1 * np.random.default_rng(SEED).standard_normal(start.size)
    slopes = [passes.likelihood(place, hessian=False).gradient for place in (start, near)]
    return np.any([slope != 0.0 for slope in slopes], axis=0)


def scales_of(prior: Prior, read: np.ndarray, start: np.ndarray) -> tuple[int, ...]:
    """Return the coordinates that are scales by the rule of this module.

    Parameters
    ----------
    prior
        Derivatives of the prior part.
    read : ndarray of bool, shape (d,)
        Coordinates that rows read.
    start : ndarray, shape (d,)
        Near where the prior part is asked.
    """
    unread = [int(k) for k in np.flatnonzero(~read)]
    if not unread:
        return ()
    probe = _Probe.near(prior, start)
    if probe is None:
        return ()
    scales = {k for k in unread if probe.changes_slopes(k, read)}
    rest = [k for k in unread if k not in scales]
    locations = {k for k in rest if probe.is_quadratic_in(k)}
    others = read.copy()
    others[list(locations)] = True
    rest = [k for k in rest if k not in locations]
    scales |= {k for k in rest if probe.changes_slopes(k, others)}
    rest = [k for k in rest if k not in scales and not probe.is_coupled(k, others)]
    while added := {
        k for k in rest if k not in scales and probe.is_coupled(k, _mask(scales, read))
    }:
        scales |= added
    return tuple(sorted(scales))


def _mask(chosen: set, like: np.ndarray) -> np.ndarray:
    mask = np.zeros_like(like)
    mask[list(chosen)] = True
    return mask


class _Probe:
    """Slopes of the prior part around a point.

    Parameters
    ----------
    prior
        Its derivatives.
    middle : ndarray, shape (d,)
    way : ndarray, shape (d,)
        From there to either side.
    """

    def __init__(self, prior: Prior, middle: np.ndarray, way: np.ndarray) -> None:
        self._prior = prior
        self._middle = middle
        self._way = way
        self._step = float(np.abs(way).max())

    @classmethod
    def near(cls, prior: Prior, start: np.ndarray) -> "_Probe | None":
        """Return one where all slopes that it asks for are finite; None where there is none."""
        rng = np.random.default_rng(SEED)
        away, way = rng.uniform(0.2, 1.0, (2, start.size)) * rng.choice([-1, 1], (2, start.size))
        for halvings in range(MOST_HALVINGS):
            length = APART * 0.5**halvings
            middle, side = start + length * away, length * way
            ends = (middle + side, middle - side, middle)
            if all(np.isfinite(prior(end, hessian=False).gradient).all() for end in ends):
                return cls(prior, middle, side)
        return None

    def _slope(self, place: np.ndarray) -> np.ndarray:
        return self._prior(place, hessian=False).gradient

    def _moved(self, k: int, times: float, way: np.ndarray | float = 0.0) -> np.ndarray:
        place = self._middle + way
        place[k] += times * self._step
        return self._slope(place)

    def changes_slopes(self, k: int, others: np.ndarray) -> bool:
        """Return whether slopes between two points, apart in others and in them, change with k."""
        chosen = others.copy()
        chosen[k] = False
        for length in LENGTHS:
            way = np.where(chosen, length * self._way, 0.0)
            ends = [self._moved(k, t, side * way) for t in (0.0, 1.0) for side in (1.0, -1.0)]
            if _differ(ends[0] - ends[1] - (ends[2] - ends[3]), ends, chosen):
                return True
        return False

    def is_quadratic_in(self, k: int) -> bool:
        """Return whether the slope along k is linear in k."""
        ends = [self._moved(k, t) for t in (-1.0, 0.0, 1.0)]
        own = np.arange(self._middle.size) == k
        return not _differ(ends[0] - 2 * ends[1] + ends[2], ends, own)

    def is_coupled(self, k: int, others: np.ndarray) -> bool:
        """Return whether slopes along others change with k."""
        ends = [self._moved(k, t) for t in (0.0, 1.0)]
        chosen = others.copy()
        chosen[k] = False
        return _differ(ends[0] - ends[1], ends, chosen)


def _differ(changes: np.ndarray, ends: Sequence[np.ndarray], chosen: np.ndarray) -> bool:
    size = np.sum(np.abs(ends), axis=0)
    # What is not finite beyond the two points says nothing.
    with np.errstate(invalid="ignore"):
        return bool((np.abs(changes) > CHANGED * size)[chosen].any())


MAX_PASSES = 60
#: Distance in standard deviations, per root of the coordinates, at which x is near its best for
#: given scales, and the one at which the search ends where no smaller one is asked for.
CALM, SETTLED = 1.0, 0.01
#: How far a transformed scale moves between two passes: a factor of e^1.5 for a logarithm.
REACH = 1.5
#: Moves in a row by all of the reach, after which a scale runs away.
STEADY_MOVES = 8
#: Standard deviation of a transformed scale from which on nothing is known of it: a factor of e^5.
MOST_SPREAD = 5.0
#: Fall of the log-density, relative to its size, that may be rounding.
ROUNDING = 1e-9


@dataclass(frozen=True)
class AtScales:
    """Passes over the rows in the coordinates x, at given scales.

    Parameters
    ----------
    passes
        Passes in all coordinates.
    rest : ndarray of int
        The coordinates x.
    position : ndarray, shape (d,)
        Where the scales are taken from.
    """

    passes: Passes
    rest: np.ndarray
    position: np.ndarray

    @property
    def cheap_hessian(self) -> bool:
        """Whether a pass with Hessian reads each row once."""
        return self.passes.cheap_hessian

    @property
    def logs(self) -> np.ndarray:
        """Coordinates among x that are logarithms of what may be zero."""
        return np.flatnonzero(np.isin(self.rest, self.passes.logs))

    def whole(self, rest: np.ndarray) -> np.ndarray:
        """Return the position with the scales, shape (d,)."""
        position = self.position.copy()
        position[self.rest] = rest
        return position

    def likelihood(
        self, theta: np.ndarray, *, hessian: bool, rows: np.ndarray | None = None
    ) -> Derivatives:
        """Return derivatives of the summed log-likelihood in x."""
        return self._own(self.passes.likelihood(self.whole(theta), hessian=hessian, rows=rows))

    def prior(self, theta: np.ndarray, *, hessian: bool) -> Derivatives:
        """Return derivatives of the prior part in x."""
        return self._own(self.passes.prior(self.whole(theta), hessian=hessian))

    def _own(self, found: Derivatives) -> Derivatives:
        block = np.ix_(self.rest, self.rest)
        hessian = found.hessian[block] if found.has_hessian else found.hessian
        return Derivatives(found.value, found.gradient[self.rest], hessian)


def find_marginal_mode(
    passes: Passes,
    start: np.ndarray,
    inverse_temperature: float,
    names: Sequence[str],
    rng: np.random.Generator,
    scales: Sequence[int],
    tolerance: float = TOLERANCE,
) -> Mode:
    """Find the mode of the scales with the rest integrated over, and that of the rest there.

    Parameters
    ----------
    passes, start, inverse_temperature, names, rng, tolerance
        As of :func:`pymc_minibatch_mh.reference.mode.find_mode`.
    scales
        The coordinates φ, which no row reads.

    Raises
    ------
    ModeError
        If there is no mode; names the parameters.
    """
    start = np.array(start, dtype=np.float64)
    few = max(SUBSAMPLE, SUBSAMPLE_PER_COORDINATE * start.size)
    search = _Search(passes, scales, Names(names), max(tolerance, SETTLED * np.sqrt(start.size)))
    if passes.n_rows <= 4 * few:
        return search.found_from_several(start, inverse_temperature, None, rng)
    rows = np.sort(rng.choice(passes.n_rows, few, replace=False))
    try:
        # Not weighted up: a few rows that stood for all would tell the groups apart too well.
        near = search.found_from_several(start, inverse_temperature, rows, rng)
    except ModeError:
        return search.found(start, inverse_temperature, None)
    return search.found(near.position, inverse_temperature, None)


@dataclass(frozen=True)
class _Place:
    """Where a search is: derivatives in x, at scales, and what of."""

    at: AtScales
    density: Density
    point: Point

    @property
    def position(self) -> np.ndarray:
        """The position in all coordinates."""
        return self.at.whole(self.point.position)

    @property
    def scales(self) -> np.ndarray:
        """The coordinates φ."""
        return np.setdiff1d(np.arange(self.at.position.size), self.at.rest)

    def rows(self, weight: float) -> Derivatives:
        """Return the derivatives of the rows in all coordinates, times a weight."""
        size, own = self.at.position.size, self.point.likelihood
        gradient, hessian = np.zeros(size), np.zeros((size, size))
        gradient[self.at.rest] = weight * own.gradient
        hessian[np.ix_(self.at.rest, self.at.rest)] = weight * own.hessian
        return Derivatives(weight * own.value, gradient, hessian)

    def marginal(self) -> Marginal:
        """Return the marginal density of the scales, with the rows' quadratic from here."""
        kinks = []
        for kink in self.density.kinks:
            normal = np.zeros(self.at.position.size)
            normal[self.at.rest] = kink.normal
            kinks.append(replace(kink, normal=normal))
        prior = averaged(self.at.passes.prior, kinks) if kinks else self.at.passes.prior
        return Marginal.frozen(prior, self.scales, self.position, self.rows(self.density.weight))

    def distance(self, best: Given) -> float:
        """Return how far the best x is, in standard deviations given the scales."""
        way = (best.position - self.position)[self.at.rest]
        return float(np.sqrt(max(way @ best.precision @ way, 0.0)))

    def at_mode(self, best: Given, precision: np.ndarray) -> Mode:
        """Return the mode, of which x is here."""
        position, scales = self.position, self.scales
        position[scales] = best.position[scales]
        kinked = tuple(int(self.at.rest[k]) for k in self.density.kinked)
        return Mode(position, precision, self.rows(1.0), kinked, tuple(map(int, scales)))


class _Search:
    """A search from any start.

    Parameters
    ----------
    passes
        Passes over the rows.
    scales
        The coordinates φ.
    names
        Name of each coordinate, for messages.
    tolerance
        Distance in standard deviations at which it ends.
    """

    def __init__(
        self, passes: Passes, scales: Sequence[int], names: Names, tolerance: float
    ) -> None:
        self._passes = passes
        self._names = names
        self._tolerance = tolerance
        self._scales = np.array(scales, dtype=np.int64)
        self._rest = np.setdiff1d(np.arange(len(names.all)), self._scales)
        # What is not transformed has no unit that could tell how far is far.
        transformed = [names.all[int(k)].partition("[")[0].endswith("__") for k in self._scales]
        self._reach = np.where(transformed, REACH, np.inf)

    def found_from_several(
        self,
        start: np.ndarray,
        weight: float,
        rows: np.ndarray | None,
        rng: np.random.Generator,
    ) -> Mode:
        """Search from `start`, and where that leads nowhere from the origin and points around."""
        try:
            return self.found(start, weight, rows)
        except ModeError as error:
            first = error
        around = (rng.uniform(-jitter, jitter, start.size) for jitter in JITTERS)
        # Far out, where groups are told apart by nothing, there may be no way back.
        for other in (np.zeros(start.size), *(start + away for away in around)):
            try:
                return self.found(other, weight, rows)
            except ModeError:
                # What is told is what the given start led to.
                continue
        raise first

    def found(self, start: np.ndarray, weight: float, rows: np.ndarray | None) -> Mode:
        """Search from a start."""
        place = self._climbed(Density(self._passes, weight, rows), start)
        steady = np.zeros(self._scales.size)
        for k in range(MAX_PASSES):
            marginal = place.marginal()
            best = marginal.given(place.position[self._scales])
            if best is None:
                raise findings.start_without_density()
            calm = place.distance(best) <= CALM * np.sqrt(self._rest.size)
            if calm:
                best = marginal.best(best, self._reach)
            distance, step = place.distance(best), best.position - place.position
            report("Newton", f"{k + 1}/{MAX_PASSES}, distance {distance:.2g}")
            move = step[self._scales]
            if calm and distance < self._tolerance and not self._is_all_of_reach(move).any():
                curvature = marginal.curvature_at(best)
                if not np.isfinite(curvature).all():
                    bad = np.zeros(best.position.size)
                    bad[self._scales] = ~np.isfinite(curvature).all(axis=1)
                    raise findings.not_finite(self._names, best.position, bad)
                if np.sqrt(max(move @ curvature @ move, 0.0)) < self._tolerance:
                    return self._mode(place, best, marginal.precision(best, curvature))
            steady = self._steady(steady, move, best)
            place = self._moved(place, best)
        worst = int(np.argmax(np.abs(step)))
        raise findings.unsettled(self._names, MAX_PASSES, place.position, step, distance, worst)

    def _is_all_of_reach(self, move: np.ndarray) -> np.ndarray:
        return np.abs(move) > 0.999 * self._reach

    def _steady(self, steady: np.ndarray, move: np.ndarray, best: Given) -> np.ndarray:
        """Count moves by all of the reach, and refuse a scale that goes on and on."""
        way = np.where(self._is_all_of_reach(move), np.sign(move), 0.0)
        steady = np.where(way * steady >= 0.0, (steady + way) * np.abs(way), way)
        worst = int(np.argmax(np.abs(steady)))
        if np.abs(steady[worst]) >= STEADY_MOVES:
            raise findings.scale_runs_away(
                self._names, int(self._scales[worst]), best.position, steady[worst]
            )
        return steady

    def _climbed(self, density: Density, position: np.ndarray) -> _Place:
        """Climb to the neighbourhood of the best x at the scales of a position."""
        at = AtScales(self._passes, self._rest, position)
        names = [self._names.all[int(k)] for k in self._rest]
        near = 0.5 * CALM * np.sqrt(self._rest.size)
        point, density = climb(replace(density, passes=at), position[self._rest], names, near)
        return _Place(at, density, point)

    def _moved(self, place: _Place, best: Given) -> _Place:
        """Take the step where it leads up at the new scales; else climb there."""
        at = AtScales(self._passes, self._rest, best.position)
        density = replace(place.density, passes=at)
        there = density.at(best.position[self._rest], hessian=True)
        value = at.prior(place.point.position, hessian=False).value
        value += density.weight * place.point.likelihood.value
        if there.finite and there.total.value >= value - ROUNDING * abs(value) - 1e-6:
            return _Place(at, density, there)
        return self._climbed(density, at.whole(place.point.position))

    def _mode(self, place: _Place, best: Given, precision: np.ndarray) -> Mode:
        values, vectors = np.linalg.eigh(precision)
        if not values[0] > 0.0:
            raise findings.flat(self._names, np.abs(vectors[:, 0]))
        wide = np.zeros(precision.shape[0])
        wide[self._scales] = np.sqrt(np.diag(np.linalg.inv(precision)))[self._scales]
        wide[self._scales[np.isinf(self._reach)]] = 0.0
        if wide.max() > MOST_SPREAD:
            raise findings.flat(self._names, wide / wide.max())
        return place.at_mode(best, precision)
