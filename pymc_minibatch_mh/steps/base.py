"""All of the plumbing between PyMC and a compiled update."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from inspect import Signature
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np
from pymc.stats.convergence import SamplerWarning
from pytensor.graph.basic import Variable

from pymc_minibatch_mh import steps
from pymc_minibatch_mh.errors import BoundViolationError
from pymc_minibatch_mh.kernels import sums as entry
from pymc_minibatch_mh.model.reading.inputs import generator_of, model_of, point_of
from pymc_minibatch_mh.progress import showing
from pymc_minibatch_mh.steps import report
from pymc_minibatch_mh.steps import settings as check
from pymc_minibatch_mh.steps.adaptation import PREPARATION_SEED, AdaptingStep
from pymc_minibatch_mh.steps.describe import docstring_of, line_about, signature_of
from pymc_minibatch_mh.steps.stats import STATS_DTYPES_SHAPES, stats_of_draw

if TYPE_CHECKING:
    from pymc_minibatch_mh.bounds.tables import Tables
    from pymc_minibatch_mh.kernels.surrogate import Surrogate
    from pymc_minibatch_mh.steps.decision import Decision

#: Chance that a Gaussian posterior lies as far out as a start that is not waited for, and width
#: of the new start in posterior standard deviations.
FAR_TAIL, NEW_START = 1e-12, 2.0


class MinibatchStep(AdaptingStep):
    """Base of the step methods that subsample the likelihood.

    A subclass names its test and packs the test's settings; it holds no algorithm.

    Raises
    ------
    UnsplittableModelError
        If the rows of a likelihood cannot be proven to be independent.
    ModeError
        If the posterior has no mode with a Gaussian scale.
    SettingError
        If a setting cannot be meant.
    """

    default_blocked = True
    stats_dtypes_shapes = STATS_DTYPES_SHAPES

    __signature__: ClassVar[Signature]

    def __init_subclass__(cls, **options: Any) -> None:
        """Show the shared settings in signature and docstring."""
        super().__init_subclass__(**options)
        cls.__signature__ = signature_of(cls.__init__)
        if cls.__doc__:
            cls.__doc__ = docstring_of(cls.__doc__)

    def __repr__(self) -> str:
        return line_about(self)

    @showing("Reading the model")
    def _prepare(
        self,
        vars: Sequence[Variable] | None,
        decision: Decision,
        **given: Unpack[check.SharedSettings],
    ) -> None:
        shared = check.shared(type(self), given)
        model, initial_point = model_of(shared["model"]), shared["initial_point"]
        self.vars = check.own_variables(model, vars)
        self.decision = decision
        self._take(shared)
        point = point_of(model, model.initial_point() if initial_point is None else initial_point)
        read = steps.machinery.read_model(model, self.vars, point, shared)
        steps.machinery.tell_of_large(model, point, self.name)
        discrete = read.target.split.discrete_in_rows
        order = check.taylor_order_of(shared["taylor_order"], discrete)
        self.target = read.target.beside(order, 1.0 / self.temperature)
        self._watched = read.watched
        self.target.condition_on(point)
        start = self.target.split.ravel(point)
        default = point if initial_point is None else model.initial_point()
        self._default_start = self.target.split.ravel(default)
        found = read.prepared(self.target, decision, model, start, shared["prepared"])
        self._surrogate, self._calibration = found.surrogate, found.calibration
        self.tables = found.tables or decision.tables(self.target, self._surrogate)
        self._test_settings = self._settings_at(self._surrogate, self._calibration, self.tables)
        self._connect()
        self._known_violation = ""
        self._reset(self.tune)
        if found.violation is None:
            self._audit()
        elif found.violation:
            self._meet_violation(found.violation)
        self._known_violation = self.violation
        decision.require_subsampling(self._surrogate, self.tables, PREPARATION_SEED)
        # Compiles the update where it is not yet in numba's cache, so that no draw has to wait.
        self._update(start, 0)

    def _take(self, shared: check.SharedSettings) -> None:
        check.together(shared["blocked"])
        self.rng = generator_of("rng", shared["rng"])
        self.tune = check.flag("tune", shared["tune"])
        self.temperature = check.positive("temperature", shared["temperature"])
        self.updates_per_draw = check.integer("updates_per_draw", shared["updates_per_draw"])
        self.proposal = check.proposal_of(shared["proposal"])
        # Whether it suits the rows is known once they are read; what it may be at all is now.
        check.taylor_order_of(shared["taylor_order"])

    def save(self, path: str | PathLike) -> None:
        """Write mode, sums and bounds to a file, for ``prepared=`` of a later step.

        The file holds arrays and text and is read without pickle. It is keyed on digests of all
        rows and of the model's graphs: a step on anything else refuses it.

        Parameters
        ----------
        path
            The file; it is overwritten.
        """
        self.require_unchanged()
        found = steps.machinery.Prepared(self._surrogate, self._calibration, self.tables)
        steps.machinery.write(path, self.target, found)

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the step in PyMC's messages."""

    @property
    def surrogate(self) -> Surrogate:
        """Control variates of this chain."""
        return self._chain_surrogate

    @surrogate.setter
    def surrogate(self, surrogate: Surrogate) -> None:
        self._chain_surrogate = surrogate
        self._packed = steps.machinery.pack(surrogate)
        # Bounds follow from the centre, so that a chain's state need not carry them.
        if not np.array_equal(surrogate.centre, self._bounded_centre):
            at_home = np.array_equal(surrogate.centre, self._surrogate.centre)
            tables = self.tables if at_home else self.decision.tables(self.target, surrogate)
            self._use_bounds(tables, surrogate.centre)

    @property
    def rng(self) -> np.random.Generator:
        """Generator of this chain."""
        return self._rng

    @rng.setter
    def rng(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._generator = steps.machinery.generator_addresses(rng)

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Start a chain: take its generator and forget every earlier chain."""
        super().setup_chain(rng, tune, draws)
        self.require_unchanged()
        self._reset(self.tune and tune > 0)

    def stop_tuning(self) -> None:
        """End warm-up: freeze the proposal, the prediction of batch sizes and the centre."""
        if self.adapting:
            self.require_unchanged()
            self.adapting = False
            self._refresh_centre()
            if self._chain_tables is not self.tables or not self.certified:
                self._audit()
            self.n_updates = self.n_full = self.n_accepted = 0

    def step(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[dict]]:
        """Make the updates of one draw in one compiled call."""
        began = time.perf_counter()
        position = self.target.split.ravel(point)
        self.target.condition_on(point)
        if not self.started:
            self._start(position)
            self.started = True
        sums = self._update(position, self.updates_per_draw)
        if not sums[entry.BOUND_RATIO] <= 1.0:
            row, ratio = int(sums[entry.BOUND_ROW]), float(sums[entry.BOUND_RATIO])
            here, there = self._worst_move
            self._meet_violation(report.violation(self.target, row, here, there, ratio))
        self._keep_books(position, sums)
        stats = stats_of_draw(sums, self.updates_per_draw)
        stats["certified"] = self.certified
        stats["scaling"] = self.proposal.scaling(self.numbers)
        stats["temperature"] = self.temperature
        stats["perf_counter_diff"] = time.perf_counter() - began
        stats["warning"] = self._warning()
        return self.target.split.unravel(position, point), [stats]

    def _start(self, position: np.ndarray) -> None:
        """Check where a chain starts; leave PyMC's own starting point if it is far off."""
        s = self.surrogate
        far = np.sqrt(steps.machinery.chdtri(position.size, FAR_TAIL))
        unchosen = np.array_equal(position, self._default_start)
        # A point that other steps share in is not this one's to leave.
        alone = s.first == 0
        if (
            self.adapting
            and alone
            and unchosen
            and steps.machinery.whitened_norm(s.whitener, position, s.centre) > far
        ):
            report.tell_of_new_start(self.name)
            position[:] = self.target.split.ravel(self.gaussian_draw(self.rng, NEW_START))
        self.target.require_finite(position)

    def gaussian_draw(self, rng: np.random.Generator, scale: float) -> dict[str, np.ndarray]:
        """Draw a point from the Gaussian approximation, `scale` times as wide."""
        noise = rng.standard_normal(self.target.split.size)
        position = self._surrogate.centre + scale * (self._surrogate.factor @ noise)
        return self.target.split.unravel(position, {})

    def __reduce__(self) -> tuple:
        """Pickle settings, graphs, arrays and the chain's state; neither model nor code."""
        self.require_unchanged()
        compiled = {"_addresses", "_generator", "_functions", "_space", "_new"}
        # Bounds can be larger than the data that they are derived from.
        derived = {"_bounds", "_bounded_centre", "_chain_tables", "tables"}
        # PyMC's own way of pickling keeps the whole model in here.
        dropped = compiled | derived | {"_BlockedStep__newargs"}
        state = {k: v for k, v in self.__dict__.items() if k not in dropped}
        return _restore, (type(self), state)

    def _update(self, position: np.ndarray, n_updates: int) -> np.ndarray:
        sums = np.zeros(entry.N_SUMS)
        steps.machinery.update(
            position,
            self._new,
            n_updates,
            self._generator,
            self._addresses,
            self.numbers,
            self.test_settings,
            *self._packed,
            *self._space,
            *self._bounds,
            sums,
            self.window,
            self._worst_move,
        )
        return sums

    def _connect(self) -> None:
        self._space = tuple(self.target.passes.space)
        self._new = np.empty(self.target.split.size)
        self._use_bounds(self.tables, self._surrogate.centre)

    def _use_bounds(self, tables: Tables | None, centre: np.ndarray) -> None:
        # Addresses are only valid while the functions behind them are referenced.
        self._functions = (
            self.proposal.function,
            self.decision.test,
            self.target.prior,
            self.target.evaluate,
            *self.decision.roles(tables),
        )
        address_of = steps.machinery.address_of
        self._addresses = np.array([address_of(f) for f in self._functions], dtype=np.int64)
        self._bounds = steps.machinery.bound_arrays(tables)
        self._chain_tables = tables
        self._bounded_centre = centre

    def _audit(self) -> None:
        tables = self._chain_tables
        if tables is not None:
            rng = np.random.default_rng(PREPARATION_SEED + self.n_draws)
            if wrong := steps.machinery.audited(self.target, self.surrogate, tables, rng):
                self._meet_violation(wrong)

    def _meet_violation(self, message: str) -> None:
        if not self.decision.tolerates_violations:
            raise BoundViolationError(message)
        self.violation = message

    def _warning(self) -> SamplerWarning | None:
        if self.unmoved and not self.adapting:
            reason, self.unmoved = self.unmoved, ""
            return report.unmoved_warning(self.name, reason, self.n_draws)
        if self.warned or self.adapting:
            return None
        if self.violation:
            self.warned = True
            return report.violation_warning(self.name, self.violation, self.n_draws)
        counts = self.n_updates, self.n_accepted, self.n_full
        warning = report.chain_warning(self.name, *counts, self.n_draws)
        self.warned = warning is not None
        return warning

    _progressbar_config = staticmethod(report.progress_columns)
    _make_progressbar_update_functions = staticmethod(report.progress_functions)


def _restore(cls: type[MinibatchStep], state: dict[str, Any]) -> MinibatchStep:
    step = object.__new__(cls)
    step.__dict__.update(state)
    step.rng = step._rng
    step.tables = step.decision.tables(step.target, step._surrogate)
    step._connect()
    step.surrogate = step._chain_surrogate
    return step
