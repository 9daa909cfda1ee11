"""Tempered posterior of a model: compiled, checked, and expanded around its mode."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Self

import numpy as np
import pymc as pm

from pymc_minibatch_mh.compiled.form_rows import FormRows
from pymc_minibatch_mh.compiled.graphs import OTHERS_SLOT, term_names
from pymc_minibatch_mh.compiled.model import CompiledModel, PlacedRows
from pymc_minibatch_mh.data import ArrayRows
from pymc_minibatch_mh.errors import BoundsError, MinibatchError, ModeError, UnsupportedModelError
from pymc_minibatch_mh.expressions.graph import Argument
from pymc_minibatch_mh.expressions.kinks import kinks_of
from pymc_minibatch_mh.expressions.patterns import subexpressions
from pymc_minibatch_mh.model.check import ModelDensity, check_factorization
from pymc_minibatch_mh.native.bound_tables import NO_DIRECTIONS
from pymc_minibatch_mh.native.forms import RowSpace
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.progress import report_stage
from pymc_minibatch_mh.reference import messages
from pymc_minibatch_mh.reference.arrow_sums import ElementRows
from pymc_minibatch_mh.reference.density import Density
from pymc_minibatch_mh.reference.full_data import FullData
from pymc_minibatch_mh.reference.hierarchy import find_marginal_mode
from pymc_minibatch_mh.reference.jumps import find_between_jumps
from pymc_minibatch_mh.reference.log_coordinates import (
    LogFullData,
    mode_without_logs,
    with_logs,
    without_logs,
)
from pymc_minibatch_mh.reference.marginal import mode_near_mean
from pymc_minibatch_mh.reference.mode import (
    COARSE_TOLERANCE,
    LOOSE_TOLERANCE,
    TOLERANCE,
    Mode,
    find_centre,
    find_mode,
    plain_reference,
    reference_at,
    rows_of_few,
)
from pymc_minibatch_mh.reference.newton import newton_search
from pymc_minibatch_mh.reference.smoothing import find_smoothed, is_averaged
from pymc_minibatch_mh.reference.third_order import with_cubic_terms
from pymc_minibatch_mh.structure.predictors import indexed_coordinates, read_coordinates
from pymc_minibatch_mh.structure.random_effects import RandomEffects
from pymc_minibatch_mh.structure.row_function import (
    RowFunction,
    predictor_forms,
    softmax_coefficients,
)
from pymc_minibatch_mh.structure.scales import find_scales, local_scales, read_by_slopes

#: Comparison with the model: maximum number of points; maximum number of evaluated rows.
CHECK_POINTS, CHECK_READS = 3, 300_000
#: Maximum number of evenly spaced rows in the comparison for stored data.
CHECK_ROWS = 100_000
#: Maximum logarithm of an inverse scale whose square does not overflow.
MAX_SHRUNK = 350.0
#: Differences in place of derivatives: moves in which all rows are summed, and the maximum change
#: of a log ratio in one of them.
SUMMED_MOVES, MAX_CHANGE = 4, 0.01
#: Maximum number of scales of one coefficient each, which have a long tail at 0.
MAX_LOCAL_SCALES = 12
#: Number of rows above which the search for the mode ends one Newton step early.
MANY_ROWS = 100_000

_log = logging.getLogger("pymc")


class Target:
    """The posterior of a factorized model, with its log-likelihood times the inverse temperature β.

    With a `covariance`, shape (d, d), the centre is the start; otherwise both are computed. Pickles
    leave out compiled functions, which are valid in one process only.
    """

    #: Index in the context's addresses of the variables that are not part of the position.
    OTHERS_SLOT = OTHERS_SLOT
    #: Whether a forecast may raise the order of control variates from 2 to 3.
    chooses_order = False
    #: Mean number of evaluations of a row for an observation.
    evaluations: float = 1.0

    def __init__(
        self,
        compiled: CompiledModel,
        taylor_order: int = 2,
        inverse_temperature: float = 1.0,
        covariance: np.ndarray | None = None,
    ) -> None:
        self.compiled = compiled
        self.factorization = compiled.factorization
        self.taylor_order = taylor_order
        self.inverse_temperature = inverse_temperature
        self.covariance = covariance
        self.source: ArrayRows = compiled.make_source()

    def __reduce__(self) -> tuple:
        """Settings and model, without compiled functions and addresses."""
        compiled = self.compiled.without_functions()
        settings = self.taylor_order, self.inverse_temperature, self.covariance
        return type(self), (compiled, *settings), {"chooses_order": self.chooses_order}

    def at_order(self, order: int) -> Self:
        """The same posterior, with control variates of another order."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, taylor_order=order)
        return other

    @property
    def row_functions(self) -> list[RowFunction] | BoundsError:
        """Rows as functions of linear predictors, or the reason why this is impossible."""
        return self.compiled.row_functions

    @property
    def known_functions(self) -> Sequence[RowFunction]:
        """Rows as functions of linear predictors; none if this is impossible."""
        functions = self.row_functions
        return [] if isinstance(functions, BoundsError) else functions

    @property
    def elements(self) -> RandomEffects:
        """Group effects with a separable prior; NotSeparableError if there are none."""
        return self.compiled.elements

    @property
    def meets_kinks(self) -> bool:
        """Whether observations have kinks or jumps, which differ between them."""
        return any(kinks_of(f.exprs, f.root) for f in self.known_functions)

    @cached_property
    def indexed(self) -> set[int]:
        """Coordinates that data select by an index, such as group effects."""
        return indexed_coordinates(predictor_forms(self.known_functions))

    @property
    def n_elements(self) -> int:
        """Number of coordinates that data select by an index."""
        return len(self.indexed)

    @cached_property
    def n_in_softmax(self) -> int:
        """Number of these that multiply data of several alternatives in each row of a softmax."""
        return len(softmax_coefficients(self.known_functions))

    @cached_property
    def element_rows(self) -> ElementRows:
        """Rows as functions of common and group effects, in memory until :meth:`release`."""
        rows = self.compiled.rows
        assert isinstance(rows, FormRows)
        return ElementRows(rows.functions, rows, self.elements)

    def release(self) -> None:
        """Free memory that only the preparation needs."""
        self.__dict__.pop("element_rows", None)

    @cached_property
    def rows(self) -> PlacedRows:
        """Compiled rows with their addresses in this process."""
        return self.compiled.rows.at(self.source)

    @cached_property
    def full_data(self) -> FullData:
        """Full-data evaluations of the model."""
        return FullData(self.rows, self.compiled.prior, self.source)

    @property
    def space(self) -> RowSpace:
        """Rows in memory with compiled functions for remainder differences and derivatives."""
        return self.rows.space(self.taylor_order, derivatives=True)

    def expand(
        self, start: np.ndarray, rng: np.random.Generator
    ) -> tuple[Reference, tuple[int, ...]]:
        """Control variates around a centre, and the scales that are at their marginal mode."""
        if self.covariance is not None:
            plain = plain_reference(start, self.covariance, self.inverse_temperature)
            return plain._replace(first=self.factorization.first), ()
        report_stage("Searching for the mode")
        # With many rows stop one step early: the skewness correction moves on to the mean anyway.
        many = self.taylor_order > 0 and self.source.n_rows > MANY_ROWS
        mode = self.mode(start, rng, LOOSE_TOLERANCE if many else TOLERANCE)
        report_stage("Expanding the log-likelihood")
        # Skip the step if the prior is averaged over kinks: the centre is a mean already.
        if self.taylor_order > 0 and not mode.kinked and not self.factorization.boundary:
            mode = mode_near_mean(self.full_data, mode, self.inverse_temperature, rng)
        reference = reference_at(mode, self.taylor_order, self.inverse_temperature)
        if self.taylor_order == 3:
            reference = with_cubic_terms(reference, self.full_data)
        return reference._replace(first=self.factorization.first), mode.marginal

    def mode(
        self, start: np.ndarray, rng: np.random.Generator, tolerance: float = TOLERANCE
    ) -> Mode:
        """Mode near `start`, marginal mode for scales; order 0 allows densities with kinks."""
        if self.taylor_order > 0 and self.meets_kinks:
            return self._mode_between_kinks(start, rng, tolerance)
        return self._smooth_mode(start, rng, tolerance)

    def _mode_between_kinks(
        self, start: np.ndarray, rng: np.random.Generator, tolerance: float
    ) -> Mode:
        """Mode of a density whose kinks do not matter, or else its centre averaged over them."""
        density = self.density_of(self.full_data)
        here = self.full_data.likelihood(start, hessian=True)
        if not ((np.diag(here.hessian) == 0.0) & (here.gradient != 0.0)).any():
            try:
                few = rows_of_few(self.full_data, start.size, rng)
                if few is not None:
                    self.mode_of_few(start, few, COARSE_TOLERANCE)
                mode = self._smooth_mode(start, rng, tolerance)
                if is_averaged(density, mode):
                    return mode
            except ModeError:
                pass
        jumping = self.jumping
        if not self._is_smooth_between_jumps(start, jumping):
            scales = self._scales_of_search(start)
            return find_smoothed(density, start, rng, jumping, scales)

        ends = self.factorization.boundary

        def search(pinned: Density, near: np.ndarray) -> Mode:
            return self.search_mode(without_logs(near, ends), near, rng, tolerance, pinned)

        begin, searched = with_logs(start, ends), self.density_of(self._searched)
        mode = find_between_jumps(search, searched, begin, jumping)
        if not ends:
            return mode
        return mode_without_logs(self.full_data, mode, ends, self.inverse_temperature)

    def _is_smooth_between_jumps(self, start: np.ndarray, jumping: Sequence[int]) -> bool:
        """Whether the coordinates `jumping` do nothing but decide where observations jump."""
        kinks = [f.exprs.kinks[k] for f in self.known_functions for k in kinks_of(f.exprs, f.root)]
        if not jumping or any(kinks):
            return False
        return not self.full_data.likelihood(start, hessian=False).gradient[jumping].any()

    @property
    def jumping(self) -> list[int]:
        """Coordinates that decide where observations jump."""
        forms = [
            function.arguments[x.number]
            for function in self.known_functions
            for kink in kinks_of(function.exprs, function.root)
            if not function.exprs.kinks[kink]
            for x in subexpressions(kink)
            if isinstance(x, Argument)
        ]
        return sorted(read_coordinates(forms))

    def _smooth_mode(self, start: np.ndarray, rng: np.random.Generator, tolerance: float) -> Mode:
        """Mode near `start`, also of a density with boundaries."""
        ends = self.factorization.boundary
        if not ends:
            return self.search_mode(start, start, rng, tolerance)
        mode = self.search_mode(start, with_logs(start, ends), rng, tolerance)
        return mode_without_logs(self.full_data, mode, ends, self.inverse_temperature)

    def search_mode(
        self,
        near: np.ndarray,
        start: np.ndarray,
        rng: np.random.Generator,
        tolerance: float,
        density: Density | None = None,
    ) -> Mode:
        """Mode by a search from `start`: `near` in the coordinates of the search."""
        arguments = density or self.density_of(self._searched), start, rng
        if self.taylor_order == 0:
            try:
                return find_mode(*arguments)
            except ModeError:
                return find_centre(*arguments)
        scales = self._scales_of_search(near)
        if not scales:
            return find_mode(*arguments, tolerance)
        try:
            return find_marginal_mode(*arguments, scales, tolerance)
        except ModeError as error:
            without = error
        try:
            return find_mode(*arguments, tolerance)
        except ModeError:
            raise without from None

    def scales(self, start: np.ndarray) -> tuple[int, ...]:
        """Coordinates that are scales, identified by derivatives of the model near `start`."""
        return find_scales(self.full_data.prior, self._read_near(start), start)

    def _scales_of_search(self, start: np.ndarray) -> tuple[int, ...]:
        """Scales; ModeError if many of them scale one coordinate each, as in a horseshoe."""
        scales = self.scales(start)
        if len(scales) > MAX_LOCAL_SCALES:
            prior, read = self.full_data.prior, self._read_near(start)
            local = local_scales(prior, scales, read, start)
            if len(local) > MAX_LOCAL_SCALES:
                raise messages.scales_are_local(self.factorization.coordinate_names, local)
        return scales

    def _read_near(self, start: np.ndarray) -> set[int]:
        """Coordinates on which observations depend."""
        functions = self.row_functions
        if isinstance(functions, BoundsError):
            return read_by_slopes(self.full_data.likelihood, start)
        return read_coordinates(predictor_forms(functions))

    def mode_of_few(
        self,
        start: np.ndarray,
        rows: np.ndarray,
        tolerance: float,
        rng: np.random.Generator | None = None,
    ) -> Mode:
        """Mode of a weighted subsample; ModeError if it has none.

        With a generator, a hierarchy without a joint mode has its scales at their marginal mode.
        """
        density = self.density_of(self._searched).subsampled(rows)
        ends, weight = self.factorization.boundary, density.weight
        begin = with_logs(start, ends) if ends else start
        try:
            found, _ = newton_search(density, begin, tolerance)
            mode = Mode(found.position, -found.total.hessian, found.likelihood)
        except ModeError:
            scales = () if rng is None else self._scales_of_search(start)
            if rng is None or not scales:
                raise
            mode = find_marginal_mode(density, begin, rng, scales, tolerance)
        return mode_without_logs(self.full_data, mode, ends, weight, rows) if ends else mode

    def density_of(self, full_data: FullData) -> Density:
        """Tempered log-posterior by some full-data evaluations."""
        return Density(full_data, self.factorization.coordinate_names, self.inverse_temperature)

    @cached_property
    def _searched(self) -> FullData:
        """Full-data evaluations in the coordinates of the search for the mode."""
        ends = self.factorization.boundary
        return LogFullData(self.full_data, ends) if ends else self.full_data

    def condition_on(self, point: Mapping[str, np.ndarray]) -> None:
        """Set the variables outside the position to the values of a point."""
        self.source.others[:] = self.factorization.ravel_others(point)

    def log_prior(self, position: np.ndarray) -> float:
        """Log-density of the prior."""
        return float(self.full_data.log_prior(position, self.rows.context))

    def log_likelihood(self, position: np.ndarray) -> float:
        """Untempered log-likelihood of all rows."""
        return self.full_data.likelihood(position, hessian=False).value

    def check(self, model: pm.Model, draw: Callable[[], np.ndarray]) -> None:
        """Compare log prior and log-likelihood with the model's, at points from `draw`."""
        report_stage("Comparing with PyMC's log-density")
        reads = self.source.n_rows * self._n_states
        count = int(np.clip(CHECK_READS // reads, 1, CHECK_POINTS))
        points = [self.factorization.in_support(draw()) for _ in range(count)]
        rows = None if self.source.in_memory else self.spread(CHECK_ROWS)
        density = ModelDensity(model, self.factorization, rows)

        def parts_at(x: np.ndarray) -> tuple[float, float]:
            likelihood = self.full_data.likelihood(x, hessian=False, rows=rows).value
            return self.log_prior(x) - self.factorization.log_jacobian(x), likelihood

        names = [term.name for term in self.factorization.terms]
        check_factorization(density.all_densities(self.source.others), parts_at, points, names)

    def require_equal_sums(self, reference: Reference, draw: Callable[[], np.ndarray]) -> None:
        """Compare the rows' expansions with the whole one, if their derivatives are differences.

        UnsupportedModelError if they change a log ratio between positions from `draw`.
        """
        operation, order = self.rows.without_second, self.taylor_order
        if not operation or order == 0:
            return
        moves = [(draw(), draw()) for _ in range(SUMMED_MOVES)]
        errors = [self._error_of_differences(reference, *ends) for ends in moves]
        worst = self.inverse_temperature * float(np.max(np.abs(errors)))
        _log.info("Differences of %s change log ratios by at most %.1g.", operation, worst)
        if not worst <= MAX_CHANGE:
            raise UnsupportedModelError(
                f"{term_names(self.factorization)}: the gradient of {operation} has no derivative, "
                f"and its differences change log ratios by {worst:.2g}, because it is not the "
                f"gradient of the values, or jumps. Correct it, or use taylor_order={order - 1}."
            )

    def _error_of_differences(
        self, reference: Reference, position: np.ndarray, new: np.ndarray
    ) -> float:
        """Sum over rows of their expansions' changes in a move, minus that of the whole one."""
        centre, hessian = reference.centre, reference.hessian
        both = (position - centre) + (new - centre)
        slope = reference.gradient + 0.5 * hessian @ both
        change = self.log_likelihood(new) - self.log_likelihood(position)
        remainders = self.full_data.change(self.taylor_order, (position, new, centre))
        return change - remainders - float(slope @ (new - position))

    @property
    def _n_states(self) -> int:
        """Largest number of states that a row sums over, or 1."""
        sums = [x for f in self.known_functions if (split := f.states) for x in split.sums]
        return max((len(x.offsets) for x in sums), default=1)

    def spread(self, most: int, first: int = 0) -> np.ndarray:
        """Row numbers of at most `most` evenly spaced rows, beginning with `first`."""
        last = self.source.n_rows - 1
        return np.linspace(first, last, min(most, last + 1 - first)).astype(np.int64)

    def term_and_row(self, row: int) -> tuple[str, int]:
        """Name of the observed variable of a row, and the row's number within it."""
        starts = self.source.term_starts
        term = int(np.searchsorted(starts, row, side="right")) - 1
        return self.factorization.terms[term].name, row - int(starts[term])

    def _outside_error(self, position: np.ndarray) -> MinibatchError:
        names = self.factorization.coordinate_names
        inside = (position >= self.factorization.lower) & (position <= self.factorization.upper)
        wrong = np.flatnonzero(~(inside & np.isfinite(position)))
        if wrong.size:
            first = int(wrong[0])
            return MinibatchError(
                f"{names[first]!r} is {position[first]:g} at the starting point, outside its "
                "support. Pass other initvals= or initial_point=."
            )
        for one in self.factorization.maps:
            if not one.log_jacobian(position) < MAX_SHRUNK * len(one.indices):
                return MinibatchError(
                    f"{one.name!r} is sampled through {one.label}, but a factor is almost zero at "
                    "the starting point, for example for the last basis functions of an HSGP "
                    "with a long length scale. Pass other initvals= or initial_point=, or use "
                    "fewer basis functions."
                )
        return MinibatchError(
            f"{', '.join(repr(block.name) for block in self.factorization.blocks)}: the prior "
            "part of the model is not finite at the starting point, for example because a "
            "potential excludes it. Pass other initvals= or initial_point=."
        )

    def require_finite_start(self, position: np.ndarray) -> None:
        """Raise MinibatchError if a start has zero density; stored rows are subsampled."""
        self.require_finite(position, None if self.source.in_memory else CHECK_ROWS)

    def require_finite(self, position: np.ndarray, most: int | None = None, first: int = 0) -> None:
        """Raise MinibatchError for zero density at `most` rows from `first` on (default: all)."""
        if not np.isfinite(self.log_prior(position)):
            raise self._outside_error(position)
        rows = None
        if first or (most is not None and self.source.n_rows > most):
            rows = self.spread(self.source.n_rows if most is None else most, first)
        if np.isfinite(self.full_data.likelihood(position, hessian=False, rows=rows).value):
            return
        low = self.full_data.first_not_finite(position, first)
        name, row = self.term_and_row(low)
        raise MinibatchError(
            f"{name!r} has a log-likelihood that is not finite at the starting point, first in "
            f"row {row}{self.source.place(low)}. Correct that row, or pass other initvals=."
        )


#: Maximum number of null-space directions that M excludes: each takes time at every update.
MAX_LEFT_OUT = 32


def whitened_directions(
    target: Target, reference: Reference, most: int = MAX_LEFT_OUT
) -> np.ndarray:
    """Orthonormal whitened basis of the likelihood's null space, (n, d); empty if n > `most`."""
    directions = target.compiled.null_space
    if not 0 < len(directions) <= most:
        return NO_DIRECTIONS
    basis, _ = np.linalg.qr((directions @ reference.whitener.T).T)
    return np.ascontiguousarray(basis.T)
