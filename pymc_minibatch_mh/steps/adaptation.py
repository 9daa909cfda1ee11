"""What a chain learns in warm-up, and freezes at its end."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from pymc_minibatch_mh import steps
from pymc_minibatch_mh.errors import BoundsError, ModeError
from pymc_minibatch_mh.kernels import sums as entry
from pymc_minibatch_mh.proposals.base import Proposal
from pymc_minibatch_mh.steps.state import RestorableStep

if TYPE_CHECKING:
    from pymc_minibatch_mh.bounds.tables import Tables
    from pymc_minibatch_mh.expansion.target import Target
    from pymc_minibatch_mh.expansion.taylor import Calibration
    from pymc_minibatch_mh.kernels.surrogate import Surrogate
    from pymc_minibatch_mh.steps.decision import Decision
    from pymc_minibatch_mh.steps.guarantee import Guarantee

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
#: Seed of what is random outside of a chain's own generator, so that equal models are prepared in
#: the same way: rows and other starts of the search for the mode, points at which the parts are
#: compared with the model, moves that calibrate, that set a test or that audit bounds.
PREPARATION_SEED = 20_170_808


class AdaptingStep(RestorableStep):
    """A chain's books: its state, its tallies, and what follows from them while it adapts."""

    # Set when the step is built.
    decision: Decision
    proposal: Proposal
    target: Target
    updates_per_draw: int
    _surrogate: Surrogate
    _test_settings: np.ndarray
    _known_violation: str
    # Bounds around the first centre, and around the chain's own.
    tables: Tables | None
    _chain_tables: Tables | None

    # The chain's state, set by _reset.
    adapting: bool
    started: bool
    settled: bool
    numbers: np.ndarray
    test_settings: np.ndarray
    window: np.ndarray
    surrogate: Surrogate
    violation: str
    unmoved: str
    # Where an update leaves the move that violates a bound most: no state, but the chain's own.
    _worst_move: np.ndarray

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
        self._worst_move = np.zeros((2, size))
        self.warm_up_weight = 0.0
        self.n_draws = self.n_updates = self.n_full = self.n_accepted = 0
        self.warned, self.unmoved = False, ""
        self.violation = self._known_violation

    def adapt_on(
        self, points: Iterable[Mapping[str, np.ndarray]], rng: np.random.Generator
    ) -> None:
        """Go through warm-up anew, on given points instead of a chain's own, and freeze.

        What a chain learns follows from the moves that it tries. On draws from the posterior it is
        what a chain learns that has arrived there.

        Parameters
        ----------
        points
            Values of all value variables, one point per draw of the warm-up.
        rng
            Generator of the updates.
        """
        self.rng = rng
        self._reset(self.tune)
        self.started = True
        for point in points:
            position = self.target.split.ravel(point)
            self.target.condition_on(point)
            self._keep_books(position, self._update(position, self.updates_per_draw))
        if self.adapting:
            self.adapting = False
            self._refresh_centre()

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What the method promises of its draws."""

    @property
    def certified(self) -> bool:
        """Whether the draws are exact by bounds that were derived from the model."""
        return self.guarantee.is_certified(self.tables, self.violation)

    @property
    def exactness(self) -> str:
        """What the guarantee amounts to for the draws of this chain, in words."""
        return self.guarantee.of_draws(self.tables, self.violation)

    @abstractmethod
    def _update(self, position: np.ndarray, n_updates: int) -> np.ndarray:
        """Make updates in place; return what they counted."""

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
                s = self.surrogate
                away = steps.machinery.whitened_norm(s.whitener, position, s.centre)
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
        if steps.machinery.whitened_norm(s.whitener, mean, s.centre) < MOVED * np.sqrt(mean.size):
            return
        rng = np.random.default_rng(PREPARATION_SEED)
        try:
            self.surrogate, calibration = self._calibrated(self.target.expand(mean, rng))
        except (ModeError, BoundsError) as reason:
            # Any centre leaves the draws what they are; the old one has served all of warm-up.
            self.surrogate, self.unmoved = s, str(reason)
            return
        self.test_settings = self._settings_at(self.surrogate, calibration, self._chain_tables)
        self._adapt_test()

    def _calibrated(self, surrogate: Surrogate) -> tuple[Surrogate, Calibration | None]:
        """Measure the remainders of rows, if the test needs to know them."""
        if not self.decision.needs_calibration:
            return surrogate, None
        rng = np.random.default_rng(PREPARATION_SEED)
        calibration = self.target.calibrate(surrogate, rng)
        return surrogate._replace(spread=calibration.spread), calibration

    def _settings_at(
        self, surrogate: Surrogate, calibration: Calibration | None, tables: Tables | None
    ) -> np.ndarray:
        return self.decision.settings_for(
            self.target, surrogate, calibration, tables, PREPARATION_SEED
        )
