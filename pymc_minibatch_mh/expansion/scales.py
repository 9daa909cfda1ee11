"""Coordinates that a joint mode is not sought in: scales of hierarchies, and what acts like them.

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

import numpy as np

from pymc_minibatch_mh.expansion.passes import Derivatives, Passes
from pymc_minibatch_mh.model.row.cells import Place
from pymc_minibatch_mh.model.row.function import RowFunction

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
