"""Settings, batch sizes and adaptation of the tests on batches."""

import logging
import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pymc_minibatch_mh.native.looks import BatchTest, batch_test, full_passes_of
from pymc_minibatch_mh.plan.dense import MOVES
from pymc_minibatch_mh.plan.method import Method, WarmUpCounts
from pymc_minibatch_mh.plan.plan import Plan, Requirements

_log = logging.getLogger("pymc")

#: Values of the moment fields before remainders are measured; E|X|^3 is for a normal X.
UNMEASURED = {"skewness": 0.0, "third_moment": 2.0 * math.sqrt(2.0 / math.pi), "kappa": math.inf}

#: Maximum fraction of a window's batches with underestimated noise; above it, κ grows.
MAX_UNDERESTIMATED_SHARE = 0.05
#: Growth factor of κ, the predicted noise of batches.
NOISE_GROWTH = 1.5
#: Smaller factor for fractions up to MAX_SMALL_SHARE: final batches are only slightly too large.
SMALL_GROWTH, MAX_SMALL_SHARE = 1.1, 0.2

#: Number of proposals per block of a forecast, and √d times a random walk's optimal scale.
PROPOSALS_PER_BLOCK, WALK_SCALE = 500, 2.38


@dataclass(frozen=True, eq=False)
class BatchMethod(Method):
    """A sequential test on batches; its record has ``skewness``, ``third_moment``, ``kappa``."""

    settings: Any

    @property
    def requirements(self) -> Requirements:
        """Measured remainders, with influential observations always included."""
        return Requirements(calibration=True)

    def record(self, plan: Plan) -> Any:
        """Settings with the measured moments of the remainders."""
        measured = plan.calibration
        assert measured is not None
        return self.settings._replace(
            skewness=float(measured.skewness),
            third_moment=float(measured.third_absolute),
            kappa=float(measured.kappa),
        )

    def adapted(self, record: Any, counts: WarmUpCounts, plan: Plan) -> Any:
        """Raise κ if too many batches of the last window were noisier than predicted."""
        missed = counts.window["underestimated"] / counts.n_updates
        if not missed > MAX_UNDERESTIMATED_SHARE:
            return record
        growth = NOISE_GROWTH if missed > MAX_SMALL_SHARE else SMALL_GROWTH
        return record._replace(kappa=growth * record.kappa)

    def linked(self, record: Any) -> BatchTest:
        """Record with the compiled functions of the test."""
        return batch_test(record)

    def require_subsampling(self, plan: Plan) -> None:
        """Raise SettingError if growing batches would repeatedly read all stored data."""
        limit = self.most_drawn(plan)
        plan.require_few_full_passes(limit, partial(self._full_passes, plan, limit))

    def _full_passes(self, plan: Plan, limit: float, rng: np.random.Generator) -> int:
        """Forecast number of proposals whose batches grow to the full data.

        Half of the proposals are independent draws of the posterior, half are random-walk steps.
        """
        test, size = self.linked(self.record(plan)), plan.reference.centre.size
        passes, drawn = 0, plan.n_drawn
        for _ in range(MOVES // PROPOSALS_PER_BLOCK):
            moves = rng.standard_normal((PROPOSALS_PER_BLOCK, 2, size))
            moves[::2, 1] = moves[::2, 0] + WALK_SCALE / math.sqrt(size) * moves[::2, 1]
            limits = drawn, min(limit - plan.n_rows + drawn, drawn)
            passes += full_passes_of(test, plan.reference, moves, limits, rng)
        if not (passes or test.kappa < math.inf):
            _log.warning(
                "Some observations have zero likelihood in every trial proposal, so full-data "
                "evaluations cannot be forecast. The statistic full_pass counts them."
            )
        return passes
