"""What the tests on batches share: settings, the size of a batch, and what they learn."""

import logging
import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numba import float64, int64

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.data import digest
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.kernels.looks import full_passes_of
from pymc_minibatch_mh.methods.base import Method
from pymc_minibatch_mh.preparation.needs import Needs
from pymc_minibatch_mh.preparation.prepared import Prepared
from pymc_minibatch_mh.preparation.stored import MOVES

_log = logging.getLogger("pymc")

#: E|X|^3 of a standard normal X, which stands in until they are measured.
GAUSSIAN_THIRD_MOMENT = 2.0 * math.sqrt(2.0 / math.pi)

#: By how much κ grows where batches are noisier than predicted.
NOISE_GROWTH = 1.5

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


def require_batches(batch_size: int, skewness: float, third_moment: float) -> None:
    """Check what every test on batches is set by.

    Parameters
    ----------
    batch_size
        Rows of the smallest batch, at least 2.
    skewness
        Audited |skewness| of the differences.
    third_moment
        Audited E|X|^3 of the standardised differences.

    Raises
    ------
    SettingError
        If one of them is out of range.
    """
    if int(batch_size) != batch_size or batch_size < 2:
        raise SettingError(
            f"batch_size={batch_size} gives no variance to judge a batch by. Use an integer of 2 "
            "or more."
        )
    require_positive("skewness", skewness, or_zero=True)
    require_positive("third_moment", third_moment)


def require_positive(
    name: str, value: float, *, or_zero: bool = False, or_infinite: bool = False
) -> None:
    """Refuse a setting that is not a positive number.

    Parameters
    ----------
    name
        Keyword of the setting.
    value
        What was given.
    or_zero, or_infinite
        Whether 0 and infinity are allowed.

    Raises
    ------
    SettingError
        If `value` is out of range or not a number.
    """
    number = float(value)
    if (number > 0.0 or (or_zero and number == 0.0)) and (or_infinite or number < math.inf):
        return
    raise SettingError(
        f"{name}={value} is not a {'non-negative' if or_zero else 'positive'}"
        f"{'' if or_infinite else ', finite'} number. Pass one."
    )


@dataclass(frozen=True, eq=False)
class BatchMethod(Method):
    """A test on batches, look by look.

    Parameters
    ----------
    settings
        Record of the test, with the fields ``skewness``, ``third_moment`` and ``kappa``.
    """

    settings: Any

    @property
    def needs(self) -> Needs:
        """The remainders of rows measured, and those read always that batches hardly contain."""
        return Needs(calibration=True, heavy=True)

    @property
    def key(self) -> str:
        """Digest of the settings."""
        return digest(np.concatenate([np.atleast_1d(part) for part in self.settings]))

    def record(self, prepared: "Prepared") -> Any:
        """Return the settings, with what was measured of the remainders of rows."""
        measured = prepared.calibration
        assert measured is not None
        return self.settings._replace(
            skewness=float(measured.skewness),
            third_moment=float(measured.third_absolute),
            kappa=float(measured.kappa),
        )

    def require_subsampling(self, prepared: "Prepared") -> None:
        """Refuse stored rows that batches would read all of, again and again."""
        limit = self.most_drawn(prepared)
        prepared.require_few_full_passes(limit, partial(self._full_passes, prepared, limit))

    def _full_passes(self, prepared: "Prepared", limit: float, rng: np.random.Generator) -> int:
        """Return for how many moves of a chain batches are forecast to grow to all rows.

        One half lead to another point of the posterior, and one half a step of a random walk on.
        """
        record, size = self.linked(self.record(prepared)), prepared.surrogate.centre.size
        passes, drawn = 0, prepared.n_drawn
        for _ in range(MOVES // AT_A_TIME):
            moves = rng.standard_normal((AT_A_TIME, 2, size))
            moves[::2, 1] = moves[::2, 0] + WALK / math.sqrt(size) * moves[::2, 1]
            limits = drawn, min(limit - prepared.n_rows + drawn, drawn)
            passes += full_passes_of(record, prepared.surrogate, moves, *limits, rng)
        if not (passes or record.kappa < math.inf):
            _log.warning(
                "No move between typical points leaves all rows a likelihood, so that no full "
                "passes over the stored rows can be forecast. The stat full_pass counts them."
            )
        return passes

    def noisier(self, record: Any) -> Any:
        """Return the record for batches of more rows."""
        return record._replace(kappa=NOISE_GROWTH * record.kappa)
