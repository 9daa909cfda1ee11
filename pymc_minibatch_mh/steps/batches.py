"""Settings, sizes and adaptation that the tests on batches share."""

import logging
import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numba import float64, int64

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.data import digest
from pymc_minibatch_mh.kernels.looks import full_passes_of
from pymc_minibatch_mh.plan.method import Method
from pymc_minibatch_mh.plan.plan import MOVES, Plan, Requirements

_SQRT_HALF = math.sqrt(0.5)
_FIRST_NORMAL_DEGREE = 30.0
_TINY = 1e-300


@compiled(float64(float64))
def normal_cdf(x):
    """Return P(Z <= x) of a standard normal Z, to a few ulp in both tails."""
    return 0.5 * math.erfc(-x * _SQRT_HALF)


@compiled(float64(float64))
def logistic(x):
    """Return 1/(1 + exp(-x)); 0 and 1 at the infinities."""
    return 1.0 / (1.0 + math.exp(-x))


@compiled(float64(float64))
def _away_from_zero(x):
    return x if abs(x) > _TINY else _TINY


@compiled(float64(float64, float64, float64))
def _beta_fraction(a, b, x):
    """Evaluate the continued fraction of the incomplete beta function by Lentz's recurrence."""
    c = 1.0
    d = 1.0 / _away_from_zero(1.0 - (a + b) * x / (a + 1.0))
    fraction = d
    for m in range(1, 200):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        d = 1.0 / _away_from_zero(1.0 + even * d)
        c = _away_from_zero(1.0 + even / c)
        fraction *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        d = 1.0 / _away_from_zero(1.0 + odd * d)
        c = _away_from_zero(1.0 + odd / c)
        fraction *= d * c
        if abs(d * c - 1.0) < 1e-15:
            break
    return fraction


@compiled(float64(float64, float64))
def _student_tail_by_beta(t, degrees):
    """Return half the incomplete beta function I_x(degrees/2, 1/2), x = degrees/(degrees+t^2)."""
    a, b = 0.5 * degrees, 0.5
    x = degrees / (degrees + t * t)
    y = t * t / (degrees + t * t)
    if x <= 0.0:
        return 0.0
    if y <= 0.0:
        return 0.5
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    front = math.exp(a * math.log(x) + b * math.log(y) - log_beta)
    if x < (a + 1.0) / (a + b + 2.0):
        return 0.5 * front * _beta_fraction(a, b, x) / a
    return 0.5 * (1.0 - front * _beta_fraction(b, a, y) / b)


@compiled(float64(float64, float64))
def student_tail(t, degrees):
    """Return P(T > t) of Student's t with `degrees` >= 1 degrees of freedom, for t >= 0.

    The absolute error is below 1e-11 for every t and every number of degrees. Below 30 degrees
    it is half an incomplete beta function; from 30 on, the normal deviate of Hill (1970),
    doi:10.1145/355598.362775.
    """
    if not t < math.inf:
        return 0.0
    if degrees < _FIRST_NORMAL_DEGREE:
        return _student_tail_by_beta(t, degrees)
    a = degrees - 0.5
    b = 48.0 * a * a
    # An overflow of t * t would make the deviate NaN; this power is past every tail already.
    y = min(a * math.log1p(t * t / degrees), 1500.0)
    series = (((-0.4 * y - 3.3) * y - 24.0) * y - 85.5) / (0.8 * y * y + 100.0 + b)
    return normal_cdf(-((series + y + 3.0) / b + 1.0) * math.sqrt(y))


_log = logging.getLogger("pymc")

#: Fields of a record before the remainders of rows are measured, with E|X|^3 of a normal X.
UNMEASURED = {
    "skewness": 0.0,
    "third_moment": 2.0 * math.sqrt(2.0 / math.pi),
    "kappa": math.inf,
}

#: Moves of a forecast that are made at a time, and the step of its random walk times √d: that of
#: the most efficient one on a Gaussian.
AT_A_TIME, WALK = 500, 2.38

#: Share of the admissible variance that a batch aims at, so that few batches exceed it.
AIM = 0.7


@compiled(int64(float64, int64, float64))
def rows_for_variance(noise, total, variance):
    """Return the smallest b with noise * (1/b - 1/total) <= variance, or `total`."""
    if not noise < math.inf:
        return total
    return min(total, math.ceil(1.0 / (1.0 / total + variance / noise)))


@dataclass(frozen=True, eq=False)
class BatchMethod(Method):
    """A test on batches, look by look; its record has ``skewness``, ``third_moment``, ``kappa``."""

    settings: Any

    @property
    def requirements(self) -> Requirements:
        """The remainders of rows measured, and those read always that batches hardly contain."""
        return Requirements(calibration=True)

    @property
    def key(self) -> str:
        """Digest of the settings."""
        return digest(np.concatenate([np.atleast_1d(part) for part in self.settings]))

    def record(self, plan: Plan) -> Any:
        """Return the settings, with the measured moments of the rows' remainders."""
        measured = plan.calibration
        assert measured is not None
        return self.settings._replace(
            skewness=float(measured.skewness),
            third_moment=float(measured.third_absolute),
            kappa=float(measured.kappa),
        )

    def require_subsampling(self, plan: Plan) -> None:
        """Refuse stored rows that batches would read all of, again and again."""
        limit = self.most_drawn(plan)
        plan.require_few_full_passes(limit, partial(self._full_passes, plan, limit))

    def _full_passes(self, plan: Plan, limit: float, rng: np.random.Generator) -> int:
        """Return for how many moves of a chain batches are forecast to grow to all rows.

        One half lead to another point of the posterior, and one half a step of a random walk on.
        """
        record, size = self.linked(self.record(plan)), plan.reference.centre.size
        passes, drawn = 0, plan.n_drawn
        for _ in range(MOVES // AT_A_TIME):
            moves = rng.standard_normal((AT_A_TIME, 2, size))
            moves[::2, 1] = moves[::2, 0] + WALK / math.sqrt(size) * moves[::2, 1]
            limits = drawn, min(limit - plan.n_rows + drawn, drawn)
            passes += full_passes_of(record, plan.reference, moves, *limits, rng)
        if not (passes or record.kappa < math.inf):
            _log.warning(
                "Some observations have zero likelihood in every trial proposal, so full-data "
                "evaluations cannot be forecast. The statistic full_pass counts them."
            )
        return passes
