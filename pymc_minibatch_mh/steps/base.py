"""All of the plumbing between PyMC and a compiled update."""

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
from pymc.stats.convergence import SamplerWarning
from pymc.step_methods.compound import BlockedStep
from pymc.util import get_random_generator, get_value_vars_from_user_vars
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.errors import BoundViolationError
from pymc_minibatch_mh.kernels import sums as entry
from pymc_minibatch_mh.kernels.first_class import address_of
from pymc_minibatch_mh.kernels.generator import generator_addresses
from pymc_minibatch_mh.kernels.surrogate import Surrogate, pack, whitened_norm
from pymc_minibatch_mh.kernels.update import update
from pymc_minibatch_mh.likelihood.split import split
from pymc_minibatch_mh.proposals import Proposal
from pymc_minibatch_mh.steps import report
from pymc_minibatch_mh.steps import settings as check
from pymc_minibatch_mh.steps.decision import Decision, bound_arrays
from pymc_minibatch_mh.steps.freshness import WatchedData
from pymc_minibatch_mh.steps.state import MinibatchState
from pymc_minibatch_mh.steps.stats import STATS_DTYPES_SHAPES, stats_of_draw
from pymc_minibatch_mh.surrogate.target import Target

#: Draws between two adaptations.
WINDOW = 50
#: Weight of what was learned before the last window.
FORGET = 0.97
#: The same for the mean of warm-up, whose first half may still be on its way.
FORGET_POSITION = 0.9
#: Distance from the centre, in excess of that of a Gaussian, up to which a window is no longer on
#: its way to the posterior: jumps before that say nothing about efficiency.
SETTLED = 4.0
#: Share of a window's batches that were noisier than predicted, above which the prediction grows.
UNDERESTIMATED_SHARE = 0.05
SPREAD_GROWTH = 1.5
#: Root mean square displacement of the warm-up mean, in posterior sd, that moves the centre.
MOVED = 1.0
#: Seed of what is random before sampling: the subsample that starts Newton, calibration moves.
PREPARATION_SEED = 20_170_808


class MinibatchStep(BlockedStep):
    """Base of the step methods that subsample the likelihood.

    A subclass names its test and packs the test's settings; it holds no algorithm.

    Parameters
    ----------
    taylor_order
        Order of the control variates: "auto", 0, 1 or 2.
    proposal
        "auto", or a proposal of :mod:`pymc_minibatch_mh`.
    temperature
        K > 0 raises the likelihood, and only it, to the power 1/K; above 1 it is flattened. The
        trace is then one of the tempered posterior, and says so in the stat ``temperature``.
    observed
        Names of the observed variables to subsample; by default all with 1,000 rows or more.
    updates_per_draw
        Updates between two draws that are kept.
    tune
        Whether to adapt the proposal in warm-up.
    model, rng, initial_point, compile_kwargs, blocked
        As in PyMC's own step methods. `initial_point` is where the search for the mode starts.

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
    _state_class = MinibatchState

    # The chain's state, set by _reset.
    adapting: bool
    started: bool
    settled: bool
    numbers: np.ndarray
    test_settings: np.ndarray
    window: np.ndarray

    #: What the step decides by.
    decision: Decision

    def _prepare(
        self,
        vars: Sequence[Variable] | None,
        decision: Decision,
        *,
        taylor_order: int | str = "auto",
        proposal: Proposal | str = "auto",
        temperature: float = 1.0,
        observed: Sequence[str] | None = None,
        updates_per_draw: int = 1,
        tune: bool = True,
        model: pm.Model | None = None,
        rng: Any = None,
        initial_point: Mapping[str, np.ndarray] | None = None,
        compile_kwargs: Mapping[str, Any] | None = None,
        blocked: bool = True,
    ) -> None:
        check.together(blocked)
        model = pm.modelcontext(model)
        self.vars = get_value_vars_from_user_vars(model.value_vars if vars is None else vars, model)
        self.rng = get_random_generator(rng)
        self.tune = tune
        self.temperature = check.positive("temperature", temperature)
        self.updates_per_draw = check.integer("updates_per_draw", updates_per_draw)
        self.proposal = check.proposal_of(proposal)
        order = check.taylor_order_of(taylor_order)
        point = dict(model.initial_point() if initial_point is None else initial_point)
        parts = split(model, self.vars, observed, initial_point=point)
        self.target = Target(parts, order, 1.0 / self.temperature, compile_kwargs)
        self._data = WatchedData(model)
        preparation = np.random.default_rng(PREPARATION_SEED)
        start = self.target.split.ravel(point)
        self.target.require_finite(start)
        self._surrogate, calibration = self.target.expand(start, preparation)
        self.target.check(model, self._surrogate, preparation)
        self.decision = decision
        self._test_settings = decision.settings_for(self.target, self._surrogate, calibration)
        self.tables = decision.tables(self.target, self._surrogate)
        self._connect()
        self._reset(tune)
        # Compiles the update where it is not yet in numba's cache, so that no draw has to wait.
        self._update(start, 0)

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
        self._packed = pack(surrogate)
        # Bounds follow from the centre, so that a chain's state need not carry them.
        if not np.array_equal(surrogate.centre, self._bounded_centre):
            at_home = np.array_equal(surrogate.centre, self._surrogate.centre)
            tables = self.tables if at_home else self.decision.tables(self.target, surrogate)
            self._bounds = bound_arrays(tables)
            self._bounded_centre = surrogate.centre

    @property
    def rng(self) -> np.random.Generator:
        """Generator of this chain."""
        return self._rng

    @rng.setter
    def rng(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._generator = generator_addresses(rng)

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Start a chain: take its generator and forget every earlier chain."""
        super().setup_chain(rng, tune, draws)
        self._data.require_unchanged(type(self).__name__)
        self._reset(self.tune and tune > 0)

    def stop_tuning(self) -> None:
        """End warm-up: freeze the proposal, the prediction of batch sizes and the centre."""
        if self.adapting:
            self.adapting = False
            self._refresh_centre()
            self.n_updates = self.n_full = self.n_accepted = 0

    def step(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[dict]]:
        """Make the updates of one draw in one compiled call."""
        began = time.perf_counter()
        position = self.target.split.ravel(point)
        if not self.started:
            self.target.require_finite(position)
            self.started = True
        sums = self._update(position, self.updates_per_draw)
        if sums[entry.VIOLATED] > 0.0:
            self._meet_violation(position, sums)
        self._keep_books(position, sums)
        stats = stats_of_draw(sums, self.updates_per_draw)
        stats["scaling"] = self.proposal.scaling(self.numbers)
        stats["temperature"] = self.temperature
        stats["perf_counter_diff"] = time.perf_counter() - began
        stats["warning"] = self._warning()
        return self.target.split.unravel(position, point), [stats]

    def gaussian_draw(self, rng: np.random.Generator, scale: float) -> dict[str, np.ndarray]:
        """Draw a point from the Gaussian approximation, `scale` times as wide."""
        noise = rng.standard_normal(self.target.split.size)
        position = self._surrogate.centre + scale * (self._surrogate.factor @ noise)
        return self.target.split.unravel(position, {})

    def __reduce__(self) -> tuple:
        """Pickle settings, graphs, arrays and the chain's state; neither model nor code."""
        self._data.require_unchanged(type(self).__name__)
        compiled = {"_addresses", "_generator", "_functions", "_space", "_new", "_bounds"}
        # PyMC's own way of pickling keeps the whole model in here.
        dropped = compiled | {"_BlockedStep__newargs"}
        state = {k: v for k, v in self.__dict__.items() if k not in dropped}
        return _restore, (type(self), state)

    def _update(self, position: np.ndarray, n_updates: int) -> np.ndarray:
        sums = np.zeros(entry.N_SUMS)
        update(
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
        )
        return sums

    def _connect(self) -> None:
        # Addresses are only valid while the functions behind them are referenced.
        self._functions = (
            self.proposal.function,
            self.decision.test,
            self.target.prior,
            self.target.evaluate,
            *self.decision.roles,
        )
        self._space = tuple(self.target.passes.space)
        self._addresses = np.array([address_of(f) for f in self._functions], dtype=np.int64)
        self._new = np.empty(self.target.split.size)
        self._bounds = bound_arrays(self.tables)
        self._bounded_centre = self._surrogate.centre

    def _reset(self, adapting: bool) -> None:
        size = self.target.split.size
        self.adapting = adapting
        self.started = self.settled = False
        self.numbers = self.proposal.initial_numbers(size)
        self.test_settings = self._test_settings.copy()
        self.surrogate = self._surrogate
        self.window = np.zeros((self.proposal.n_components, entry.N_TALLIES))
        self.total = np.zeros_like(self.window)
        self.window_sums = np.zeros(entry.N_SUMS)
        self.total_sums = np.zeros(entry.N_SUMS)
        self.warm_up_sum = np.zeros(size)
        self.warm_up_weight = 0.0
        self.n_draws = self.n_updates = self.n_full = self.n_accepted = 0
        self.warned = False
        self.violation = ""

    def _keep_books(self, position: np.ndarray, sums: np.ndarray) -> None:
        self.n_draws += 1
        self.n_updates += self.updates_per_draw
        self.n_full += int(sums[entry.FULL_PASS])
        self.n_accepted += int(sums[entry.ACCEPTED])
        if self.adapting:
            self.window_sums += sums
            self.warm_up_sum += position
            if self.n_draws % WINDOW == 0:
                self._adapt()
                away = whitened_norm(self.surrogate.whitener, position, self.surrogate.centre)
                self.settled = bool(away < np.sqrt(position.size) + SETTLED)

    def _adapt(self) -> None:
        if self.settled:
            self.total = FORGET * self.total + self.window
        size = self.target.split.size
        target = self.decision.walk_target
        self.proposal.adapt(self.numbers, self.window, self.total, target, size)
        self.total_sums = FORGET * self.total_sums + self.window_sums
        self._adapt_test()
        batches = WINDOW * self.updates_per_draw
        if self.window_sums[entry.UNDERESTIMATED] > UNDERESTIMATED_SHARE * batches:
            spread = self.surrogate.spread * SPREAD_GROWTH
            self.surrogate = self.surrogate._replace(spread=spread)
        self.window[:] = 0.0
        self.window_sums[:] = 0.0
        self.warm_up_sum *= FORGET_POSITION
        self.warm_up_weight = FORGET_POSITION * (self.warm_up_weight + WINDOW)

    def _adapt_test(self) -> None:
        counts = self.total_sums, self.target, self.updates_per_draw
        self.decision.adapt(self.test_settings, *counts)

    def _refresh_centre(self) -> None:
        if self.n_draws < 2 * WINDOW:
            return
        weight = self.warm_up_weight + self.n_draws % WINDOW
        mean = self.warm_up_sum / weight
        s = self.surrogate
        if whitened_norm(s.whitener, mean, s.centre) < MOVED * np.sqrt(mean.size):
            return
        rng = np.random.default_rng(PREPARATION_SEED)
        self.surrogate, calibration = self.target.expand(mean, rng)
        self.test_settings = self.decision.settings_for(self.target, self.surrogate, calibration)
        self._adapt_test()

    def _meet_violation(self, position: np.ndarray, sums: np.ndarray) -> None:
        row = int(sums[entry.VIOLATED]) - 1
        message = report.violation(
            self.target, row, position, self._new, float(sums[entry.BOUND_RATIO])
        )
        if not self.decision.tolerates_violations:
            raise BoundViolationError(message)
        self.violation = message

    def _warning(self) -> SamplerWarning | None:
        if self.violation and not self.warned:
            self.warned = True
            return report.violation_warning(self.name, self.violation, self.n_draws)
        if self.warned or self.adapting:
            return None
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
    step._connect()
    step.surrogate = step._chain_surrogate
    return step
