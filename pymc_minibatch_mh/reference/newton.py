"""Damped Newton search for the mode of a log-density, or for the reason why it has none."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from pymc_minibatch_mh.errors import ModeError
from pymc_minibatch_mh.progress import report_stage
from pymc_minibatch_mh.reference import messages
from pymc_minibatch_mh.reference.density import Density, Point, Quadratic, quadratic_of
from pymc_minibatch_mh.reference.line_search import distance_to_maximum
from pymc_minibatch_mh.reference.prior_kinks import Kink, normals_near

MAX_STEPS = 60
#: Ratio of the distances after and before a step, above which the Hessian is recomputed.
SLOW = 0.3
#: Maximum halvings of a step; number of halvings, and of steps, that start a search for kinks.
MOST_HALVINGS, SUSPICIOUS_HALVINGS, SUSPICIOUS_STEPS = 40, 6, 10
#: Minimum height of another mode above that of Newton steps, in the log-density; its maximum sd
#: of a coordinate, in those of the latter.
RIVAL, WIDEST_RIVAL = 1.0, 100.0
#: Maximum number of doublings of a step that was too short.
MOST_DOUBLINGS = 10
#: Minimum increase of the log-density for which steps in single coordinates are kept.
ALONE = 1.0
#: Distances in standard deviations: `NEAR` is sufficient if no better point is found; below
#: `SLOPES_TELL`, slopes alone identify a better point.
NEAR, SLOPES_TELL = 0.1, 1.0
#: Rounding of a log-density, relative to its size, in double and in single precision.
ROUNDING, SINGLE_ROUNDING = 1e-9, 1e-6
#: Number of consecutive steps after which a coordinate that does not slow down counts as diverging:
#: `STEADY_MOVES` during a search, `STEADY_MOVES_AT_END` at its end. Near a mode steps shrink.
STEADY_MOVES, STEADY_MOVES_AT_END = 8, 4
#: Minimum distance of a diverging coordinate: a factor of e³ for the logarithm of a scale.
LONG_WAY = 3.0
#: Posterior standard deviation, relative to the coordinate, below which rounding hides it.
UNRESOLVED = 1e-14
#: Maximum number of fits of averaging intervals; |log ratio| of successive widths that is small.
FITS, FITTED = 12, 0.25


def newton_search(density: Density, start: np.ndarray, tolerance: float) -> tuple[Point, Density]:
    """Mode with a negative definite Hessian, within `tolerance` posterior standard deviations.

    The second result is the density, averaged over kinks of the prior. ModeError describes the last
    points of a search that finds no mode.
    """
    for _ in range(FITS):
        path = _Path(density, tolerance)
        mode = path.climb_from(start)
        if path.met_saddle and not path.density.kinks:
            mode = _higher_mode(density, start, mode, tolerance)
        kinks, quadratic = path.density.kinks, quadratic_of(mode.total.hessian)
        fitting = [replace(k, deviation=quadratic.deviation_along(k.normal)) for k in kinks]
        off = [abs(np.log(f.deviation / k.deviation)) for f, k in zip(fitting, kinks, strict=True)]
        if max(off, default=0.0) <= FITTED:
            break
        density, start = path.density.over_kinks(fitting), mode.position
    return mode, path.density


def _higher_mode(density: Density, start: np.ndarray, mode: Point, tolerance: float) -> Point:
    """Mode by steps along gradients if that is higher, as for mixtures; else the given mode.

    Where curvatures have both signs, a Newton step may pass the mode that is nearest to the start.
    Towards the end of a support, which is far off in logarithms, a high plain is no mode.
    """
    from scipy.optimize import minimize  # noqa: PLC0415

    def depth(position: np.ndarray) -> tuple[float, np.ndarray]:
        there = density.at(position, hessian=False)
        total, lost = there.total, np.zeros(position.size)
        return (-total.value, -total.gradient) if there.is_finite else (np.inf, lost)

    options = {"maxiter": MAX_STEPS}
    with np.errstate(all="ignore"):
        end = minimize(depth, start, jac=True, method="L-BFGS-B", options=options)
    if not -end.fun > mode.total.value + RIVAL:
        return mode
    try:
        rival = _Path(density, tolerance).climb_from(end.x)
    except ModeError:
        return mode
    here, there = (quadratic_of(point.total.hessian) for point in (mode, rival))
    if (there.coordinate_deviations() > WIDEST_RIVAL * here.coordinate_deviations()).any():
        return mode
    return max(mode, rival, key=lambda point: point.total.value)


def first_found[Found](
    search: Callable[[np.ndarray], Found], starts: Iterable[np.ndarray]
) -> Found:
    """Result of the first search that succeeds, or else the ModeError of the first start."""
    errors = []
    for start in starts:
        try:
            return search(start)
        except ModeError as error:
            errors.append(error)
    raise errors[0]


@dataclass
class _Path:
    """One ascent: its points so far, and the quadratic approximation for the next step."""

    density: Density
    tolerance: float
    been: list[Point] = field(default_factory=list)
    distances: list[float] = field(default_factory=list)
    #: First diverging coordinate, and the point where its divergence began.
    run: tuple[int, Point] | None = None

    #: Whether curvatures had both signs on the way.
    met_saddle: bool = False
    here: Point = field(init=False)
    quadratic: Quadratic = field(init=False)

    def climb_from(self, start: np.ndarray) -> Point:
        self._look_around(start)
        if not np.isfinite(self.here.total.value):
            raise messages.start_without_density()
        last = np.inf
        for k in range(MAX_STEPS):
            gradient, fresh = self.here.total.gradient, self.here.total.has_hessian
            # A diverging coordinate loses its curvature, so a step may be infinite.
            with np.errstate(over="ignore", invalid="ignore"):
                step = self.quadratic.step(gradient)
                distance = float(np.sqrt(max(step @ gradient, 0.0)))
            report_stage("Newton", f"{k + 1}/{MAX_STEPS}, distance {distance:.2g}")
            if not fresh and (distance < self.tolerance or distance > SLOW * last):
                self._look_around(self.here.position)
                last = np.inf
            elif distance < self.tolerance:
                if self._require_not_running(STEADY_MOVES_AT_END):
                    continue
                if self.quadratic.is_concave:
                    return self.here
                self._require_curvature()
                self._leave_saddle()
            elif k % SUSPICIOUS_STEPS == SUSPICIOUS_STEPS - 1 and self._averages_kinks():
                last = np.inf
            else:
                last = distance
                self.been.append(self.here)
                self.distances.append(distance)
                if self._require_not_running(STEADY_MOVES):
                    last = np.inf
                elif not self._take_step(step, distance):
                    return self.here
        raise self._unsettled_error(step, distance)

    def _unsettled_error(self, step: np.ndarray, distance: float) -> ModeError:
        """Error about a coordinate that still diverges, or else about the largest step."""
        self._require_curvature()
        worst, position = self._worst_coordinate(step), self.here.position
        if self.run is not None:
            k, first = self.run
            if step[k] * (position - first.position)[k] > 0.0:
                return self._running_away(k, first, settled=False)
        return messages.not_settled(
            self.density.names, worst, MAX_STEPS, position, step[worst], distance
        )

    def _look_around(self, position: np.ndarray) -> None:
        """Make a position the current point, and compute its Hessian."""
        self.here = self.density.at(position, hessian=True)
        gradient, hessian = self.here.total.gradient, self.here.total.hessian
        if np.isfinite(self.here.total.value) and not np.isfinite(gradient).all():
            raise self._undefined_error(~np.isfinite(gradient))
        self._approximate(hessian)

    def _approximate(self, hessian: np.ndarray) -> None:
        self.quadratic = quadratic_of(hessian)
        self.met_saddle |= self.quadratic.complete and not self.quadratic.is_concave

    def _require_curvature(self) -> None:
        """Raise ModeError if the Hessian is not finite, before other causes are reported."""
        if not self.quadratic.complete:
            raise self._undefined_error(~self.quadratic.known)

    def _undefined_error(self, bad: np.ndarray) -> ModeError:
        position = self.here.position
        where = self.density.full_data.undefined_at(self.density.in_full(position))
        return messages.not_finite(self.density.names, position, bad, where)

    def _take_step(self, step: np.ndarray, distance: float) -> bool:
        """Step with backtracking and doubling; False if the current point is near the mode."""
        for halvings in range(MOST_HALVINGS):
            length = 0.5**halvings
            # Compute a cheap Hessian with the full step, because most full steps are accepted.
            hessian = halvings == 0 and self.density.full_data.cheap_hessian
            there = self.density.at(self.here.position + length * step, hessian=hessian)
            if there.is_finite and self._is_better(there, step, length * distance**2):
                self.here = self._extend_step(there, step) if halvings == 0 else there
                if self.here.total.has_hessian:
                    self._approximate(self.here.total.hessian)
                elif not self.quadratic.complete:
                    self._look_around(self.here.position)
                return True
            if halvings == SUSPICIOUS_HALVINGS and self._averages_kinks():
                return True
        if distance < NEAR and self.quadratic.is_concave:
            self._look_around(self.here.position)
            return not self.quadratic.is_concave
        self._require_curvature()
        if self._require_not_running(STEADY_MOVES_AT_END) or self._risen_alone():
            return True
        flattest = None if self.quadratic.is_concave else self.quadratic.flattest_direction()
        worst, place = self._worst_coordinate(step), self.here.position
        raise messages.not_rising(
            self.density.names, place, distance, worst, self.density.kinked, flattest
        )

    def _is_better(self, there: Point, step: np.ndarray, expected: float) -> bool:
        size = abs(self.here.total.value)
        rise = there.total.value - self.here.total.value - 1e-4 * expected
        if not self.density.kinks and rise >= -(ROUNDING * size + 1e-6):
            return True
        slope, slope_there = self.here.total.gradient @ step, there.total.gradient @ step
        # Slopes decide first: values of large terms that cancel are dominated by rounding.
        if slope < SLOPES_TELL**2 and abs(slope_there) <= 0.5 * slope:
            return True
        # If rounding blurs the value, a slope that hardly reverses is enough.
        onward = slope_there >= -0.5 * slope
        return bool(onward and (self.density.kinks or rise >= -(SINGLE_ROUNDING * size + 1e-6)))

    def _extend_step(self, there: Point, step: np.ndarray) -> Point:
        """Point along a step, doubled while the log-density rises, as on an exponential tail."""
        slope, start = self.here.total.gradient @ step, self.here.position
        for doublings in range(1, MOST_DOUBLINGS):
            if self.density.kinks or there.total.gradient @ step < SLOW * slope:
                break
            beyond = self.density.at(start + 2.0**doublings * step, hessian=False)
            if not (beyond.is_finite and beyond.total.value > there.total.value):
                break
            there = beyond
        return there

    def _risen_alone(self) -> bool:
        """Take steps in single coordinates; return whether they raised the log-density enough."""
        start = self.here
        for k in range(self.here.position.size):
            way = np.zeros(self.here.position.size)
            way[k] = np.sign(self.here.total.gradient[k])
            near = self.density.at(self.here.position + way, hessian=False)
            if near.is_finite and near.total.value > self.here.total.value:
                self.here = self._extend_step(near, way)
        if self.here.total.value <= start.total.value + ALONE:
            self.here = start
            return False
        self._look_around(self.here.position)
        return True

    def _averages_kinks(self) -> bool:
        """Average the prior over new kinks nearby; return whether there are any."""
        kinks, reach = self.density.kinks, self.quadratic.coordinate_deviations()
        normals = normals_near(self.density.kinked_prior, self.here.position, reach, kinks)
        new = [Kink(normal, self.quadratic.deviation_along(normal)) for normal in normals]
        if new:
            self.density = self.density.over_kinks([*kinks, *new])
            self._look_around(self.here.position)
        return bool(new)

    def _leave_saddle(self) -> None:
        """Step off a saddle point; ModeError if the log-density rises in no direction."""
        way, here = self.quadratic.way_out(), self.here
        for length in [] if way is None else 0.5 ** np.arange(MOST_HALVINGS):
            ends = here.position + length * way, here.position - length * way
            both = [self.density.at(end, hessian=False) for end in ends]
            best = max((p for p in both if p.is_finite), key=lambda p: p.total.value, default=None)
            if best is not None and best.total.value > here.total.value + 0.1 * length**2:
                self._look_around(best.position)
                return
        raise messages.density_flat(self.density.names, np.abs(self.quadratic.vectors[:, 0]))

    def _require_not_running(self, moves: int) -> bool:
        """Move diverging coordinates to a maximum, if any; ModeError if there is no maximum."""
        steps = np.diff([point.position for point in self.been[-moves - 1 :]], axis=0)
        way = self._steady_way(steps) if len(steps) == moves else np.empty(0)
        if not way.any():
            return False
        k = int(np.argmax(np.abs(np.where(way, steps.sum(axis=0), 0.0))))
        self.run = self.run or (k, self.been[-moves - 1])

        def along(distance: float) -> tuple[float, float]:
            there = self.density.at(self.here.position + distance * way, hessian=False).total
            return there.value, float(there.gradient @ way)

        distance = distance_to_maximum(along)
        if distance is None or self._is_unresolved:
            raise self._running_away(k, self.been[-moves - 1], settled=True)
        self.been, self.distances = [], []
        if distance:
            self._look_around(self.here.position + distance * way)
        return distance > 0.0

    def _running_away(self, k: int, first: Point, *, settled: bool) -> ModeError:
        prior = self.density.prior(self.here.position, hessian=False)
        flat = bool(prior.gradient[k] == 0.0)
        way = first, self.here
        return messages.scale_collapses(self.density.names, k, way, settled=settled, flat=flat)

    def _steady_way(self, steps: np.ndarray) -> np.ndarray:
        """Last of `steps`, shape (n, d), with 0 in coordinates that slow down or turn back."""
        moves, nothing = len(steps), np.zeros(steps.shape[1])
        last = self.distances[-1]
        if last >= 1.0 and last < 0.5 * self.distances[-moves - 1]:
            return nothing
        way, gone = steps[-1], steps.sum(axis=0)
        steady = (np.abs(np.sign(steps).sum(axis=0)) == moves) & (
            np.abs(way) >= 0.5 * np.abs(steps[0])
        )
        # A coordinate that only returns from too long a step is not diverging.
        end = self.been[-1].position - self.been[0].position
        steady &= np.abs(end) > np.abs(end - gone)
        # The logarithm of a variable bounded below by 0 may go far down without diverging.
        logs = self.density.logs
        steady[logs[way[logs] < 0.0]] = False
        is_long = np.abs(gone[steady]).max(initial=0.0) >= LONG_WAY
        return np.where(steady, way, 0.0) if is_long else nothing

    @property
    def _is_unresolved(self) -> bool:
        """Whether rounding hides the standard deviation of a coordinate."""
        return bool((1.0 / self.quadratic.scale < UNRESOLVED * np.abs(self.here.position)).any())

    def _worst_coordinate(self, step: np.ndarray) -> int:
        return int(np.argmax(np.abs(step) * self.quadratic.scale))
